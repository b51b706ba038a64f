"""Which session a request belongs to, who may use the proxy, and the options of the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.odd_ids import odd_ids
from tests.proxy.running import Recorder, client, served, texts_of
from tests.proxy.test_transparency import CHAT, chat, said
from tests.service.running import make_tokens
from tests.sizes import examples
from turnfold.errors import InvalidOption, UnknownModel
from turnfold.proxy import ProxyOptions, make_proxy
from turnfold.proxy.conversations import session_id, split_path

UUID = "54c1eb09-bc4c-4d2f-98eb-6d2ab2d5e2fe"
NEW_USER = json.dumps({"device_id": "d", "account_uuid": "", "session_id": UUID})


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, {}, ""),
        ({"x-turnfold-session": "a b"}, {"prompt_cache_key": "k"}, "a b"),
        ({"x-claude-code-session-id": UUID, "session_id": "x"}, {}, UUID),
        ({"x-claude-code-session-id": UUID, "x-claude-code-agent-id": "a1"}, {}, f"{UUID}/a1"),
        ({}, {"metadata": {"user_id": NEW_USER}}, UUID),
        ({}, {"metadata": {"user_id": f"user_0f_account__session_{UUID}"}}, UUID),
        ({}, {"metadata": {"user_id": "somebody"}}, ""),
        ({}, {"metadata": {"user_id": "{broken"}}, ""),
        ({}, {"metadata": None}, ""),
        ({"session-id": UUID}, {"prompt_cache_key": "k"}, UUID),
        ({"session_id": UUID}, {}, UUID),
        ({"x-litellm-session-id": "l"}, {}, "l"),
        ({"x-session-affinity": "o"}, {}, "o"),
        ({}, {"prompt_cache_key": "cache-1"}, "cache-1"),
        ({}, {"prompt_cache_key": 5}, ""),
        ({}, {"litellm_session_id": "l"}, "l"),
        ({}, {"metadata": {"session_id": "m"}}, "m"),
        ({}, {"metadata": {"litellm_session_id": "会话"}}, "会话"),
    ],
)
def test_the_session_of_a_request(headers: dict[str, str], body: Any, expected: str) -> None:
    fields = msgspec.json.decode(json.dumps(body), type=dict[str, msgspec.Raw])
    assert session_id("", headers, fields) == expected
    assert session_id("given", headers, fields) == "given"


def test_an_id_that_no_store_could_hold_is_replaced_by_its_digest() -> None:
    for odd in ("x" * 5_000, "a\nb", "\ud800"):
        assert session_id(odd, {}, {}).startswith("digest:")
        assert session_id(odd, {}, {}) == session_id(odd, {}, {})


def test_the_session_in_the_path() -> None:
    assert split_path("/s/my%2Fagent%20%E4%BC%9A/v1/messages") == ("my/agent 会", "/v1/messages")
    assert split_path("/v1/s/x") == ("", "/v1/s/x")
    assert split_path("/s/only") == ("", "/s/only")


def test_ids_that_are_no_text_are_not_the_same_session() -> None:
    """Each undecodable byte was read as the same replacement character, and two agents wrote into one conversation."""
    one, other = (session_id(split_path(f"/s/%{byte}/v1/x")[0], {}, {}) for byte in ("ff", "fe"))
    assert one != other
    assert one.startswith("digest:")


NAMED_IN_A_HEADER = (
    "x-turnfold-session", "session-id", "session_id", "x-litellm-session-id", "x-session-id",
    "x-session-affinity", "x-claude-code-session-id",
)  # fmt: skip


@pytest.mark.parametrize("header", NAMED_IN_A_HEADER)
@examples(60)
@given(st.lists(odd_ids(), min_size=2, max_size=4, unique=True))
@example(["é", "Ã©"])
@example(["\xe9", "e\u0301"])
@example(["\u3000a", "a"])
def test_an_id_is_the_same_in_the_path_a_header_and_the_body(header: str, ids: list[str]) -> None:
    """Of a header the bytes were read as Latin-1: one id was two sessions, and two ids were one."""
    found = list[str]()
    for each in ids:
        encoded = each.encode("utf-8", "surrogatepass")
        in_path = session_id(split_path(f"/s/{quote(encoded, safe='')}/v1/x")[0], {}, {})
        in_header = session_id("", {header: encoded.decode("latin-1")}, {})
        body = {"prompt_cache_key": msgspec.Raw(json.dumps(each).encode())}
        assert in_path == in_header == session_id("", {}, body)
        found.append(in_path)
    assert len(set(found)) == len(ids)


def test_a_chinese_session_in_a_header_reaches_its_conversation(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(lambda _: said("好"), store=store) as (_provider, http):
        headers = httpx2.Headers([(b"x-turnfold-session", "会话".encode())])
        answer = http.post(CHAT, json=chat(0, last="你好"), headers=headers)
    assert "conversation=%E4%BC%9A%E8%AF%9D;" in answer.headers["x-turnfold"]
    assert texts_of(store, "会话") == ["你好", "好"]


def test_a_chinese_session_reaches_its_conversation(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(lambda _: said("好"), store=store) as (_provider, http):
        answer = http.post(f"/s/%E4%BC%9A%E8%AF%9D{CHAT}", json=chat(0, last="你好"))
    assert "conversation=%E4%BC%9A%E8%AF%9D;" in answer.headers["x-turnfold"]
    assert texts_of(store, "会话") == ["你好", "好"]


def test_tokens_are_needed_elsewhere_than_on_loopback() -> None:
    with pytest.raises(InvalidOption, match="--tokens-file"):
        make_proxy(ProxyOptions(upstream="http://x.example", host="0.0.0.0"))  # noqa: S104
    with pytest.raises(InvalidOption, match="is not the address of a provider"):
        make_proxy(ProxyOptions(upstream="api.openai.com"))
    with pytest.raises(InvalidOption, match="contains a user name or password") as refused:
        make_proxy(ProxyOptions(upstream="https://me:hunter2@api.openai.com"))
    assert "hunter2" not in str(refused.value)


def test_a_token_opens_the_proxy_for_its_tenant_and_is_not_passed_on(tmp_path: Path) -> None:
    store, file = f"sqlite:///{tmp_path}/a.db", tmp_path / "tokens"
    tokens = make_tokens(
        file,
        ("one", "acme", ["read", "write"]),
        ("other", "acme", ["read"]),
        ("b", "b", ["read", "write"]),
    )
    with served(lambda _: said("yes"), store=store, tokens_file=file) as (provider, http):
        path, sent = f"/s/one{CHAT}", chat(0, last="hi")
        bare = http.post(path, json=sent, headers={"authorization": f"Bearer {tokens['one']}"})
        wrong = http.post(path, json=sent, headers={"x-turnfold-token": "tf_wrong"})
        less = http.post(path, json=sent, headers={"x-turnfold-token": tokens["other"]})
        headers = {"authorization": "Bearer provider-key"}
        for name in ("one", "b"):
            own = {**headers, "x-turnfold-token": tokens[name]}
            assert http.post(path, json=sent, headers=own).status_code == 200
        passing = http.get("/v1/models")
    assert [one.status_code for one in (bare, wrong, less, passing)] == [401, 401, 403, 401]
    assert [one.headers["authorization"] for one in provider.seen] == ["Bearer provider-key"] * 2
    assert not [one for one in provider.seen if "x-turnfold-token" in one.headers]
    assert texts_of(store, "one") == []  # of the tenant `default`


def test_pages_of_other_sites_and_unknown_hosts_are_refused() -> None:
    with served(lambda _: said("yes")) as (provider, http):
        page = http.post(f"/s/one{CHAT}", json=chat(0), headers={"origin": "https://evil.example"})
        name = http.post(f"/s/one{CHAT}", json=chat(0), headers={"host": "evil.example"})
    assert page.status_code == name.status_code == 403
    assert provider.seen == []


def test_the_budget_of_a_model() -> None:
    options = ProxyOptions(
        upstream="http://x", budget=500, model_budgets={"gpt": 700, "gpt-4o": 900}
    )
    found = [options.budget_of(name).tokens for name in ("gpt-4o-mini", "gpt-5", "claude")]
    assert found == [900, 700, 500]
    own = ProxyOptions(upstream="http://x")
    assert own.budget_of("gpt-4o").tokens == 96_000
    with pytest.raises(UnknownModel):
        own.budget_of("no-such-model")
    with pytest.raises(
        InvalidOption, match="a budget of -1 tokens is not possible: give 1 or more"
    ):
        ProxyOptions(upstream="http://x", budget=-1)


def test_an_unknown_model_without_a_budget_is_passed_through() -> None:
    with served(lambda _: said("yes"), budget=0) as (provider, http):
        answer = http.post(f"/s/one{CHAT}", json={**chat(0), "model": "no-such-model"})
    assert answer.headers["x-turnfold"] == "passed through; unknown model, set a budget"
    assert len(provider.seen) == 1


def test_the_command_serves_and_ends_on_a_signal(tmp_path: Path) -> None:
    with Recorder(lambda _: said("yes")) as provider:
        words = ["proxy", "--upstream", f"{provider.url}/v1", "--store", f"{tmp_path}/a.db"]
        words += ["--budget", "900", "--model-budget", "gpt-4o=800", "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "turnfold", *words], stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = line.split("listening on ")[1].strip()
            with client(url) as http:
                answer = http.post(f"/s/one{CHAT}", json=chat(0))
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()
    assert answer.headers["x-turnfold"].endswith("/800")
    assert provider.seen[0].path == CHAT  # the version is in the address and in the path
    assert texts_of(f"sqlite:///{tmp_path}/a.db", "one") == ["And now?", "yes"]

"""The proxy changes nothing that it was not asked to change: bodies, fields, headers, errors, streams."""

from __future__ import annotations

import gzip
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.running import Recorder, Told, client, log_of, proxied, served, texts_of
from turnfold.proxy import app

CHAT = "/v1/chat/completions"
ODD = (
    b'{ "model":"gpt-4o",\n "messages" : [{"content":"\\u4f60\\u597d, caf\xc3\xa9","role":"user"}],'
    b'"temperature":1.0, "x_new":{"b":1e3,"a":[ ]} ,"seed":12345678901234567890}'
)
"""A body with its own spaces, escapes, numbers and an unknown field."""


def completion(text: str, **more: Any) -> bytes:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 20, "completion_tokens": 3}
    found = {"id": "c1", "object": "chat.completion", "model": "gpt-4o", "choices": choices}
    return json.dumps({**found, "usage": usage, **more}, ensure_ascii=False).encode()


def said(text: str) -> Told:
    return Told(
        completion(text), headers={"content-type": "application/json", "x-request-id": "r7"}
    )


def chat(turns: int, *, last: str = "", **fields: Any) -> dict[str, Any]:
    """A request with a long history."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Answer briefly."}]
    for number in range(turns):
        words = f"Question {number}: 天气怎么样 " + "and what about the trains to Lyon " * 10
        messages += [
            {"role": "user", "content": words, "name": "ada"},
            {"role": "assistant", "content": f"Answer {number}: 晴天 " + "they run on time " * 10},
        ]
    return {
        "model": "gpt-4o",
        **fields,
        "messages": [*messages, {"role": "user", "content": last or "And now?"}],
    }


def test_a_history_that_fits_is_sent_byte_for_byte(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(lambda _: said("好的"), store=store) as (provider, http):
        answer = http.post(f"/s/one{CHAT}", content=ODD, headers={"authorization": "Bearer k"})
    assert provider.seen[0].raw == ODD
    assert provider.seen[0].path == CHAT
    assert answer.content == completion("好的")
    assert answer.headers["x-request-id"] == "r7"
    assert answer.headers["x-turnfold"].startswith("unchanged; conversation=one; tokens=")
    assert texts_of(store, "one") == ["你好, café", "好的"]


def test_only_the_messages_are_replaced_in_a_history_that_does_not_fit() -> None:
    fields = {"temperature": 1.0, "x_new": {"b": 1e3, "a": []}, "tool_choice": "none", "n": 1}
    content = json.dumps(chat(60, **fields), indent=1).encode()
    with served(lambda _: said("yes"), budget=8_000) as (provider, http):
        answer = http.post(f"/s/one{CHAT}", content=content)
    assert answer.headers["x-turnfold"].startswith("shortened; ")
    sent, given = provider.seen[0], json.loads(content)
    assert sent.body.keys() == given.keys()
    assert {**sent.body, "messages": 0} == {**given, "messages": 0}
    assert (
        b'"x_new":{\n  "b": 1000.0,\n  "a": []\n }' in sent.raw
    )  # as it was written, spaces included
    kept = sent.body["messages"]
    assert kept[0] == given["messages"][0]
    assert kept[-1] == given["messages"][-1]
    window = [one for one in kept if one in given["messages"]]
    assert 5 <= len(window) < len(kept) < 60
    assert all(
        json.dumps(one, indent=1).replace("\n", "\n  ").encode() in sent.raw for one in window
    )
    assert len(kept) - len(window) <= 2  # a summary and a tail, nothing else


@pytest.mark.parametrize("turns", [2, 30])
def test_a_system_prompt_that_the_client_changes_or_drops_is_as_it_sends_it(turns: int) -> None:
    whole = chat(turns)
    system, *messages = whole["messages"]
    with served(lambda _: Told(b"{}", 500)) as (
        provider,
        http,
    ):  # no answer: the log stays as it is
        for now in ([system], [{**system, "content": "另一个提示"}], []):
            body = {**whole, "messages": [*now, *messages]}
            answer = http.post(f"/s/one{CHAT}", json=body)
            assert answer.headers["x-turnfold"].startswith(
                "unchanged" if turns == 2 else "shortened"
            )
            sent = provider.seen[-1].body["messages"]
            assert [one for one in sent if one["role"] == "system"] == now


@pytest.mark.parametrize("path", [f"/s/one{CHAT}", CHAT])
def test_off_is_byte_identical_and_stores_nothing(tmp_path: Path, path: str) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    content = json.dumps(chat(30), indent=1).encode()
    headers = {"X-Turnfold": "off", "X-Turnfold-Session": "one", "authorization": "Bearer k"}
    with served(lambda _: said("yes"), store=store) as (provider, http):
        answer = http.post(path, content=content, headers=headers)
    assert provider.seen[0].raw == content
    assert not [name for name in provider.seen[0].headers if "turnfold" in name]
    assert answer.headers["x-turnfold"] == "off"
    assert log_of(store, "one") == []


def test_a_request_without_a_session_is_passed_through() -> None:
    content = json.dumps(chat(30)).encode()
    with served(lambda _: said("yes")) as (provider, http):
        answer = http.post(CHAT, content=content)
        assert answer.headers["x-turnfold"] == "passed through; no session"
    with served(lambda _: said("yes"), session="all") as (again, http):
        answer = http.post(CHAT, content=content)
    assert provider.seen[0].raw == content
    assert answer.headers["x-turnfold"].startswith("shortened; conversation=all")
    assert len(again.seen[0].raw) < len(content)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"messages": "not a list"}, "unreadable history"),
        ({"messages": [{"role": "alien", "content": "hi"}]}, "unreadable history"),
        ({"messages": []}, "no messages"),
    ],
)
def test_what_cannot_be_read_is_left_to_the_provider(change: dict[str, Any], reason: str) -> None:
    content = json.dumps({**chat(1), **change}).encode()
    with served(lambda _: said("yes")) as (provider, http):
        answer = http.post(f"/s/one{CHAT}", content=content)
    assert provider.seen[0].raw == content
    assert answer.headers["x-turnfold"] == f"passed through; {reason}"


def test_a_history_at_the_provider_is_passed_through() -> None:
    body = {"model": "gpt-4o", "previous_response_id": "resp_1", "input": "hi"}
    with served(lambda _: Told()) as (provider, http):
        answer = http.post("/s/one/v1/responses", json=body)
    assert answer.headers["x-turnfold"] == "passed through; the provider holds the history"
    assert provider.seen[0].body == body


REASONS = {
    "no session": (CHAT, {}, "/s/ID before its path"),
    "unreadable history": (f"/s/one{CHAT}", {"messages": "no list"}, "turnfold lint"),
    "no messages": (f"/s/one{CHAT}", {"messages": []}, "list of messages is empty"),
    "unknown model, set a budget": (f"/s/one{CHAT}", {"model": "no-such"}, "--model-budget"),
    "the provider holds the history": (
        "/s/one/v1/responses",
        {"previous_response_id": "resp_1", "input": "hi"},
        "send the whole history",
    ),
    "unknown interface": ("/s/one/api/chat", {}, "the proxy stores Chat Completions"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_call_that_is_not_stored_is_warned_of_with_what_to_do(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, change, remedy = REASONS[reason]
    with served(lambda _: said("yes"), budget=0) as (_, http):
        for _ in range(12):
            http.post(f"{path}?key=secret", json={**chat(0), **change})
    told = [each for each in caplog.messages if "is passed on but not stored" in each]
    assert len(told) == 2, "the first and the tenth"
    assert all(f"not stored: {reason} (POST " in each and remedy in each for each in told)
    assert [each.partition("; ")[2].partition(" ")[0] for each in told] == ["1", "10"]
    assert not any("secret" in each or "hi" in each.split() for each in caplog.messages)


def test_every_reason_has_a_remedy() -> None:
    source = Path(app.__file__).read_text("utf-8")
    reasons = re.findall(r'"passed through; ([^"{]+)"', source)
    reasons += re.findall(r'"([^"]+)" if held else "([^"]+)"', source)[0]
    assert len(reasons) == 7
    assert {*reasons, "unknown interface"} == set(app._REMEDIES)


def test_what_is_no_model_call_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with served(lambda _: said("yes")) as (_, http):
        http.get("/v1/models")
        http.post("/v1/embeddings", json={"input": "hi"})
        http.post("/v1/messages/count_tokens", json={"messages": []})
        http.post(CHAT, json=chat(0), headers={"X-Turnfold": "off"})
        http.post(f"/s/one{CHAT}", json=chat(0))
    assert [each for each in caplog.messages if "not stored" in each] == []


def test_other_calls_are_passed_through_with_their_queries_and_bodies() -> None:
    upload = b"\x00\xff" * 40_000
    with served(lambda _: Told(gzip.compress(b"[]"), headers={"content-encoding": "gzip"})) as (
        provider,
        http,
    ):
        http.get("/v1/models?limit=2&after=a%2Fb", headers={"accept-encoding": "gzip"})
        http.put("/s/one/v1/files/%C3%A9", content=upload)
        answer = http.post("/v1/messages/count_tokens", json={"messages": []})
        http.delete("/v1/files/f1")
    seen = provider.seen
    assert [(one.method, one.path) for one in seen] == [
        ("GET", "/v1/models?limit=2&after=a%2Fb"),
        ("PUT", "/v1/files/%C3%A9"),
        ("POST", "/v1/messages/count_tokens"),
        ("DELETE", "/v1/files/f1"),
    ]
    assert seen[0].headers["accept-encoding"] == "gzip"
    assert seen[1].raw == upload
    assert answer.content == b"[]"
    assert answer.headers["x-turnfold"] == "passed through"


def test_headers_of_one_connection_are_not_passed_on() -> None:
    told = Told(b"{}", headers={"x-kept": "1", "keep-alive": "timeout=5", "set-cookie": "a=b"})
    given = {"connection": "keep-alive, x-hop", "x-hop": "1", "te": "trailers", "x-end": "2"}
    with served(lambda _: told) as (provider, http):
        answer = http.get("/v1/models", headers=given)
    came = provider.seen[0].headers
    assert came["x-end"] == "2"
    assert not {"x-hop", "te"} & came.keys()
    assert came["host"] == provider.url.removeprefix("http://")
    assert answer.headers["x-kept"] == "1"
    assert answer.headers["set-cookie"] == "a=b"
    assert "keep-alive" not in answer.headers


@pytest.mark.parametrize("status", [400, 429, 529])
def test_errors_of_the_provider_are_passed_through_and_not_stored(
    tmp_path: Path, status: int
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    told = Told(completion("not an answer"), status, {"retry-after": "7"})
    with served(lambda _: told, store=store) as (_provider, http):
        answer = http.post(f"/s/one{CHAT}", content=ODD)
    assert (answer.status_code, answer.content) == (status, told.body)
    assert answer.headers["retry-after"] == "7"
    assert texts_of(store, "one") == ["你好, café"]


def test_a_provider_that_cannot_be_reached_is_an_error_in_its_own_form() -> None:
    with Recorder(lambda _: Told()) as provider:
        gone = provider.url
    with proxied(gone) as url, client(url) as http:
        answer = http.post(f"/s/one{CHAT}", content=ODD)
        other = http.post("/s/one/v1/messages", json={"model": "claude", "messages": []})
    assert answer.status_code == other.status_code == 502
    assert answer.json()["error"]["message"].startswith("turnfold: no complete response")
    assert other.json()["type"] == "error"
    assert answer.headers["x-turnfold"] == "refused"


def test_a_budget_that_is_too_small_says_so() -> None:
    with served(lambda _: said("yes"), budget=60) as (provider, http):
        answer = http.post(
            f"/s/one{CHAT}", json={**chat(1), "tools": [_tool("look", "look " * 90)]}
        )
    assert answer.status_code == 400
    assert "but the budget allows 60" in answer.json()["error"]["message"]
    assert provider.seen == []


def _tool(name: str, description: str) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": {"type": "object"}}
    return {"type": "function", "function": function}


def test_a_body_above_the_limit_is_refused() -> None:
    from turnfold.service import Limits

    with served(lambda _: said("yes"), limits=Limits(body=1_000)) as (provider, http):
        answer = http.post(f"/s/one{CHAT}", content=json.dumps(chat(30)).encode())
    assert answer.status_code == 413
    assert provider.seen == []


SECRET = "sk-3f1c9d-never-to-be-found"  # noqa: S105 (it is looked for)


def test_keys_are_passed_on_and_found_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = f"sqlite:///{tmp_path}/a.db"
    headers = {
        "authorization": f"Bearer {SECRET}",
        "x-api-key": SECRET,
        "x-goog-api-key": SECRET,
    }
    gemini = f"/s/two/v1beta/models/gemini-2.5-pro:generateContent?key={SECRET}"
    asked = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    with (
        Recorder(lambda _: said("yes")) as provider,
        proxied(provider.url, store=store) as url,
        client(url, headers=headers) as http,
    ):
        http.post(f"/s/one{CHAT}", json=chat(30))
        http.post(gemini, json=asked)
        http.get(f"/v1/models?key={SECRET}")
    with proxied(provider.url, store=store) as url, client(url, headers=headers) as http:
        assert http.post(gemini, json=asked).status_code == 502  # nobody is there any more
    assert [one.headers["authorization"] for one in provider.seen] == [f"Bearer {SECRET}"] * 3
    assert [one.headers["x-api-key"] for one in provider.seen] == [SECRET] * 3
    assert provider.seen[1].path.endswith(f"?key={SECRET}")
    # The client of this test logs the address that it asks, which is that of the proxy.
    written = [f"{record.name} {record.getMessage()} {vars(record)}" for record in caplog.records]
    leaks = [text for text in written if SECRET in text]
    assert not [text for text in leaks if not text.startswith("httpx2") or provider.url in text]
    assert any(text.startswith("turnfold.proxy ") for text in written)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert any(path.stat().st_size for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_an_unexpected_error_is_told_without_what_was_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"while reading {SECRET}")

    monkeypatch.setattr(app, "prepare_call", fail)
    with served(lambda _: said("yes")) as (provider, http):
        answer = http.post(f"/s/one{CHAT}", json=chat(0))
    assert answer.status_code == 500
    assert answer.json()["error"]["message"].startswith("turnfold: an internal error")
    assert provider.seen == []
    assert "RuntimeError < test_transparency.py:" in caplog.text
    assert SECRET not in caplog.text + answer.text

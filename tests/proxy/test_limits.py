"""Quotas and limits of the tenants of a proxy: those of the service, and none of them stops another tenant."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from tests.proxy.running import Arrived, Told, served, texts_of
from tests.proxy.test_histories import parrot, user
from tests.proxy.test_transparency import CHAT
from turnfold import proxy as package
from turnfold.cli.app import app
from turnfold.proxy.request_bodies import BodyFormat
from turnfold.service import Limits, TokenFile, new_token

BODY = 8 << 20


def post(http: httpx2.Client, *said: str, session: str = "one", **headers: str) -> httpx2.Response:
    body = {"model": "gpt-4o", "messages": [user(text) for text in said]}
    return http.post(f"/s/{session}{CHAT}", json=body, headers=headers)


def test_a_tenant_over_its_byte_quota_stores_nothing_more(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(parrot, store=store, limits=Limits(body=BODY, stored=60_000)) as (provider, http):
        assert post(http, "hi 你好").status_code == 200
        refused = post(http, "x" * 60_000, session="two")
        assert refused.status_code == 403
        assert "the quota is 60,000; delete conversations" in refused.json()["error"]["message"]
        assert refused.headers["x-turnfold"] == "refused"
        assert len(provider.seen) == 1
        without = post(http, "x" * 60_000, session="two", **{"x-turnfold": "off"})
        assert without.status_code == 200
        assert post(http, "hi 你好", session="three").status_code == 200  # there is room for it
    assert texts_of(store, "two") == []


def test_a_tenant_over_its_token_quota_stores_nothing_more(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(parrot, store=store, limits=Limits(body=BODY, quota=50)) as (_, http):
        assert post(http, "word " * 60).status_code == 200
        refused = post(http, "more", session="two")
        assert refused.status_code == 403
        assert "the quota is 50" in refused.json()["error"]["message"]


def test_the_quota_is_that_of_one_tenant(tmp_path: Path) -> None:
    tokens = {}
    for name in ("a", "b"):
        tokens[name], line = new_token(name, name, ["read", "write"], now=time.time())
        TokenFile(tmp_path / "tokens.json").add(line)
    options: dict[str, Any] = {
        "store": f"sqlite:///{tmp_path}/a.db",
        "tokens_file": tmp_path / "tokens.json",
        "limits": Limits(body=BODY, quota=50),
    }
    with served(parrot, **options) as (_, http):
        assert post(http, "word " * 60, **{"x-turnfold-token": tokens["a"]}).status_code == 200
        full = post(http, "hi", session="two", **{"x-turnfold-token": tokens["a"]})
        assert full.status_code == 403
        assert post(http, "hi", **{"x-turnfold-token": tokens["b"]}).status_code == 200


def test_requests_above_the_rate_are_told_when_to_come_again() -> None:
    with served(parrot, limits=Limits(body=BODY, rate=0.01, burst=2)) as (provider, http):
        assert [post(http, "hi").status_code for _ in range(2)] == [200, 200]
        refused = post(http, "hi")
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 100
        assert len(provider.seen) == 2


def test_a_large_body_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 messages of a few bytes held all requests up for two seconds."""
    read, threads = BodyFormat.read, list[str]()

    def watched(self: BodyFormat, content: bytes, *given: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        return read(self, content, *given, **options)

    monkeypatch.setattr(BodyFormat, "read", watched)
    with served(parrot) as (_, http):
        post(http, "hi")
        post(http, *["hi"] * 3_000)
    assert threads[0] != "turnfold-compute"
    assert threads[1] == "turnfold-compute"


def test_a_body_with_too_many_keys_is_refused() -> None:
    with served(parrot, limits=Limits(body=BODY, keys=1_000)) as (provider, http):
        assert post(http, *["a: b: c"] * 400).status_code == 200  # colons in texts are no keys
        refused = post(http, *["hi"] * 600)
        assert refused.status_code == 413
        assert "more than 1,000 keys" in refused.json()["error"]["message"]
        assert len(provider.seen) == 1


def test_the_command_takes_the_limits_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:

    made: list[Limits] = []
    monkeypatch.setattr(package, "run_proxy", lambda options, **_: made.append(options.limits))
    words = "proxy --upstream http://x --max-body 9 --max-requests 3 --rate 7 --burst 6 --quota 5"
    result = CliRunner().invoke(
        app, [*words.split(), "--quota-bytes", "4", "--max-connections", "8"]
    )
    assert result.exit_code == 0, result.output
    assert made == [Limits(body=9, connections=8, concurrent=3, rate=7, burst=6, quota=5, stored=4)]


@pytest.fixture
def tenants(tmp_path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers with a token by tenant, and the options of a proxy that knows them."""
    tokens = {}
    for name in ("a", "b"):
        secret, line = new_token(name, name, ["read", "write"], now=time.time())
        TokenFile(tmp_path / "tokens.json").add(line)
        tokens[name] = secret
    return tokens, {"store": f"sqlite:///{tmp_path}/a.db", "tokens_file": tmp_path / "tokens.json"}


def test_answers_that_do_not_end_take_no_place_of_another_tenant(
    tenants: tuple[dict[str, str], dict[str, Any]],
) -> None:
    """A request has its place until its response has ended: those passed on unchanged, and model calls."""
    tokens, options = tenants
    options["limits"] = Limits(body=BODY, concurrent=2, queued=0)
    end = threading.Event()

    def say(_: Arrived) -> Told:
        return Told([b"{}", b" "], hold=end)

    with served(say, **options) as (provider, http), ExitStack() as open_ones:
        a, b = ({"x-turnfold-token": tokens[name]} for name in "ab")
        body = {"model": "gpt-4o", "messages": [user("hi")]}
        for method, path, content in (("GET", "/v1/models", None), ("POST", f"/s/s{CHAT}", body)):
            first = open_ones.enter_context(http.stream(method, path, json=content, headers=a))
            assert first.status_code == 200
        for each in (http.get("/v1/models", headers=a), post(http, "hi", **a)):
            assert (each.status_code, each.headers["retry-after"]) == (429, "1")
            assert "2 requests of this tenant run or wait" in each.json()["error"]["message"]
        with http.stream("GET", "/v1/models", headers=b) as other:
            assert other.status_code == 200
        assert len(provider.seen) == 3
        end.set()


def test_the_bodies_of_a_tenant_have_a_limit_together(
    tenants: tuple[dict[str, str], dict[str, Any]],
) -> None:
    """Each connection could hold a whole body in memory, before and after the provider has it."""
    tokens, options = tenants
    options["limits"] = Limits(body=5_000)
    end = threading.Event()

    def say(_: Arrived) -> Told:
        return Told([b"{}", b" "], hold=end)

    with served(say, **options) as (provider, http), ExitStack() as open_ones:
        a, b = ({"x-turnfold-token": tokens[name]} for name in "ab")
        body = {"model": "gpt-4o", "messages": [user("x" * 4_500)]}
        for number in range(4):
            path = f"/s/s{number}{CHAT}"
            first = open_ones.enter_context(http.stream("POST", path, json=body, headers=a))
            assert first.status_code == 200
        refused = post(http, "x" * 4_500, session="three", **a)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "the limit is 20,000 bytes" in refused.json()["error"]["message"]
        end.set()
        assert post(http, "x" * 4_500, session="three", **b).status_code == 200
        open_ones.close()
        assert post(http, "x" * 4_500, session="three", **a).status_code == 200
        assert len(provider.seen) == 6


def test_strangers_end_no_answer_of_a_client(
    tenants: tuple[dict[str, str], dict[str, Any]],
) -> None:
    """Connections without a token are closed first when there are too many."""
    tokens, options = tenants
    options["limits"] = Limits(body=BODY, connections=8)
    end = threading.Event()

    def say(_: Arrived) -> Told:
        return Told([b"{}", b" "], hold=end)

    with served(say, **options) as (_, http), ExitStack() as strangers:
        a = {"x-turnfold-token": tokens["a"]}
        with http.stream("GET", "/v1/models", headers=a) as answer:
            assert answer.status_code == 200
            where = http.base_url.host, http.base_url.port
            for _ in range(24):
                stranger = strangers.enter_context(socket.create_connection(where))
                stranger.sendall(b"GET /v1/models HTTP/1.1\r\n")
            end.set()
            assert answer.read() == b"{} "

"""Quotas and limits of the tenants of a proxy: those of the service, and none of them stops another tenant."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from tests.proxy.running import served, texts_of
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
    monkeypatch.setattr(package, "run_proxy", lambda options: made.append(options.limits))
    words = (
        "proxy --upstream http://x --max-body 9 --max-connections 8 --rate 7 --burst 6 --quota 5"
    )
    result = CliRunner().invoke(app, [*words.split(), "--quota-bytes", "4"])
    assert result.exit_code == 0, result.output
    assert made == [Limits(body=9, connections=8, rate=7, burst=6, quota=5, stored=4)]

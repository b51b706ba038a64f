"""No caller takes more than their share: of a body, of the time of the service, of the room in its store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.running import make_tokens, running
from turnfold.errors import InvalidOption, LimitExceeded
from turnfold.memory import Memory
from turnfold.records import NewEntry, user
from turnfold.service.limits import Limits, Pace, Quota
from turnfold.service.running import ServiceOptions
from turnfold.stores import Scope, open_store

LIMITS = Limits(body=2_000, streams=1)


def test_a_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=LIMITS)
    with running(options) as service, service.client() as client:
        say = "/v1/sessions/s/user"
        fits = client.post(say, json={"content": "x" * 1_900})
        declared = client.post(say, json={"content": "x" * 2_000})

        def pieces() -> Iterator[bytes]:
            yield b'{"content": "'
            for _ in range(40):
                yield b"x" * 100
            yield b'"}'

        streamed = client.post(say, content=pieces(), headers={"content-type": "application/json"})
        assert (fits.status_code, declared.status_code, streamed.status_code) == (200, 413, 413)
        assert declared.json()["fields"]["allowed"] == 2_000
        assert client.get("/v1/sessions/s").json()["entries"] == 1


def test_a_pace_is_kept_per_token() -> None:
    now = [0.0]
    pace = Pace(rate=2.0, burst=3, clock=lambda: now[0])
    for _ in range(3):
        pace.take("a")
    with pytest.raises(LimitExceeded) as refused:
        pace.take("a")
    assert refused.value.again == pytest.approx(0.5)
    pace.take("b")
    now[0] = 0.5
    pace.take("a")
    with pytest.raises(LimitExceeded):
        pace.take("a")
    now[0] = 100.0
    for _ in range(3):
        pace.take("a")
    with pytest.raises(LimitExceeded):
        pace.take("a")


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("one", "acme", ["read"]), ("two", "acme", ["read"]))
    options = ServiceOptions(tokens_file=file, limits=Limits(rate=0.01, burst=2))
    with running(options) as service:
        with service.client(made["one"]) as client:
            answers = [client.get("/v1/sessions") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert 1 <= int(answers[2].headers["retry-after"]) <= 100
        with service.client(made["two"]) as client:
            assert client.get("/v1/sessions").status_code == 200
            assert client.get("/healthz").status_code == 200


def test_a_tenant_with_a_full_quota_may_read_and_erase(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store, scope="acme") as memory:
        memory.session("old").user("word " * 300)
    file = tmp_path / "tokens.json"
    made = make_tokens(
        file, ("full", "acme", ["read", "write"]), ("other", "rest", ["read", "write"])
    )
    options = ServiceOptions(store=store, tokens_file=file, limits=Limits(quota=400))
    with running(options) as service, service.client(made["full"]) as client:
        say = "/v1/sessions/new/user"
        assert client.post(say, json={"content": "more " * 120}).status_code == 200
        refused = client.post(say, json={"content": "more"})
        assert refused.status_code == 403
        assert refused.json()["type"] == "urn:turnfold:problem:limit-exceeded"
        assert refused.json()["fields"]["used"] >= 400
        assert client.post("/v1/sessions/old/context", json={}).status_code == 200
        assert client.get("/v1/sessions/old/messages").status_code == 200
        with service.client(made["other"]) as stranger:
            assert stranger.post(say, json={"content": "hi"}).status_code == 200
        assert client.delete("/v1/sessions/old").status_code == 200
        assert client.post(say, json={"content": "more"}).status_code == 200


def test_the_quota_is_summed_anew_after_a_while() -> None:
    async def sums() -> list[bool]:
        now, seen = [0.0], list[bool]()
        store = open_store("sqlite://")
        quota = Quota(store, 10, look_again=60.0, clock=lambda: now[0])
        await quota.check("t")
        await store.append(Scope("t"), "c", [NewEntry(user("word " * 50))])
        for moment in (59.0, 61.0):
            now[0] = moment
            try:
                await quota.check("t")
            except LimitExceeded:
                seen.append(True)
            else:
                seen.append(False)
        await store.close()
        return seen

    assert asyncio.run(sums()) == [False, True]


def test_a_token_has_so_many_streams(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=LIMITS)
    with running(options) as service, service.client() as client:
        with client.stream("GET", "/v1/events") as first:
            text = first.iter_text()
            assert next(text).startswith("retry")
            assert client.get("/v1/sessions/s/events").status_code == 429
        while service.state.streams[""]:  # until the service has noticed
            client.get("/healthz")
        with client.stream("GET", "/v1/events") as again:
            assert again.status_code == 200


@pytest.mark.parametrize("wrong", [{"body": 0}, {"rate": -1}, {"burst": 0}, {"quota": -1}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        Limits(**wrong)

"""Live calls: of one session and of a tenant, made by any process, resumed where a stream broke off."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import msgspec
import pytest

from tests.service.running import PATIENCE, Running, make_tokens, running
from turnfold.api import Right
from turnfold.memory import AsyncSession, Memory, make_config
from turnfold.runtime import AsyncRuntime
from turnfold.service import ServiceOptions, ServiceState, TokenFile, make_state
from turnfold.service import events as events_module
from turnfold.service.auth import Caller, TokenRing
from turnfold.service.events import _of_tenant, _Stream
from turnfold.stores import Scope


class Served:
    """A service, and an embedded memory on the same file."""

    def __init__(self, service: Running, memory: Memory) -> None:
        self.service = service
        self.memory = memory

    def call(self, session: str) -> str:
        """A call through the service; its name."""
        with self.service.client() as client:
            return client.post(f"/v1/sessions/{session}/context", json={}).json()["call"]

    def say(self, session: str) -> None:
        self.memory.session(session).user("hi")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with (
        running(ServiceOptions(store=store)) as service,
        Memory(store) as memory,
    ):
        for name in ("a", "b"):
            memory.session(name).user("hi")
        yield Served(service, memory)


@contextmanager
def listening(served: Served, path: str, last: str = "") -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a stream, once it is open and has looked for the first time."""
    headers = {"last-event-id": last} if last else {}
    with (
        served.service.client(timeout=httpx2.Timeout(PATIENCE)) as client,
        client.stream("GET", path, headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        yield events(lines)


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name in ("id", "event", "data"):
            found[name] = json.loads(value) if name == "data" else value
        elif not line and found:
            yield found
            found = {}


def test_calls_of_a_session_arrive_whoever_makes_them(served: Served) -> None:
    before = served.call("a")
    with listening(served, "/v1/sessions/a/events", last=before) as heard:
        first = served.call("a")
        assert next(heard)["id"] == first
        served.say("a")
        served.memory.session("a").context()  # by another process, as far as the service knows
        event = next(heard)
        assert event["id"] == served.memory.session("a").last_call
        assert event["event"] == "call"
        assert event["data"]["conversation"] == "a"
        assert event["data"]["manifest"]["tokens"] > 0
        served.call("b")
        last = served.call("a")
        assert next(heard)["id"] == last


@pytest.mark.parametrize("path", ["/v1/events", "/v1/sessions/a/events"])
@pytest.mark.parametrize("end", ["revoked", "expired", "unreadable"])
def test_a_token_that_is_no_longer_accepted_ends_its_streams(
    tmp_path: Path, path: str, end: str
) -> None:
    store, file = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "tokens.json"
    made = make_tokens(file, ("watcher", "acme", ["read"]), ("other", "acme", ["read", "write"]))
    with running(ServiceOptions(store=store, tokens_file=file)) as service:
        ring = service.state.gate.ring
        assert isinstance(ring, TokenRing)
        ring.check_every = 0.0
        with (
            service.client(made["other"]) as other,
            service.client(made["watcher"], timeout=httpx2.Timeout(PATIENCE)) as client,
        ):
            other.post("/v1/sessions/a/user", json={"content": "hi"})
            with client.stream("GET", path) as answer:
                lines = answer.iter_lines()
                assert next(lines) == "retry: 1000"
                if end == "revoked":
                    TokenFile(file).revoke("watcher")
                elif end == "unreadable":
                    file.write_text("{")
                else:
                    ring.clock = lambda: 2e12
                    [line, _] = TokenFile(file).lines()
                    TokenFile(file).revoke("watcher")
                    TokenFile(file).add(msgspec.structs.replace(line, expires=10**12))
                other.post("/v1/sessions/a/context", json={})  # what it must not hear of
                assert next((line for line in lines if line), "ended") == "ended"


def test_a_stream_resumes_after_the_last_event(served: Served) -> None:
    names = [served.call("a") for _ in range(5)]
    with listening(served, "/v1/sessions/a/events", last=names[1]) as heard:
        assert [next(heard)["id"] for _ in range(3)] == names[2:]
    with listening(served, f"/v1/sessions/a/events?after={names[3]}") as heard:
        assert next(heard)["id"] == names[4]


def test_a_fresh_stream_begins_now(served: Served) -> None:
    old = [served.call("a") for _ in range(3)]
    with listening(served, "/v1/sessions/a/events") as heard:
        # Until a call is heard: the stream may still be about to look for the first time.
        made = [served.call("a")]
        while not served.service.state.streams[""]:
            made.append(served.call("a"))
        served.say("a")
        made.append(served.call("a"))
        heard_first = next(heard)["id"]
        assert heard_first in made
        assert heard_first not in old


def test_a_tenants_stream_hears_every_session_and_resumes(served: Served) -> None:
    served.call("a")
    with listening(served, "/v1/events") as heard:
        seen: dict[str, str] = {}
        for name in ("a", "b", "new"):
            served.memory.session(name).user("more")
            call = served.call(name)
            event = next(heard)
            assert (event["data"]["conversation"], event["data"]["manifest"]["call"]) == (
                name,
                call,
            )
            seen[name] = event["id"]
    with listening(served, "/v1/events", last=seen["a"]) as heard:
        again: set[str] = set()
        while not {"b", "new"} <= again:
            again.add(next(heard)["data"]["conversation"])


def test_another_tenant_hears_nothing(served: Served) -> None:
    stream = served.service.state
    other = stream.memory("another")
    assert other is not stream.memory("default")
    with Memory(served.memory.store, scope="another") as foreign:
        foreign.session("a").user("secret")
        with listening(served, "/v1/events") as heard:
            foreign.session("a").context()
            mine = served.call("b")
            assert next(heard)["data"]["manifest"]["call"] == mine


def test_an_erased_session_ends_its_stream(served: Served) -> None:
    last = served.call("a")
    with listening(served, "/v1/sessions/a/events", last=last) as heard:
        made = served.call("a")
        assert next(heard)["id"] == made
        served.memory.delete("a")
        assert next(heard)["event"] == "deleted"
        assert next(heard, None) is None


def test_the_head_of_a_stream_is_not_asked_for_without_it(served: Served) -> None:
    with served.service.client() as client:
        assert client.head("/v1/events").status_code == 405
        assert client.head("/v1/sessions/a/events").status_code == 405
        assert client.head("/v1/sessions/a").status_code == 200


def test_an_id_of_another_stream_is_refused(served: Served) -> None:
    with served.service.client() as client:
        answer = client.get("/v1/events", headers={"last-event-id": "not one"})
    assert answer.status_code == 422


# ---------------------------------------------------------------------------------- what is remembered is bounded


HOUR = 3_600_000_000
"""In microseconds."""


class Streamed:
    """A tenant's stream over a store whose clock is told what time it is."""

    def __init__(self, since: int) -> None:
        self.now = since
        runtime = AsyncRuntime()
        config = make_config("sqlite://", runtime, blocking=False, clock=lambda: self.now)
        self.state = ServiceState(config)
        self.stream = _Stream(self.state, Caller("default", frozenset(), ""), since=since)
        self.frames = cast("AsyncGenerator[bytes]", _of_tenant(self.stream))

    async def call(self, name: str) -> str:
        """One call in a session, an hour after the one before."""
        self.now += HOUR
        session = self.state.memory("default").session(name)
        await session.user("hi 你好")
        await session.context()
        self.state.call_made("default")
        return f"{name} {session.last_call}"

    async def heard(self) -> str:
        frame = await anext(self.frames)
        data = json.loads(frame.split(b"data: ")[1])
        return f"{data['conversation']} {data['manifest']['call']}"


@pytest.mark.parametrize(("most", "sent", "largest"), [(4, 1, 5), (10_000, 10_000, 20)])
def test_a_stream_remembers_a_bounded_number_of_sessions_and_hears_every_call_once(
    most: int, sent: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "_FOLLOWED", most)
    # A stream that forgets has nothing but the calls' own times to tell them apart.
    monkeypatch.setattr(events_module, "_SENT", sent)
    monkeypatch.setattr(events_module, "_POLL", 0.0)
    monkeypatch.setattr(events_module, "_SHARE", 0)

    async def listen() -> tuple[list[str], list[str], int]:
        # Long ago, so that every session but the newest has been quiet for a while.
        streamed = Streamed(since=HOUR)
        made: list[str] = []
        heard: list[str] = []
        followed = 0
        for number in range(60):
            made.append(await streamed.call(f"s{number % 20}"))
            heard.append(await streamed.heard())
            followed = max(followed, len(streamed.stream.followed))
        await streamed.frames.aclose()
        await streamed.state.close()
        return made, heard, followed

    made, heard, followed = asyncio.run(listen())
    assert heard == made
    assert followed == largest


def test_sabotage_a_stream_that_only_forgets_repeats_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forget(self: _Stream, looked: int) -> None:
        del looked
        self.followed.clear()

    monkeypatch.setattr(_Stream, "forget_quiet", forget)
    with pytest.raises(AssertionError):
        test_a_stream_remembers_a_bounded_number_of_sessions_and_hears_every_call_once(
            4, 1, 5, monkeypatch
        )


def test_a_service_forgets_tenants_and_tokens_that_no_longer_listen(served: Served) -> None:
    state = served.service.state
    for tenant in range(50):
        state.call_made(f"t{tenant}")
        state.signal(f"t{tenant}")
    gc.collect()
    assert list(state._signals) == []
    with listening(served, "/v1/events") as heard:
        served.call("a")
        next(heard)
        assert list(state._signals) == ["default"]
        assert dict(state.streams) == {"": 1}
    limit = time.monotonic() + PATIENCE
    while state.streams:  # the service notices that nobody listens
        assert time.monotonic() < limit
        served.call("a")
    gc.collect()
    assert list(state._signals) == []


def test_a_stream_sends_calls_as_it_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 streams that resumed from the first of 300 large calls held 700 MB."""
    read, pages = AsyncSession.calls, list[int]()

    async def calls(self: AsyncSession, *, after: str = "", limit: int = 100) -> Any:
        page = await read(self, after=after, limit=limit)
        pages.append(len(page))
        return page

    async def heard() -> list[tuple[str, int]]:
        state = make_state(ServiceOptions())
        session = state.memory("t").session("s")
        await session.user("hi")
        made = [(await session.context(), session.last_call)[1] for _ in range(40)]
        monkeypatch.setattr(AsyncSession, "calls", calls)
        stream = _Stream(state, Caller("t", frozenset(Right), ""), floor="0")
        head = await state.config.store.head(Scope("t"), "s")
        found = [(name, len(pages)) async for name, _ in stream.fresh("s", head)]
        assert [name for name, _ in found] == made
        assert [each async for each in stream.fresh("s", head)] == []
        await state.close()
        return found

    found = asyncio.run(heard())
    assert found[0][1] == 1  # the first call was there before the second page was read
    assert max(pages) == 16

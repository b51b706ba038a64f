"""Live calls: of one session and of a tenant, made by any process, resumed where a stream broke off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.running import PATIENCE, Running, running
from turnfold.memory import Memory
from turnfold.service.running import ServiceOptions


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

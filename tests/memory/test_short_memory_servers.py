"""The short-term memory beside its servers: the documented SQL sees what it wrote, and Redis may forget at any time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

import psycopg

from tests.memory.short_places import Place, as_url, talk
from tests.stores.redis_server import PATIENCE, RedisServer
from tests.stores.servers import PostgresPlaces
from tests.stores.test_postgres_view import CHECKPOINTS, SEGMENT
from turnfold import Memory, ShortMemory
from turnfold.memories.short_memory import stored_state as short_notes
from turnfold.runtime import drive
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.tokens import counter_for

C = "conv-123"
KEY = f"short_term_memory:session:{C}"
LONG = "dizzy " * 60


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A server that may be emptied: nobody else uses it."""
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def place(tmp_path: Path, server: RedisServer) -> Iterator[Place]:
    places = PostgresPlaces()
    place = Place(as_url(places.url(tmp_path)), server.url)
    yield place
    place.close()
    places.sweep()
    places.close()


def ask(place: Place, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(place.url) as connection:
        connection.execute("SELECT set_config('turnfold.tenant', 'default', false)")
        return connection.execute(question.encode()).fetchall()


def test_the_documented_sql_shows_turns_and_checkpoints(place: Place) -> None:
    """常见问题 3"""
    here = place()
    talk(here, C, range(4))
    here.checkpoint_short_memory(C, "第一次", 2)
    talk(here, C, range(4, 6))
    live = here.checkpoint_short_memory(C, "第二次", 3)
    here.write_turn(C, user_query="[MEMORY_CHECKPOINT]", agent_response="typed by a user")
    made = [
        row
        for row in ask(place, CHECKPOINTS)
        if row[0] in {each.id for each in here.checkpoint_history(C)}
    ]
    assert [row[2] for row in made] == ["历史摘要: 第一次", "历史摘要: 第二次"]
    assert made[-1][0] == live.id == here.get_short_memory(C).message_context.checkpoint_message_id
    segment = ask(place, SEGMENT.replace("checkpoint-message-id", live.id))
    assert [row[2:4] for row in segment] == [
        ("<q3>", "<a3>"),
        ("<q4>", "<a4>"),
        ("<q5>", "<a5>"),
        ("[MEMORY_CHECKPOINT]", "typed by a user"),
    ]


def test_the_session_is_served_from_the_documented_key(place: Place, server: RedisServer) -> None:
    # Patient: on a loaded machine the usual time limit would pass the cache by.
    durable = PostgresStore(place.url, blocking=True)
    store = CachedStore(durable, server.url, blocking=True, timeout_seconds=PATIENCE)
    here = ShortMemory(store)
    here.create_short_memory(C, "user-456")
    talk(here, C, range(3))
    server.ask("FLUSHALL")
    first = here.get_short_memory(C)
    assert server.ask("GET", KEY).decode() == first.to_json()
    assert 0 < server.ask("TTL", KEY) <= 1800
    assert here.get_short_memory(C) == first
    drive(store.close())


class Twin:
    """The same calls on a memory whose cache is emptied at random, and on one that is left in peace."""

    def __init__(
        self,
        disturbed: ShortMemory,
        quiet: ShortMemory,
        server: RedisServer,
        *,
        empties: float = 0.5,
    ) -> None:
        self._memories = disturbed, quiet
        self._empties = empties
        self._dice = random.Random(3)  # noqa: S311 (a run that can be repeated)
        self._server = server

    def both(self, name: str, *args: Any, **options: Any) -> None:
        answers: list[Any] = []
        for memory in self._memories:
            if memory is self._memories[0] and self._dice.random() < self._empties:
                self._server.ask("FLUSHALL")
            answers.append(getattr(memory, name)(*args, **options))
        assert _timeless(answers[0]) == _timeless(answers[1]), name


def _timeless(answer: Any) -> Any:
    session = getattr(answer, "session", answer)
    if hasattr(session, "meta"):
        session.meta.updated_at = 0
    fields = (
        "history",
        "full_history",
        "mode",
        "estimated_tokens",
        "upto",
        "should_checkpoint_summary",
    )
    seen = tuple(getattr(answer, name, None) for name in fields)
    return seen, session.to_json() if hasattr(session, "to_json") else None


def test_emptying_the_cache_at_any_time_changes_no_answer(
    place: Place, tmp_path: Path, server: RedisServer
) -> None:
    quiet = ShortMemory(f"sqlite:///{tmp_path}/quiet.db")
    twin = Twin(place(), quiet, server)
    for number in range(16):
        twin.both("query_memory_context", C, query=f"<q{number}>{LONG}", model_context_window=900)
        twin.both("write_turn", C, agent_response=f"<a{number}>")
        twin.both("get_short_memory", C)
        if number % 6 == 5:
            twin.both("checkpoint_short_memory", C, f"summary {number}", 2)
        if number == 12:
            twin.both("reset_short_memory", C)
    quiet.close()


def test_a_memory_that_trusts_the_cache_would_be_found_out(
    place: Place, tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document's way: the session lives in Redis alone, for half an hour."""
    read = short_notes.ShortNotes.read_view

    async def from_redis(notes: Any, conversation: str) -> Any:
        there = server.ask("EXISTS", KEY) or notes.scope.tenant == "quiet"
        return await read(notes, conversation if there else f"{conversation} (expired)")

    quiet = ShortMemory(f"sqlite:///{tmp_path}/quiet.db", scope="quiet")
    twin = Twin(place(), quiet, server)
    twin.both("create_short_memory", C, "user-456")
    monkeypatch.setattr(short_notes.ShortNotes, "read_view", from_redis)
    server.ask("FLUSHALL")
    with pytest.raises(AssertionError, match="get_short_memory"):
        twin.both("get_short_memory", C)
    quiet.close()


CACHE = f"{{{KEY}}}:cache"


@pytest.fixture
def patient(place: Place, server: RedisServer) -> Iterator[ShortMemory]:
    """A memory behind Redis that waits for it also on a loaded machine, and nothing is cached yet."""
    server.ask("FLUSHALL")
    durable = PostgresStore(place.url, blocking=True)
    store = CachedStore(durable, server.url, blocking=True, timeout_seconds=PATIENCE)
    yield ShortMemory(store)
    drive(store.close())


def asked_of_the_database(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list in which the reads of the database are noted from now on."""
    asked: list[str] = []
    for name in "head view read read_ranges tail read_turn get_document checkpoints".split():
        method = getattr(PostgresStore, name)

        def noted(
            store: Any, *args: Any, _method: Any = method, _name: str = name, **more: Any
        ) -> Any:
            asked.append(_name)
            return _method(store, *args, **more)

        monkeypatch.setattr(PostgresStore, name, noted)
    return asked


def test_a_query_is_served_from_redis(
    patient: ShortMemory, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the database only the head is asked for, whether the history is whole or has a summary."""
    alone = ShortMemory(place.url)
    talk(patient, C, range(20))
    asked = asked_of_the_database(monkeypatch)
    for fold in (False, True):
        if fold:
            patient.checkpoint_short_memory(C, "头晕 dizzy", 3)
        for query in ("", "next 下一个"):
            first, _, _ = (patient.query_memory_context(C, query=query) for _ in range(3))
            asked.clear()
            again = patient.query_memory_context(C, query=query)
            assert asked == ["head"]
            assert _timeless(again) == _timeless(first)
            assert _timeless(again) == _timeless(alone.query_memory_context(C, query=query))
    talk(patient, C, range(20, 22))
    patient.query_memory_context(C)  # rules are found by the first query of each state
    asked.clear()
    assert "<a21>" in patient.query_memory_context(C).history
    assert asked == ["head"], "a write caches what the next query reads"
    alone.close()


def test_turns_that_are_not_cached_are_read_from_the_database(
    patient: ShortMemory, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(patient, C, range(20))
    first = patient.query_memory_context(C)
    with ShortMemory(place.url) as other:  # without Redis
        talk(other, C, range(20, 24))
    asked = asked_of_the_database(monkeypatch)
    second = patient.query_memory_context(C)
    assert asked[:3] == ["head", "view", "read"], "and not all of the window"
    assert all(f"<a{number}>" in second.history for number in range(24))
    assert "<a20>" not in first.history
    asked.clear()
    assert patient.query_memory_context(C) == second
    assert asked == ["head"]


def test_an_erased_entry_is_not_shown_from_redis(patient: ShortMemory, place: Place) -> None:
    """It is erased by a process that knows nothing of Redis."""
    talk(patient, C, range(6))
    assert "<q2>" in patient.query_memory_context(C).history
    with Memory(place.url) as memory:
        memory.session(C).erase(5)
    for _ in range(2):
        context = patient.query_memory_context(C)
        assert "<q2>" not in context.history + context.full_history
        assert "<a2>" in context.history


def test_a_segment_that_was_changed_or_moved_is_refused(
    patient: ShortMemory, server: RedisServer
) -> None:
    other = "conv-456"
    talk(patient, C, range(3))
    talk(patient, other, range(3, 6))
    before = [patient.query_memory_context(each) for each in (C, C)][-1]
    patient.query_memory_context(other)
    mine = server.ask("HGET", CACHE, "segment")
    theirs = server.ask("HGET", CACHE.replace(C, other), "segment")
    at = mine.index(b"<a1>") + 1
    for forged in (theirs, mine[:at] + b"X" + mine[at + 1 :], mine[:50], b"", b"\xff" * 100):
        server.ask("HSET", CACHE, "segment", forged)
        assert patient.query_memory_context(C) == before
        assert server.ask("HGET", CACHE, "segment") != forged, "written over"
    server.ask("DEL", CACHE)
    server.ask("SET", CACHE, "of another type")
    assert patient.query_memory_context(C) == before


def test_another_counter_counts_anew(patient: ShortMemory, place: Place) -> None:
    """Costs that another process counted otherwise are not taken from Redis."""
    talk(patient, C, range(30), pad=LONG)
    for _ in range(2):
        patient.query_memory_context(C)
    answers: list[int] = []
    for cache in (place.cache, None):
        with ShortMemory(place.url, cache=cache, counter=counter_for("gpt-4o")) as other:
            found = [other.query_memory_context(C, model_context_window=900) for _ in range(3)]
            answers += [each.estimated_tokens for each in found]
    assert len(set(answers)) == 1


class TimeTravel:
    """A Redis that falls back to what it held some calls ago, as a replica that was promoted would."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._dice = random.Random(5)  # noqa: S311 (a run that can be repeated)
        self._held: list[dict[bytes, bytes]] = []
        self.falls = 0

    def step(self) -> None:
        names = self._server.ask("KEYS", "*")
        self._held.append({name: self._server.ask("DUMP", name) for name in names})
        if self._dice.random() < 0.4:
            self.falls += 1
            self._server.ask("FLUSHALL")
            for name, value in self._dice.choice(self._held[-6:]).items():
                self._server.ask("RESTORE", name, 1_800_000, value)


def test_a_cache_that_falls_back_changes_no_answer(
    patient: ShortMemory, tmp_path: Path, server: RedisServer
) -> None:
    quiet = ShortMemory(f"sqlite:///{tmp_path}/quiet.db")
    travel, twin = TimeTravel(server), Twin(patient, quiet, server, empties=0.0)
    for number in range(14):
        for options in ({}, {"query": f"<q{number}>{LONG}", "model_context_window": 900}):
            travel.step()
            twin.both("query_memory_context", C, **options)
        twin.both("write_turn", C, agent_response=f"<a{number}>")
        travel.step()
        twin.both("get_short_memory", C)
        if number % 5 == 4:
            twin.both("checkpoint_short_memory", C, f"summary {number} 摘要", 2)
            travel.step()
        if number == 10:
            twin.both("reset_short_memory", C)
    assert travel.falls > 5
    quiet.close()

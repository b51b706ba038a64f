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
from turnfold import ShortMemory
from turnfold.memories.short_memory import stored_state as short_notes
from turnfold.runtime import drive
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore

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

    def __init__(self, disturbed: ShortMemory, quiet: ShortMemory, server: RedisServer) -> None:
        self._memories = disturbed, quiet
        self._dice = random.Random(3)  # noqa: S311 (a run that can be repeated)
        self._server = server

    def both(self, name: str, *args: Any, **options: Any) -> None:
        answers: list[Any] = []
        for memory in self._memories:
            if memory is self._memories[0] and self._dice.random() < 0.5:
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

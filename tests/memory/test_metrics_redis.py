"""How long Redis takes is measured where it is asked, and apart from the database behind it."""

from __future__ import annotations

from pathlib import Path

from tests.stores.redis_server import RedisServer, shared_url
from turnfold import Memory
from turnfold.runtime import drive
from turnfold.stores import SqliteStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.telemetry import Meter


def talk(memory: Memory) -> None:
    session = memory.session("one")
    for number in range(5):
        session.user(f"问题 {number}")
        session.context()
    session.status()


def test_redis_and_the_database_are_timed_apart(tmp_path: Path) -> None:
    meter = Meter()
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", cache=shared_url(), meter=meter) as memory:
        talk(memory)
        asked = int(memory.health().details["redis.calls"])
    assert meter.values["redis_seconds"].count == asked > 0
    assert meter.values["database_write_seconds"].count >= 10
    assert meter.values["database_read_seconds"].count > 0


def test_a_question_without_an_answer_is_counted_and_breaks_nothing(tmp_path: Path) -> None:
    meter = Meter()
    nobody = "redis://127.0.0.1:1/0"  # a port that no server takes
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", cache=nobody, meter=meter) as memory:
        talk(memory)
    assert meter.counts["redis_failures"] == meter.values["redis_seconds"].count > 0
    assert meter.counts["database_errors"] == 0


def test_a_listener_that_raises_is_not_the_caches_fault(tmp_path: Path) -> None:
    heard: list[bool] = []

    def broken(seconds: float, answered: bool) -> None:  # noqa: FBT001 (the shape of the hook)
        heard.append(answered)
        raise RuntimeError(seconds)

    server = RedisServer()
    inner = SqliteStore(tmp_path / "chat.db", blocking=True)
    store = CachedStore(inner, server.url, blocking=True, on_answer=broken)
    with Memory(store) as memory:
        talk(memory)
        server.kill()
        talk(memory)
        assert memory.health().ok
    drive(store.close())
    server.stop()
    assert {True, False} <= set(heard)

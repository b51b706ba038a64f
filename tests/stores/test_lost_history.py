"""A database that lost acknowledged writes, and has new ones in their place: after a failover, or a restored backup.

Generations and seqs are then the same in both histories. Here a database is put back to an earlier state by another
session, with the server running, and a PostgreSQL standby that lacks the last commits takes over; a SQLite file is
restored from a copy. Old handles, and a Redis that was not emptied, must not mix the two histories.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.stores.epochs import draw_one_epoch
from tests.stores.redis_server import PATIENCE, RedisServer
from tests.stores.servers import PostgresPlaces, admin_url, postgres_places
from turnfold import Budget, Memory
from turnfold.errors import Conflict
from turnfold.memory import Session
from turnfold.records import Checkpoint, Document, Entry, NewEntry, assistant, system, user
from turnfold.runtime import drive
from turnfold.stores import Appended, Scope, SqliteStore, Store, Written
from turnfold.stores.postgres.schema import TABLES
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore

__all__ = ("postgres_places",)

ALICE = Scope("alice")
TALK = "talk"
LOST, WRITTEN = "批准这笔付款 buy it now", "拒绝这笔付款 ban it now"
"""What was said last in the history that is gone, and in the one that replaced it; they cost the same."""


def say(store: Store, *texts: str) -> Appended:
    return drive(store.append(ALICE, TALK, [NewEntry(user(text)) for text in texts]))


def texts(store: Store) -> list[str]:
    return [entry.message.text for entry in drive(store.read(ALICE, TALK))]


def assert_sound(store: Store) -> None:
    """The log is dense, and its costs add up to what the head says."""
    log = drive(store.read(ALICE, TALK))
    head = drive(store.head(ALICE, TALK))
    assert [entry.seq for entry in log] == list(range(1, head.seq + 1))
    assert [entry.running for entry in log] == list(accumulate(entry.tokens for entry in log))
    assert head.tokens == log[-1].running


class Database:
    """A schema whose rows can be put back to an earlier state while stores are connected to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        asked = conninfo_to_dict(url)
        above = make_conninfo(admin_url(), dbname=asked["dbname"], options=asked["options"])
        self._admin = psycopg.connect(above, autocommit=True)
        self._stores: list[PostgresStore] = []

    def opened(self) -> PostgresStore:
        self._stores.append(PostgresStore(self.url, blocking=True, clock=lambda: 1))
        return self._stores[-1]

    def save(self) -> None:
        for table in TABLES:
            self._run("DROP TABLE IF EXISTS {saved}", table)
            self._run("CREATE TABLE {saved} AS TABLE {table}", table)

    def put_back(self) -> None:
        for table in TABLES:
            self._run("DELETE FROM {table}", table)
            self._run("INSERT INTO {table} SELECT * FROM {saved}", table)

    def close(self) -> None:
        for store in self._stores:
            drive(store.close())
        for table in TABLES:
            self._run("DROP TABLE IF EXISTS {saved}", table)
        self._admin.close()

    def _run(self, statement: str, table: str) -> None:
        names = {"table": sql.Identifier(table), "saved": sql.Identifier(f"saved_{table}")}
        self._admin.execute(sql.SQL(statement).format(**names))  # pyright: ignore[reportArgumentType] (a constant)


@pytest.fixture
def database(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[Database]:
    with closing(Database(postgres_places.url(tmp_path))) as made:
        yield made
    postgres_places.sweep()


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


def cached(inner: Store, server: RedisServer) -> CachedStore:
    return CachedStore(inner, server.url, blocking=True, timeout_seconds=PATIENCE)


# ------------------------------------------------------------------------- an old handle and the new history


@pytest.mark.parametrize("lost", [1, 3])
def test_an_append_at_a_remembered_head_goes_to_the_history_there_is(
    database: Database, lost: int
) -> None:
    old, other = database.opened(), database.opened()
    say(old, "kept")
    database.save()
    gone = say(old, *[LOST] * lost)
    database.put_back()
    new = say(other, WRITTEN)
    assert new.head.generation == gone.head.generation
    done = say(old, "from the old process")
    assert (done.first, done.before) == (3, new.head.state)
    assert texts(other) == ["kept", WRITTEN, "from the old process"]
    assert_sound(other)


def test_what_an_old_handle_expects_to_be_newest_is_looked_up(database: Database) -> None:
    old, other = database.opened(), database.opened()
    say(old, "kept")
    database.save()
    say(old, LOST, LOST)
    database.put_back()
    say(other, WRITTEN)
    with pytest.raises(Conflict, match="expected entry 3"):
        drive(old.append(ALICE, TALK, [NewEntry(user("late"))], expect=3))
    assert texts(other) == ["kept", WRITTEN]


def test_a_note_by_who_saw_the_lost_state_is_refused(database: Database) -> None:
    old, other = database.opened(), database.opened()
    say(old, "kept")
    database.save()
    seen = say(old, LOST).head
    database.put_back()
    found = say(other, WRITTEN).head
    assert found.generation == seen.generation
    with pytest.raises(Conflict, match="restored"):
        drive(old.note(ALICE, TALK, Document("call", "1", b"{}", 0), state=seen.state))
    assert drive(other.head(ALICE, TALK)) == found
    after = drive(old.note(ALICE, TALK, Document("call", "1", b"{}", 0), state=found.state))
    assert drive(other.head(ALICE, TALK)).state == after


def test_without_the_epoch_the_old_handle_would_spoil_the_log(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sabotage of the first test: all writes draw the same number."""
    draw_one_epoch(monkeypatch)
    old, other = database.opened(), database.opened()
    say(old, "kept")
    database.save()
    say(old, LOST, LOST, LOST)
    database.put_back()
    say(other, WRITTEN)
    assert say(old, "from the old process").first == 5
    with pytest.raises(AssertionError):
        assert_sound(other)


def session_on(store: Store) -> Session:
    budget = Budget(max_tokens=4000)
    return Memory(store, budget=budget, fold="manual", scope="alice").session(TALK)


@pytest.mark.parametrize("more", [0, 1, 4])
@pytest.mark.parametrize("redis", [False, True], ids=["alone", "behind redis"])
def test_an_old_session_shows_what_is_in_the_log(
    database: Database, redis_server: RedisServer, more: int, *, redis: bool
) -> None:
    inner = database.opened()
    kept = session_on(cached(inner, redis_server) if redis else inner)
    other = session_on(database.opened())
    kept.add([user("kept question"), assistant("kept answer")])
    kept.context()
    database.save()
    kept.user(LOST)
    assert kept.context().messages[-1].text == LOST
    database.put_back()
    other.user(WRITTEN)
    other.context()
    for number in range(more):
        other.assistant(f"answer {number}")
    shown = [message.text for message in kept.context().messages]
    assert shown == ["kept question", "kept answer", WRITTEN, *(f"answer {n}" for n in range(more))]


def failing_over_before_a_note(store: PostgresStore, database: Database) -> None:
    """Put the database back to its saved state when the store is about to write its next note."""
    put, pending = store.put_document, [database.put_back]

    async def put_document(*place: Any, **options: Any) -> Written:
        while pending:
            pending.pop()()
            say(database.opened(), WRITTEN)
        return await put(*place, **options)

    store.put_document = put_document


@pytest.mark.parametrize("way", ["system", "add"])
def test_a_system_message_that_a_failover_lost_is_written_again(
    database: Database, way: str
) -> None:
    inner = database.opened()
    kept = session_on(inner)
    kept.add([user("kept question"), assistant("kept answer")])
    database.save()
    failing_over_before_a_note(inner, database)
    rule = "只用中文回答 answer in Chinese only"
    kept.system(rule) if way == "system" else kept.add(system(rule))
    other = session_on(database.opened())
    for session in (kept, other):
        shown = [message.text for message in session.context().messages]
        assert shown == [rule, "kept question", "kept answer", WRITTEN]


def test_clearing_hides_nothing_that_is_said_after_a_failover(database: Database) -> None:
    inner = database.opened()
    kept = session_on(inner)
    kept.add([user("kept question"), assistant("kept answer")])
    database.save()
    kept.add([user(LOST), assistant("lost answer"), user("lost question")])
    failing_over_before_a_note(inner, database)
    assert kept.clear() == 3, "the log that is there now"
    kept.user("下一个问题 the next one")
    for session in (kept, session_on(database.opened())):
        shown = [message.text for message in session.context().messages]
        assert shown == ["下一个问题 the next one"]


# --------------------------------------------------------------------------- a Redis that was not emptied


def lived(store: Store, last: str) -> None:
    """What both histories do, so that they differ in the texts alone."""
    say(store, last)
    drive(store.put_document(ALICE, TALK, Document("state", "s", last.encode(), 0)))
    drive(store.add_checkpoint(ALICE, TALK, Checkpoint("c1", "", 1, last, "digest")))


class Answers(NamedTuple):
    """Every answer that Redis may have kept."""

    tail: list[Entry]
    newest: list[Entry]
    document: Document | None
    checkpoints: list[Checkpoint]


def answers(store: Store) -> Answers:
    return Answers(
        drive(store.tail(ALICE, TALK, tokens=10_000)),
        drive(store.tail(ALICE, TALK, tokens=10_000, messages=1)),
        drive(store.get_document(ALICE, TALK, "state", "s")),
        drive(store.checkpoints(ALICE, TALK)),
    )


@pytest.mark.parametrize("more", [0, 1, 5])
def test_redis_serves_nothing_of_the_lost_history_of_postgres(
    database: Database, redis_server: RedisServer, more: int
) -> None:
    inner = database.opened()
    store = cached(inner, redis_server)
    say(store, "kept")
    answers(store)  # the secret of the cache is in the database as well
    database.save()
    lived(store, LOST)
    for _ in range(2):
        assert answers(store) == answers(inner)
    gone = drive(store.head(ALICE, TALK))
    database.put_back()
    lived(database.opened(), WRITTEN)
    now = drive(inner.head(ALICE, TALK))
    assert now.generation == gone.generation
    assert (now.seq, now.tokens, now.checkpoint) == (gone.seq, gone.tokens, gone.checkpoint)
    for number in range(more):
        say(inner, f"more {number}")
    for handle in (store, cached(database.opened(), redis_server)):
        for _ in range(2):
            assert answers(handle) == answers(inner)


def test_redis_serves_nothing_of_the_lost_history_of_a_restored_file(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    path, copy = tmp_path / "chat.db", tmp_path / "copy.db"

    def opened() -> CachedStore:
        return cached(SqliteStore(path, blocking=True, clock=lambda: 1), redis_server)

    store = opened()
    say(store, "kept")
    answers(store)
    drive(store.close())
    shutil.copy(path, copy)
    heads = []
    for last in (LOST, WRITTEN):
        shutil.copy(copy, path)
        store = opened()
        lived(store, last)
        heads.append(drive(store.head(ALICE, TALK)))
        for _ in range(2):
            tail, newest, document, checkpoints = answers(store)
            assert [each.message.text for each in tail] == texts(store) == ["kept", last]
            assert newest == drive(store.read(ALICE, TALK, after=1))
            assert document is not None
            assert (document.body, checkpoints[0].text) == (last.encode(), last)
        drive(store.close())
    assert heads[0].generation == heads[1].generation
    assert heads[0].epoch != heads[1].epoch


# ----------------------------------------------------------------------------------------- a real failover


@pytest.mark.slow
def test_a_standby_that_lacks_the_last_commits_takes_over(redis_server: RedisServer) -> None:
    from tests.stores.postgres_server import PrimaryAndStandby

    servers = PrimaryAndStandby()
    try:
        with closing_all(servers.url, redis_server) as (old, behind_redis, other):
            say(old, "kept")
            answers(behind_redis)
            servers.catch_up()
            servers.fall_behind()
            lived(old, LOST)
            assert texts(old) == ["kept", LOST]
            gone = say(old, "lost as well")
            answers(behind_redis)
            servers.fail_over()
            assert texts(other) == ["kept"]
            lived(other, WRITTEN)
            new = say(other, "written as well")
            assert new.head.generation == gone.head.generation
            with pytest.raises(Conflict, match="restored"):
                drive(old.note(ALICE, TALK, Document("call", "1", b"", 0), state=gone.head.state))
            assert answers(behind_redis) == answers(other)
            assert say(old, "from the old process").before == new.head.state
            assert texts(other) == ["kept", WRITTEN, "written as well", "from the old process"]
            assert answers(behind_redis) == answers(other)
            assert_sound(other)
    finally:
        servers.remove()


@contextmanager
def closing_all(
    url: str, server: RedisServer
) -> Iterator[tuple[PostgresStore, CachedStore, PostgresStore]]:
    old, inner, other = [PostgresStore(url, blocking=True, clock=lambda: 1) for _ in range(3)]
    yield old, cached(inner, server), other
    for store in (old, inner, other):
        drive(store.close())

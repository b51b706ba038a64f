"""Erasing a conversation, however long, is one transaction that keeps nobody waiting but those who write to it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from tests.stores.servers import PostgresPlaces, fresh_database, postgres_places
from turnfold.errors import ConversationDeleted, StoreUnavailable
from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Erasure, Scope
from turnfold.stores.postgres import schema
from turnfold.stores.postgres import statements as sql
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.postgres.transactions import Statement

__all__ = ("postgres_places",)

ALICE, BOB = Scope("alice"), Scope("bob")


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


def _furnish(store: PostgresStore, talk: str, entries: int) -> None:
    for first in range(0, entries, 1000):
        words = range(first, min(first + 1000, entries))
        batch = [NewEntry(user(f"message {n} of thing{n % 97} 你好")) for n in words]
        drive(store.append(ALICE, talk, batch))
    drive(store.add_checkpoint(ALICE, talk, Checkpoint("c1", "", 1, "summary", "digest")))
    drive(store.put_document(ALICE, talk, Document("state", "key", b"body", 0)))
    assert drive(store.search(ALICE, ["thing7"], conversation=talk))


def _use_others(store: PostgresStore, scope: Scope, name: str) -> None:
    """Everything that others may want of their own conversations."""
    done = drive(store.append(scope, name, [NewEntry(user("hello"))]))
    assert drive(store.tail(scope, name, tokens=100))[-1].seq == done.last
    drive(store.put_document(scope, name, Document("state", "key", b"body", 0)))
    assert drive(store.search(scope, ["hello"], conversation=name))
    assert drive(store.search(scope, ["hello"]))
    assert name in [info.conversation for info in drive(store.conversations(scope))]
    drive(store.append(scope, f"{name} to erase", [NewEntry(user("hello"))]))
    assert drive(store.delete(scope, f"{name} to erase")).entries == 1


class Erasing:
    """An erasure that is held up in the middle, by somebody who holds one of its entries."""

    def __init__(self, url: str, store: PostgresStore) -> None:
        self._url, self._store = url, store
        self.outcome: list[Erasure] = []
        self._thread = threading.Thread(target=self._erase)

    def _erase(self) -> None:
        self.outcome.append(drive(self._store.delete(ALICE, "big")))

    def __enter__(self) -> None:
        self._keeper = psycopg.connect(self._url)
        self._keeper.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        self._keeper.execute(
            "SELECT 1 FROM turnfold_entry WHERE conversation = 'big' AND seq = 2 FOR UPDATE"
        )
        self._thread.start()
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM turnfold_%'"
        )
        with psycopg.connect(self._url, autocommit=True) as watching:
            while not watching.execute(waiting).fetchall():
                assert self._thread.is_alive()

    def __exit__(self, *_: object) -> None:
        self._keeper.close()
        self._thread.join(60)


def _serve_others_meanwhile(url: str) -> None:
    store = PostgresStore(url, blocking=True)
    others = PostgresStore(url, blocking=True, lock_timeout_seconds=0.5)
    _furnish(store, "big", 50)
    erasing = Erasing(url, store)
    with erasing:
        _use_others(others, ALICE, "hers")
        _use_others(others, BOB, "his")
        assert len(drive(others.read(ALICE, "big"))) == 50  # not yet erased, and still whole
        with pytest.raises(StoreUnavailable, match="lock_timeout_seconds"):
            drive(others.append(ALICE, "big", [NewEntry(user("late"))]))
    assert erasing.outcome == [Erasure("big", 50, 1, 1, already=False)]
    with pytest.raises(ConversationDeleted):
        drive(others.append(ALICE, "big", [NewEntry(user("late"))]))
    assert drive(others.read(ALICE, "big")) == []
    assert drive(others.search(ALICE, ["thing7"])) == []
    assert drive(store.delete(ALICE, "big")) == Erasure("big", 0, 0, 0, already=True)
    for each in (store, others):
        drive(each.close())


def test_an_erasure_under_way_keeps_no_other_conversation_waiting(url: str) -> None:
    _serve_others_meanwhile(url)


def test_if_it_locked_more_than_its_conversation_it_would(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url, blocking=True)
    _furnish(store, "big", 50)
    drive(store.append(ALICE, "hers", [NewEntry(user("hello"))]))
    drive(store.close())
    whole = Statement("LOCK TABLE turnfold_conversation IN SHARE ROW EXCLUSIVE MODE")
    monkeypatch.setattr(sql, "make_conversation", lambda _place, **_: whole)
    store = PostgresStore(url, blocking=True)
    others = PostgresStore(url, blocking=True, lock_timeout_seconds=0.5)
    with Erasing(url, store), pytest.raises(StoreUnavailable, match="lock_timeout_seconds"):
        _use_others(others, ALICE, "hers")
    for each in (store, others):
        drive(each.close())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_thousand_entries_are_erased_while_others_write(url: str) -> None:
    store = PostgresStore(url, blocking=True)
    others = PostgresStore(url, blocking=True, lock_timeout_seconds=5.0)
    _furnish(store, "big", 50_000)
    outcome: list[Erasure] = []
    erasing = threading.Thread(
        target=lambda: outcome.append(drive(store.delete(ALICE, "big"))), daemon=True
    )
    erasing.start()
    rounds = 0
    while erasing.is_alive():
        rounds += 1
        _use_others(others, ALICE, f"hers {rounds}")
    assert outcome == [Erasure("big", 50_000, 1, 1, already=False)]
    assert rounds >= 1
    for each in (store, others):
        drive(each.close())


NAMES = ("Dana Lee 4711", "患者 李娜", "x" * 512, "长" * 512, "%s '); --")


def _rows(url: str, tenant: str) -> str:
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("SELECT set_config('turnfold.tenant', %s, false)", (tenant,))
        return repr(raw.execute("SELECT * FROM turnfold_conversation").fetchall())


def test_nothing_that_remains_names_the_erased(url: str) -> None:
    store = PostgresStore(url, blocking=True)
    for name in NAMES:
        for scope in (ALICE, BOB):
            drive(store.append(scope, name, [NewEntry(user("hello"))]))
        assert name[:40] in _rows(url, "alice")
        drive(store.delete(ALICE, name))
        assert drive(store.delete(ALICE, name)).already
        with pytest.raises(ConversationDeleted):
            drive(store.append(ALICE, name, [NewEntry(user("late"))]))
        assert drive(store.append(BOB, name, [NewEntry(user("mine"))])).last == 2
    left = _rows(url, "alice")
    assert [name for name in NAMES if name[:40] in left] == []
    assert left.count("erased:") == len(NAMES)
    drive(store.close())


def test_two_databases_keep_other_digests_of_the_same_name(
    postgres_places: PostgresPlaces, tmp_path: Path
) -> None:
    """Somebody who has a list of digests of one database can look nothing up in another."""
    found: list[str] = []
    for place in ("one", "two"):
        url = postgres_places.url(tmp_path / place)
        store = PostgresStore(url, blocking=True)
        drive(store.append(ALICE, "Dana", [NewEntry(user("hello"))]))
        drive(store.delete(ALICE, "Dana"))
        drive(store.close())
        found += re.findall("erased:[0-9a-f]{64}", _rows(url, "alice"))
    assert len(found) == len(set(found)) == 2
    postgres_places.sweep()


def test_names_erased_by_an_earlier_release_are_hidden_and_stay_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = fresh_database()
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:8])
        old = PostgresStore(url, blocking=True)
        drive(old.health())  # makes the tables of then
        drive(old.close())
    insert = (
        "INSERT INTO turnfold_conversation (tenant, conversation, long_name, seq, tokens, turns, checkpoint, revision, "
        "epoch, counter, created, updated, deleted, indexed_by) "
        "VALUES (%s, %s, %s, 0, 0, 0, '', 7, 5, '', 1, 2, %s, '')"
    )
    with psycopg.connect(url, autocommit=True) as raw:
        for tenant in ("alice", "bob"):
            raw.execute("SELECT set_config('turnfold.tenant', %s, false)", (tenant,))
            for name in NAMES:
                raw.execute(insert, (tenant, sql.key_of(name), sql.long_form(name), True))
            raw.execute(insert, (tenant, "kept", None, False))
    store = PostgresStore(url, blocking=True)
    for scope in (ALICE, BOB):
        for name in NAMES:
            assert drive(store.head(scope, name)).generation == 7
            with pytest.raises(ConversationDeleted):
                drive(store.append(scope, name, [NewEntry(user("late"))]))
        assert [info.conversation for info in drive(store.conversations(scope))] == ["kept"]
        left = _rows(url, scope.tenant)
        assert [name for name in NAMES if name[:40] in left] == []
    drive(store.close())
    with psycopg.connect(url, autocommit=True) as raw:  # a process of then
        raw.execute("SELECT set_config('turnfold.tenant', 'alice', false)")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            raw.execute(
                "SELECT deleted FROM turnfold_conversation WHERE conversation = 'Dana Lee 4711'"
            )
        forced = raw.execute(
            "SELECT relforcerowsecurity FROM pg_class WHERE relname = 'turnfold_conversation'"
        ).fetchone()
        assert forced == (True,)


@pytest.mark.parametrize("late", ["append", "delete"])
def test_a_writer_that_waits_for_the_deletion_does_not_bring_it_back(url: str, late: str) -> None:
    """It had looked for an erased conversation before the deletion was committed, and found none."""
    store, other = PostgresStore(url, blocking=True), PostgresStore(url, blocking=True)
    drive(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    outcomes: list[object] = []

    def write() -> None:
        try:
            if late == "delete":
                outcomes.append(drive(other.delete(ALICE, "talk")))
            else:
                outcomes.append(drive(other.append(ALICE, "talk", [NewEntry(user("late"))])))
        except ConversationDeleted as error:
            outcomes.append(error)

    with psycopg.connect(url) as raw:  # a deletion that has not been committed
        raw.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        raw.execute("DELETE FROM turnfold_entry WHERE conversation = 'talk'")
        raw.execute(
            "UPDATE turnfold_conversation SET conversation = turnfold_erased(tenant, conversation), erased = true, "
            "seq = 0, revision = revision + 1 WHERE conversation = 'talk'"
        )
        thread = threading.Thread(target=write)
        thread.start()
        with psycopg.connect(url, autocommit=True) as watching:
            waiting = (
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            while watching.execute(waiting).fetchone() == (0,):
                assert thread.is_alive()
        raw.commit()
    thread.join(60)
    if late == "delete":
        assert outcomes == [Erasure("talk", 0, 0, 0, already=True)]
    else:
        assert [type(each) for each in outcomes] == [ConversationDeleted]
    assert drive(store.conversations(ALICE)) == []
    for each in (store, other):
        drive(each.close())

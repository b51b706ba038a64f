"""A write happens whole or not at all: every statement of every verb is made to fail, every await is cancelled.

After each fault the tables hold what they held before or what they would have held after; nobody keeps the
conversation locked, no connection is left within a transaction, and the same store goes on working.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.stores.cancelling import CancelledAt
from tests.stores.postgres_faults import FAULTS, Faulted
from tests.stores.servers import PostgresPlaces, admin_url, postgres_places
from turnfold.errors import StoreUnavailable
from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.stores.postgres.schema import TABLES
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.postgres.transactions import Rows, Statement, _Transaction
from turnfold.testing.stores.sample_values import note_now

__all__ = ("postgres_places",)

ALICE, BOB = Scope("alice"), Scope("bob")
BATCH = [NewEntry(user(text), text) for text in ("第一", "second", "third")]
Verb = Callable[[PostgresStore, str], Coroutine[Any, Any, object]]
VERBS: dict[str, Verb] = {
    "append": lambda store, talk: store.append(ALICE, talk, BATCH),
    "append to a new conversation": lambda store, talk: store.append(ALICE, f"new {talk}", BATCH),
    "add_checkpoint": lambda store, talk: store.add_checkpoint(
        ALICE, talk, Checkpoint("c2", "c1", 3, "summary", "digest")
    ),
    "put_document": lambda store, talk: store.put_document(
        ALICE, talk, Document("state", "old", b"new", 0)
    ),
    "put a first document": lambda store, talk: store.put_document(
        ALICE, talk, Document("state", "new", b"new", 0)
    ),
    "note": lambda store, talk: note_now(store, ALICE, talk, Document("state", "new", b"new", 0)),
    "drop_document": lambda store, talk: store.drop_document(ALICE, talk, "state", "old"),
    "delete": lambda store, talk: store.delete(ALICE, talk),
}
QUICK = ("driver error", "backend terminated", "statement timed out")
ERRORS = (StoreUnavailable, MemoryError, KeyboardInterrupt)


class Trial:
    """A store under test, conversations to test it on, and an administrator who sees everything."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._above = make_conninfo(admin_url(), **_only(url, "dbname", "options"))
        self._admin = psycopg.connect(self._above, autocommit=True)
        self._stores: list[PostgresStore] = []
        self._seeder = self.opened()
        self._made = 0

    def opened(self, *, blocking: bool = True) -> PostgresStore:
        store = PostgresStore(self.url, blocking=blocking, clock=lambda: 1)
        self._stores.append(store)
        return store

    def talk(self) -> str:
        """A new conversation with entries, a checkpoint and a document."""
        self._made += 1
        talk, store = f"talk {self._made}", self._seeder
        drive(store.append(ALICE, talk, [NewEntry(user("hello")), NewEntry(user("你好"))]))
        drive(store.add_checkpoint(ALICE, talk, Checkpoint("c1", "", 1, "summary", "digest")))
        drive(store.put_document(ALICE, talk, Document("state", "old", b"old", 0)))
        drive(store.append(ALICE, talk, [NewEntry(user("hello again"))]))
        return talk

    def held(self, talk: str) -> list[list[tuple[Any, ...]]]:
        """What the tables have of a conversation once no abandoned transaction can change it, in one snapshot.

        Rows are put in order here, by all their columns: the server may give rows that are equal in what it sorts by
        in any order, and does so after a vacuum.
        """
        self._until_abandoned_backends_ended()
        found: list[list[tuple[Any, ...]]] = []
        with self._admin.transaction():
            self._admin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for name in (talk, f"new {talk}"):
                for table in TABLES:
                    question = sql.SQL("SELECT * FROM {} WHERE conversation = %s")
                    rows = self._admin.execute(question.format(sql.Identifier(table)), (name,))
                    names = [column.name for column in rows.description or ()]
                    told = [_nameless(dict(zip(names, row, strict=True))) for row in rows]
                    found.append(sorted(told, key=repr))
        return found

    def _until_abandoned_backends_ended(self) -> None:
        """Wait until the server has no backend of a connection that a store has hung up.

        A store that hangs up does not wait for the server. A commit that was already sent may still be carried out
        then, by a backend that has not read it yet and looks idle until it does.
        """
        kept = [
            connection.pgconn.backend_pid
            for store in self._stores
            for pool in (store._engine._blocking_pool, *store._engine._loop_pools.values())
            for connection in (pool._idle if pool is not None else ())
        ]
        self._until_none("pid <> ALL(%s)", (kept,))

    def undisturbed(self, verb: Verb) -> list[list[tuple[Any, ...]]]:
        talk, store = self.talk(), self.opened()
        drive(verb(store, talk))
        drive(store.close())
        return self.held(talk)

    def until_no_transaction_is_left(self) -> None:
        """Wait for backends that notice only now that their client has gone; one that never does, hangs here."""
        self._until_none("state LIKE 'idle in transaction%%'", ())

    def _until_none(self, condition: LiteralString, values: tuple[object, ...]) -> None:
        """Wait until no backend of a store in this database meets a condition."""
        asked = sql.SQL(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'turnfold' AND {}"
        ).format(sql.SQL(condition))
        for looks in itertools.count(1):
            if self._admin.execute(asked, values).fetchall() == [(0,)]:
                return
            if looks % 50 == 0:
                gc.collect()  # a connection that was cancelled while it was made is closed by its finalizer
            time.sleep(0.001)

    def close(self) -> None:
        drive(self._seeder.close())
        self._admin.close()


def _only(url: str, *names: str) -> dict[str, Any]:
    return {name: value for name, value in conninfo_to_dict(url).items() if name in names}


def _nameless(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row without its conversation, when that was begun, and epochs, by which the conversations of a trial differ."""
    return tuple(
        value[1:] if isinstance(value, list) else value  # the first term names the conversation
        for name, value in row.items()
        if name not in ("arrival", "conversation", "epoch")
    )


@pytest.fixture
def trial(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[Trial]:
    with closing(Trial(postgres_places.url(tmp_path))) as trial:
        yield trial
        trial.until_no_transaction_is_left()
    postgres_places.sweep()


def assert_it_goes_on(store: PostgresStore) -> None:
    before = drive(store.head(BOB, "talk")).seq
    assert drive(store.append(BOB, "talk", [NewEntry(user("next"))])).first == before + 1
    pool = store._engine._blocking_pool
    assert pool is not None
    states = {connection.pgconn.transaction_status for connection in pool._idle}
    assert states == {psycopg.pq.TransactionStatus.IDLE}


def fail_everywhere(trial: Trial, verb: Verb, fault: str, *, times: int = 1) -> int:
    """Let a fault meet every statement of a verb, one after the other; how many there were."""
    store = trial.opened()
    try:
        return _fail_everywhere(trial, store, verb, fault, times)
    finally:
        drive(store.close())


def _fail_everywhere(trial: Trial, store: PostgresStore, verb: Verb, fault: str, times: int) -> int:
    after, before = trial.undisturbed(verb), trial.held(trial.talk())
    assert (before == after) is False
    drive(store.head(BOB, "talk"))
    point = 0
    while True:
        point += 1
        talk = trial.talk()
        with Faulted(point, FAULTS[fault], times=times) as faulted:
            error = _error_of(verb(store, talk))
        assert error is None or isinstance(error, ERRORS), faulted.statements
        held = trial.held(talk)
        assert held in (before, after), f"half done: {faulted.statements}"
        assert_it_goes_on(store)
        if not faulted.struck:
            assert (error, held) == (None, after)
            return point - 1
        if isinstance(error, StoreUnavailable) and "nothing was written" in str(error):
            assert held == before, faulted.statements


def _error_of(verb: Coroutine[Any, Any, object]) -> BaseException | None:
    try:
        drive(verb)
    except (Exception, KeyboardInterrupt) as error:
        return error
    return None


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FAULTS],
)
@pytest.mark.parametrize("name", VERBS)
def test_a_fault_at_any_statement_leaves_before_or_after(
    trial: Trial, name: str, fault: str
) -> None:
    assert fail_everywhere(trial, VERBS[name], fault) >= 6


@pytest.mark.parametrize("fault", ["driver error", "connection cut"])
def test_so_do_faults_that_hit_the_way_back_as_well(trial: Trial, fault: str) -> None:
    assert fail_everywhere(trial, VERBS["append"], fault, times=3) >= 6


async def _is_cancelled_at(verb: Coroutine[Any, Any, object], point: int) -> bool:
    """Run a verb and cancel it when it waits for the n-th time; whether it waited so often."""
    cancelled_at = CancelledAt(verb, point)

    async def run() -> object:
        return await cancelled_at

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    if not task.cancelled():
        await task
    return task.cancelled()


async def _cancel_everywhere(trial: Trial, verb: Verb) -> int:
    after, before = trial.undisturbed(verb), trial.held(trial.talk())
    store, point, cancelled = trial.opened(blocking=False), 0, True
    held = before
    while cancelled:
        point += 1
        talk = trial.talk()
        cancelled = await _is_cancelled_at(verb(store, talk), point)
        held = trial.held(talk)
        assert held in (before, after)
        await store.append(BOB, "talk", [NewEntry(user("next"))])
    assert held == after
    [pool] = store._engine._loop_pools.values()
    assert not pool._places.locked()
    assert pool._places._value == pool._size
    await store.close()
    return point - 1


@pytest.mark.parametrize("name", VERBS)
def test_cancelling_at_any_await_leaves_before_or_after(trial: Trial, name: str) -> None:
    assert asyncio.run(_cancel_everywhere(trial, VERBS[name])) >= 2


def test_rows_that_a_vacuum_has_put_in_another_order_are_the_same_rows(trial: Trial) -> None:
    verb = VERBS["add_checkpoint"]
    after = trial.undisturbed(verb)
    gone, talk = trial.talk(), trial.talk()
    for name in (gone, talk):
        drive(trial._seeder.search(ALICE, ["hello"], conversation=name))
    trial._admin.execute("DELETE FROM turnfold_term WHERE conversation = %s", (gone,))
    trial._admin.execute("VACUUM turnfold_term")  # the next row goes before those there are
    drive(verb(trial._seeder, talk))
    [order] = trial._admin.execute(
        "SELECT array_agg(key ORDER BY ctid) FROM turnfold_term WHERE conversation = %s AND key <> ''",
        (talk,),
    ).fetchall()
    assert order == (["c2", "c1"],)
    assert trial.held(talk) == after


def _lasting(statement: Statement) -> Statement:
    """The same, but its settings outlive the transaction."""
    return Statement(statement.sql.replace(", true)", ", false)"), statement.values)


def test_without_a_transaction_half_a_verb_is_seen(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _Transaction.ask

    async def ask(self: _Transaction, *statements: Statement) -> list[Rows]:
        answers: list[Rows] = []
        self._opening = tuple(map(_lasting, self._opening))
        for statement in statements:
            ended = [] if statement.sql == "COMMIT" else [Statement("COMMIT AND CHAIN")]
            answers.append((await whole(self, _lasting(statement), *ended))[0])
        return answers

    monkeypatch.setattr(_Transaction, "ask", ask)
    with pytest.raises(AssertionError, match="half done"):
        fail_everywhere(trial, VERBS["delete"], "driver error")

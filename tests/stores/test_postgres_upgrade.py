"""A database of the release before epochs: it says the same afterwards, and processes of then write nothing more."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from tests.stores.servers import fresh_database
from turnfold.errors import UnsafeStore
from turnfold.records import Document, NewEntry, encode_message, user
from turnfold.runtime import drive
from turnfold.stores import Head, Scope
from turnfold.stores.postgres import schema as postgres_schema
from turnfold.stores.postgres.store import PostgresStore
from turnfold.tokens import cautious_counter

ALICE = Scope("alice")
COUNTER = cautious_counter()
TEXTS = ("hello", "你好", "hello again")
RECORD = '{"id":"c","previous":"","upto":2,"text":"摘要 summary","digest":"d","created":3}'

OLD_CONVERSATION = (
    "INSERT INTO turnfold_conversation (tenant, conversation, long_name, seq, tokens, turns, checkpoint, "
    "generation, counter, created, updated, deleted, indexed_by) "
    "VALUES (%s, %s, NULL, %s, %s, %s, %s, %s, %s, 1, 2, false, '')"
)
OLD_ENTRY = (
    "INSERT INTO turnfold_entry "
    "(tenant, conversation, seq, client_id, long_id, created, turn, tokens, running, body) "
    "VALUES (%s, %s, %s, NULL, NULL, 5, %s, %s, %s, %s)"
)
OLD_SAVE = (
    "UPDATE turnfold_conversation SET seq = 3, generation = 7, updated = 9 WHERE tenant = %s "
    "AND conversation = %s AND generation = 6 AND NOT deleted"
)
OLD_HEAD = (
    "SELECT deleted, seq, tokens, turns, checkpoint, generation, counter FROM turnfold_conversation "
    "WHERE tenant = %s AND conversation = %s FOR UPDATE"
)
"""By these columns the release before finds and writes conversations and entries, in every verb."""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    """A database as the release before epochs left it."""
    made = fresh_database()
    with monkeypatch.context() as earlier:
        earlier.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:5])
        old = PostgresStore(made, blocking=True)
        drive(old.health())  # makes the tables of then
        drive(old.close())
    costs = [COUNTER.count_message(user(text)) for text in TEXTS]
    with psycopg.connect(made, autocommit=True) as raw:
        raw.execute("SELECT set_config('turnfold.tenant', 'alice', false)")
        raw.execute(OLD_CONVERSATION, ("alice", "talk", 3, sum(costs), 3, "c", 6, COUNTER.name))
        for seq, text in enumerate(TEXTS, 1):
            values = ("alice", "talk", seq, seq, costs[seq - 1], sum(costs[:seq]))
            raw.execute(OLD_ENTRY, (*values, encode_message(user(text))))
        raw.execute(
            "INSERT INTO turnfold_checkpoint (tenant, conversation, upto, id, created, record) "
            "VALUES ('alice', 'talk', 2, 'c', 3, %s)",
            (RECORD.encode(),),
        )
        raw.execute(
            "INSERT INTO turnfold_document (tenant, conversation, kind, key, version, created, body) "
            "VALUES ('alice', 'talk', 'state', 's', 2, 4, %s)",
            (b"\x00\xff",),
        )
    return made


def opened(url: str) -> PostgresStore:
    return PostgresStore(url, blocking=True, counter=COUNTER, clock=lambda: 40)


def test_a_database_without_epochs_says_the_same_and_draws_one_at_the_next_write(url: str) -> None:
    store = opened(url)
    tokens = sum(COUNTER.count_message(user(text)) for text in TEXTS)
    assert drive(store.head(ALICE, "talk")) == Head(3, tokens, 3, "c", 6, COUNTER.name, 0)
    assert tuple(entry.message.text for entry in drive(store.read(ALICE, "talk"))) == TEXTS
    [checkpoint] = drive(store.checkpoints(ALICE, "talk"))
    assert (checkpoint.text, checkpoint.created) == ("摘要 summary", 3)
    found = drive(store.get_document(ALICE, "talk", "state", "s"))
    assert found == Document("state", "s", b"\x00\xff", 2, 4)
    state = drive(store.note(ALICE, "talk", Document("call", "1", b"", 0), state=(6, 0)))
    done = drive(store.append(ALICE, "talk", [NewEntry(user("new"))]))
    assert (state[0], done.before) == (7, state)
    assert 0 not in (state[1], done.head.epoch)
    epochs = [entry.epoch for entry in drive(store.read(ALICE, "talk"))]
    assert epochs == [0, 0, 0, done.head.epoch]
    drive(store.close())


def test_a_running_process_of_the_release_before_writes_nothing_more(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as old:
        old.execute("SELECT set_config('turnfold.tenant', 'alice', false)")
        assert old.execute(OLD_HEAD, ("alice", "talk")).fetchone() is not None
        store = opened(url)
        before = drive(store.head(ALICE, "talk"))
        no_column = psycopg.errors.UndefinedColumn
        begun = ("alice", "new", 0, 0, 0, "", 0, COUNTER.name)
        with pytest.raises(no_column):
            old.execute(OLD_HEAD, ("alice", "talk"))
        with pytest.raises(no_column):
            old.execute(OLD_SAVE, ("alice", "talk"))
        with pytest.raises(no_column):
            old.execute(OLD_CONVERSATION, begun)
        with pytest.raises(psycopg.errors.NotNullViolation):
            old.execute(OLD_ENTRY, ("alice", "talk", 4, 4, 1, 99, b"{}"))
    assert drive(store.head(ALICE, "talk")) == before
    assert len(drive(store.read(ALICE, "talk"))) == 3
    drive(store.close())


@pytest.mark.parametrize(
    "steps",
    [
        ["ALTER TABLE turnfold_conversation RENAME COLUMN revision TO changes"],
        ["ALTER TABLE turnfold_entry RENAME TO turnfold_line"],
        [
            "ALTER TABLE turnfold_entry ADD COLUMN more bigint NOT NULL DEFAULT 0",
            "ALTER TABLE turnfold_entry ALTER COLUMN more DROP DEFAULT",
        ],
    ],
    ids=["a column renamed", "a table renamed", "a column without a default"],
)
def test_a_database_that_is_upgraded_under_a_running_process_is_told(steps: list[str]) -> None:
    url = fresh_database()
    store = opened(url)
    drive(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    with psycopg.connect(url, autocommit=True) as newer:
        for step in steps:
            newer.execute(step.encode())
    for late in ("talk", "new"):
        with pytest.raises(UnsafeStore, match="upgraded"):
            drive(store.append(ALICE, late, [NewEntry(user("late"))]))
    if len(steps) == 1:
        with pytest.raises(UnsafeStore, match="upgraded"):
            drive(store.tail(ALICE, "talk", tokens=100))
    else:
        assert len(drive(store.tail(ALICE, "talk", tokens=100))) == 1
    drive(store.close())

"""Rows and cached values that no store wrote: every verb that reads gives what is there or a typed error.

The bytes are put straight into the SQLite file, the PostgreSQL tables and Redis, past everything that checks. While
they are read, nothing may run (see audit.py). A cache that holds rubbish changes no answer at all.
"""

# ruff: noqa: S608 (statements that do damage, joined from what is written here)

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.stores.audit import CodeRan, nothing_runs
from tests.stores.hostile_blobs import HOSTILE_BLOBS, SOUND_BODIES, mutations
from tests.stores.test_hostile_rows import same
from turnfold.errors import StoreError, TurnfoldError, UnsafeStore
from turnfold.records import Checkpoint, Document, Entry, NewEntry, decode_message, user
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store, log_semantics

ALICE = Scope("alice")
TALK = "talk"
PLACE = (ALICE, TALK)
Read = Callable[[Store], Coroutine[Any, Any, object]]
Outcome = tuple[str, object]

READS: dict[str, Read] = {
    "head": lambda store: store.head(*PLACE),
    "view": lambda store: store.view(*PLACE, ["note"]),
    "read": lambda store: store.read(*PLACE),
    "read_ranges": lambda store: store.read_ranges(*PLACE, [(1, 1), (2, 99)]),
    "read_turn": lambda store: store.read_turn(*PLACE, 1),
    "find": lambda store: store.find(*PLACE, ["id 1", "id 2"]),
    "tail": lambda store: store.tail(*PLACE, tokens=1_000_000),
    "live_checkpoint": lambda store: store.live_checkpoint(*PLACE),
    "checkpoints": lambda store: store.checkpoints(*PLACE),
    "get_document": lambda store: store.get_document(*PLACE, "note", "key"),
    "documents": lambda store: store.documents(*PLACE, "note"),
    "conversations": lambda store: store.conversations(ALICE),
    "search": lambda store: store.search(ALICE, ["hello 你好"]),
    "capture": lambda store: store.capture(*PLACE, lambda _document: None),
}
WRITES = {
    "append", "add_checkpoint", "drop_checkpoint", "put_document", "note", "drop_document", "erase", "delete",
    "restore",
}  # fmt: skip


def test_every_verb_that_reads_is_tried() -> None:
    verbs = {name for name, _ in inspect.getmembers(Store, inspect.iscoroutinefunction)}
    assert verbs - WRITES - {"close", "health"} == set(READS)


def filled(store: Store) -> None:
    """A conversation with a message of every kind, and what stands beside it."""
    batch = [
        NewEntry(decode_message(body), f"id {number}")
        for number, body in enumerate(SOUND_BODIES, 1)
    ]
    drive(store.append(*PLACE, batch))
    drive(store.add_checkpoint(*PLACE, Checkpoint("c1", "", 1, "summary 摘要", "digest")))
    drive(store.put_document(*PLACE, Document("note", "key", b"body", 0)))
    drive(store.append(ALICE, "other", [NewEntry(user("hello"))]))


def read_all(store: Store, *allowed: str) -> dict[str, Outcome]:
    """What each verb gave; anything but an answer or a typed error fails."""
    found: dict[str, Outcome] = {}
    with nothing_runs(*allowed):
        for verb, read in READS.items():
            try:
                found[verb] = "value", drive(read(store))
            except TurnfoldError as error:
                found[verb] = "error", type(error)
    return found


def assert_what_is_read_is_stored(found: dict[str, Outcome], blob: bytes) -> None:
    """The first entry, wherever it was given, says what the blob in its place says."""
    for kind, answer in found.values():
        entries = answer if kind == "value" and isinstance(answer, list) else []
        for entry in entries:
            if isinstance(entry, Entry) and entry.seq == 1:
                assert same(entry.message, blob)


BLOBS = [*HOSTILE_BLOBS.values(), *mutations(SOUND_BODIES, 80, seed=7)]

# -------------------------------------------------------------------------------------------- SQLite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True)
    filled(store)
    drive(store.close())
    return path


@pytest.fixture
def raw(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, blocking=True)
    read_all(
        store, "import", "exec", "compile", "marshal.loads"
    )  # loads what is loaded on first use
    yield store
    drive(store.close())


@pytest.mark.parametrize("indexed", [False, True], ids=["before indexing", "after"])
def test_a_hostile_body_in_sqlite(
    store: SqliteStore, raw: apsw.Connection, *, indexed: bool
) -> None:
    refused = 0
    for number, blob in enumerate(BLOBS):
        if not indexed:
            drive(store.append(ALICE, f"{number}", [NewEntry(user("hello"))]))
        raw.execute(
            "UPDATE entry SET body = ?, checksum = 0 WHERE conversation = 1 AND seq = 1", (blob,)
        )
        found = read_all(store)
        assert_what_is_read_is_stored(found, blob)
        assert {kind for kind, _ in (found["head"], found["documents"], found["checkpoints"])} == {
            "value"
        }
        refused += found["read"][0] == "error"
    assert len(BLOBS) // 2 < refused < len(BLOBS)
    assert drive(store.delete(*PLACE)).entries == len(SOUND_BODIES)


def test_a_body_damaged_before_it_is_indexed_does_not_end_searching(
    store: SqliteStore, raw: apsw.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    drive(store.append(*PLACE, [NewEntry(user("secret zebra")), NewEntry(user("white zebra"))]))
    raw.execute("UPDATE entry SET body = x'ff' WHERE conversation = 1 AND seq = 10")
    assert [hit.seq for hit in drive(store.search(ALICE, ["zebra"]))] == [11]
    assert "entry 10 is damaged" in caplog.text
    assert "zebra" not in caplog.text
    with pytest.raises(TurnfoldError):
        drive(store.read(*PLACE))


NOT_UTF8 = "CAST(x'41ff42' AS TEXT)"
HUGE, LEAST = str((1 << 63) - 1), str(-(1 << 63))
DAMAGED = {
    **{
        f"{table}.{column} {what}": f"UPDATE OR IGNORE {table} SET {column} = {value}"
        for table, columns in {
            "conversation": ("name", "tenant", "checkpoint", "counter", "indexed_by"),
            "entry": ("client_id",),
            "checkpoint": ("id", "previous", "text", "digest", "model", "trust"),
            "document": ("kind", "key", "text"),
            "beside": ("kind", "key"),
            "search_index": ("made_by",),
        }.items()
        for column in columns
        for what, value in {"not utf-8": NOT_UTF8, "nul": "char(0)", "empty": "''"}.items()
    },
    **{
        f"{table}.{column} {what}": f"UPDATE OR IGNORE {table} SET {column} = {value}"
        for table, columns in {
            "conversation": (
                "revision",
                "created",
                "updated",
                "indexed",
                "unindexed",
                "deleted",
            ),
            "entry": ("revision", "created", "turn", "tokens", "running"),
            "checkpoint": ("created", "fidelity"),
            "document": ("version", "created"),
            "beside": ("id", "indexed"),
            "held_1": ("entries", "beside"),
            "search_index": ("retired",),
        }.items()
        for column in columns
        for what, value in {"huge": HUGE, "least": LEAST, "zero": "0"}.items()
    },
    "conversation.key huge": f"UPDATE conversation SET key = {HUGE} - key",
    "conversation.key negative": "UPDATE conversation SET key = -key",
    "entry.id huge": f"UPDATE entry SET id = {HUGE} - id",
    "entry.id negative": "UPDATE entry SET id = -id",
    "checkpoint.upto huge": f"UPDATE checkpoint SET upto = {HUGE}",
    "checkpoint.fidelity infinite": "UPDATE checkpoint SET fidelity = 9e999",
    "no entries": "DELETE FROM entry",
    "no conversations": "DELETE FROM conversation",
    "no first entry": "DELETE FROM entry WHERE seq = 1",
    "index data": "UPDATE found_1_data SET block = randomblob(length(block))",
    "index data empty": "UPDATE found_1_data SET block = x''",
    "index without data": "DELETE FROM found_1_data",
    "index pages": "UPDATE found_1_idx SET pgno = pgno + 1000",
    "index settings": "UPDATE found_1_config SET v = 999",
    "index without tables": "DELETE FROM search_index",
    "index of another": "UPDATE search_index SET number = 77",
    "nothing beside": "DELETE FROM beside",
    "index without counts": "DELETE FROM held_1",
    "index of more than there is": "UPDATE conversation SET unindexed = 1, indexed = 0",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_column_in_sqlite(
    store: SqliteStore, path: Path, raw: apsw.Connection, damage: str
) -> None:
    raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    raw.execute(DAMAGED[damage])
    assert set(read_all(store)) == set(READS)
    try:
        again = SqliteStore(path, blocking=True)
    except TurnfoldError:
        return
    assert set(read_all(again)) == set(READS)
    drive(again.close())


def test_text_that_is_not_utf8_is_called_damage_and_not_shown(
    store: SqliteStore, raw: apsw.Connection
) -> None:
    raw.execute("UPDATE checkpoint SET text = CAST(x'736563726574ff' AS TEXT)")
    with pytest.raises(StoreError, match="restore it from a backup") as caught:
        drive(store.checkpoints(*PLACE))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'entry'",
        "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'conversation'",
        "CREATE TRIGGER spy AFTER INSERT ON entry BEGIN DELETE FROM checkpoint; END",
    ],
)
def test_a_file_whose_tables_were_altered_is_not_opened(path: Path, script: str) -> None:
    with apsw.Connection(str(path)) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        raw.execute("PRAGMA writable_schema = ON").fetchall()
        raw.execute(script).fetchall()
    raw.close()
    with pytest.raises(UnsafeStore, match="another program altered tables or added") as caught:
        SqliteStore(path, blocking=True)
    assert str(path) in str(caught.value)


def test_a_store_that_decodes_with_pickle_is_caught(
    store: SqliteStore, raw: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    monkeypatch.setattr(log_semantics, "decode_message", pickle.loads)
    raw.execute("UPDATE entry SET body = ?, checksum = 0", (HOSTILE_BLOBS["pickle 4"],))
    with pytest.raises(CodeRan, match=r"pickle\.find_class"):
        read_all(store)


def test_a_store_that_leaks_its_decoders_error_is_caught(
    store: SqliteStore, raw: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_semantics, "decode_message", json.loads)
    raw.execute("UPDATE entry SET body = x'7b', checksum = 0")
    with pytest.raises(json.JSONDecodeError):
        read_all(store)

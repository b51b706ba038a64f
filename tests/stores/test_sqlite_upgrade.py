"""A file of an earlier schema is brought to the newest one with everything in it, and says the same afterwards."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, integrity, settled
from turnfold.errors import IdReused, UnsafeStore
from turnfold.records import Document, NewEntry, encode_message, user
from turnfold.stores import Head, SqliteStore
from turnfold.stores.sqlite.schema import MIGRATIONS
from turnfold.tokens import cautious_counter

COUNTER = cautious_counter()
TEXTS = ("hello", "你好", "hello again")


def _shape(path: Path) -> dict[str, object]:
    """Return everything the tables, indexes and views of a file are, apart from the layout of their statements."""
    with closing(apsw.Connection(str(path))) as connection:
        found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        shape: dict[str, object] = {
            f"{kind} {name}": (table, " ".join(str(text).split()) if kind == "view" else None)
            for kind, name, table, text in found
        }
        for kind, name, _, text in found:
            if kind == "table":
                shape[f"columns of {name}"] = connection.execute(
                    'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)',
                    (name,),
                ).fetchall()
                shape[f"table {name}"] = connection.execute(
                    "SELECT wr, strict FROM pragma_table_list(?) WHERE schema = 'main'", (name,)
                ).fetchall()
                shape[f"keys of {name}"] = connection.execute(
                    'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)', (name,)
                ).fetchall()
            if kind == "index":
                shape[f"columns of {name}"] = connection.execute(
                    "SELECT name FROM pragma_index_xinfo(?)", (name,)
                ).fetchall()
                shape[f"rows of {name}"] = str(text).partition("WHERE")[2]
        for table in ("migration", "search_index"):
            shape[f"rows of {table}"] = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
        return shape


def test_a_new_file_is_what_an_upgraded_one_is(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with closing(apsw.Connection(str(old))) as connection:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("CREATE TABLE migration (name TEXT PRIMARY KEY) STRICT")
        name, script = MIGRATIONS[0]
        connection.execute(script)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))
    for path in (old, new):
        settled(SqliteStore(path, blocking=True).close())
    upgraded = _shape(old)
    assert "columns of entry" in upgraded
    # A column that a migration added stands last; statements name their columns.
    assert _in_any_order(_shape(new)) == _in_any_order(upgraded)


def _in_any_order(shape: dict[str, object]) -> dict[str, object]:
    return {
        name: sorted(map(str, each)) if isinstance(each, list) else each
        for name, each in shape.items()
    }


def _first_file(path: Path) -> None:
    """What the first two steps made, with a conversation of three entries, the first of them indexed."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("CREATE TABLE migration (name TEXT PRIMARY KEY) STRICT")
    for name, script in MIGRATIONS[:2]:
        connection.execute(script)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))
    costs = [COUNTER.count_message(user(text)) for text in TEXTS]
    connection.execute(
        "INSERT INTO conversation VALUES (1, 'alice', 'talk', 3, ?, 3, '', 5, ?, 10, 30, 0, 1)",
        (sum(costs), COUNTER.name),
    )
    for place, text in enumerate(TEXTS):
        connection.execute(
            "INSERT INTO entry VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
            (
                place + 1,
                text,
                10 * (place + 1),
                place + 1,
                costs[place],
                sum(costs[: place + 1]),
                encode_message(user(text)),
            ),
        )
    connection.close()


def test_an_old_file_says_the_same_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    _first_file(path)
    store = SqliteStore(path, blocking=True, counter=COUNTER, clock=lambda: 40)
    tokens = sum(COUNTER.count_message(user(text)) for text in TEXTS)
    head = Head(3, tokens, 3, "", 5, COUNTER.name)
    assert settled(store.head(ALICE, "talk")) == head
    entries = settled(store.read(ALICE, "talk"))
    assert [
        (each.seq, each.message.text, each.client_id, each.created, each.turn) for each in entries
    ] == [(place + 1, text, text, 10 * (place + 1), place + 1) for place, text in enumerate(TEXTS)]
    [info] = settled(store.conversations(ALICE))
    assert (info.head, info.created, info.updated) == (head, 10, 30)
    assert settled(store.append(ALICE, "talk", [NewEntry(user("hello"), "hello")])).repeated
    with pytest.raises(IdReused):
        settled(store.append(ALICE, "talk", [NewEntry(user("no"), "hello")]))
    done = settled(store.append(ALICE, "talk", [NewEntry(user("new"), "new")]))
    assert (done.last, done.head.generation) == (4, 6)
    assert {hit.seq for hit in settled(store.search(ALICE, ["hello"]))} == {1, 3}
    [info] = settled(store.conversations(ALICE))
    assert (info.head, info.updated) == (done.head, 40)
    settled(store.close())
    connection = apsw.Connection(str(path))
    assert integrity(connection) == "ok"
    connection.close()


# ------------------------------------------------------------------------------ the release before epochs

OLD_CONVERSATION = (
    "INSERT INTO conversation (tenant, name, checkpoint, generation, counter, updated, deleted, created, "
    "unindexed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
OLD_ENTRY = (
    "INSERT OR FAIL INTO entry (id, generation, client_id, created, turn, tokens, running, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
OLD_SAVE = (
    "UPDATE conversation SET checkpoint = ?, generation = ?, counter = ?, updated = ?, deleted = ?, "
    "unindexed = unindexed OR ? > indexed WHERE key = ?"
)
OLD_NOTE = "UPDATE conversation SET generation = ?, updated = ? WHERE key = ?"
OLD_HEAD = (
    "SELECT key, deleted, unindexed, dropped, coalesce(last.seq, 0), coalesce(last.running, 0), "
    "coalesce(last.turn, 0), checkpoint, max(conversation.generation, coalesce(last.generation, 0)), counter "
    "FROM conversation LEFT JOIN entry AS last ON last.id = (SELECT max(id) FROM entry "
    "WHERE id > conversation.key << 32 AND id <= conversation.key << 32 | 4294967295) WHERE tenant = ? AND name = ?"
)
"""Statements of the release before, word for word: each of its verbs runs one of them."""


def _file_before_epochs(path: Path) -> None:
    """What the release before epochs left: entries, a checkpoint and a document of one conversation."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("CREATE TABLE migration (name TEXT PRIMARY KEY) STRICT")
    for name, script in MIGRATIONS[:6]:
        connection.execute(script)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))
    connection.execute(OLD_CONVERSATION, ("alice", "talk", "c", 4, COUNTER.name, 5, 0, 1, 1))
    running = 0
    for seq, text in enumerate(TEXTS, 1):
        cost = COUNTER.count_message(user(text))
        running += cost
        generation = 6 if seq == 3 else 1  # the newest entry tells the head
        values = (1 << 32 | seq, generation, None, 5 + seq, seq, cost, running)
        connection.execute(OLD_ENTRY, (*values, encode_message(user(text))))
    connection.execute(
        "INSERT INTO checkpoint VALUES (1, 2, 'c', '', '摘要 summary', 'digest', '', 'mixed', 1.0, 3)"
    )
    connection.execute(
        "INSERT INTO document (conversation, kind, key, version, created, body) VALUES (1, 'state', 's', 2, 4, x'00ff')"
    )
    connection.close()


def test_a_file_without_epochs_says_the_same_and_draws_one_at_the_next_write(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chat.db"
    _file_before_epochs(path)
    store = SqliteStore(path, blocking=True, counter=COUNTER, clock=lambda: 40)
    tokens = sum(COUNTER.count_message(user(text)) for text in TEXTS)
    head = Head(3, tokens, 3, "c", 6, COUNTER.name, 0)
    assert settled(store.head(ALICE, "talk")) == head
    assert tuple(entry.message.text for entry in settled(store.read(ALICE, "talk"))) == TEXTS
    assert [entry.epoch for entry in settled(store.read(ALICE, "talk"))] == [0, 0, 0]
    [checkpoint] = settled(store.checkpoints(ALICE, "talk"))
    assert (checkpoint.text, checkpoint.created) == ("摘要 summary", 3)
    found = settled(store.get_document(ALICE, "talk", "state", "s"))
    assert found == Document("state", "s", b"\x00\xff", 2, 4)
    state = settled(store.note(ALICE, "talk", Document("call", "1", b"", 0), state=(6, 0)))
    done = settled(store.append(ALICE, "talk", [NewEntry(user("new"))]))
    assert (state[0], done.before) == (7, state)
    assert 0 not in (state[1], done.head.epoch)
    assert [entry.epoch for entry in settled(store.read(ALICE, "talk"))] == [
        0, 0, 0, done.head.epoch
    ]  # fmt: skip
    settled(store.close())


def test_a_file_with_epochs_in_a_column_of_their_own_says_the_same(tmp_path: Path) -> None:
    """Step 7 kept them after the body; step 8 packs them into the revision, with 31 bits of each."""
    path = tmp_path / "chat.db"
    _file_before_epochs(path)
    own, newest = (5 << 31) + 7, (6 << 31) + 8
    with closing(apsw.Connection(str(path))) as raw:
        name, script = MIGRATIONS[6]
        raw.execute(script)
        raw.execute("INSERT INTO migration (name) VALUES (?)", (name,))
        raw.execute("UPDATE conversation SET epoch = ?", (own,))
        raw.execute("UPDATE entry SET epoch = ? WHERE seq = 3", (newest,))
        raw.execute(
            "INSERT INTO conversation (tenant, name, checkpoint, revision, epoch, counter, updated, created) "
            "SELECT tenant, 'noted', '', 9, epoch, counter, 5, 5 FROM conversation"
        )
    with closing(apsw.Connection(str(path))) as old:
        assert old.execute("SELECT epoch FROM entry WHERE seq = 3").fetchall() == [(newest,)]
        store = SqliteStore(path, blocking=True, counter=COUNTER, clock=lambda: 40)
        with pytest.raises(apsw.SQLError, match="epoch"):
            old.execute("UPDATE conversation SET revision = 10, epoch = 3, updated = 1")
    assert settled(store.head(ALICE, "talk")).state == (6, 8)
    assert settled(store.head(ALICE, "noted")).state == (9, 7)
    entries = settled(store.read(ALICE, "talk"))
    assert [(entry.message.text, entry.epoch) for entry in entries] == [
        (text, 8 * (seq == 3)) for seq, text in enumerate(TEXTS, 1)
    ]
    done = settled(store.append(ALICE, "talk", [NewEntry(user("new"))], expect=3))
    assert (done.before, done.head.generation) == ((6, 8), 7)
    settled(store.close())
    with closing(apsw.Connection(str(path))) as raw:
        assert [row[0] for row in raw.execute("SELECT checksum <> 0 FROM entry")] == [0, 0, 0, 1]


def test_a_running_process_of_the_release_before_writes_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    _file_before_epochs(path)
    old = apsw.Connection(str(path))
    assert old.execute(OLD_HEAD, ("alice", "talk")).fetchone() is not None
    store = SqliteStore(path, blocking=True, counter=COUNTER)
    before = settled(store.head(ALICE, "talk"))
    for statement, values in (
        (OLD_HEAD, ("alice", "talk")),
        (OLD_ENTRY, (1 << 32 | 4, 7, None, 9, 4, 1, 99, b"{}")),
        (OLD_NOTE, (7, 9, 1)),
        (OLD_SAVE, ("c", 7, COUNTER.name, 9, 0, 3, 1)),
        (OLD_CONVERSATION, ("alice", "new", "", 1, COUNTER.name, 5, 0, 1, 1)),
    ):
        with pytest.raises(apsw.SQLError, match="generation"):
            old.execute(statement, values).fetchall()
    old.close()
    assert settled(store.head(ALICE, "talk")) == before
    settled(store.close())


@pytest.mark.parametrize(
    "step",
    [
        "ALTER TABLE conversation RENAME COLUMN revision TO changes",
        "ALTER TABLE entry RENAME TO line",
    ],
)
def test_a_file_that_is_upgraded_while_it_is_open_is_told(tmp_path: Path, step: str) -> None:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True, counter=COUNTER)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    settled(store.read(ALICE, "talk"))
    newer = apsw.Connection(str(path))
    newer.execute(step)
    newer.execute("INSERT INTO migration VALUES ('9999_newer')")
    newer.close()
    for verb in (
        store.append(ALICE, "talk", [NewEntry(user("late"))]),
        store.append(ALICE, "new", [NewEntry(user("late"))]),
        store.put_document(ALICE, "talk", Document("state", "s", b"", 0)),
        store.head(ALICE, "talk"),
        store.read(ALICE, "talk"),
    ):
        with pytest.raises(UnsafeStore, match="upgraded"):
            settled(verb)
    settled(store.close())
    with pytest.raises(UnsafeStore, match=r"newer or different release.*9999_newer") as caught:
        SqliteStore(path, blocking=True)
    assert str(path) in str(caught.value)
    newer = apsw.Connection(str(path))
    table = "line" if "line" in step else "entry"
    assert newer.execute(f"SELECT count(*) FROM {table}").fetchall() == [(1,)]  # noqa: S608 (a constant)
    newer.close()


def test_a_conversation_that_can_be_counted_no_further_is_told(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True, counter=COUNTER)
    settled(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE conversation SET revision = ?", (7 << 32 | 0xFFFFFFFE,))
    connection.close()
    last = settled(store.append(ALICE, "talk", [NewEntry(user("last"))])).head
    assert (last.generation, last.epoch < 1 << 31) == (0xFFFFFFFF, True)
    for verb in (
        store.append(ALICE, "talk", [NewEntry(user("late"))]),
        store.put_document(ALICE, "talk", Document("state", "s", b"", 0)),
        store.note(ALICE, "talk", Document("call", "1", b"", 0), state=last.state),
    ):
        with pytest.raises(UnsafeStore, match="4,294,967,295"):
            settled(verb)
    assert settled(store.head(ALICE, "talk")) == last
    settled(store.close())

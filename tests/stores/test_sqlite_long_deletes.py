"""Deleting a long conversation: out of sight at once, gone in bounded steps with others served between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_faults import Faulty
from tests.stores.sqlite_file import ALICE, integrity, settled
from turnfold.errors import ConversationDeleted, StoreUnavailable
from turnfold.records import (
    Checkpoint,
    Document,
    Message,
    NewEntry,
    TextPart,
    ToolCall,
    ToolResult,
    user,  # fmt: skip
)
from turnfold.search import Hit
from turnfold.stores import Erasure, SqliteStore
from turnfold.stores.sqlite import erasure as sqlite_erasure
from turnfold.stores.sqlite import store as sqlite_store
from turnfold.stores.sqlite.search_index import live_index
from turnfold.stores.sqlite.write_queue import Connection

ROWS = 40
"""Rows of a transaction in these tests."""
ENTRIES, DOCUMENTS = 300, 100
PHRASE = "zxqsecretzxq 绝密内容"


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_erasure, "MOST_ROWS", ROWS)
    monkeypatch.setattr(sqlite_erasure, "_MOST_SECURE", ROWS // 2)


@pytest.fixture(params=["merged away", "removed at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How places leave the index."""
    way = str(request.param)
    monkeypatch.setattr(
        sqlite_erasure, "_MERGE_RATIO", 0 if way == "removed at once" else 1_000_000
    )
    return way


def long_talk() -> Iterator[NewEntry]:
    """Questions, calls of tools and their results, which are found by the names of the calls before them."""
    for number in range(ENTRIES // 3):
        call = ToolCall(id=f"call {number}", name=f"tool{number % 7}", arguments="{}")
        yield NewEntry(user(f"{PHRASE} 第{number}个问题 question{number}"), f"{PHRASE} {number}")
        yield NewEntry(Message("assistant", (call,)), f"{PHRASE} {number} call")
        result = ToolResult(call_id=call.id, content=(TextPart(f"result{number}"),))
        yield NewEntry(Message("tool", (result,)), f"{PHRASE} {number} result")


def filled(path: Path, *, blocking: bool = True) -> SqliteStore:
    """A store with a long conversation, searched and not quite indexed, and another one."""
    store = SqliteStore(path, blocking=True)
    settled(
        store.append(
            ALICE, "kept", [NewEntry(user(f"kept{n} 保留 question{n}")) for n in range(60)]
        )
    )
    settled(store.append(ALICE, "long", list(long_talk())))
    for number in range(DOCUMENTS):
        document = Document(
            "note", f"{PHRASE} {number}", b"x" * 50, 0, text=f"{PHRASE} note{number}"
        )
        settled(store.put_document(ALICE, "long", document))
    settled(store.add_checkpoint(ALICE, "long", Checkpoint("c1", "", 9, f"{PHRASE} summary", "d")))
    settled(store.search(ALICE, ["question1"]))
    settled(store.append(ALICE, "long", [NewEntry(user(f"{PHRASE} not indexed"))]))
    settled(store.close())
    return SqliteStore(path, blocking=blocking)


def found(store: SqliteStore, *, text: str = "question5") -> list[Hit]:
    return settled(store.search(ALICE, [text, "保留"], limit=100))


def left(path: Path) -> list[str]:
    """What is left of the long conversation in the files, the index included."""
    data = b"".join(file.read_bytes() for file in path.parent.iterdir())
    raw = apsw.Connection(str(path))
    index = live_index(raw).postings  # pyright: ignore[reportArgumentType] (the driver's own type)
    raw.execute(f"CREATE VIRTUAL TABLE temp.lists USING fts5vocab('main', '{index}', 'instance')")
    kept = raw.execute("SELECT key FROM conversation WHERE name = 'kept'").fetchall()[0][0]
    places = raw.execute("SELECT DISTINCT doc FROM temp.lists").fetchall()
    raw.execute(f"INSERT INTO {index} ({index}) VALUES ('integrity-check')")  # noqa: S608 (a table's name)
    assert integrity(raw) == "ok"
    found = [f"{place}" for (place,) in places if abs(int(str(place))) >> 32 != kept]
    found += [word for word in PHRASE.split() if word.encode() in data]
    found += (
        ["a row"] if raw.execute("SELECT 1 FROM conversation WHERE tenant = ''").fetchall() else []
    )
    raw.close()
    return found


def assert_out_of_sight(store: SqliteStore, before: list[Hit]) -> None:
    head = settled(store.head(ALICE, "long"))
    assert (head.seq, head.checkpoint) == (0, "")
    assert settled(store.read(ALICE, "long")) == []
    assert settled(store.documents(ALICE, "long", "note")) == []
    assert settled(store.checkpoints(ALICE, "long")) == []
    assert [info.conversation for info in settled(store.conversations(ALICE))] == ["kept"]
    assert {hit.conversation for hit in found(store)} == {"kept"}
    assert len(found(store)) == len(before)
    assert settled(store.search(ALICE, ["result7"])) == []
    with pytest.raises(ConversationDeleted):
        settled(store.append(ALICE, "long", [NewEntry(user("late"))]))
    with pytest.raises(ConversationDeleted):
        settled(store.put_document(ALICE, "long", Document("note", "late", b"", 0)))


@pytest.mark.usefixtures("way")
def test_it_is_gone_to_the_last_byte_and_the_receipt_counts_it(tmp_path: Path) -> None:
    alone = SqliteStore(tmp_path / "alone.db", blocking=True)
    settled(
        alone.append(
            ALICE, "kept", [NewEntry(user(f"kept{n} 保留 question{n}")) for n in range(60)]
        )
    )
    expected = found(alone)
    settled(alone.close())
    path = tmp_path / "here" / "chat.db"
    path.parent.mkdir()
    store = filled(path)
    receipt = settled(store.delete(ALICE, "long"))
    assert receipt == Erasure("long", ENTRIES + 1, 1, DOCUMENTS, already=False)
    assert left(path) == []
    assert found(store) == expected, "as if the other one had never been there"
    assert settled(store.delete(ALICE, "long")) == Erasure("long", 0, 0, 0, already=True)
    assert settled(store.health()).warnings == ()
    settled(store.close())
    assert left(path) == []


def _rows_of_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of the conversation each transaction of a deletion removes."""
    tables = ("entry", "document", "checkpoint", "beside")
    removed: list[int] = []

    def rows(connection: Connection) -> int:
        return sum(
            len(connection.execute(f"SELECT 1 FROM {table}").fetchall())  # noqa: S608 (above)
            for table in tables
        )

    def counted(connection: Connection) -> None:
        before = rows(connection)
        erase_some(connection)
        removed.append(before - rows(connection))

    erase_some = sqlite_erasure.erase_some
    monkeypatch.setattr(sqlite_store, "erase_some", counted)
    store = filled(path)
    settled(store.delete(ALICE, "long"))
    settled(store.close())
    return removed


@pytest.mark.usefixtures("way")
def test_no_transaction_removes_more_rows_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = _rows_of_steps(tmp_path / "chat.db", monkeypatch)
    assert max(removed) <= ROWS
    assert sum(removed) == ENTRIES + 1 + 1 + DOCUMENTS + DOCUMENTS + 1


def test_large_rows_are_removed_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_erasure, "_MOST_BYTES", 1000)
    removed = _rows_of_steps(tmp_path / "chat.db", monkeypatch)
    assert max(removed) <= ROWS
    assert removed.count(20) >= DOCUMENTS // 20, "documents of 50 bytes"


@pytest.mark.usefixtures("way")
def test_others_write_and_search_while_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some hundred steps: on a loaded machine dozens of them pass during one search.
    monkeypatch.setattr(sqlite_erasure, "MOST_ROWS", 2)
    monkeypatch.setattr(sqlite_erasure, "_MOST_SECURE", 2)

    async def run() -> int:
        store = filled(tmp_path / "chat.db", blocking=False)
        task = asyncio.create_task(store.delete(ALICE, "long"))
        served = 0
        while not task.done():
            await store.append(ALICE, "other", [NewEntry(user(f"{served} 问"))])
            hits = await store.search(ALICE, ["question5", "问"], limit=100)
            assert "long" not in {hit.conversation for hit in hits} or served == 0
            served += not task.done()
        assert (await task).entries == ENTRIES + 1
        await store.close()
        return served

    assert asyncio.run(asyncio.wait_for(run(), 120)) > 2
    assert left_but_other(tmp_path / "chat.db") == []


def left_but_other(path: Path) -> list[str]:
    store = SqliteStore(path, blocking=True)
    settled(store.delete(ALICE, "other"))
    settled(store.close())
    return left(path)


def _cut_short(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete, and die after two steps."""
    steps = iter(range(2))

    def dying(connection: Connection) -> None:
        if next(steps, None) is None:
            raise StoreUnavailable("the power is gone")
        erase_some(connection)

    erase_some = sqlite_erasure.erase_some
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_store, "erase_some", dying)
        with pytest.raises(StoreUnavailable):
            settled(store.delete(ALICE, "long"))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("finisher", ["delete", "delete another", "reindex", "health", "open"])
def test_what_was_cut_short_is_out_of_sight_and_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finisher: str
) -> None:
    path = tmp_path / "chat.db"
    store = filled(path)
    before = found(store)
    kept = [hit for hit in before if hit.conversation == "kept"]
    _cut_short(store, monkeypatch)
    assert_out_of_sight(store, kept)
    assert left(path), "it had not been cut short"
    match finisher:
        case "delete":
            assert settled(store.delete(ALICE, "long")).already
        case "delete another":
            settled(store.delete(ALICE, "unknown"))
        case "reindex":
            settled(store.reindex())
        case "health":
            assert "unfinished" in settled(store.health()).warnings[0]
            while settled(store.health()).warnings:
                pass
        case _:
            for _ in range(30):
                settled(store.close())
                store = SqliteStore(path, blocking=True)
    assert settled(store.health()).warnings == ()
    assert_out_of_sight(store, kept)
    settled(store.close())
    assert left(path) == []


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_fault_at_any_statement_is_finished_by_asking_again(
    tmp_path: Path, *, late: bool
) -> None:
    original = tmp_path / "original.db"
    settled(filled(original).close())
    point, struck = 1, 1
    while struck:
        folder = tmp_path / f"{point}"
        folder.mkdir()
        path = folder / "chat.db"
        path.write_bytes(original.read_bytes())
        store = SqliteStore(path, blocking=True)
        with (
            Faulty(store, point, error=apsw.IOError, late=late) as faulty,
            suppress(StoreUnavailable),
        ):
            settled(store.delete(ALICE, "long"))
        struck = faulty.struck
        receipt = settled(store.delete(ALICE, "long"))
        assert receipt.entries in (0, ENTRIES + 1)
        settled(store.close())
        assert left(path) == []
        point += 41
    assert point > 200


def test_a_damaged_entry_does_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    settled(filled(path).close())
    raw = apsw.Connection(str(path))
    raw.execute("UPDATE entry SET body = x'00' WHERE seq = 150 AND conversation = 2")
    assert raw.changes() == 1
    raw.close()
    store = SqliteStore(path, blocking=True)
    settled(store.delete(ALICE, "long"))
    assert left(path) == []
    assert {hit.conversation for hit in found(store)} == {"kept"}
    settled(store.close())


def test_from_the_oldest_on_the_index_would_keep_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a result is found by hangs on the call before it, which would be gone: see `_erase_entries`."""

    class Turned:
        """A connection that gives the oldest entries where the newest are asked for."""

        def __init__(self, inner: Connection) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def execute(self, statements: str, bindings: tuple[object, ...] = ()) -> object:
            if "ORDER BY id DESC LIMIT" not in statements:
                return self._inner.execute(statements, bindings)
            rows = self._inner.execute(statements.replace("DESC", "ASC"), bindings).fetchall()
            return _Rows(rows[::-1])

    class _Rows:
        def __init__(self, rows: list[tuple[object, ...]]) -> None:
            self._rows = rows

        def fetchall(self) -> list[tuple[object, ...]]:
            return self._rows

    erase_some = sqlite_erasure.erase_some
    monkeypatch.setattr(
        sqlite_store,
        "erase_some",
        lambda connection: erase_some(Turned(connection)),  # pyright: ignore[reportArgumentType]
    )
    store = filled(tmp_path / "chat.db")
    settled(store.delete(ALICE, "long"))
    settled(store.close())
    with pytest.raises((AssertionError, apsw.Error)):
        assert left(tmp_path / "chat.db") == []

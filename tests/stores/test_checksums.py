"""What is damaged on the disk is told, with a typed error, and never served as text."""

# ruff: noqa: S608 (statements are joined from constants written here)

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.sizes import DAMAGED_FILES
from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import InvalidRecord, StoreError, TurnfoldError
from turnfold.records import Checkpoint, Document, NewEntry, assistant, user
from turnfold.search import Within
from turnfold.stores import SqliteStore, Store, checksums, log_mark
from turnfold.stores.sqlite import erasure as sqlite_erasure
from turnfold.stores.sqlite.file_checks import FIRST_STEP

TALK = "talk"
MARK = log_mark("alice", TALK)
TEXTS = ("refuse the payment", "拒绝这笔付款", "pay 4,471.50 EUR", "付 4471.50 欧元")
ANYTHING = Within(kinds=None)


def fill(store: Store) -> None:
    for number, text in enumerate(TEXTS):
        speaker = assistant if number % 2 else user
        settled(store.append(ALICE, TALK, [NewEntry(speaker(text), f"id {number}")]))
    settled(store.add_checkpoint(ALICE, TALK, Checkpoint("c", "", 2, "摘要 refused", "digest")))
    noted = Document("finding", "f", b"the deposit", 0, text="deposit 定金")
    settled(store.put_document(ALICE, TALK, noted))
    head = settled(store.head(ALICE, TALK))
    settled(store.note(ALICE, TALK, Document("call", "1", b"a note", 0), state=head.state))


READS: dict[str, Callable[[Store], Any]] = {
    "read": lambda store: store.read(ALICE, TALK),
    "read_ranges": lambda store: store.read_ranges(ALICE, TALK, [(1, 3)]),
    "read_turn": lambda store: store.read_turn(ALICE, TALK, 1),
    "find": lambda store: store.find(ALICE, TALK, ["id 0", "id 1"]),
    "tail": lambda store: store.tail(ALICE, TALK, tokens=1000),
    "append": lambda store: store.append(ALICE, TALK, [NewEntry(user(TEXTS[0]), "id 0")]),
    "search": lambda store: store.search(ALICE, ["refuse", "拒绝"]),
    "read_turn 2": lambda store: store.read_turn(ALICE, TALK, 2),
    "search other": lambda store: store.search(ALICE, ["4471.50", "欧元"]),
    "search beside": lambda store: store.search(ALICE, ["deposit", "摘要"], within=ANYTHING),
    "checkpoints": lambda store: store.checkpoints(ALICE, TALK),
    "live_checkpoint": lambda store: store.live_checkpoint(ALICE, TALK),
    "documents": lambda store: store.documents(ALICE, TALK, "finding"),
    "get_document": lambda store: store.get_document(ALICE, TALK, "finding", "f"),
    "note": lambda store: store.get_document(ALICE, TALK, "call", "1"),
    "capture": lambda store: store.capture(ALICE, TALK, lambda _: None),
}
ENTRIES = ("read", "read_ranges", "read_turn", "find", "tail", "append", "search")
SUMMARIES = ("checkpoints", "live_checkpoint", "capture")
NOTES = ("documents", "get_document", "capture")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in which everything was indexed."""
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    fill(store)
    settled(store.search(ALICE, ["refuse"]))
    settled(store.close())
    return path


@pytest.fixture
def raw(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


SPOILT = "CAST(replace(CAST(body AS TEXT), 'refuse', 'accept') AS BLOB)"
FIRST, SECOND = ("(SELECT body FROM entry WHERE seq = 1)", "(SELECT body FROM entry WHERE seq = 2)")
DAMAGE: dict[str, tuple[str, tuple[str, ...]]] = {
    "a body": (f"UPDATE entry SET body = {SPOILT}", ENTRIES),
    "the body of another": (f"UPDATE entry SET body = {SECOND} WHERE seq = 1", ENTRIES),
    "bodies that change places": (
        f"UPDATE entry SET body = iif(seq = 1, {SECOND}, {FIRST}) WHERE seq < 3",
        ENTRIES,
    ),
    "a time": ("UPDATE entry SET created = created + (1 << 40) WHERE seq = 1", ENTRIES),
    "a turn": ("UPDATE entry SET turn = 9 WHERE seq = 4", ("read", "tail", "search other")),
    "a client id": (
        "UPDATE entry SET client_id = 'id 9' WHERE seq = 4",
        ("read", "tail", "read_turn 2", "search other"),
    ),
    "a summary": ("UPDATE checkpoint SET text = '摘要 agreed'", (*SUMMARIES, "search beside")),
    "a digest": ("UPDATE checkpoint SET digest = 'digesu'", SUMMARIES),
    "a document": ("UPDATE document SET body = x'00' WHERE kind = 'finding'", NOTES),
    "a version": ("UPDATE document SET version = 9 WHERE kind = 'finding'", NOTES),
    "what it is found by": (
        "UPDATE document SET text = 'deposit 押金' WHERE kind = 'finding'",
        (*NOTES, "search beside"),
    ),
    "a note": ("UPDATE document SET body = x'00' WHERE kind = 'call'", ("note", "capture")),
    "a missing entry": ("DELETE FROM entry WHERE seq = 2", ("read", "read_ranges", "tail")),
    "the first entry missing": ("DELETE FROM entry WHERE seq = 1", ("read", "read_ranges", "tail")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told_by_every_verb_that_would_show_it(
    path: Path, raw: apsw.Connection, name: str
) -> None:
    statement, expected = DAMAGE[name]
    raw.execute(statement)
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    refused = {verb: error for verb, read in READS.items() if (error := _refusal(store, read))}
    assert sorted(refused) == sorted(expected)
    for error in refused.values():
        assert isinstance(error, InvalidRecord)
        assert MARK in str(error)
        assert "backup" in str(error)
        assert "alice" not in str(error)
    settled(store.close())


def _refusal(store: Store, read: Callable[[Store], Any]) -> TurnfoldError | None:
    try:
        settled(read(store))
    except TurnfoldError as error:
        return error
    return None


WRONG = [
    ("entry", "body BLOB NOT NULL", "body", ENTRIES),
    ("checkpoint", "text TEXT NOT NULL", "text", (*SUMMARIES, "search beside")),
    ("document", "body BLOB NOT NULL", "body", (*NOTES, "note")),
]


@pytest.mark.parametrize("checked", [True, False], ids=["with checksum", "without"])
@pytest.mark.parametrize("value", [None, "text", 7, 1.5])
@pytest.mark.parametrize("wrong", WRONG, ids=["entry", "checkpoint", "document"])
def test_a_column_of_another_type_is_told(
    path: Path, wrong: tuple[str, str, str, tuple[str, ...]], value: Any, *, checked: bool
) -> None:
    """STRICT tables take no such value; damage to the header of a record makes one."""
    table, declared, column, expected = wrong
    if table == "checkpoint" and value == "text":
        value = b"bytes"
    forgotten = "checksum" if checked else "0" if table == "entry" else "NULL"
    _mistype(path, table, declared, f"{column} = ?, checksum = {forgotten}", value)
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    refused = {verb for verb, read in READS.items() if _refusal(store, read)}
    if table == "checkpoint" and value is None:
        refused.add("search beside")  # what is gone is not found, and not shown
    assert refused >= set(expected)
    settled(store.close())


@pytest.mark.parametrize("value", [None, "text"])
def test_a_turn_of_another_type_is_told_by_who_looks_for_it(path: Path, value: Any) -> None:
    _mistype(path, "entry", "turn INTEGER NOT NULL", "turn = ?", value)
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    refused = {verb for verb, read in READS.items() if _refusal(store, read)}
    assert refused >= {*ENTRIES, "read_turn 2"}
    settled(store.close())


@pytest.mark.parametrize("wrong", WRONG, ids=["entry", "checkpoint", "document"])
@pytest.mark.parametrize("rows", [1, 500], ids=["in steps", "at once"])
def test_what_is_damaged_can_be_deleted(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, str, str, tuple[str, ...]],
    rows: int,
) -> None:
    monkeypatch.setattr(sqlite_erasure, "MOST_ROWS", rows)
    table, declared, column, _ = wrong
    _mistype(path, table, declared, f"{column} = ?", None)
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    erasure = settled(store.delete(ALICE, TALK))
    assert (erasure.entries, erasure.checkpoints, erasure.documents) == (4, 1, 2)
    settled(store.close())
    with closing(apsw.Connection(str(path))) as raw:
        for left in ("entry", "checkpoint", "document", "beside"):
            assert raw.execute(f"SELECT count(*) FROM {left}").fetchall() == [(0,)]


@pytest.mark.parametrize("value", [None, "text", 1.5])
def test_a_version_of_another_type_is_told_by_writers(path: Path, value: Any) -> None:
    _mistype(path, "document", "version INTEGER NOT NULL", "version = ?", value)
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    with pytest.raises(InvalidRecord, match="finding/f"):
        settled(store.put_document(ALICE, TALK, Document("finding", "f", b"new", 0)))
    with pytest.raises(InvalidRecord, match="finding/f"):
        settled(store.drop_document(ALICE, TALK, "finding", "f"))
    settled(store.close())


def _mistype(path: Path, table: str, declared: str, change: str, value: object) -> None:
    """Write a value of any type into a column that is declared like this."""
    column = declared.split(maxsplit=1)[0]
    with closing(apsw.Connection(str(path))) as raw:
        [(made,)] = raw.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchall()
        lax = str(made).replace(declared, column).replace(" STRICT, ", " ").removesuffix(" STRICT")
        _declare(raw, table, lax)
        raw.execute(f"UPDATE {table} SET {change}", (value,))
        _declare(raw, table, str(made))


def _declare(raw: apsw.Connection, table: str, made: str) -> None:
    """Say how a table was made, whatever it holds."""
    raw.execute("PRAGMA writable_schema=ON")
    raw.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (made, table))
    raw.execute("PRAGMA writable_schema=RESET")


def test_tables_whose_names_are_not_text_are_told(path: Path) -> None:
    whole = path.read_bytes()
    spoilt = whole.replace(b"made_by TEXT", b"made_\xeby TEXT")
    assert spoilt != whole
    path.write_bytes(spoilt)
    with pytest.raises(StoreError, match="backup"):
        SqliteStore(path, blocking=True)


def test_what_a_release_before_wrote_is_served_unchecked(path: Path, raw: apsw.Connection) -> None:
    for table, none in (("entry", "0"), ("checkpoint", "NULL"), ("document", "NULL")):
        raw.execute(f"UPDATE {table} SET checksum = {none}")
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    assert not [verb for verb, read in READS.items() if _refusal(store, read)]
    settled(store.close())


def test_without_checksums_the_wrong_text_would_be_served(
    path: Path, raw: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.execute(
        "UPDATE entry SET body = CAST(replace(CAST(body AS TEXT), 'refuse', 'accept') AS BLOB)"
    )
    monkeypatch.setattr(checksums, "crc32", lambda _data, start=0: start and 0)
    raw.execute("UPDATE entry SET checksum = 0")
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    assert settled(store.read(ALICE, TALK))[0].message.text == "accept the payment"
    settled(store.close())


# ----------------------------------------------------------------------------------- any damage to a file


@pytest.mark.parametrize("files", DAMAGED_FILES.values())
def test_a_damaged_file_never_shows_another_text(tmp_path: Path, files: int) -> None:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    for number in range(60):
        text = f"entry {number} {'lorem ipsum 你好 ' * 8}"
        settled(store.append(ALICE, TALK, [NewEntry(user(text))]))
    fill(store)
    truth = _shown(store)
    settled(store.search(ALICE, ["lorem"]))
    settled(store.close())
    outcomes: Counter[str] = Counter()
    for seed in range(files):
        copy = Path(shutil.copy(path, tmp_path / "copy.db"))
        _spoil(copy, random.Random(seed))  # noqa: S311 (chooses bytes, guards nothing)
        outcomes[_outcome(copy, truth)] += 1
        for file in tmp_path.glob("copy.db*"):
            file.unlink()
    assert outcomes["wrong"] == 0
    assert outcomes["less"] <= files // 100
    assert outcomes["told"] > files // 20
    assert outcomes["as it was"] > files // 20


def test_a_damaged_name_of_a_migration_is_told(tmp_path: Path) -> None:
    """The names are the first thing that is read: before any setting, and by every connection that opens the file."""
    path = tmp_path / "chat.db"
    settled(SqliteStore(path, blocking=True).close())
    name = FIRST_STEP.encode()
    damaged = path.read_bytes().replace(name, b"\xb6" * len(name))
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="the file is damaged"):
        SqliteStore(path, blocking=True)


def _spoil(path: Path, dice: random.Random) -> None:
    """One flipped bit, sixteen random bytes, or an empty page, anywhere."""
    size = path.stat().st_size
    spot = dice.randrange(size)
    with path.open("r+b") as file:
        file.seek(spot)
        match dice.randrange(3):
            case 0:
                [byte] = file.read(1)
                file.seek(spot)
                file.write(bytes([byte ^ 1 << dice.randrange(8)]))
            case 1:
                file.write(dice.randbytes(16)[: size - spot])
            case _:
                file.seek(spot // 4096 * 4096)
                file.write(bytes(4096))


Shown = tuple[dict[int, str], dict[str, str], dict[str, bytes]]


def _shown(store: Store) -> Shown:
    """The texts of a conversation: by seq, by checkpoint, by document."""
    notes = [
        *settled(store.documents(ALICE, TALK, "finding")),
        *settled(store.documents(ALICE, TALK, "call")),
    ]
    return (
        {entry.seq: entry.message.text for entry in settled(store.read(ALICE, TALK))},
        {each.id: each.text for each in settled(store.checkpoints(ALICE, TALK))},
        {note.key: note.body for note in notes},
    )


def _outcome(path: Path, truth: Shown) -> str:
    try:
        store = SqliteStore(path, blocking=True)
    except TurnfoldError:
        return "told"
    try:
        shown = _shown(store)
    except TurnfoldError:
        return "told"
    finally:
        settled(store.close())
    if shown == truth:
        return "as it was"
    # A name, or the end of a tree of pages, may be lost: what is shown is then less, and none of it another text.
    less = all(part.items() <= whole.items() for part, whole in zip(shown, truth, strict=True))
    return "less" if less else "wrong"

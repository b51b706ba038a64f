"""Large texts in the SQLite store: no transaction that indexes or deletes them is long, and none makes their terms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, settled
from tests.stores.test_sqlite_index import places, postings
from turnfold.records import Document, NewEntry, user
from turnfold.search import Within
from turnfold.stores import Scope, SqliteStore
from turnfold.stores.sqlite import erasure as sqlite_erasure
from turnfold.stores.sqlite import search_index as sqlite_index
from turnfold.stores.sqlite import search_index_backfill as sqlite_backfill

TERMS = 20
"""Terms of a transaction in these tests."""
ENGLISH = " ".join(f"word{number}" for number in range(400))
CHINESE = "".join(chr(0x4E00 + number * 7 % 3_000) for number in range(400))
BOB = Scope("bob")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_index, "BATCH_TERMS", TERMS)
    monkeypatch.setattr(sqlite_erasure, "_MOST_INDEXED_BYTES", 1_000)


@pytest.fixture(params=[ENGLISH, CHINESE], ids=["english", "chinese"])
def text(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def filled(path: Path, text: str) -> SqliteStore:
    """A store with a large message and a large document of one tenant, and a small message of another."""
    store = SqliteStore(path, blocking=True)
    settled(store.append(ALICE, "talk", [NewEntry(user("small 小")), NewEntry(user(text))]))
    settled(store.put_document(ALICE, "talk", Document("note", "n", b"", 0, text=text[::-1])))
    settled(store.append(BOB, "talk", [NewEntry(user("gamma"))]))
    return store


def indexed(store: SqliteStore, text: str) -> None:
    """Search for the last word of the message; the search indexes everything."""
    last = text.rsplit(maxsplit=1)[-1] if " " in text else text[-2:]
    assert ("talk", 2) in places(settled(store.search(ALICE, [last])))
    assert places(settled(store.search(BOB, ["gamma"]))) == {("talk", 1)}


def watch_terms(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each text whether its terms are made while the writer has a transaction."""
    made: list[bool] = []
    distinct_terms = sqlite_index.distinct_terms

    def watched(text: str) -> set[str]:
        if len(text) > 300:
            made.append(store._engine._writer.in_transaction)
        return distinct_terms(text)

    monkeypatch.setattr(sqlite_index, "distinct_terms", watched)
    return made


def watch_sizes(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[int]:
    """Record the numbers of terms that the transactions add (`add_rows`) or remove (`_remove_rows`)."""
    sizes: list[int] = []
    write: Callable[..., None] = getattr(module, name)

    def watched(connection: object, tables: object, rows: sqlite_index.IndexRows) -> None:
        sizes.append(rows.terms.count(",") + 1)
        write(connection, tables, rows)

    monkeypatch.setattr(module, name, watched)
    return sizes


def test_a_large_text_is_indexed_in_short_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    store = filled(tmp_path / "chat.db", text)
    made, sizes = (
        watch_terms(store, monkeypatch),
        watch_sizes(monkeypatch, sqlite_backfill, "add_rows"),
    )
    indexed(store, text)
    assert made == [False, False], "once each, and not by the writer"
    assert max(sizes) <= 2 * TERMS
    assert len(sizes) > 30
    settled(store.close())


def test_a_large_text_is_deleted_in_short_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "chat.db"
    store = filled(path, text)
    indexed(store, text)
    made, sizes = (
        watch_terms(store, monkeypatch),
        watch_sizes(monkeypatch, sqlite_index, "_remove_rows"),
    )
    receipt = settled(store.delete(ALICE, "talk"))
    assert (receipt.entries, receipt.documents) == (2, 1)
    assert made == [False, False]
    assert max(sizes) <= 2 * TERMS
    assert len(sizes) > 30
    settled(store.close())
    assert postings(path) == (2, 2)  # bob's word and role; how many hold it, and how many there are


def test_in_parts_the_index_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    found: list[list[tuple[object, ...]]] = []
    for terms in (TERMS, 1_000_000):
        monkeypatch.setattr(sqlite_index, "BATCH_TERMS", terms)
        path = tmp_path / f"{terms}.db"
        store = filled(path, text)
        indexed(store, text)
        settled(store.close())
        found.append(counts(path))
    assert found[0] == found[1]


def counts(path: Path) -> list[tuple[object, ...]]:
    """All that the index knows of terms: how many places are counted for each, and how many lists it has."""
    raw = apsw.Connection(str(path))
    [(number,)] = raw.execute("SELECT number FROM search_index").fetchall()
    found = raw.execute(f"SELECT * FROM held_{number} ORDER BY term").fetchall()  # noqa: S608 (a table's name)
    raw.close()
    return [*found, postings(path)]


class Killed(BaseException):
    """The process ends."""


def end_after(batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let indexing end after so many transactions."""
    write, left = sqlite_backfill.write_batch, [batches]

    def dying(*values: object, **options: object) -> int:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return write(*values, **options)  # pyright: ignore[reportArgumentType] (passed on as it came)

    monkeypatch.setattr(sqlite_backfill, "write_batch", dying)


@pytest.mark.parametrize("batches", [1, 7, 25])
@pytest.mark.parametrize("then", ["searched", "deleted", "replaced"])
def test_a_text_indexed_in_part_is_neither_lost_nor_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, batches: int, then: str
) -> None:
    path, whole = tmp_path / "chat.db", tmp_path / "whole.db"
    store = filled(path, text)
    with monkeypatch.context() as until:
        end_after(batches, until)
        with pytest.raises(Killed):
            settled(store.search(ALICE, ["small"]))
    settled(store.close())
    store, other = SqliteStore(path, blocking=True), filled(whole, text)
    for each in (store, other):
        if then == "deleted":
            settled(each.delete(ALICE, "talk"))
        elif then == "replaced":
            settled(each.put_document(ALICE, "talk", Document("note", "n", b"", 0, text="new 新")))
        if then == "deleted":
            settled(each.search(BOB, ["gamma"]))
        else:
            indexed(each, text)
        settled(each.close())
    assert counts(path) == counts(whole)


def meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> list[int]:
    """Change the store after the first texts were read and before their terms are written; return the batches."""
    add, plans = sqlite_backfill.rows_to_add, list[int]()

    def watched(steps: list[object], tenant: str) -> object:
        plans.append(len(steps))
        if len(plans) == 1:
            change()
        return add(steps, tenant)  # pyright: ignore[reportArgumentType] (passed on as it came)

    monkeypatch.setattr(sqlite_backfill, "rows_to_add", watched)
    return plans


def test_what_is_deleted_before_its_terms_are_written_is_not_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "chat.db"
    store, other = filled(path, text), SqliteStore(path, blocking=True)
    meanwhile(monkeypatch, lambda: settled(other.delete(ALICE, "talk")) and None)
    assert settled(store.search(ALICE, ["small"])) == []
    for each in (store, other):
        settled(each.close())
    assert postings(path) == (0, 0)


def test_what_is_replaced_before_its_terms_are_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "chat.db"
    store, other = filled(path, text), SqliteStore(path, blocking=True)
    new = Document("note", "n", b"", 0, text="new 新")
    meanwhile(monkeypatch, lambda: settled(other.put_document(ALICE, "talk", new)) and None)
    found = settled(store.search(ALICE, ["新"], within=Within(kinds=frozenset({"note"}))))
    assert [(hit.kind, hit.key) for hit in found] == [("note", "n")]
    indexed(store, text)
    settled(store.delete(ALICE, "talk"))
    for each in (store, other):
        settled(each.close())
    assert postings(path) == (2, 2)  # bob's


def test_what_another_process_has_indexed_is_not_indexed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path, whole = tmp_path / "chat.db", tmp_path / "whole.db"
    store, other = filled(path, text), SqliteStore(path, blocking=True)

    def search_elsewhere() -> None:
        settled(other.search(ALICE, ["small"]))

    with monkeypatch.context() as during:
        meanwhile(during, search_elsewhere)
        settled(store.search(ALICE, ["small"]))
    alone = filled(whole, text)
    settled(alone.search(ALICE, ["small"]))
    for each in (store, other, alone):
        settled(each.close())
    assert counts(path) == counts(whole)

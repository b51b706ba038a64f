"""A long log that nobody has searched: each search indexes a bounded part, answers, and says what it does not cover."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import InvalidRecord
from turnfold.records import Document, Message, NewEntry, TextPart, ToolCall, ToolResult, user
from turnfold.runtime import drive
from turnfold.search import Hit, Within
from turnfold.stores import MemoryStore, SqliteStore
from turnfold.stores.sqlite import search as sqlite_scan
from turnfold.stores.sqlite import search_index as sqlite_index
from turnfold.stores.sqlite import search_index_backfill as sqlite_backfill
from turnfold.stores.sqlite import store as sqlite_store
from turnfold.stores.sqlite.search import SearchMatches
from turnfold.stores.sqlite.search_index_backfill import IndexBackfill

ENTRIES, LONG, STEP, AT_ONCE, NEWEST = 300, 50, 20, 40, 30


@pytest.fixture(autouse=True)
def _small_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_backfill, "_LONG", LONG)
    monkeypatch.setattr(sqlite_index, "MANY_WAITING", LONG)
    monkeypatch.setattr(sqlite_backfill, "_STEP", STEP)
    monkeypatch.setattr(sqlite_backfill, "_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(sqlite_backfill, "_BACKGROUND_STEP", STEP)
    monkeypatch.setattr(sqlite_scan, "NEWEST", NEWEST)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes on in the background."""
    monkeypatch.setattr(IndexBackfill, "_continue_in_background", lambda *_: None)


def talk(entries: int = ENTRIES) -> Iterator[NewEntry]:
    for number in range(entries // 3):
        call = ToolCall(id=f"call {number}", name=f"tool{number % 2}", arguments="{}")
        result = ToolResult(call_id=call.id, content=(TextPart(f"result{number} 结果 src/a.py"),))
        yield NewEntry(user(f"question{number} 第{number}个问题 common"))
        yield NewEntry(Message("assistant", (TextPart(f"answer{number} common"), call)))
        yield NewEntry(Message("tool", (result,)))


def filled(store: SqliteStore | MemoryStore, *, entries: int = ENTRIES) -> None:
    drive(store.append(ALICE, "long", list(talk(entries))))
    document = Document("note", "n", b"", 0, text="a note 笔记 common")
    drive(store.put_document(ALICE, "long", document))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    filled(store)
    yield store
    settled(store.close())


def search(store: SqliteStore, *terms: str, conversation: str | None = "long") -> SearchMatches:
    found = settled(store.search(ALICE, terms, conversation=conversation, limit=ENTRIES))
    assert isinstance(found, SearchMatches)
    return found


def seqs(hits: list[Hit]) -> list[int]:
    return sorted(hit.seq for hit in hits)


@pytest.mark.usefixtures("alone")
def test_the_first_answer_covers_a_part_and_says_which_part_it_does_not(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = search(store, "common")
    done = AT_ONCE - 1  # and the note
    asked = [seq for seq in range(1, ENTRIES + 1) if seq % 3]
    assert seqs(found) == [seq for seq in asked if seq <= done or seq > ENTRIES - NEWEST]
    assert found.unsearched == ENTRIES - done - NEWEST
    [record] = [
        each for each in caplog.records if getattr(each, "event", "") == "search_incomplete"
    ]
    assert getattr(record, "entries", 0) == found.unsearched
    [warning] = settled(store.health()).warnings
    assert f"{ENTRIES - done} entries wait to be indexed" in warning
    documents = settled(store.search(ALICE, ["笔记"], within=Within(kinds=frozenset({"note"}))))
    assert [hit.key for hit in documents] == ["n"]
    assert isinstance(documents, SearchMatches)
    assert not documents.unsearched, "no entry was asked for"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "damage",
    [
        "body = CAST(replace(CAST(body AS TEXT), 'question99', 'ordered99') AS BLOB)",
        "body = CAST(replace(CAST(body AS TEXT), '问题', '命令') AS BLOB)",
        "body = x'7b'",
        "turn = turn + 1",
    ],
)
def test_a_damaged_entry_is_left_out_and_ends_no_search(
    store: SqliteStore, tmp_path: Path, damage: str
) -> None:
    last = ENTRIES - 2
    with closing(apsw.Connection(str(tmp_path / "chat.db"))) as raw:
        raw.execute(f"UPDATE entry SET {damage} WHERE seq = ?", (last,))  # noqa: S608 (above)
    assert seqs(search(store, "question99", "question98", "ordered99", "命令")) == [last - 3]
    with pytest.raises(InvalidRecord, match=f"entry {last} "):
        settled(store.read(ALICE, "long", after=last - 1))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("conversation", ["long", None])
def test_each_search_goes_on_until_the_answer_is_that_of_a_whole_index(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, conversation: str | None
) -> None:
    places: list[int] = []
    index_some = sqlite_backfill.index_some

    def counted(*arguments: object, **options: object) -> int:
        places.append(index_some(*arguments, **options))  # type: ignore[arg-type]
        return places[-1]

    monkeypatch.setattr(sqlite_backfill, "index_some", counted)
    left, found = [ENTRIES], SearchMatches()
    while left[-1]:
        places.clear()
        found = search(store, "common", "第7个问题", conversation=conversation)
        assert sum(places) <= AT_ONCE or not found.unsearched
        assert found.unsearched < left[-1]
        left.append(found.unsearched)
    assert len(left) > 4
    expected = MemoryStore()
    filled(expected)
    assert found == drive(
        expected.search(ALICE, ["common", "第7个问题"], conversation=conversation, limit=ENTRIES)
    )
    assert settled(store.health()).warnings == ()


FILTERS = {
    "none": Within(),
    "roles": Within(roles=frozenset({"assistant"})),
    "tools": Within(tools=frozenset({"tool1"})),
    "turns": Within(turns=(5, 60)),
    "paths": Within(paths=frozenset({"src"})),
    "since": Within(since=2),
    "all kinds": Within(kinds=None),
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("conversation", ["long", None])
@pytest.mark.parametrize("name", FILTERS)
def test_what_is_looked_through_is_found_as_what_is_indexed_is(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, name: str, conversation: str | None
) -> None:
    monkeypatch.setattr(sqlite_scan, "NEWEST", ENTRIES)
    expected = MemoryStore()
    filled(expected)
    terms = ["common", "question61", "结果", "result80"]
    within = FILTERS[name]
    found = settled(
        store.search(ALICE, terms, conversation=conversation, limit=ENTRIES, within=within)
    )
    assert isinstance(found, SearchMatches)
    assert not found.unsearched
    assert (
        settled(
            store._engine.read(lambda c: sqlite_backfill.count_unindexed(c, ALICE.tenant, "long"))
        )
        > 200
    )
    assert found == drive(
        expected.search(ALICE, terms, conversation=conversation, limit=ENTRIES, within=within)
    )
    assert found


def _newest(store: SqliteStore) -> list[Hit]:
    return search(store, f"question{ENTRIES // 3 - 1}")


@pytest.mark.usefixtures("alone")
def test_without_looking_the_newest_would_not_be_found(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_scan, "NEWEST", 0)
    assert _newest(store) == []


@pytest.mark.usefixtures("alone")
def test_the_newest_is_found_at_once(store: SqliteStore) -> None:
    assert seqs(_newest(store)) == [ENTRIES - 2]


def test_a_log_that_is_not_long_is_indexed_before_the_answer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "short.db", blocking=True)
    filled(store, entries=48)
    found = search(store, "common")
    assert (len(found), found.unsearched) == (32, 0)
    assert (
        settled(
            store._engine.read(lambda c: sqlite_backfill.count_unindexed(c, ALICE.tenant, None))
        )
        == 0
    )
    assert store._index._worker is None
    settled(store.close())


def test_the_rest_is_indexed_in_the_background(store: SqliteStore) -> None:
    assert search(store, "common").unsearched
    worker = store._index._worker
    assert worker is not None
    for number in range(5):
        assert (
            settled(store.append(ALICE, "other", [NewEntry(user("meanwhile 其间"))])).last
            == number + 1
        )
    worker.join(60)
    assert not worker.is_alive()
    waiting = settled(
        store._engine.read(lambda c: sqlite_backfill.count_unindexed(c, ALICE.tenant, "long"))
    )
    assert waiting == 0
    assert not search(store, "common").unsearched


def test_closing_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_backfill, "_BACKGROUND_STEP", 1)
    store = SqliteStore(tmp_path / "chat.db", blocking=True)
    filled(store)
    assert search(store, "common").unsearched
    worker = store._index._worker
    settled(store.close())
    assert worker is not None
    worker.join(60)
    assert not worker.is_alive()
    again = SqliteStore(tmp_path / "chat.db", blocking=True)
    settled(again.reindex())
    assert not search(again, "common").unsearched
    settled(again.close())


def test_a_store_of_an_event_loop_does_it_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "chat.db")
        await store.append(ALICE, "long", list(talk()))
        found = await store.search(ALICE, ["common"], conversation="long")
        assert isinstance(found, SearchMatches)
        assert found.unsearched
        until = time.monotonic() + 60
        while (await store.health()).warnings and time.monotonic() < until:
            assert (await store.append(ALICE, "other", [NewEntry(user("其间"))])).last
        worker = store._index._worker
        assert worker is not None
        await asyncio.to_thread(worker.join, 60)
        found = await store.search(ALICE, ["common"], conversation="long", limit=ENTRIES)
        assert len(found) == ENTRIES * 2 // 3
        await store.close()

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.usefixtures("alone")
def test_an_answer_that_does_not_say_so_is_caught(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = sqlite_store.search

    def silent(*arguments: object, **options: object) -> SearchMatches:
        return SearchMatches(original(*arguments, **options))  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite_store, "search", silent)
    with pytest.raises(AssertionError):
        test_the_first_answer_covers_a_part_and_says_which_part_it_does_not(store, caplog)

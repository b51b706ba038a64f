"""The search index: erased whole, whoever's rules made it, and made step by step with somebody told."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, integrity, settled
from turnfold.records import NewEntry, user
from turnfold.search import Hit, ranking
from turnfold.stores import Scope, SqliteStore
from turnfold.stores.sqlite import erasure as sqlite_erasure
from turnfold.stores.sqlite import search as sqlite_search
from turnfold.stores.sqlite import search_index as sqlite_index
from turnfold.stores.sqlite import search_index_backfill as sqlite_backfill

WORD = "zebracard"


def said(texts: list[str]) -> list[NewEntry]:
    return [NewEntry(user(text)) for text in texts]


def places(hits: list[Hit]) -> set[tuple[str, int]]:
    return {(hit.conversation, hit.seq) for hit in hits}


def in_files(path: Path, *words: str) -> list[str]:
    """The words of which any file of the store still has a trace."""
    data = b"".join(
        file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name)
    )
    return [word for word in words if word.encode() in data]


def postings(path: Path) -> tuple[int, int]:
    """How many terms and marks the lists hold, as SQLite itself counts them, and of how many terms a count is kept."""
    raw = apsw.Connection(str(path))
    [(number,)] = raw.execute(
        "SELECT number FROM search_index"
    ).fetchall()  # and nothing is left of others
    raw.execute(f"CREATE VIRTUAL TABLE temp.lists USING fts5vocab('main', 'found_{number}', 'row')")
    lists = raw.execute("SELECT coalesce(sum(doc), 0) FROM temp.lists").fetchall()
    counts = raw.execute(f"SELECT count(*) FROM held_{number}").fetchall()  # noqa: S608 (a table's name)
    assert integrity(raw) == "ok"
    raw.close()
    return int(str(lists[0][0])), int(str(counts[0][0]))


def many_words() -> list[str]:
    """Words enough for many pages, alike enough for the end of a page to spell one out."""
    return [f"{WORD}{number:05d}" for number in range(4000)]


def erase_many(path: Path) -> list[str]:
    """Index many words, erase them, and say which are left."""
    store = SqliteStore(path, blocking=True)
    settled(store.append(ALICE, "kept", said([f"zz{number:05d}" for number in range(500)])))
    settled(store.append(ALICE, "talk", said(many_words())))
    assert len(settled(store.search(ALICE, [f"{WORD}00017"]))) == 1
    settled(store.delete(ALICE, "talk"))
    left = in_files(path, WORD, WORD[1:])
    assert len(settled(store.search(ALICE, ["zz00017"]))) == 1
    settled(store.close())
    return left


@pytest.mark.parametrize("many", [0, 1_000_000], ids=["removed at once", "merged away"])
def test_where_pages_of_the_index_meet_nothing_of_a_word_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(sqlite_erasure, "_MERGE_RATIO", many)
    assert erase_many(tmp_path / "chat.db") == []


def test_an_index_of_the_words_themselves_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_index, "_digest", lambda term, _key: term.replace(":", ""))
    monkeypatch.setattr(sqlite_index, "_number", hash)
    monkeypatch.setattr(
        sqlite_erasure, "_MERGE_RATIO", 0
    )  # merged lists leave nothing; places removed at once do
    assert erase_many(tmp_path / "chat.db") == [WORD, WORD[1:]]


def other_rules(text: str) -> set[str]:
    """The terms another release, or another Python, would make."""
    return {f"old{word}" for word in text.split()}


def erase_under_new_rules(
    path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> tuple[int, int]:
    """Index by other rules under a mark, erase by today's; what is then left of the erased."""
    store = SqliteStore(path, blocking=True)
    settled(store.append(ALICE, "talk", said(["alpha beta", "alpha"])))
    settled(store.append(Scope("bob"), "talk", said(["gamma"])))
    with monkeypatch.context() as before:
        before.setattr(sqlite_index, "TERMS_MADE_BY", mark)
        before.setattr(sqlite_index, "distinct_terms", other_rules)
        settled(store.search(ALICE, ["alpha"]))
        settled(store.search(Scope("bob"), ["gamma"]))
    settled(store.delete(ALICE, "talk"))
    settled(store.close())
    return postings(path)


def test_entries_indexed_by_other_rules_are_erased_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    assert erase_under_new_rules(path, monkeypatch, "0/of old") == (0, 0)
    store = SqliteStore(path, blocking=True)
    assert places(settled(store.search(Scope("bob"), ["gamma"]))) == {("talk", 1)}
    assert settled(store.search(ALICE, ["alpha"])) == []
    settled(store.close())
    assert postings(path) == (2, 2)  # bob's word and role; how many hold it, and how many there are


def test_an_index_that_does_not_say_who_made_it_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = sqlite_index.TERMS_MADE_BY
    left = erase_under_new_rules(tmp_path / "chat.db", monkeypatch, today)
    assert left[0] > 2  # terms of the erased, beside bob's


def test_entries_indexed_by_two_releases_are_erased_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True)
    settled(store.append(ALICE, "talk", said(["alpha"])))
    settled(store.search(ALICE, ["alpha"]))
    settled(store.append(ALICE, "talk", said(["beta"])))
    with monkeypatch.context() as between:
        between.setattr(sqlite_index, "TERMS_MADE_BY", "0/of old")
        between.setattr(sqlite_index, "distinct_terms", other_rules)
        settled(store.search(ALICE, ["beta"]))
    settled(store.append(ALICE, "talk", said(["gamma"])))
    settled(store.search(ALICE, ["gamma"]))
    settled(store.delete(ALICE, "talk"))
    settled(store.close())
    assert postings(path) == (0, 0)


def test_a_body_damaged_since_it_was_indexed_can_be_erased(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True)
    settled(store.append(ALICE, "talk", said(["alpha", "beta"])))
    settled(store.search(ALICE, ["alpha"]))
    with apsw.Connection(str(path)) as raw:
        raw.execute("UPDATE entry SET body = x'00' WHERE seq = 1")
    raw.close()
    assert settled(store.delete(ALICE, "talk")).entries == 2
    settled(store.close())
    assert postings(path) == (0, 0)


# ------------------------------------------------------------------------------------------ progress


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_backfill, "_STEP", 10)
    monkeypatch.setattr(sqlite_backfill, "_LONG", 50)


@pytest.mark.usefixtures("small_steps")
def test_long_indexing_tells_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[int, int]] = []
    store = SqliteStore(blocking=True, on_indexing=lambda done, total: told.append((done, total)))
    for name in ("one", "two", "three"):
        settled(store.append(ALICE, name, said(["alpha secret"] * 25)))
    with caplog.at_level(logging.INFO, "turnfold"):
        assert len(settled(store.search(ALICE, ["alpha"], limit=100))) == 75
    done, totals = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert set(totals) == {75}
    assert (told[0], told[-1]) == ((0, 75), (75, 75))
    assert len(told) >= 8
    assert [record.getMessage() for record in caplog.records] == [
        "indexing 75 entries for the first search since they were written"
    ]
    assert "secret" not in caplog.text


@pytest.mark.usefixtures("small_steps")
def test_short_indexing_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[int, int]] = []
    store = SqliteStore(blocking=True, on_indexing=lambda done, total: told.append((done, total)))
    settled(store.append(ALICE, "talk", said(["alpha"] * 10)))
    with caplog.at_level(logging.INFO, "turnfold"):
        settled(store.search(ALICE, ["alpha"]))
        settled(store.search(ALICE, ["alpha"]))
    assert (told, caplog.records) == ([], [])


@pytest.mark.usefixtures("small_steps")
def test_what_came_meanwhile_is_indexed_and_told() -> None:
    told: list[tuple[int, int]] = []

    def listen(done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 2:
            settled(store.append(ALICE, "more", said(["alpha"] * 20)))

    store = SqliteStore(blocking=True, on_indexing=listen)
    settled(store.append(ALICE, "talk", said(["alpha"] * 30)))
    assert len(settled(store.search(ALICE, ["alpha"], limit=100))) == 50
    assert told[-1] == (50, 50)
    assert all(done <= total for done, total in told)


def test_what_a_listener_raises_ends_the_search_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite_backfill, "_STEP", 10)

    def stop(done: int, _total: int) -> None:
        if done:
            raise KeyboardInterrupt

    store = SqliteStore(blocking=True, on_indexing=stop)
    settled(store.append(ALICE, "talk", said(["alpha"] * 30)))
    for _ in range(2):  # the last ten are no longer worth a word
        with pytest.raises(KeyboardInterrupt):
            settled(store.search(ALICE, ["alpha"]))
    assert len(settled(store.search(ALICE, ["alpha"], limit=100))) == 30


# ------------------------------------------------------------------------------------ the event loop


def test_nothing_is_ranked_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    rank = ranking.rank

    def watched(*values: object, **options: object) -> list[Hit]:
        threads.add(threading.get_ident())
        return rank(*values, **options)  # pyright: ignore[reportArgumentType] (passed on as it came)

    async def search() -> int:
        store = SqliteStore()
        await store.append(ALICE, "talk", said(["alpha"]))
        await store.search(ALICE, ["alpha"])
        await store.close()
        return threading.get_ident()

    monkeypatch.setattr(sqlite_search, "rank", watched)
    loop = asyncio.run(search())
    assert threads
    assert loop not in threads

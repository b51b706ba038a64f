"""An index made by other rules is made anew: in steps, through kills, with everybody served meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, integrity, settled
from turnfold.records import Checkpoint, Document, NewEntry, encode_message, user
from turnfold.runtime import drive
from turnfold.search import Hit, Within
from turnfold.stores import MemoryStore, Scope, SqliteStore
from turnfold.stores.sqlite import search_index as sqlite_index
from turnfold.stores.sqlite import search_index_backfill as sqlite_backfill
from turnfold.stores.sqlite.schema import MIGRATIONS
from turnfold.tokens import cautious_counter

TALKS, ENTRIES = 6, 7
ANYTHING = Within(kinds=None)


def old_rules(text: str) -> set[str]:
    """The terms another release would make: whole words, and none in common with today's."""
    return {f"old{word}" for word in text.split()}


def fill(store: SqliteStore | MemoryStore) -> None:
    for talk in range(TALKS):
        said = [NewEntry(user(f"alpha word{talk}x{at} 北京")) for at in range(ENTRIES)]
        drive(store.append(ALICE, f"talk{talk}", said))
    drive(store.put_document(ALICE, "talk1", Document("note", "n", b"", 0, text="alpha note")))
    drive(store.add_checkpoint(ALICE, "talk2", Checkpoint("c", "", 3, "alpha summary", "digest")))


def indexed_by_old_rules(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(sqlite_index, "TERMS_MADE_BY", "0/of old")
        before.setattr(sqlite_index, "distinct_terms", old_rules)
        store = SqliteStore(path, blocking=True, clock=lambda: 1)
        fill(store)
        assert len(settled(store.search(ALICE, ["alpha"], limit=100))) == 0  # found by "oldalpha"
        settled(store.close())


def expected() -> list[Hit]:
    store = MemoryStore(clock=lambda: 1)
    fill(store)
    return drive(store.search(ALICE, ["alpha word3x2"], limit=100, within=ANYTHING))


def state(path: Path) -> tuple[list[str], int]:
    """The indexes of a file, and how many of its entries are indexed."""
    raw = apsw.Connection(str(path))
    tables = raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    [(indexed,)] = raw.execute("SELECT sum(indexed) FROM conversation").fetchall()
    assert integrity(raw) == "ok"
    raw.close()
    return sorted(
        str(name)
        for (name,) in tables
        if str(name).startswith(("found_", "entry_", "held_", "retired_"))
    ), int(str(indexed))


def test_an_index_of_other_rules_is_found_at_open_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    indexed_by_old_rules(path, monkeypatch)
    assert state(path)[1] == TALKS * ENTRIES
    store = SqliteStore(path, blocking=True)
    assert state(path)[1] == 0
    warned = settled(store.health())
    assert any(f"{TALKS} conversations" in warning for warning in warned.warnings)
    hits = settled(store.search(ALICE, ["alpha word3x2"], limit=100, within=ANYTHING))
    assert hits == expected()
    assert settled(store.reindex()) == 0
    assert not settled(store.health()).warnings
    settled(store.close())
    tables, indexed = state(path)
    assert indexed == TALKS * ENTRIES
    assert {name for name in tables if "_2" not in name} == set()


def test_an_index_that_does_not_say_who_made_it_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    indexed_by_old_rules(path, monkeypatch)
    with apsw.Connection(str(path)) as raw:
        raw.execute("UPDATE search_index SET made_by = ?", (sqlite_index.TERMS_MADE_BY,))
    raw.close()
    store = SqliteStore(path, blocking=True)
    assert settled(store.search(ALICE, ["alpha"])) == []
    settled(store.close())


def test_a_search_waits_for_what_it_asks_about_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    indexed_by_old_rules(path, monkeypatch)
    store = SqliteStore(path, blocking=True)
    hits = settled(store.search(ALICE, ["alpha"], conversation="talk4"))
    assert len(hits) == ENTRIES
    assert state(path)[1] == ENTRIES
    settled(store.close())


def test_readers_and_writers_are_served_between_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    indexed_by_old_rules(path, monkeypatch)
    monkeypatch.setattr(sqlite_backfill, "_STEP", 5)
    other = SqliteStore(path, blocking=True)
    served: list[int] = []

    def meanwhile(done: int, _total: int) -> None:
        name = f"meanwhile{len(served)}"
        settled(other.append(Scope("bob"), name, [NewEntry(user("beta"))]))
        assert len(settled(other.read(ALICE, "talk0"))) == ENTRIES
        assert len(settled(other.search(Scope("bob"), ["beta"], conversation=name))) == 1
        served.append(done)

    store = SqliteStore(path, blocking=True, on_indexing=meanwhile)
    assert len(settled(store.search(ALICE, ["alpha"], limit=100))) == TALKS * ENTRIES
    assert len(served) > TALKS
    settled(store.close())
    settled(other.close())


KILLED = """
import os, signal, sys
from turnfold.stores import Scope
from turnfold.stores.sqlite import search_index_backfill as sqlite_backfill
from turnfold.stores import SqliteStore
from turnfold.runtime import drive

sqlite_backfill._STEP = 4

def stop(done, total):
    if done >= int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

store = SqliteStore(sys.argv[1], blocking=True, on_indexing=stop)
drive(store.search(Scope("alice"), ["alpha"]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_kill_between_two_steps_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    indexed_by_old_rules(path, monkeypatch)
    before = -1
    for kill_after in (1, 9, 13):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(kill_after)],
            env=os.environ,
            check=False,
            timeout=120,
        )
        assert ended.returncode == -signal.SIGKILL
        _, indexed = state(path)
        assert before < indexed < TALKS * ENTRIES
        before = indexed
    store = SqliteStore(path, blocking=True)
    hits = settled(store.search(ALICE, ["alpha word3x2"], limit=100, within=ANYTHING))
    assert hits == expected()
    settled(store.close())


def test_steps_that_are_not_noted_are_caught(tmp_path: Path) -> None:
    """If what was done were done again, its places would be counted twice."""
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True, clock=lambda: 1)
    fill(store)
    hits = settled(store.search(ALICE, ["alpha word3x2"], limit=100))
    with apsw.Connection(str(path)) as raw:
        raw.execute("UPDATE conversation SET indexed = 0, unindexed = 1 WHERE name = 'talk3'")
    raw.close()
    assert settled(store.search(ALICE, ["alpha word3x2"], limit=100)) != hits
    settled(store.close())


def previous_release(path: Path) -> None:
    """A file as the previous release left it: five steps, its own form of index, everything indexed."""
    raw = apsw.Connection(str(path))
    raw.execute("PRAGMA journal_mode=WAL").fetchall()
    raw.execute("CREATE TABLE migration (name TEXT PRIMARY KEY) STRICT")
    for name, script in MIGRATIONS[:5]:
        raw.execute(script)
        raw.execute("INSERT INTO migration (name) VALUES (?)", (name,))
    counter = cautious_counter()
    cost = counter.count_message(user("alpha"))
    raw.execute(
        "INSERT INTO conversation (key, tenant, name, checkpoint, generation, counter, created, updated, deleted, "
        "indexed, indexed_by, unindexed) VALUES (1, 'alice', 'talk', 'c', 9, ?, 1, 1, 0, 9, '2/15.0.0', 0)",
        (counter.name,),
    )
    for seq in range(1, 10):
        raw.execute(
            "INSERT INTO entry (id, generation, client_id, created, turn, tokens, running, body) "
            "VALUES (?, 0, NULL, 1, ?, ?, ?, ?)",
            (1 << 32 | seq, seq, cost, cost * seq, encode_message(user("alpha"))),
        )
        raw.execute(
            "INSERT INTO entry_terms (rowid, scope, terms) VALUES (?, 's616c696365', '0123456789abcd')",
            (1 << 32 | seq,),
        )
    raw.execute(
        "INSERT INTO checkpoint VALUES (1, 3, 'c', '', 'alpha summary', 'digest', '', 'mixed', 1.0, 1)"
    )
    raw.execute("INSERT INTO document VALUES (1, 'state', 's', 1, 1, x'00')")
    raw.close()


def test_a_file_of_the_previous_release_is_found_in_again(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    previous_release(path)
    store = SqliteStore(path, blocking=True)
    hits = settled(store.search(ALICE, ["alpha"], limit=100, within=ANYTHING))
    assert [(hit.kind, hit.key) for hit in hits if hit.kind] == [("checkpoint", "c")]
    assert {hit.seq for hit in hits if not hit.kind} == set(range(1, 10))
    [kept] = settled(store.documents(ALICE, "talk", "state"))
    assert (kept.text, kept.body) == ("", b"\x00")
    settled(store.reindex())
    settled(store.close())
    assert {name for name in state(path)[0] if "_1" not in name} == set()

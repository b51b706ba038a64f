"""A file of an earlier schema is brought to the newest one with everything in it, and says the same afterwards."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_file import ALICE, integrity, settled
from turnfold.errors import IdReused
from turnfold.records import NewEntry, encode_message, user
from turnfold.stores import Head
from turnfold.stores.sqlite_schema import MIGRATIONS
from turnfold.stores.sqlite_store import SqliteStore
from turnfold.tokens import cautious_counter

COUNTER = cautious_counter()
TEXTS = ("hello", "你好", "hello again")


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

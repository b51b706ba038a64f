"""Whoever did not hear the answer asks again: with client ids each entry is stored once, however often that happens.

An answer can be lost in three ways, and the caller cannot tell them apart: the request never arrived, the commit
happened and its answer was lost on the way, or the commit happened and the store itself believes it failed.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import apsw
import pytest

from tests.stores.sqlite_faults import Faulty
from tests.stores.sqlite_file import ALICE, settled
from turnfold.errors import IdReused, StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.stores import Appended
from turnfold.stores.sqlite_store import SqliteStore

MOST_TRIES = 5


class AnswerLost(Exception):
    """The connection broke before the answer came."""


class Caller:
    """Appends through a line that loses answers, and asks again until it hears one."""

    def __init__(self, path: Path, dice: random.Random) -> None:
        self.path, self.dice = path, dice
        self.store = SqliteStore(path, blocking=True)
        self.lost: Counter[str] = Counter()
        self.restarts = 0

    def append(self, batch: list[NewEntry]) -> Appended:
        for tried in range(MOST_TRIES):
            way = "none" if tried == MOST_TRIES - 1 else self._way()
            try:
                return self._ask(batch, way)
            except (AnswerLost, StoreUnavailable):
                self.lost[way] += 1
                if self.dice.random() < 0.1:
                    self.restart()
        raise AssertionError("the last try loses nothing")

    def _way(self) -> str:
        return self.dice.choice(("none", "request", "answer", "commit"))

    def _ask(self, batch: list[NewEntry], way: str) -> Appended:
        if way == "request":
            raise AnswerLost
        if way == "commit":
            with Faulty(self.store, "COMMIT", error=apsw.IOError, late=True):
                return settled(self.store.append(ALICE, "talk", batch))
        done = settled(self.store.append(ALICE, "talk", batch))
        if way == "answer":
            raise AnswerLost
        return done

    def restart(self) -> None:
        self.restarts += 1
        settled(self.store.close())
        self.store = SqliteStore(self.path, blocking=True)


def talk(path: Path, batches: int, *, with_ids: bool) -> tuple[Caller, list[str], list[str]]:
    """The caller, the texts it appended, and the texts the file holds."""
    caller = Caller(path, random.Random(5))  # noqa: S311 (a run that can be repeated)
    wanted: list[str] = []
    for number in range(batches):
        texts = [f"{number}.{part}" for part in range(1 + number % 3)]
        batch = [NewEntry(user(text), text if with_ids else "") for text in texts]
        done = caller.append(batch)
        wanted += texts
        assert done.last - done.first + 1 == len(texts)
        if with_ids:
            assert done.last == len(wanted)
    entries = settled(caller.store.read(ALICE, "talk", limit=100_000))
    settled(caller.store.close())
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return caller, wanted, [entry.message.text for entry in entries]


@pytest.mark.parametrize(
    "batches",
    [700, pytest.param(7_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_lost_answers_neither_lose_nor_double_an_entry(tmp_path: Path, batches: int) -> None:
    caller, wanted, held = talk(tmp_path / "chat.db", batches, with_ids=True)
    assert held == wanted
    assert caller.lost.total() > 1000 * batches // 700
    assert min(caller.lost[way] for way in ("request", "answer", "commit")) > batches // 4
    assert caller.restarts > batches // 20


def test_without_client_ids_entries_are_doubled(tmp_path: Path) -> None:
    _, wanted, held = talk(tmp_path / "chat.db", 60, with_ids=False)
    assert set(held) == set(wanted)
    assert len(held) > len(wanted)


def test_an_id_with_another_body_is_refused_even_after_a_restart(tmp_path: Path) -> None:
    caller = Caller(tmp_path / "chat.db", random.Random(5))  # noqa: S311 (a run that can be repeated)
    caller.append([NewEntry(user("yes"), "one")])
    caller.restart()
    with pytest.raises(IdReused):
        settled(caller.store.append(ALICE, "talk", [NewEntry(user("no"), "one")]))
    settled(caller.store.close())

"""Whoever did not hear the answer of a SQLite store asks again, and nothing is doubled or lost; see retrying.py."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.sizes import LOST_SQLITE_ANSWERS
from tests.stores.retrying import ALICE, AnswerLost, Caller, told_and_held
from tests.stores.sqlite_faults import Faulty
from turnfold.errors import IdReused
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Appended, SqliteStore


class SqliteCaller(Caller):
    ways = ("request", "answer", "commit")
    store: SqliteStore

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__()

    def opened(self) -> SqliteStore:
        return SqliteStore(self._path, blocking=True)

    def ask(self, batch: list[NewEntry], way: str) -> Appended:
        if way == "request":
            raise AnswerLost
        if way == "commit":
            with Faulty(self.store, "COMMIT", error=apsw.IOError, late=True):
                return drive(self.store.append(ALICE, "talk", batch))
        done = drive(self.store.append(ALICE, "talk", batch))
        if way == "answer":
            raise AnswerLost
        return done


@pytest.fixture
def caller(tmp_path: Path) -> SqliteCaller:
    return SqliteCaller(tmp_path / "chat.db")


@pytest.mark.parametrize(
    "batches",
    LOST_SQLITE_ANSWERS.values(),
)
def test_lost_answers_neither_lose_nor_double_an_entry(caller: SqliteCaller, batches: int) -> None:
    told, held = told_and_held(caller, batches)
    assert held == told
    assert caller.lost.total() > 1000 * batches // 700
    assert min(caller.lost[way] for way in caller.ways) > batches // 4
    assert caller.restarts > batches // 20


@pytest.mark.slow  # shows that the tests above can fail
def test_without_client_ids_entries_are_doubled(caller: SqliteCaller) -> None:
    told, held = told_and_held(caller, 60, with_ids=False)
    assert set(held) == set(told)
    assert len(held) > len(told)


def test_an_id_with_another_body_is_refused_even_after_a_restart(caller: SqliteCaller) -> None:
    caller.append([NewEntry(user("yes"), "one")])
    caller.restart()
    with pytest.raises(IdReused):
        drive(caller.store.append(ALICE, "talk", [NewEntry(user("no"), "one")]))
    drive(caller.store.close())

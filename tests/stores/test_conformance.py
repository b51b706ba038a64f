"""The two stores that ship, in each way they can be used, against the suite that ships."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.stores.conftest import is_left_to_the_slow_run
from turnfold.stores import MemoryStore, SqliteStore, Store
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

Time = Callable[[], int]


class TestMemory(StoreConformance):
    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        del place  # nothing is kept
        return MemoryStore(counter=counter, clock=clock)


class TestMemoryBlocking(TestMemory):
    twin = True
    blocking = True


class TestSqliteInMemory(StoreConformance):
    twin = True

    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        del place  # nothing is kept
        return SqliteStore(counter=counter, clock=clock)


class TestSqliteFile(StoreConformance):
    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        return SqliteStore(place, counter=counter, clock=clock)


class TestSqliteFileBlocking(StoreConformance):
    twin = True
    blocking = True

    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        return SqliteStore(place, counter=counter, clock=clock, blocking=True)


def test_no_two_groups_of_cases_share_a_name() -> None:
    """The groups are joined by inheritance: of two cases with one name only the first would run."""
    names = Counter(
        name for group in StoreConformance.__bases__ for name in vars(group) if name[:2] != "__"
    )
    del names["_abc_impl"]
    assert {name for name, count in names.items() if count > 1} == set()
    assert sum(name.startswith("test_") for name in names) > 200


def test_a_twin_runs_every_case_by_default_and_leaves_only_other_values_to_the_slow_run() -> None:
    assert not is_left_to_the_slow_run(TestSqliteFileBlocking, {})
    assert not is_left_to_the_slow_run(TestSqliteFileBlocking, {"text": 0, "verb": 0})
    assert is_left_to_the_slow_run(TestSqliteFileBlocking, {"text": 0, "verb": 1})
    assert not is_left_to_the_slow_run(TestSqliteFile, {"text": 0, "verb": 1})
    assert not is_left_to_the_slow_run(None, {"text": 1})

"""The two stores that ship, in each way they can be used, against the suite that ships."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.stores.conftest import CALLS_AND_CACHES, EVERY_CASE, is_left_to_the_slow_run
from turnfold.stores import MemoryStore, SqliteStore, Store
from turnfold.testing import StoreConformance
from turnfold.testing.stores.concurrency import RaceCases
from turnfold.testing.stores.reads import ReadCases
from turnfold.tokens import TokenCounter

Time = Callable[[], int]


class TestMemory(StoreConformance):
    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        del place  # nothing is kept
        return MemoryStore(counter=counter, clock=clock)


class TestMemoryBlocking(TestMemory):
    twin = CALLS_AND_CACHES
    blocking = True


class TestSqliteInMemory(StoreConformance):
    twin = CALLS_AND_CACHES

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
    twin = EVERY_CASE
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


def test_what_the_default_run_leaves_out_of_a_twin() -> None:
    reading = next(name for name in vars(ReadCases) if name.startswith("test_"))
    racing = next(name for name in vars(RaceCases) if name.startswith("test_"))
    for cases, name, values, left_out in (
        (TestSqliteFile, reading, {"text": 0, "verb": 1}, False),
        (TestSqliteFileBlocking, reading, {"text": 0, "verb": 0}, False),
        (TestSqliteFileBlocking, reading, {"text": 0, "verb": 1}, True),
        (TestSqliteInMemory, reading, {}, True),
        (TestSqliteInMemory, racing, {}, False),
        (TestSqliteInMemory, racing, {"text": 1}, True),
        (None, reading, {"text": 1}, False),
    ):
        assert is_left_to_the_slow_run(cases, name, values) is left_out, (cases, name, values)

"""The two stores that ship, in each way they can be used, against the suite that ships."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnfold.stores import MemoryStore, SqliteStore, Store
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

Time = Callable[[], int]
MEMORY_DISK = Path("/dev/shm")  # noqa: S108 (a folder of its own is made below it)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what is shown here does not depend on a disk, only its time would."""
    if not MEMORY_DISK.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK, prefix="turnfold-") as folder:
        yield Path(folder)


class TestMemory(StoreConformance):
    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        del place  # nothing is kept
        return MemoryStore(counter=counter, clock=clock)


class TestMemoryBlocking(TestMemory):
    blocking = True


class TestSqliteInMemory(StoreConformance):
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

"""How much of the conformance suite a store runs by default.

Two stores run every case with all its values: memory, and a SQLite file. A class with `twin` runs less by default:

- `twin = EVERY_CASE`: every case with the first of its values (PostgreSQL, SQLite behind Redis, a
  SQLite file without an event loop);
- `twin = CALLS_AND_CACHES`: the same, but only the groups below, in which it can matter how a store is called and what
  a cache remembers (all others). One of them, `MachineCases`, compares random calls of all verbs with the reference.

What is left out is marked slow, so `make test` and `make test-slow` together run everything.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from turnfold.testing.stores.case_runner import StoreCases
from turnfold.testing.stores.change_counters import EpochCases, GenerationCases
from turnfold.testing.stores.checkpoints import CheckpointCases
from turnfold.testing.stores.concurrency import (
    ConcurrencyCases,
    DeletionRaceCases,
    RaceCases,
    SharedCases,
)
from turnfold.testing.stores.deletion import DeleteCases, TombstoneCases
from turnfold.testing.stores.documents import DocumentCases, VersionCases
from turnfold.testing.stores.lifecycle import CancellationCases, ClosingCases, ReopenCases
from turnfold.testing.stores.random_operations import MachineCases
from turnfold.testing.stores.reads import CounterCases, TailCases

__all__ = (
    "CALLS_AND_CACHES",
    "EVERY_CASE",
    "is_left_to_the_slow_run",
    "pytest_collection_modifyitems",
    "pytest_pycollect_makeitem",
)

Groups = tuple[type[StoreCases], ...]

EVERY_CASE: Groups = (StoreCases,)
CALLS_AND_CACHES: Groups = (
    ConcurrencyCases,
    RaceCases,
    DeletionRaceCases,
    SharedCases,
    ClosingCases,
    CancellationCases,
    ReopenCases,
    MachineCases,
    TailCases,
    CounterCases,
    CheckpointCases,
    DocumentCases,
    VersionCases,
    GenerationCases,
    EpochCases,
    DeleteCases,
    TombstoneCases,
)


def is_left_to_the_slow_run(cases: type | None, name: str, values: Mapping[str, int]) -> bool:
    """Return whether the default run leaves a case out; `values` has the position of each of its values."""
    groups: Groups | None = getattr(cases, "twin", None)
    group = next((each for each in getattr(cases, "__mro__", ()) if name in vars(each)), None)
    if groups is None or group is None:
        return False
    return not issubclass(group, groups) or any(values.values())


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str
) -> list[pytest.Item] | None:
    """Make no items of a case that the default run leaves out with all its values: there are thousands."""
    if collector.config.option.markexpr != "not slow" or not name.startswith("test_"):
        return None
    cases = collector.obj if isinstance(collector, pytest.Class) else None
    slow = collector.get_closest_marker("slow") is not None
    return [] if slow or is_left_to_the_slow_run(cases, name, {}) else None


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the twins leave to the slow run."""
    for item in items:
        if isinstance(item, pytest.Function):
            values = item.callspec.indices if hasattr(item, "callspec") else {}
            if is_left_to_the_slow_run(item.cls, item.originalname, values):
                item.add_marker(pytest.mark.slow)

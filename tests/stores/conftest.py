"""How much of the conformance suite a store runs by default.

Four stores run every case with all its values: memory, a SQLite file, PostgreSQL, and SQLite behind Redis. A class with
`twin = True` is another way to use one of them (blocking, in memory, PostgreSQL behind Redis, a cache whose server is
gone): it runs every case as well, by default with the first of its values only. The others are marked slow, so
`make test` and `make test-slow` together run everything.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

__all__ = ("is_left_to_the_slow_run", "pytest_collection_modifyitems")


def is_left_to_the_slow_run(cases: type | None, values: Mapping[str, int]) -> bool:
    """Return whether a case of a twin has other values than the first; `values` has the position of each."""
    return getattr(cases, "twin", False) is True and any(values.values())


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a twin leaves to the slow run."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and hasattr(item, "callspec")
            and is_left_to_the_slow_run(item.cls, item.callspec.indices)
        ):
            item.add_marker(pytest.mark.slow)

"""Typer reads the signatures of all commands anew for each run, half the time of these tests: here it does so once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from typer.utils import get_params_from_function


@pytest.fixture(scope="session", autouse=True)
def signatures_read_once() -> Iterator[None]:
    """Keep the parameters of each function; the commands themselves are still made anew for each run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("typer.main.get_params_from_function", cache(get_params_from_function))
        yield

"""One store: the file opened again after a restart, and what the next call is built from."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from bench.contender import Reopened
from bench.workload import stretch

__all__ = ("Lane", "Opening")


class Opening(NamedTuple):
    """One time the file was opened."""

    clock: float
    processor: float
    messages: int


class Lane:
    """A file with a conversation in it."""

    def __init__(self, contender: Reopened, *, path: Path, size: int) -> None:
        self._contender = contender
        self._path = path
        contender.seed(path, stretch(size, tail=8, longest=size).history)

    def open(self) -> Opening:
        """Open it once; closing is not timed."""
        worked, begin = process_time(), perf_counter()
        messages, close = self._contender.reopen(self._path)
        opening = Opening(perf_counter() - begin, process_time() - worked, messages)
        close()
        return opening

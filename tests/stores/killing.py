"""Writers that are killed at any instant, and what must be true of the store afterwards, whatever store it is.

The writer says what was acknowledged through a pipe, so what it said before it died is known. The store must hold
each acknowledged batch at its place, no batch in part, none twice, and seqs without gaps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT

__all__ = ("Nursery", "Texts", "Told", "environment", "needs_fork", "nursery")

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")

Texts = dict[str, list[tuple[int, str]]]


@dataclass
class Told:
    """What writers were told is stored."""

    batches: list[tuple[str, int, int, str]] = field(
        default_factory=list[tuple[str, int, int, str]]
    )

    def hear(self, line: str) -> None:
        conversation, first, size, label = line.split()[1:5]
        self.batches.append((conversation, int(first), int(size), label))

    def faults(self, held: Texts) -> list[str]:
        """What the store's content contradicts."""
        found = [fault for rows in held.values() for fault in _unsound(rows)]
        times = Counter(text for rows in held.values() for _, text in rows)
        found += [f"doubled: {text}" for text, count in times.items() if count > 1]
        for conversation, first, size, label in self.batches:
            rows = held.get(conversation, [])[first - 1 : first - 1 + size]
            if rows != [(first + part, f"{label} {part}/{size}") for part in range(size)]:
                found.append(f"lost: {label} at {first}")
        return found


def _unsound(rows: list[tuple[int, str]]) -> Iterator[str]:
    expected = ""
    for place, (seq, text) in enumerate(rows, 1):
        if seq != place:
            yield f"gap: {seq} at place {place}"
            return
        label, part, size = text.replace("/", " ").split()
        if expected not in ("", text) or (not expected and part != "0"):
            yield f"torn: {text} where {expected or 'a batch'} begins or goes on"
        following = int(part) + 1
        expected = "" if following == int(size) else f"{label} {following}/{size}"
    if expected:
        yield f"torn: {expected} is missing"


class Nursery:
    """A process that forks writers; see writers.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._orders, self._news = process.stdin, process.stdout

    def raise_and_kill(
        self,
        cycle: int,
        place: object,
        told: Told,
        *,
        batches: int,
        seconds: float,
        strike: Callable[[], None] | None = None,
    ) -> None:
        """Let a writer hear so many answers, and live for about so long after; kill it, and hear what it had said.

        With a `strike` something else is struck at that moment, and the writer is killed when it has gone on since.
        """
        self._orders.write(f"{cycle} {place}\n")
        self._orders.flush()
        born, pid = self._news.readline().split()
        assert born == "born"
        for _ in range(batches):
            told.hear(self._news.readline())
        time.sleep(seconds)
        if strike is not None:
            strike()
            self._hear_since(time.monotonic_ns(), told)
        os.kill(int(pid), signal.SIGKILL)
        for line in self._news:
            if line.startswith("dead"):
                assert line.split() == ["dead", str(-signal.SIGKILL)], "the writer died by itself"
                return
            told.hear(line)
        raise AssertionError("the nursery is gone")

    def _hear_since(self, moment: int, told: Told) -> None:
        answered = 0
        while answered < moment:
            line = self._news.readline()
            told.hear(line)
            answered = int(line.split()[5])


def environment() -> dict[str, str]:
    """What a program of this folder needs to find the library and its neighbours."""
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}


@contextmanager
def nursery(program: str, *words: str) -> Iterator[Nursery]:
    """The nursery of a program of this folder."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(program)), "nursery", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    ) as process:
        try:
            yield Nursery(process)
        except BaseException:
            process.kill()  # or the end of this block waits for a writer nobody kills any more
            raise
        assert process.stdin
        process.stdin.close()

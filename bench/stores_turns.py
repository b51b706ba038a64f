"""What the benchmarks of stores share: turns to append, their times, a folder on the disk.

Durable writes are timed by the clock, because waiting for the disk is most of them; processor time stands beside it.
The folder is the system's for temporary files; set TMPDIR to measure another disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter, process_time

from bench.timing import Samples
from bench.workload import exchanges
from turnfold import Message
from turnfold.records import NewEntry
from turnfold.runtime import drive
from turnfold.stores import Scope, Store
from turnfold.tokens import TokenCounter, counter_for

__all__ = ("SCOPE", "TALK", "Lane", "counter", "fill", "named", "scratch", "turns")

SCOPE = Scope("bench")
TALK = "talk"
BATCH = 2_000
Turn = tuple[Message, Message]


@cache
def turns(many: int) -> list[Turn]:
    """Questions with their answers, no tools."""
    return [
        (Message("user", asked.text), Message("assistant", answered.text))
        for asked, answered in exchanges(many)
    ]


def counter() -> TokenCounter:
    """Exact counts; counting is part of every append."""
    return counter_for("gpt-4o")


def named(turn: Turn, name: str) -> list[NewEntry]:
    """A turn with client ids."""
    return [NewEntry(turn[0], f"{name}.user"), NewEntry(turn[1], f"{name}.assistant")]


def fill(store: Store, messages: Sequence[Message], *, ids: bool = True, talk: str = TALK) -> None:
    """Append messages in large batches to a blocking store; not timed."""
    for start in range(0, len(messages), BATCH):
        batch = messages[start : start + BATCH]
        entries = [
            NewEntry(message, f"seed.{start + offset:09}" if ids else "")
            for offset, message in enumerate(batch)
        ]
        drive(store.append(SCOPE, talk, entries))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="turnfold-bench-") as folder:
        yield Path(folder)


@dataclass(slots=True)
class Lane:
    """One way to append turns: seconds per turn, round by round, by the clock and of the processor."""

    name: str
    append: Callable[[int], object]
    clock: Samples = field(default_factory=Samples)
    processor: Samples = field(default_factory=Samples)

    def round(self, many: int) -> None:
        """One sample: the mean of so many turns."""
        worked, begin = process_time(), perf_counter()
        self.append(many)
        self.clock.rounds.append([(perf_counter() - begin) / many])
        self.processor.rounds.append([(process_time() - worked) / many])

    def figures(self) -> dict[str, object]:
        """The same for machines."""
        return {"clock": self.clock.figures(), "processor": self.processor.figures()}

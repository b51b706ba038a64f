"""What the benchmarks of stores share: turns to append, the raw loop they are held against, a folder on the disk.

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

import apsw

from bench.timing import Samples
from bench.workload import transcript
from turnfold import Message, TokenCounter, counter_for
from turnfold.memory.drive import drive
from turnfold.records import NewEntry, encode_message
from turnfold.stores import Scope, Store

__all__ = ("SCOPE", "TALK", "Lane", "RawLog", "counter", "fill", "named", "scratch", "turns")

SCOPE = Scope("bench")
TALK = "talk"
BATCH = 2_000
Turn = tuple[Message, Message]


@cache
def turns(many: int) -> list[Turn]:
    """Questions with their answers, no tools."""
    items = transcript(many * 3, seed=23)
    said = {
        role: [Message(role, item.text) for item in items if item.role == role and item.text]
        for role in ("user", "assistant")
    }
    return list(zip(said["user"], said["assistant"], strict=False))[:many]


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


class RawLog:
    """The limit: one table, the same settings, and per turn one transaction with one INSERT of two rows."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        for setting in ("journal_mode=WAL", "synchronous=FULL"):
            self._connection.execute(f"PRAGMA {setting}").fetchall()
        self._connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self._bodies = [
            (encode_message(asked), encode_message(answered)) for asked, answered in turns(2_000)
        ]
        self._written = 0

    def fill(self, messages: Sequence[Message]) -> None:
        """Put messages there; not timed."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO log (body) VALUES (?)", ((encode_message(each),) for each in messages)
            )

    def append(self, many: int) -> None:
        """So many turns, each durable."""
        execute, bodies = self._connection.execute, self._bodies
        for number in range(self._written, self._written + many):
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO log (body) VALUES (?), (?)", bodies[number % len(bodies)])
            execute("COMMIT")
        self._written += many

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


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

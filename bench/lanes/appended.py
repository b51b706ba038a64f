"""One store that is written to: turns stored by one writer or by many, twice, until the process is killed, and weighed.

The text of a message begins with the name of its turn, so that what is missing, there twice or there by half can be
told from the texts alone. Everything is timed by the clock, because durable writes wait for the disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple
from uuid import uuid4

from bench.contender import Appended, Settings, Turn
from bench.workload import exchanges

__all__ = ("Found", "Lane", "Round", "Weight")

BATCH = 2_000
"""Messages that are stored in one go where a long conversation is only to be there."""


class Round(NamedTuple):
    """Many turns by all writers."""

    clock: float
    """Seconds from the first turn to the last, over the number of turns."""
    processor: float
    """The same of the processor, all threads of the process."""
    waits: list[float]
    """Seconds each turn took its writer."""


class Found(NamedTuple):
    """What is there of what was told to be stored."""

    told: int
    missing: int
    twice: int
    halves: int
    """Turns, told or not, of which only a part is there."""
    disordered: int
    """Turns that stand before one their writer said earlier."""
    damage: str = ""
    """What SQLite finds wrong with the file."""


class Weight(NamedTuple):
    """Bytes after so many messages."""

    held: int
    payload: int
    seconds: float


class Lane:
    """A file and those who write to it."""

    def __init__(
        self,
        contender: Appended,
        *,
        path: Path | str,
        writers: int = 1,
        own: bool = True,
        label: str = "a",
        random_names: bool = False,
    ) -> None:
        self._path = Path(path)
        self._label = label
        self._names = [f"{label}-{number:02}" if own else "talk" for number in range(writers)]
        self._talks = self._names
        self._begun = 0
        self._random = random_names
        self._numbers = [count() for _ in range(writers)]
        self._told: list[str] = []
        self._appender = contender.open(path)
        self._open = True

    def settings(self) -> Settings:
        """Whether its writes are durable."""
        return self._appender.settings()

    def begin(self) -> None:
        """Go on in new conversations."""
        self._begun += 1
        self._talks = [f"{name}-{self._begun}" for name in self._names]
        self._told.clear()

    def hold(self, messages: int) -> None:
        """Have so many messages in the first conversation; not timed."""
        said = [item for turn in exchanges(BATCH) for item in turn]
        for start in range(0, messages, BATCH):
            items = tuple(
                said[number % len(said)] for number in range(start, min(start + BATCH, messages))
            )
            turn = Turn(self._talks[0], f"held-{start}", items)
            self._appender.append([[turn]], lambda _: None)

    def round(self, each: int) -> Round:
        """So many turns of each writer."""
        writers = [list(self._turns(writer, each)) for writer in range(len(self._talks))]
        times: list[tuple[str, float]] = []
        worked, begin = process_time(), perf_counter()
        self._appender.append(writers, lambda turn: times.append((turn.name, perf_counter())))
        many = each * len(writers)
        clock, processor = perf_counter() - begin, process_time() - worked
        self._told += [name for name, _ in times]
        return Round(clock / many, processor / many, _waits(writers, dict(times), begin))

    def twice(self, each: int) -> Found:
        """Every turn stored and stored again under the same name, as after an answer that was lost."""
        writers = [
            [turn for turn in self._turns(writer, each) for _ in range(2)]
            for writer in range(len(self._talks))
        ]
        self._appender.append(writers, lambda turn: self._told.append(turn.name))
        return self.found()

    def load(self, side: Path) -> None:
        """Write until killed; what was told to be stored stands in a file beside."""
        said = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        writers = [self._turns(writer, 1_000_000) for writer in range(len(self._talks))]
        self._appender.append(writers, lambda turn: os.write(said, f"{turn.name}\n".encode()))

    def survived(self, side: Path) -> Found:
        """What another process was told to be stored, looked for here."""
        lines = side.read_text(encoding="utf-8").split("\n")
        self._told = [line for line in lines[:-1] if line]
        damage = _damage(self._path)
        return self.found()._replace(damage=damage)

    def found(self) -> Found:
        """What is there of everything that was told so far."""
        texts = [text for talk in sorted(set(self._talks)) for text in self._appender.texts(talk)]
        there = Counter(text.partition(" ")[0] for text in texts)
        names = [name.partition(":")[0] for name in there if name.endswith(":0")]
        told = list(dict.fromkeys(self._told))
        return Found(
            told=len(told),
            missing=sum(not (there[f"{name}:0"] and there[f"{name}:1"]) for name in told),
            twice=sum(many - 1 for many in there.values()),
            halves=sum(not there[f"{name}:1"] for name in names),
            disordered=_disordered(names),
        )

    def weigh(self, messages: int) -> Weight:
        """Bytes on disk after so many messages in one conversation, one turn at a time."""
        begin = perf_counter()
        turns = list(self._turns(0, messages // 2))
        self._appender.append([turns], lambda _: None)
        seconds = perf_counter() - begin
        self.close()
        held = sum(each.stat().st_size for each in self._path.parent.glob(f"{self._path.name}*"))
        payload = sum(
            len(json.dumps({"role": item.role, "content": item.text}, ensure_ascii=False).encode())
            for turn in turns
            for item in turn.items
        )
        return Weight(held, payload, seconds)

    def turns_per_commit(self) -> float:
        """How many turns share a commit, where the contender can tell; else 0."""
        tell = getattr(self._appender, "turns_per_commit", None)
        return tell() if tell else 0.0

    def close(self) -> None:
        """Let go of the file."""
        if self._open:
            self._open = False
            self._appender.close()

    def _turns(self, writer: int, many: int) -> Iterator[Turn]:
        said = exchanges(BATCH)
        for _, number in zip(range(many), self._numbers[writer], strict=False):
            name = f"{self._label}.{writer}.{number}"
            if self._random:
                name = f"{uuid4().hex}.{name}"
            items = tuple(
                item._replace(text=f"{name}:{part} {item.text}")
                for part, item in enumerate(said[(writer * 37 + number) % len(said)])
            )
            yield Turn(self._talks[writer], name, items)


def _waits(writers: Sequence[Iterable[Turn]], times: dict[str, float], begin: float) -> list[float]:
    """From the end of a writer's turn before, or from the beginning."""
    waits: list[float] = []
    for turns in writers:
        before = begin
        for turn in turns:
            waits.append(times[turn.name] - before)
            before = times[turn.name]
    return waits


def _disordered(names: Sequence[str]) -> int:
    newest: dict[str, int] = {}
    found = 0
    for name in names:
        writer, _, number = name.rpartition(".")
        found += int(number) < newest.get(writer, -1)
        newest[writer] = max(int(number), newest.get(writer, -1))
    return found


def _damage(path: Path) -> str:
    try:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("PRAGMA integrity_check(3)").fetchall()
    except sqlite3.Error as error:
        return str(error)
    found = "; ".join(str(row[0]) for row in rows)
    return "" if found == "ok" else found

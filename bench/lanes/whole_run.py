"""One contender over a whole conversation: every message appended, a window built wherever a call is due.

A contender in a file begins with one turn in it.

The conversation is played twice. The first time is timed and judged; the second time another one like it is played, and
what reaches a tokenizer is counted. It is another one, because a text counted before may be remembered anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

from bench.contender import Contender, Item, Stored
from bench.heard import heard
from bench.judge import Record, call_due, item_tokens
from bench.workload import transcript

__all__ = ("Lane", "Played", "Tokenised")

_TIMED = 51
_HEARD = count(1_001)
"""Seeds: each conversation that is listened to is a new one."""
_WARM = 3
"""Turns played before anything is timed."""
_MESSAGES_A_TURN = 4
"""More than there are, so that there are turns enough."""
_MESSAGES_MORE = 60
"""A short conversation may begin with a long stretch of tool calls."""


class Played(NamedTuple):
    """What some turns took."""

    turns: int
    """So far, with those before."""
    processor: float
    clock: float


class Tokenised(NamedTuple):
    """What was said in some turns, and what reached a tokenizer. Characters."""

    said: int
    tokenised: int


class Lane:
    """One contender."""

    def __init__(
        self, contender: Contender | Stored, *, path: Path, turns: int, budget: int
    ) -> None:
        self._contender = contender
        self._path = path
        self._turns = turns
        self._played = 0
        self._budget = budget
        self._record = Record()
        self._warm()
        item_tokens.cache_clear()  # some trim by it, and it knows the conversation from whoever came before
        self._run = _Run(contender, path, _conversation(turns, _TIMED), budget)

    def _warm(self) -> None:
        """What is loaded once per process, a vocabulary above all, is no part of a conversation."""
        path = self._path.with_name(f"warm-{self._path.name}")
        run = _Run(self._contender, path, _conversation(_WARM, next(_HEARD)), self._budget)
        while run.at < len(run.items):
            run.step()
        run.close()

    def play(self, turns: int) -> Played:
        """Some more turns."""
        run = self._run
        self._played = min(self._played + turns, self._turns)
        end = run.end_of(self._played)
        processor = clock = 0.0
        while run.at < end:
            item = run.items[run.at]
            worked, begin = process_time(), perf_counter()
            window = run.step()
            processor, clock = processor + process_time() - worked, clock + perf_counter() - begin
            if window is not None:
                self._record.judge(self._contender.read(window), newest=item, budget=self._budget)
        return Played(self._played, processor, clock)

    def record(self) -> Record:
        """How its windows were."""
        return self._record

    def tokenised(self, turns: int) -> Tokenised:
        """Another conversation of so many turns, and what of it was tokenised how often."""
        items = _conversation(turns, next(_HEARD))
        with heard() as taken:
            run = _Run(
                self._contender,
                self._path.with_name(f"heard-{self._path.name}"),
                items,
                self._budget,
            )
            while run.at < len(run.items):
                run.step()
            run.close()
        return Tokenised(sum(map(_characters, items)), taken.characters)

    def close(self) -> None:
        """Let go of the file, where there is one."""
        self._run.close()


class _Run:
    """A conversation that goes on."""

    def __init__(
        self, contender: Contender | Stored, path: Path, items: Sequence[Item], budget: int
    ) -> None:
        self.items = items
        self._begins = [at for at, item in enumerate(items) if item.role == "user"]
        self._due = [call_due(items[max(at - 8, 0) : at + 1]) for at in range(len(items))]
        if isinstance(contender, Stored):
            self.at, self._messages = self._begins[1], list(items)
            contender.seed(path, items[: self.at])
            self._session: Any = contender.open(path, budget)
        else:
            messages = contender.convert(items)
            self.at = len(items) - len(messages)
            self._messages = [None] * self.at + messages
            self._session = contender.open(messages[:0], budget)

    def end_of(self, turns: int) -> int:
        """Where the first turns end."""
        return self._begins[turns] if turns < len(self._begins) else len(self.items)

    def step(self) -> Sequence[Any] | None:
        """Append the next message, and build the window where a call is due."""
        self._session.add(self._messages[self.at])
        self.at += 1
        return self._session.window() if self._due[self.at - 1] else None

    def close(self) -> None:
        """Let go of the file, where there is one."""
        close = getattr(self._session, "close", None)
        if close is not None:
            close()


def _conversation(turns: int, seed: int) -> list[Item]:
    items = transcript(turns * _MESSAGES_A_TURN + _MESSAGES_MORE, seed=seed)
    begins = [at for at, item in enumerate(items) if item.role == "user"]
    return items[: begins[turns]]


def _characters(item: Item) -> int:
    return len(item.text) + sum(len(call.name) + len(call.arguments) for call in item.calls)

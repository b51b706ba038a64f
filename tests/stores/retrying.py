"""A caller who did not hear the answer asks again, whatever store it is: with client ids each entry is stored once.

An answer can be lost in several ways, and the caller cannot tell them apart: the request never arrived, the commit
happened and its answer was lost on the way, or the commit happened and the store itself believes it failed.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter

from turnfold.errors import StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Appended, Scope, Store

__all__ = ("ALICE", "AnswerLost", "Caller", "told_and_held")

ALICE = Scope("alice")
MOST_LOST = 4
"""Answers to one question that may be lost on purpose."""
MOST_TRIES = 20
"""The store may be out of reach for reasons of its own, on a machine that does much else."""


class AnswerLost(Exception):
    """The connection broke before the answer came."""


class Caller(ABC):
    """Appends through a line that loses answers, and asks again until it hears one."""

    ways: tuple[str, ...]
    """How an answer is lost on this line."""

    def __init__(self, seed: int = 5) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
        self.lost: Counter[str] = Counter()
        self.restarts = 0
        self.store = self.opened()

    @abstractmethod
    def opened(self) -> Store:
        """The store, at the end of the line."""

    @abstractmethod
    def ask(self, batch: list[NewEntry], way: str) -> Appended:
        """Append, losing the answer in this way."""

    def append(self, batch: list[NewEntry]) -> Appended:
        """Append until an answer is heard."""
        for tried in range(MOST_TRIES):
            way = "none" if tried >= MOST_LOST else self.dice.choice(("none", *self.ways))
            try:
                return self.ask(batch, way)
            except (AnswerLost, StoreUnavailable):
                self.lost[way] += 1
                if self.dice.random() < 0.1:
                    self.restart()
        raise AssertionError(f"{MOST_TRIES - MOST_LOST} tries in a row lost nothing and failed")

    def restart(self) -> None:
        """Go on with another store at the same place."""
        self.restarts += 1
        drive(self.store.close())
        self.store = self.opened()


def told_and_held(
    caller: Caller, batches: int, *, with_ids: bool = True
) -> tuple[list[str], list[str]]:
    """The texts that were appended, and the texts the store holds in the end."""
    told: list[str] = []
    for number in range(batches):
        texts = [f"{number}.{part}" for part in range(1 + number % 3)]
        done = caller.append([NewEntry(user(text), text if with_ids else "") for text in texts])
        told += texts
        assert done.last - done.first + 1 == len(texts)
        if with_ids:
            assert done.last == len(told)
    entries = drive(caller.store.read(ALICE, "talk", limit=100_000))
    drive(caller.store.close())
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return told, [entry.message.text for entry in entries]

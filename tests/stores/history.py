"""The judge of crowds: processes that write to the same conversations at once, and whether there was one order.

Each process notes when every call began and ended, by a clock that all share. A conversation only grows, so its last
content is the truth the notes are held against: each acknowledged value stands once, at the seq that was answered;
who began after another's answer stands behind it; a read shows a stretch of the truth and reaches every answer given
before it began. The stores' own clocks stand still, run backwards or leap, and it makes no difference.
"""

from __future__ import annotations

import json
import subprocess
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.stores.killing import environment
from tests.stores.writers import CLOCKS

__all__ = ("WRITERS", "Append", "History", "Read", "Truth", "crowded")

WRITERS = 200
TALKS = 5

Truth = list[tuple[int, str]]


class Append(NamedTuple):
    """An acknowledged append, and when it was asked for and answered."""

    began: int
    ended: int
    seq: int
    value: str


class Read(NamedTuple):
    """What was read behind a seq, and when."""

    began: int
    ended: int
    after: int
    values: Truth


@dataclass
class History:
    """What was noted of one conversation, and what it holds in the end."""

    appends: list[Append] = field(default_factory=list[Append])
    reads: list[Read] = field(default_factory=list[Read])
    truth: Truth = field(default_factory=list[tuple[int, str]])

    def anomalies(self) -> Counter[str]:
        """Every way in which the notes contradict one order."""
        truth, appends = self.truth, self.appends
        times = Counter(value for _, value in truth)
        stands = {value: seq for seq, value in truth}
        newest = _newest_answered(appends)
        found = Counter(
            {
                "gap": int([seq for seq, _ in truth] != list(range(1, len(truth) + 1))),
                "duplicate": len(truth) - len(times),
                "lost": sum(each.value not in stands for each in appends),
                "moved": sum(stands.get(each.value, each.seq) != each.seq for each in appends),
                "phantom": len(times.keys() - {each.value for each in appends}),
                "order": sum(newest(each.began) >= each.seq for each in appends),
            }
        )
        for read in self.reads:
            end = read.values[-1][0] if read.values else read.after
            found["stale"] += end < newest(read.began)
            found["other content"] += read.values != truth[read.after : end]
        return +found


def _newest_answered(appends: list[Append]) -> Callable[[int], int]:
    """The highest seq answered before a moment."""
    answered = sorted((append.ended, append.seq) for append in appends)
    moments = [ended for ended, _ in answered]
    highest = [0]
    for _, seq in answered:
        highest.append(max(highest[-1], seq))
    return lambda moment: highest[bisect_left(moments, moment)]


def crowded(program: str, place: str, *words: str, appends: int) -> dict[str, History]:
    """What the crowds of four processes noted of each conversation."""
    notes: dict[str, History] = defaultdict(History)
    for kind, talk, began, ended, at, what in _crowds(program, place, words, appends):
        if kind == "append":
            notes[talk].appends.append(Append(began, ended, at, what))
        else:
            values = [(seq, text) for seq, text in what]
            notes[talk].reads.append(Read(began, ended, at, values))
    return notes


def _crowds(program: str, place: str, words: Sequence[str], appends: int) -> list[list[Any]]:
    sizes = [str(size) for size in (WRITERS // len(CLOCKS), appends, TALKS)]
    start = [sys.executable, str(Path(__file__).with_name(program)), "crowds", place]
    answer = subprocess.run(
        [*start, *sizes, *words], stdout=subprocess.PIPE, env=environment(), check=True
    )
    return json.loads(answer.stdout)

"""Finds the lines of a long text that differ from most of its lines: errors, warnings, odd values in logs and tables.

A log, a table or a list repeats itself: most of its lines consist of words that many of its lines contain. The few
lines with other words are what a reader looks for. Prose and code do not repeat themselves; of these only lines that
report a failure are found.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern

__all__ = ("UnusualLine", "unusual_lines")


class UnusualLine(NamedTuple):
    """A line of a text, by its place, and a score for how much it differs from the other lines."""

    start: int
    stop: int
    score: float


_FEWEST_LINES = 12
"""In a text with fewer lines than this, no rare lines are searched for."""
_LONGEST = 500_000
"""Number of characters at the beginning of a text whose lines are compared; after them only failures are found."""
_LONGEST_LINE = 300
"""A line with more characters than this is never returned as a rare line."""
_MOST_SHARE = 0.1
"""Largest share of all lines that can count as unusual; if more differ, the text does not repeat itself."""
_RARE_SHARE = 0.02
"""A word counts as rare if at most this share of the lines has it."""
_TIMES_MEDIAN = 3.0
"""An unusual line has at least this many times the score of the median line."""
_LEAST_SCORE = 2.0
_FAILURE_SCORE = 100.0

_WORD = late_pattern(r"[^\W\d_]+")
_HAN = late_pattern(r"[\u3400-\u9fff]{2,}")
_FAILURE = late_pattern(
    r"\b(?:error|exception|fail(?:ed|ure|s)?|fatal|critical|panic|traceback|denied|refused|timed[ -]out"
    r"|timeout|warn(?:ing)?|not found|missing|invalid|unreachable|crash(?:ed)?|abort(?:ed)?|killed)\b"
    r"|(?<![无没])(?:异常|失败|错误|警告|超时|拒绝|崩溃|中断|缺失|无法)",
)  # fmt: skip


def unusual_lines(text: str, start: int, stop: int) -> list[UnusualLine]:
    """Return the unusual lines that lie wholly between `start` and `stop`, the most unusual first."""
    lines = _lines(text)
    if len(lines) < _FEWEST_LINES:
        return []
    scores = _scores([_words(text[first:last]) for first, last in lines if last <= _LONGEST])
    usual = max(median(scores or (0.0,)) * _TIMES_MEDIAN, _LEAST_SCORE)
    if sum(score > usual for score in scores) > _most(scores):
        scores = []
    scores += [0.0] * (len(lines) - len(scores))
    failures = [bool(_FAILURE.search(text[first:last].lower())) for first, last in lines]
    if sum(failures) <= _most(failures):
        scores = [
            score + _FAILURE_SCORE * failed for score, failed in zip(scores, failures, strict=True)
        ]
    found = [
        UnusualLine(first, last, score)
        for (first, last), score in zip(lines, scores, strict=True)
        if score > usual and start <= first and last <= stop and last - first <= _LONGEST_LINE
    ]
    return sorted(found, key=lambda line: (-line.score, line.start))


def _most(lines: Sequence[object]) -> int:
    """Return how many of these lines can be unusual."""
    return max(1, int(len(lines) * _MOST_SHARE))


def _lines(text: str) -> list[tuple[int, int]]:
    """Return start and end of each line that is not blank."""
    found: list[tuple[int, int]] = []
    at = 0
    for line in text.split("\n"):
        if line.strip():
            found.append((at, at + len(line)))
        at += len(line) + 1
    return found


def _words(line: str) -> set[str]:
    """Return the words of a line, without numbers; Chinese is split into pairs of characters."""
    pairs = {run[at : at + 2] for run in _HAN.findall(line) for at in range(len(run) - 1)}
    return {word for word in _WORD.findall(line.lower()) if word.isascii()} | pairs


def _scores(words: Sequence[set[str]]) -> list[float]:
    """Return for each line the summed rarity of its rare words."""
    holding = Counter(word for line in words for word in line)
    most = max(1, int(len(words) * _RARE_SHARE))
    return [
        sum(math.log(len(words) / holding[word]) for word in line if holding[word] <= most)
        for line in words
    ]

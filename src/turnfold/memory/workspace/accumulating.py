"""The summaries of all turns as one text that does not grow with them.

The newest are shown as they are. When they outgrow their share, the oldest are folded into the sentences that say most,
word for word, and the text says how any of them is brought back; nothing is dropped unsaid and the originals stay.
Folding goes in steps of a fixed size over the turns, each upon the last, so that every process comes to the same text
and the next turn does not fold everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from turnfold.errors import InvalidOption
from turnfold.summary import Passage, extract_summary
from turnfold.tokens import clip

__all__ = ("FEWEST_SUMMARY_TOKENS", "Accumulated")

FEWEST_SUMMARY_TOKENS = 64
_STEP = 16
"""Summaries folded at once."""
_FOLDED_PART = 3
"""One in so many tokens is for the folded ones."""
_JOINTS = 24
"""Tokens of the line above the folded ones."""
_MOST_FOLDS = 4096
_Source: TypeAlias = tuple[str, tuple[tuple[int, str], ...]]
"""What a step folds: the step before, and (turn, summary)."""


class Accumulated:
    """Summaries by turn, rendered within a limit."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._folds: dict[tuple[int, int], tuple[_Source, str]] = {}

    def text(self, summaries: Sequence[tuple[int, str]], *, tokens: int) -> str:
        """A line per turn in at most `tokens`; `summaries` are (turn, text), oldest first."""
        if tokens < FEWEST_SUMMARY_TOKENS:
            raise InvalidOption(
                f"{tokens} tokens are too few for summaries; give them {FEWEST_SUMMARY_TOKENS}, or a larger budget"
            )
        said = [(turn, " ".join(text.split())) for turn, text in summaries]
        lines = [_line(*each) for each in said]
        newest = self._newest(lines, tokens)
        if len(newest) == len(lines):
            whole = "\n".join(newest)
            if self._count(whole) <= tokens:
                return whole
        folded_tokens = tokens // _FOLDED_PART
        newest = self._newest(lines, tokens - folded_tokens - _JOINTS)
        while True:
            text = self._with_folded(said, newest, folded_tokens)
            if self._count(text) <= tokens or not newest:
                return clip(text, tokens, self._count)
            newest = newest[1:]

    def _newest(self, lines: Sequence[str], room: int) -> list[str]:
        """The newest lines that fit; the very newest is cut rather than left out."""
        kept: list[str] = []
        for line in reversed(lines):
            cost = self._count(line) + 1
            if cost > room:
                if not kept:
                    kept.append(f"{clip(line, max(room - 4, 0), self._count)}…")
                break
            kept.append(line)
            room -= cost
        return kept[::-1]

    def _with_folded(
        self, said: Sequence[tuple[int, str]], newest: Sequence[str], tokens: int
    ) -> str:
        older = said[: len(said) - len(newest)]
        if not older:
            return "\n".join(newest)
        first, last = older[0][0], older[-1][0]
        remark = f"[Turns {first}-{last}, shortened; recall_context shows any turn whole]"
        return "\n".join([remark, self._folded(older, tokens), *newest])

    def _folded(self, said: Sequence[tuple[int, str]], tokens: int) -> str:
        previous = ""
        steps = len(said) // _STEP
        for step in range(steps):
            source = previous, tuple(said[step * _STEP : (step + 1) * _STEP])
            known = self._folds.get((step, tokens))
            if known is None or known[0] != source:
                if len(self._folds) >= _MOST_FOLDS:
                    self._folds.clear()
                known = source, self._extract(source[1], previous, tokens)
                self._folds[step, tokens] = known
            previous = known[1]
        return self._extract(said[steps * _STEP :], previous, tokens)

    def _extract(self, said: Sequence[tuple[int, str]], previous: str, tokens: int) -> str:
        passages = [Passage(f"[Turn {turn}]", text, turn) for turn, text in said]
        return extract_summary(passages, limit=tokens, count=self._count, previous=previous)


def _line(turn: int, text: str) -> str:
    # One line: a summary cannot pass for that of another turn.
    return f"[Turn {turn}] {text}"

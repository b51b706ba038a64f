"""One contender that summarises: where every message is at every call, and what the model was given to read.

Each message begins and ends with a mark of its own. The model is a function that answers with a mark of its own, which
stands for the messages it was given whole and for the earlier summaries in its prompt. So at every call one can tell
which messages the window neither shows nor has a summary of: they are nowhere. A message of which only a part was shown
to the model, or only a part stands in the window, is nowhere too, unless its beginning and its end are there.

A contender may write a summary without the model while that one fails, and say of which messages (`extracts`): those
are behind it wherever its text stands, in a window or in a later prompt, with what the summary before it stood for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.contender import Extract, Item, Summarised
from bench.judge import Record, call_due
from bench.phrases import english
from bench.workload import transcript

__all__ = ("FAILING", "Lane", "Outcome")

_BEGINS, _ENDS = re.compile(r"\[#(\d+)\]"), re.compile(r"\[/#(\d+)\]")
_SUMMARY = re.compile(r"\[\[S(\d+)\]\]")
_SENTENCES = 4
"""Of an answer, beside its mark."""
FAILING = ("never", "every third", "a while")
"""When the model fails: never, at every third question, or at all in the middle fifth of the conversation."""


class ModelDown(Exception):
    """What the model raises when it fails."""


@dataclass(slots=True)
class Outcome:
    """What became of the messages of one conversation."""

    record: Record = field(default_factory=Record)
    said: int = 0
    """Characters of the conversation."""
    sent: int = 0
    """Characters the model was given."""
    asked: int = 0
    failed: int = 0
    gaps: int = 0
    """Calls at which a message was nowhere."""
    most: int = 0
    """Messages that were nowhere at once."""
    late: int = 0
    """Of the last tenth of the calls, those at which a message was nowhere."""
    left: int = 0
    """Messages that were nowhere at the last call."""
    error: str = ""
    """What reached the user, the first time something did."""


class _Model:
    """Answers with a mark that stands for what it was given."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self.fails = fails
        self.asked = self.failed = self.characters = 0
        self.covers: list[frozenset[int]] = []
        self.extracts: dict[str, frozenset[int]] = {}

    def __call__(self, prompt: str) -> str:
        self.asked += 1
        self.characters += len(prompt)
        if self.fails(self.asked):
            self.failed += 1
            raise ModelDown("503: the model is overloaded")
        self.covers.append(self.stood_for(prompt))
        random = Random(self.asked)  # noqa: S311 (repeatable, not secret)
        prose = " ".join(english(random) for _ in range(_SENTENCES))
        return f"[[S{len(self.covers) - 1}]] {prose}"

    def stood_for(self, text: str) -> frozenset[int]:
        """The messages a text shows whole or has a summary of."""
        shown = _numbers(_BEGINS, text) & _numbers(_ENDS, text)
        summaries = [self.covers[number] for number in _numbers(_SUMMARY, text)]
        extracts = [covers for extract, covers in self.extracts.items() if extract in text]
        return frozenset(shown).union(*summaries, *extracts)

    def hear(self, extracts: Sequence[Extract]) -> None:
        """Of summaries that were written without this model, oldest first."""
        for each in extracts:
            if each.text not in self.extracts:
                self.extracts[each.text] = each.covers | self.stood_for(each.previous)


class Lane:
    """One contender, one way for the model to fail."""

    def __init__(self, contender: Summarised, *, messages: int, budget: int, failing: str) -> None:
        self._contender = contender
        self._budget = budget
        self._failing = failing
        self._items = _marked(transcript(messages, seed=31))
        self._at = 0

    def run(self) -> Outcome:
        """The whole conversation."""
        outcome = Outcome(said=sum(map(_characters, self._items)))
        model = _Model(self._fails)
        session = self._contender.open(self._budget, model)
        messages = self._contender.convert(self._items)
        merged = len(self._items) - len(messages)
        gaps: list[int] = []
        for number, message in enumerate(messages, start=merged):
            self._at = number
            session.add(message)
            if call_due(self._items[: number + 1]):
                gaps.append(self._call(session, model, outcome, number))
        outcome.sent, outcome.asked, outcome.failed = model.characters, model.asked, model.failed
        known = [gap for gap in gaps if gap >= 0]
        outcome.gaps, outcome.most = sum(map(bool, known)), max(known, default=0)
        outcome.late = sum(gap > 0 for gap in gaps[-max(len(gaps) // 10, 1) :])
        outcome.left = known[-1] if known else len(messages)
        return outcome

    def _call(self, session: Any, model: _Model, outcome: Outcome, number: int) -> int:  # noqa: ANN401 (the contender's)
        """How many messages are nowhere; -1 where the contender raised an error instead of a window."""
        try:
            window = self._contender.read(session.window())
        except Exception as error:
            outcome.record.windows += 1
            outcome.record.refused += 1
            outcome.error = outcome.error or f"{type(error).__name__}: {error}"[:200]
            return -1
        outcome.record.judge(window, newest=self._items[number], budget=self._budget)
        model.hear(getattr(session, "extracts", list[Extract])())
        shown = model.stood_for("\n".join(item.text for item in window))
        return len(set(range(1, number + 1)) - shown)

    def _fails(self, asked: int) -> bool:
        if self._failing == "every third":
            return asked % 3 == 0
        done = self._at / len(self._items)
        return self._failing == "a while" and 0.4 <= done < 0.6


def _marked(items: Sequence[Item]) -> list[Item]:
    """All but the system message, which is never summarised."""
    return [
        item._replace(text=f"[#{number}] {item.text} [/#{number}]") if number else item
        for number, item in enumerate(items)
    ]


def _characters(item: Item) -> int:
    return len(item.text) + sum(len(call.name) + len(call.arguments) for call in item.calls)


def _numbers(mark: re.Pattern[str], text: str) -> set[int]:
    return {int(found) for found in mark.findall(text)}

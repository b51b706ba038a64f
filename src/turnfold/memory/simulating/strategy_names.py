"""Strategies by name, for those who type instead of program: `fold`, `last:20`, `shrink:400+fold`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.window import Strategy, compose, oldest_first, shrink_results, sliding_window

__all__ = ("STRATEGY_NAMES", "Plan", "plan_for")

STRATEGY_NAMES: Final = {
    "fold": "older turns behind a summary by the built-in summariser, as a memory does by itself",
    "oldest-first": "older turns left out down to the low mark, no summary",
    "last:N": "the newest N messages, sliding with every message",
    "turns:N": "the newest N turns, sliding with every turn",
    "shrink:N": "tool results of earlier turns shortened to N tokens before anything is left out",
    "everything": "the whole log in every call, whatever the budget: what it would cost to forget nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a name stands for."""

    name: str
    strategy: Strategy = oldest_first
    folds: bool = False
    bounded: bool = True
    """Whether the budget holds."""


def plan_for(name: str) -> Plan:
    """The plan of a name; several joined by `+` act one after the other."""
    steps: list[Strategy] = []
    words = [word.strip() for word in name.split("+")]
    for word in words:
        kind, _, number = word.partition(":")
        if kind in ("fold", "oldest-first", "everything") and not number:
            steps += [] if kind == "everything" else [oldest_first]
        elif kind in ("last", "turns", "shrink") and number.isdecimal():
            steps.append(_sized(kind, int(number)))
        else:
            raise InvalidOption(
                f"strategy {word!r} is none of {', '.join(STRATEGY_NAMES)}; join several with '+'"
            )
    if "everything" in words and len(words) > 1:
        raise InvalidOption(f"strategy {name!r}: 'everything' leaves nothing to combine with")
    strategy = oldest_first if not steps else steps[0] if len(steps) == 1 else compose(*steps)
    return Plan(
        name=name, strategy=strategy, folds="fold" in words, bounded="everything" not in words
    )


def _sized(kind: str, number: int) -> Strategy:
    if kind == "shrink":
        return compose(shrink_results(cap=number), oldest_first)
    return sliding_window(messages=number) if kind == "last" else sliding_window(turns=number)

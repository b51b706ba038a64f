"""Tables of patterns: which clause forms lay something down, tried only where one of their words occurs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from turnfold.rules.record import Reading, RuleKind

__all__ = ("Maker", "PatternTable", "labels", "reads")


Maker: TypeAlias = Callable[[re.Match[str]], Reading | None]
"""Makes the reading of a match; None if the clause is no rule after all."""


@dataclass(frozen=True, slots=True)
class PatternTable:
    """Patterns in the order in which they are tried, found by their triggers (words, or characters of Chinese)."""

    flags: re.RegexFlag
    patterns: list[tuple[re.Pattern[str], Maker]] = field(
        default_factory=list[tuple[re.Pattern[str], Maker]]
    )
    by_trigger: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    by_first: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def add(self, triggers: str, regex: str, make: Maker) -> None:
        """Add a pattern that can match only a clause with one of the triggers; after `^`, one that begins with it."""
        by_trigger = self.by_first if triggers.startswith("^") else self.by_trigger
        for trigger in triggers.removeprefix("^").split():
            by_trigger.setdefault(trigger, set()).add(len(self.patterns))
        self.patterns.append((re.compile(regex, self.flags), make))

    def read(self, clause: str, triggers: Iterable[str], *, first: str = "") -> Reading | None:
        """Return the reading of the first pattern that matches; `triggers` are those of the clause."""
        tried = set(self.by_first.get(first, ()))
        for trigger in triggers:
            if trigger in self.by_trigger:
                tried |= self.by_trigger[trigger]
        for number in sorted(tried):
            regex, make = self.patterns[number]
            match = regex.search(clause)
            if match and (reading := make(match)) is not None:
                return reading
        return None


def reads(kind: RuleKind, **fixed: object) -> Maker:
    """Return a maker of readings; named groups of the pattern become the fields of the same name."""
    base = Reading(kind)._replace(**fixed)

    def make(match: re.Match[str]) -> Reading | None:
        named = {name: text for name, text in match.groupdict().items() if text}
        return base._replace(**{name: named[name] for name in _FIELDS if name in named})

    return make


_FIELDS = ("attribute", "value", "old")


def labels(**words: str) -> dict[str, RuleKind]:
    """Return the kind each label means; the labels of a kind are given as one text."""
    kinds: tuple[RuleKind, ...] = ("rule", "prohibition", "decision", "preference", "task", "fact")
    return {label: kind for kind in kinds for label in words.get(kind, "").split()}

"""What is to be done with the results of a tool.

Only the author of a tool knows whether its answers last, what makes them stale and whether calling it changes
something. The defaults are the careful ones: a result is remembered, and no call is answered from memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import cast

from turnfold.errors import InvalidOption
from turnfold.records.findings import NEUTRAL, RESULT, check_score

__all__ = ("FindingRule", "Score", "own_score", "rules_by_tool")

Score = Callable[[str], float | None]
"""The relevance of a result from its text, 0 to 1; None where the text does not say."""

_SCORES = ("score", "relevance", "relevance_score")
_LISTS = ("results", "hits", "items", "matches")


def own_score(result: str) -> float | None:
    """The score a tool wrote into its own JSON, the best one where it lists several hits.

    Only a scale from 0 to 1 can be compared with that of other tools: where any score lies outside of it, the result
    does not say.
    """
    try:
        value = cast("object", json.loads(result))
    except (ValueError, RecursionError):
        return None
    scores = list(_scores(value))
    if not scores or not all(math.isfinite(each) and 0.0 <= each <= 1.0 for each in scores):
        return None
    return max(scores)


def _scores(value: object) -> Iterable[float]:
    if isinstance(value, list):
        for member in cast("list[object]", value):
            if isinstance(member, dict):
                yield from _scores_of(cast("dict[str, object]", member))
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        yield from _scores_of(fields)
        for name in _LISTS:
            if isinstance(fields.get(name), list):
                yield from _scores(fields[name])


def _scores_of(fields: Mapping[str, object]) -> Iterable[float]:
    for name in _SCORES:
        found = fields.get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            yield float(found)


@dataclass(frozen=True, slots=True)
class FindingRule:
    """How the results of one tool are remembered."""

    tool: str
    _: KW_ONLY
    kind: str = RESULT
    """`"toc"` for a table of contents: shown first, and kept when the question is over."""
    ttl: float = 0.0
    """Seconds a result holds; 0 for no end."""
    invalidated_by: tuple[str, ...] = ()
    """Tools that make the results stale by running, whether they succeed or not."""
    side_effects: bool = False
    """Whether calling it changes something: then no call is ever answered from memory."""
    serve: bool = False
    """Whether an identical call is answered from memory instead of being made."""
    score: Score = own_score
    relevance: float = NEUTRAL
    """The relevance of a result that does not say how relevant it is."""
    min_relevance: float = 0.0
    """Results below it are not remembered."""
    largest: int = 200_000
    """Characters; a longer result is not remembered, it stays in the log alone."""

    def __post_init__(self) -> None:
        if not self.tool:
            raise InvalidOption("a rule names its tool: FindingRule('get_toc', ...)")
        if isinstance(self.invalidated_by, str):
            raise InvalidOption(
                f"invalidated_by={self.invalidated_by!r} is a text; write ({self.invalidated_by!r},)"
            )
        if self.tool in self.invalidated_by:
            raise InvalidOption(
                f"results of {self.tool!r} that {self.tool!r} makes stale would never hold"
            )
        if not math.isfinite(self.ttl) or self.ttl < 0:
            raise InvalidOption(f"ttl={self.ttl} must be a number of seconds, 0 for no end")
        if self.largest < 1:
            raise InvalidOption(f"largest={self.largest} must be at least 1 character")
        check_score(self.relevance, path="relevance")
        check_score(self.min_relevance, path="min_relevance")
        if self.serve and self.side_effects:
            raise InvalidOption(
                f"tool {self.tool!r} has side effects: a call answered from memory would leave them out; "
                "set serve=False"
            )

    def relevance_of(self, result: str, given: float | None) -> float:
        """The relevance of a result: what the caller says, else the tool, else the rule."""
        if given is not None:
            return check_score(given, path="score")
        found = self.score(result)
        if found is None:
            return self.relevance
        return check_score(found, path=f"score of {self.tool!r}")


def rules_by_tool(rules: Iterable[FindingRule]) -> dict[str, FindingRule]:
    """Rules by the name of their tool; two for one tool are refused."""
    found: dict[str, FindingRule] = {}
    for rule in rules:
        if rule.tool in found:
            raise InvalidOption(f"two rules for the tool {rule.tool!r}")
        found[rule.tool] = rule
    return found

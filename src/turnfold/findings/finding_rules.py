"""Rules of findings (remembered tool results): when two calls are the same, which results are kept, and their order.

Only the author of a tool knows how long its results last, what makes them stale and whether calling it changes
something. The defaults of a `FindingRule` are safe: results are remembered, but no call is answered from memory.

A stored result may only answer a call with the same arguments. Arguments are compared by value, not by spelling. In
doubt they count as different: that costs one more call, while a wrong match would give a wrong answer.

- The order of keys, white space and escapes do not matter.
- Numbers are compared by value, as JSON schemas do: 1, 1.0 and 1e0 are the same, 1 and true are not, nor 1 and "1".
  Whole numbers keep all their digits.
- Text is compared character by character: no case folding and no Unicode normalisation, because a tool may well look up
  a file under the one spelling and not under the other.
- A missing name differs from one that is null. No arguments at all are the empty object.
- A name that occurs twice, NaN, infinities and lone surrogates have no single meaning and are refused.

Every process must sort findings in the same way, so the order is total: tables of contents first, then by relevance,
then the newest, then by key; in a prompt also by the words of the current question. The current time is a parameter and
never read here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import NoReturn, Protocol, cast

import msgspec

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import MAX_DEPTH, NEUTRAL, RESULT, TOC, Finding, check_score, freeze, thaw
from turnfold.text import SIMPLIFIED, normal_form, search_terms

__all__ = (
    "FindingRule",
    "RuleSource",
    "as_finding_rules",
    "canonical_arguments",
    "findings_to_drop",
    "is_valid",
    "newer_finding",
    "normalized",
    "plain_tool_name",
    "rank_findings",
    "rank_for_question",
    "rule_for",
    "rules_by_tool",
    "score_in_json",
    "term_scores",
)


_EXACT = 2.0**53
"""Largest number up to which a float represents every whole number exactly; up to it, 2.0 and 2 count as the same
argument of a tool."""


def canonical_arguments(arguments: str | Mapping[str, object] | None) -> str:
    """Return the canonical JSON of a call's arguments, which may be JSON text or a mapping."""
    if not arguments or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    copied = arguments if isinstance(arguments, str) else thaw(freeze(arguments, path="arguments"))
    parsed = _parse_json(copied) if isinstance(copied, str) else copied
    if not isinstance(parsed, dict):
        raise InvalidRecord(
            f"the arguments of a tool call must be a JSON object, got {type(parsed).__name__}",
            path="arguments",
        )
    equal = _normalized_numbers(cast("object", parsed), 0)
    return json.dumps(equal, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _parse_json(text: str) -> object:
    try:
        value = cast(
            "object",
            json.loads(text, object_pairs_hook=_unique_names, parse_constant=_refuse_constant),
        )
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidRecord):
            raise
        raise InvalidRecord(
            f"the arguments of a tool call are not JSON: {error}", path="arguments"
        ) from None
    freeze(value, path="arguments")  # checks depth, surrogates and NaN
    return value


def _unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidRecord(
                f"the arguments of a tool call are ambiguous: an object has the name {name!r} twice",
                path="arguments",
            )
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRecord(
        f"the arguments of a tool call contain {name}, which is not a JSON number", path="arguments"
    )


def _normalized_numbers(value: object, depth: int) -> object:
    """Return the value with equal numbers written in the same way (1.0 becomes 1)."""
    if depth > MAX_DEPTH:
        raise InvalidRecord(
            f"the arguments of a tool call are nested deeper than {MAX_DEPTH} levels",
            path="arguments",
        )
    if isinstance(value, float):
        whole = math.isfinite(value) and value.is_integer() and abs(value) <= _EXACT
        return int(value) if whole else value
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: _normalized_numbers(member, depth + 1) for name, member in members.items()}
    if isinstance(value, list):
        return [_normalized_numbers(member, depth + 1) for member in cast("list[object]", value)]
    return value


_SCORES = ("score", "relevance", "relevance_score")
_LISTS = ("results", "hits", "items", "matches")


def score_in_json(result: str) -> float | None:
    """Return the highest relevance score in a JSON tool result; None if it has no score.

    Only scores from 0 to 1 can be compared between tools, so None is returned if any score is outside that range.
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
    """Rule for remembering and reusing the results of one tool."""

    tool: str
    _: KW_ONLY
    kind: str = RESULT
    """The kind of the results: `"toc"` for a table of contents, which is shown first and kept by `clear_query`."""
    ttl: float = 0.0
    """Seconds until a result expires; 0 if results never expire."""
    invalidated_by: tuple[str, ...] = ()
    """Names of tools: when one of them runs, successful or not, results of this rule's tool become stale."""
    side_effects: bool = False
    """True if calling the tool changes something; calls are then never answered from memory."""
    serve: bool = False
    """True if a repeated identical call is answered from memory and the tool is not called."""
    score: Callable[[str], float | None] = score_in_json
    """Function that returns the relevance (0 to 1) that the text of a result states; None if the text states none."""
    relevance: float = NEUTRAL
    """Relevance of a result for which `score` returns None, or if there is no `score`."""
    min_relevance: float = 0.0
    """Results less relevant than this are not remembered."""
    largest: int = 200_000
    """The most characters of a result; a longer one is not remembered and is only in the log."""
    keep: Callable[[Mapping[str, object], str], str | None] | None = None
    """Function that takes the arguments and the result of a call, and returns the text to remember; None for
    nothing."""

    def __post_init__(self) -> None:
        if not self.tool:
            raise InvalidOption(
                "a finding rule needs the name of its tool: for example FindingRule('get_toc', ...)"
            )
        if isinstance(self.invalidated_by, str):
            raise InvalidOption(
                f"invalidated_by={self.invalidated_by!r} is a string: give a tuple of tool names, "
                f"({self.invalidated_by!r},)"
            )
        if self.tool in self.invalidated_by:
            raise InvalidOption(
                f"tool {self.tool!r} is in its own invalidated_by: remove it, or its results would always be stale"
            )
        if not math.isfinite(self.ttl) or self.ttl < 0:
            raise InvalidOption(
                f"ttl={self.ttl} must be a number of seconds, or 0 if results never expire"
            )
        if self.largest < 1:
            raise InvalidOption(f"largest={self.largest} must be at least 1 character")
        check_score(self.relevance, path="relevance")
        check_score(self.min_relevance, path="min_relevance")
        if self.serve and self.side_effects:
            raise InvalidOption(
                f"tool {self.tool!r} has side effects: a call answered from memory would skip them; "
                "set serve=False"
            )

    def kept_of(self, arguments: Mapping[str, object], result: str) -> str | None:
        """Return the text to remember for a tool result, as the rule's option `keep` decides.

        Returns None if nothing is to be remembered.
        """
        return result if self.keep is None else self.keep(arguments, result)

    def relevance_of(self, result: str, given: float | None) -> float:
        """Return the relevance of a result: the score that the caller passed, else that of the rule."""
        if given is not None:
            return check_score(given, path="score")
        found = self.score(result)
        if found is None:
            return self.relevance
        return check_score(found, path=f"score of {self.tool!r}")


class RuleSource(Protocol):
    """An object that supplies finding rules (which tool results are remembered), such as an `AgentMemory`."""

    def finding_rules(self) -> Sequence[FindingRule]:
        """Return the finding rules, by which tool results are remembered."""
        ...


def as_finding_rules(findings: RuleSource | Iterable[FindingRule]) -> tuple[FindingRule, ...]:
    """Return the rules of findings (which tool results to remember) from the option `findings=`.

    The option is a list of rules, or an object that supplies them.
    """
    if isinstance(findings, Iterable):
        return tuple(findings)
    return tuple(findings.finding_rules())


def rules_by_tool(rules: Iterable[FindingRule]) -> dict[str, FindingRule]:
    """Return the rules of findings (which tool results to remember) by tool name.

    Raises `InvalidOption` if there are two for one tool.
    """
    found: dict[str, FindingRule] = {}
    for rule in rules:
        if rule.tool in found:
            raise InvalidOption(
                f"there are two finding rules for the tool {rule.tool!r}: give one rule per tool"
            )
        found[rule.tool] = rule
    return found


def rule_for(rules: Mapping[str, FindingRule], tool: str) -> FindingRule | None:
    """Return the rule that says how results of a tool are remembered; None if there is none.

    A rule may name an MCP tool with or without its server.
    """
    return rules.get(tool) or rules.get(plain_tool_name(tool))


def plain_tool_name(tool: str) -> str:
    """Return the name of a tool without its MCP server: `get_toc` of `mcp__rules__get_toc`; other names as they are."""
    parts = tool.split("__", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "mcp" and all(parts) else tool


def term_scores(texts: Sequence[str], terms: Collection[str]) -> list[float]:
    """Score each text by the terms it contains: rare terms count more, a term in every text counts nothing.

    `terms` come from `turnfold.text.search_terms`, `texts` from `normalized`. The texts are searched for the terms, not
    split into terms themselves, which for a hundred long results would take longer than the rest of a context. This
    works because a word begins with its stem, and a pair of Chinese characters occurs unchanged in the text.
    """
    scores = [0.0] * len(texts)
    for term in dict.fromkeys(terms):
        matching = [index for index, text in enumerate(texts) if _contains(text, term)]
        for index in matching:
            scores[index] += math.log(len(texts) / len(matching))
    # Rounded, so that the order in which fractions are added decides nothing.
    return [round(score, 9) for score in scores]


def normalized(text: str) -> str:
    """Return the text in the spelling of search terms: NFKC, case-folded, simplified Chinese."""
    plain = text if text.isascii() else normal_form("NFKC", text).translate(SIMPLIFIED)
    return plain.casefold()


_normalized_cached = lru_cache(maxsize=1 << 8)(normalized)
"""`normalized` with a cache, for texts that are compared in every turn."""


def _contains(text: str, term: str) -> bool:
    if term not in text:
        return False
    return not term.isascii() or _word_start(term).search(text) is not None


@lru_cache(maxsize=1 << 10)
def _word_start(term: str) -> re.Pattern[str]:
    """Return a pattern that matches a word beginning with the search term; a number must match whole."""
    end = r"(?!\d)" if term[-1:].isdigit() else ""
    return re.compile(rf"(?<![^\W_]){re.escape(term)}{end}", re.ASCII)


def is_valid(finding: Finding, *, now: int, ran: Mapping[str, int]) -> bool:
    """Return True if a finding (remembered tool result) is neither expired nor stale.

    Only a valid one is shown, or used to answer a call.

    `ran` maps each tool to the log position (seq) at which it last ran. A tool that ran in parallel with the call may
    have changed what the call read, so an equal position makes the finding stale too.
    """
    if finding.expires and now >= finding.expires:
        return False
    return all(ran.get(tool, -1) < finding.asked for tool in finding.invalidated_by)


def rank_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort remembered tool results: tables of contents first, then the highest score, then the newest."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[bool, float, int, str]:
    return finding.kind != TOC, -finding.score, -finding.since, finding.key


def rank_for_question(
    findings: Sequence[Finding], question: str
) -> tuple[list[Finding], list[Finding]]:
    """Sort findings (remembered tool results) for a question; also return those that share a term with the question.

    Tables of contents come first. A tool's score was for an earlier question, so the terms shared with the current
    question count as much as that score, relative to the best match.
    """
    texts = [_normalized_cached(f"{each.arguments}\n{each.content}") for each in findings]
    scores = term_scores(texts, search_terms(question))
    best = max(scores, default=0.0) or 1.0
    matches = {each.key: score / best for each, score in zip(findings, scores, strict=True)}

    def rank(finding: Finding) -> tuple[bool, float]:
        return finding.kind != TOC, -round(finding.score + matches[finding.key], 9)

    every = sorted(rank_findings(findings), key=rank)
    return every, [each for each in every if matches[each.key]]


def newer_finding(known: Finding | None, new: Finding) -> Finding:
    """Choose between two results of the same call: the one that is later in the log, whatever their scores.

    If both results are equal, the higher score is kept.
    """
    if known is None:
        return new
    if known.asked > new.asked:
        return known
    if known.content == new.content:
        return msgspec.structs.replace(new, score=max(known.score, new.score))
    return new


def findings_to_drop(
    findings: Iterable[Finding], *, most: int, now: int, ran: Mapping[str, int]
) -> list[Finding]:
    """Return the findings (remembered tool results) to delete.

    They are the expired and stale ones, and the lowest-ranked others beyond the first `most`.
    """
    valid: list[Finding] = []
    invalid: list[Finding] = []
    for finding in findings:
        (valid if is_valid(finding, now=now, ran=ran) else invalid).append(finding)
    return [*invalid, *rank_findings(valid)[most:]]

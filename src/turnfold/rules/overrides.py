"""Finds which rules a later rule may override, so that none is shown without what the user said about it later.

The ledger ends a rule only if it is certain that a later sentence replaces it. Of the rules that stay active, two can
still be about the same thing: "flooring: wood, no tiles" and "no wood after all, grey tiles". A model that is shown
the first one alone does what no longer holds. Here less evidence is enough than in the ledger, because showing the
later rule too, or instead of the earlier one, costs little.

All clauses of a sentence are compared together: in "28 at most, the budget is tight", the second clause says what the
first one is about.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import is_weak_change
from turnfold.rules.standing_rule import StandingRule
from turnfold.rules.subjects import actors_in
from turnfold.text import is_chinese

__all__ = ("Overrides", "overrides_of", "said_last")


_COMMON = 12
"""A word that occurs in more sentences than this does not show what a sentence is about."""
_HALF, _THIRD, _FIFTH = 0.5, 1 / 3, 0.2
"""Shares of the words of the shorter sentence that both sentences must have."""
_NAME = 4
"""Least letters of an English word in a Chinese text that counts as a name or identifier."""
_HEAD = late_pattern(r"[\u3400-\u9fff]{2}|[A-Z][\w'’-]{3,}")
_NUMBERED = late_pattern(
    r"\W*(?:the\s+|our\s+)?(?:[a-z]+\s+(?:no\.?\s*)?#?\d|[\u3400-\u9fff]{0,4}\s?\d)", re.IGNORECASE
)
"""Matches a sentence about one of several numbered things: "shed 79", 订单 4711."""
_DATES = frozenset({"@day", "@date", "@month"})
_BARE = 2
"""Most words of a sentence that names a new day without its event: "so it is on 23 May now"."""
_NO_VALUE = frozenset({"@name", "@home", "@address", "@diet", "@people", "@place"})
"""Classes of values that may differ without excluding each other."""
_PLAIN_NUMBERS = frozenset({"@number", "@count"})
"""Classes of numbers that do not show what they count."""
_NEAR = 12
"""Most log entries between a sentence with a number and a later one that gives another number for the same."""
_CHANGES = frozenset({"change", "renew", "permit", "cancel"})
_TAKES_BACK = late_pattern(
    r"无所谓|不重要了|也行|也可以|可以[^,，。]{0,6}了|doesn't\s+matter|don't\s+care|is\s+fine\s+too|are\s+fine\s+too|after\s+all|you\s+can\s+(?:now|again)",
)
_TO_VALUE = late_pattern(
    r"不够|太[多少大小长短]|没问题|(?:[改调加减升降提放延缩]|放宽|提高|延长)[到成为至]"
    r"|\b(?:raise|lower|up|down|not\s+enough|too\s+\w+|make\s+(?:it|that)|instead)\b"
)
"""Matches words with which a sentence names an old number before the new one: 20 个不够，加到 50."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Later rules that may override earlier ones: ids of the later rules, by the id of the earlier."""

    later: Mapping[str, Sequence[StandingRule]]
    """Later rules about the same thing as this rule, newest first."""
    likely: Mapping[str, int]
    """Degree to which a later rule overrides this one: 2 if probably, 3 if almost certainly."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sentence:
    """The rules that are clauses of one sentence, and their terms; equal only to itself, so that pairs are cached."""

    rules: tuple[StandingRule, ...]
    said: SaidAt
    plain: str
    words: frozenset[str]
    values: frozenset[str]
    numbers: frozenset[str]
    classes: frozenset[str]
    ids: frozenset[str]
    may_replace: frozenset[str]
    heads: frozenset[str]
    """The first word of each clause of the sentence; in Chinese, its first two characters."""
    changes: bool
    negative: bool


class SaidAt(NamedTuple):
    """The time when a rule was stated: after which log entry, and whether it was added by hand."""

    entry: int
    by_hand: bool


def said_last(rule: StandingRule) -> SaidAt:
    """Return a key that sorts rules by when they were stated; those added by hand come after the entry before."""
    return SaidAt(rule.said_at, rule.seq == 0)


def overrides_of(rules: Iterable[StandingRule]) -> Overrides:
    """Return, for each of these rules, the later rules that may override it."""
    sentences = _sentences(rules)
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for at, sentence in enumerate(sentences):
        for term in (
            *sentence.words,
            *sentence.values,
            *sentence.heads,
            *(sentence.classes & _DATES),
            *sentence.ids,
        ):
            holders[term].append(at)
    later: defaultdict[str, dict[str, StandingRule]] = defaultdict(dict)
    likely: dict[str, int] = {}
    for at, new in enumerate(sentences):
        degrees = {
            before: _overrides(new, sentences[before]) for before in _candidates(at, new, holders)
        }
        if not any(degrees.values()):
            dated = {
                before for term in new.classes & _DATES for before in holders[term] if before < at
            }
            degrees = {before: 2 * _names_another_day(new, sentences[before]) for before in dated}
        for before, degree in degrees.items():
            old = sentences[before]
            if not degree or old.said >= new.said or old.rules[0].trust != new.rules[0].trust:
                continue
            for rule in old.rules:
                later[rule.id].update((each.id, each) for each in new.rules)
                if degree > 1:
                    likely[rule.id] = max(degree, likely.get(rule.id, 0))
    return Overrides(
        {
            each: sorted(found.values(), key=said_last, reverse=True)
            for each, found in later.items()
        },
        likely,
    )


def _candidates(at: int, new: _Sentence, holders: Mapping[str, Sequence[int]]) -> set[int]:
    """Return the indexes of earlier sentences that have a word in common with a sentence, unless many have it."""
    found = {before for each in new.may_replace for before in holders.get(each, ()) if before < at}
    for term in (*new.words, *new.values, *new.heads):
        having = holders.get(term, ())
        if len(having) <= _COMMON:
            found.update(before for before in having if before < at)
    return found


def _sentences(rules: Iterable[StandingRule]) -> list[_Sentence]:
    """Return the rules by sentence, in the order in which they were said."""
    found: list[list[StandingRule]] = []
    of_rule: dict[str, list[StandingRule]] = {}
    for rule in sorted(rules, key=said_last):
        parts = of_rule.get(rule.continues)
        if parts is None:
            parts = list[StandingRule]()
            found.append(parts)
        of_rule[rule.id] = parts
        parts.append(rule)
    return [_sentence(tuple(parts)) for parts in found]


@lru_cache(maxsize=4096)
def _sentence(rules: tuple[StandingRule, ...]) -> _Sentence:
    scope = {term for rule in rules for term in rule.scope}
    values = frozenset(value for rule in rules for value in rule.value)
    actors = frozenset(term for rule in rules for term in actors_in(rule.plain))
    return _Sentence(
        rules,
        said=said_last(rules[0]),
        plain=" ".join(rule.plain for rule in rules),
        words=frozenset(term for term in scope if _tells(term)) - actors,
        values=values,
        numbers=frozenset(value for value in values if value[0].isdigit()),
        classes=frozenset(term for term in scope if _is_class(term)),
        ids=frozenset(rule.id for rule in rules),
        may_replace=frozenset(old for rule in rules for old in rule.may_replace),
        heads=frozenset(head for rule in rules if (head := _head(rule.plain))),
        changes=any(map(_changes_something, rules)),
        negative=any(rule.negative for rule in rules),
    )


def _head(text: str) -> str:
    """Return the first word of a clause if it can be a name, or its first two characters if they are Chinese."""
    word = _HEAD.match(text)
    if word and (word[0].lower() if word[0].isascii() else word[0]) in actors_in(text):
        return ""
    return f"head:{word[0].lower()}" if word else ""


def _is_name(word: str) -> bool:
    return word.isascii() and word[0] != "=" and len(word) >= _NAME


def _tells(term: str) -> bool:
    """Return True if a term shows a topic: a whole word, not a class of values or one Chinese character."""
    return term[0] != "@" and len(term) > 1


def _is_class(term: str) -> bool:
    return term[0] == "@" and ":" not in term and term not in _NO_VALUE


@lru_cache(maxsize=32_768)
def _overrides(new: _Sentence, old: _Sentence) -> int:
    """Return whether the later sentence overrides the other one: 0 no, 1 perhaps, 2 probably, 3 almost certainly."""
    if not new.may_replace.isdisjoint(old.ids):
        return 1  # the ledger doubts it
    words = new.words & old.words
    fewer, more = sorted((max(len(new.words), 1), max(len(old.words), 1)))
    share = len(words) / fewer
    # A name or identifier between Chinese words tells more than a pair of characters.
    things = _things(words)
    much = things > 1 or (any(map(_is_name, words)) and not new.plain.isascii())
    sides = new.classes & old.classes
    contested = bool(sides - _PLAIN_NUMBERS) and new.values != old.values
    numbers = bool(sides & _PLAIN_NUMBERS) and new.numbers != old.numbers
    if _goes_on_from(new, old):
        return 2
    if contested and share >= (_FIFTH if "=" in {word[0] for word in words} else _THIRD):
        return 2
    others = new.numbers and old.numbers and new.numbers.isdisjoint(old.numbers)
    if others and not (new.changes or contested) and _are_numbered(new, old):
        return 0  # order 4711 and order 93
    if numbers and not new.heads.isdisjoint(old.heads):
        return 2
    lifts = any(rule.act in ("permit", "cancel") for rule in new.rules)
    classes = [each.classes - _PLAIN_NUMBERS for each in (new, old)]
    if all(classes) and not sides and not (much or lifts):
        return 0  # another side of the same thing: a day and a price
    if new.changes and (
        (much and share >= _FIFTH) or (share >= _THIRD and len(words) / more >= _FIFTH)
    ):
        return 3 if things > 1 else 2
    if numbers and much and share >= _HALF:
        return 1
    opposite = new.negative != old.negative and (share >= _HALF or (much and share >= _THIRD))
    return 1 if opposite or (much and share >= _HALF) else 0


def _things(words: Collection[str]) -> int:
    """Return the number of words.

    Overlapping pairs of Chinese characters (说学, 学校) count by their characters.
    """
    pairs = {word for word in words if len(word) == 2 and word > "\u2e7f"}
    ends = {word[1] for word in pairs}
    runs = sum(word[0] not in ends for word in pairs)
    return len(words) - len(pairs) + (len(pairs) + runs) // 2


def _are_numbered(new: _Sentence, old: _Sentence) -> bool:
    """Return True if both sentences begin with a thing and its number, or both forbid something."""
    return all(
        (each.negative or _NUMBERED.match(each.plain)) and "@count" not in each.classes
        for each in (new, old)
    )


def _goes_on_from(new: _Sentence, old: _Sentence) -> bool:
    """Return True if a sentence replaces a number that was just said by another number: 20 个不够，加到 50."""
    both = new.numbers & old.numbers
    near = new.said.entry - old.said.entry <= _NEAR and new.said.by_hand == old.said.by_hand
    return near and bool(both and new.numbers - both) and bool(_TO_VALUE.search(new.plain))


def _names_another_day(new: _Sentence, old: _Sentence) -> bool:
    """Return True if a sentence names a new day, but not for what: "so it is on 23 and 24 May now"."""
    bare = new.changes and len(new.words) <= _BARE and not new.may_replace
    return bare and bool(new.classes & old.classes & _DATES) and new.values != old.values


def _changes_something(rule: StandingRule) -> bool:
    """Return True if a rule has the form of a correction ("make it ..."), whatever it corrects."""
    if rule.act in _CHANGES or rule.may_replace or _TAKES_BACK.search(rule.plain):
        return True
    return is_weak_change(rule.plain, "zh" if is_chinese(rule.text) else "en")

"""Tells whether a later sentence repeats an earlier one with another value or as its opposite, and why."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import (
    LIGHT_VERBS,
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    denies,
    only_in_first,
    units_of,
)
from turnfold.rules.lifted_prohibitions import CONDITION
from turnfold.rules.replaced_values import FAILS, NO_NAME, is_other_matter

__all__ = ("HAPPENED", "NEGATION", "STARTING", "restates")


_OPENS = late_pattern(
    r"^(?:\W|[\u4e00-\u9fff]{1,4}(?:说|要求|建议)[,，]?|(?:那|就|请|所以|以后|还是|只好|只能|我们?|咱们?)|(?:从)?(?:[下这本明今][个]?)?(?:周[一二三四五六日天]?|月|年|天|学期)(?:起|开始)"
    r"|(?i:so|then|now|well|please|actually|let's|let|we(?:'re|'ll|'ve)?|i(?:'m|'ll|'d)?|it(?:'s)?|is|are|will|the|our|my|a|an|better|just)\b)+"
)
_CLOSES = late_pattern(
    r"(?:\s+(?i:instead|now|please|then|after\s+all|from\s+(?:now|\w+day)(?:\s+on)?|any\s?more|again|these\s+days|this\s+\w+)|[吧了啊呀的]|好了|就行|\W)+$"
)
HAPPENED = late_pattern(
    r"了(?!解)|[过错]$|嫌|说|老是?|'s\s|\b(?:\w{2,}ed|got|has|have|had|is|are|isn't|won't|can't|doesn't|insists?|wants?|hates?|says?|told|chose|took|left|went)\b",
    re.IGNORECASE,
)
"""Matches a clause that tells what happened, which may be the reason for a new value."""
STARTING = late_pattern(
    r"(?:从|^)(?:[下这本明今]个?)?(?:周[一二三四五六日天]?|月|年|天|学期)(?:起|开始)|^(?:以后|今后|往后)|\bfrom\s+(?:\w+day|next\s+\w+|now)\s*(?:on|onwards?)?\W*$",
    re.IGNORECASE,
)
_SWITCHES = late_pattern(r"还是|[改换]|\b(?:actually|instead|rather|after\s+all)\b", re.IGNORECASE)
_PREPOSITIONS = frozenset("at by for from in into of on to under with".split())
_ARTICLES = frozenset(("a", "an", "the", "my", "our", "your", "their"))
_ADDS = late_pattern(
    r"\b(?:also|too(?=\W*$)|as\s+well|and|or|another|both|besides|additionally|only|if|unless|when)\b|[也还]|另外|再|同时|加上|以及|如果|要是|的话|只有|除了",
    re.IGNORECASE,
)
"""Matches a clause that adds something to a rule, or holds only sometimes."""
NEGATION = late_pattern(
    r"\b(?:do\s+not|don't|never|not|no\s+longer|isn't|aren't|needn't|no)\b|不(?:用|要|必|许|准|再|能|得)?|别再?|没有?|禁止",
    re.IGNORECASE,
)
_FRAME_TOKEN = late_pattern(r"[A-Za-z0-9](?:[\w.'’:%/-]*[\w%])?|[\u4e00-\u9fff]")
_LONGEST_VALUE = 6
"""Most words, or Chinese characters, that can be a value in place of another value."""


def restates(later: str, earlier: str) -> bool:
    """Return True if a clause repeats an earlier sentence with another value, or with the opposite of it.

    "Neighbour's away, leave the parcel in the shed", 组里投票了，测试用 unittest 写. Another value needs a reason
    beside it, or a time from which it holds: of some things there are several.
    """
    if is_other_matter(later[:LONGEST]):
        return False
    told, clauses = clauses_of(earlier), clauses_of(later)
    if len(told) != 1 or len(earlier) > LONGEST or _is_conditional(later):
        return False
    for number, clause in enumerate(clauses):
        if _adds_or_names_nothing(clause):
            continue
        reasons = clauses[:number]
        if _opposes(clause, told[0]) or _gives_another_value(clause, told[0], reasons=reasons):
            return True
        if any(_names_another_for(clause, told[0], reason=each) for each in reasons):
            return True
    return False


_COUNTED = late_pattern(
    r"[\d一二两三四五六七八九十百半]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight)\b",
    re.IGNORECASE,
)


# A sentence is compared with many rules, so what depends on one text alone is found once.


@lru_cache(maxsize=512)
def _is_conditional(text: str) -> bool:
    return CONDITION.search(text) is not None


@lru_cache(maxsize=512)
def _adds_or_names_nothing(clause: str) -> bool:
    return bool(_ADDS.search(clause) or NO_NAME.search(clause))


@lru_cache(maxsize=4096)
def _is_negated(text: str) -> bool:
    return NEGATION.search(text) is not None


@lru_cache(maxsize=4096)
def _words_in_frame(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a clause without what opens and closes it: as they are, and in lower case."""
    words = tuple(_FRAME_TOKEN.findall(_CLOSES.sub("", _OPENS.sub("", text))))
    return words, tuple(word.lower() for word in words)


def _opposes(clause: str, earlier: str) -> bool:
    """Return True if one of two clauses denies what the other says, and all their other words are the same."""
    if _is_negated(clause) == _is_negated(earlier):
        return False
    mine, theirs = (
        units_of(NEGATION.sub(" ", _CLOSES.sub("", each))) for each in (clause, earlier)
    )
    words = mine - LIGHT_VERBS
    return len(words) > 1 and not only_in_first(mine, theirs) and not only_in_first(theirs, mine)


def _gives_another_value(clause: str, earlier: str, *, reasons: Sequence[str]) -> bool:
    """Return True if two clauses differ in one value only, and words show that the earlier value ended."""
    (new, new_lower), (old, old_lower) = _words_in_frame(clause), _words_in_frame(earlier)
    if not new or not old or denies(clause) != denies(earlier):
        return False
    lower = (new_lower, old_lower)
    shorter = min(map(len, lower))
    start = next((at for at in range(shorter) if lower[0][at] != lower[1][at]), shorter)
    left = range(1, shorter - start + 1)
    end = next((at - 1 for at in left if lower[0][-at] != lower[1][-at]), shorter - start)
    slots = [each[start : len(each) - end] for each in (new, old)]
    if not all(0 < len(slot) <= _LONGEST_VALUE for slot in slots):
        return False
    gap = "" if any(map(_is_han, new)) else " "
    value, before = (gap.join(slot) for slot in slots)
    if any(map(str.isdigit, value)) != any(map(str.isdigit, before)):
        return False
    # Two bans are of two things: "don't ship by rail", "don't leave it outside".
    if denies(clause) and not _COUNTED.search(value):
        return False
    # The subject is what a sentence begins with; an imperative verb is none.
    shared = lower[0][:start] if gap == "" or _is_subject(earlier) else lower[0][1:start]
    topic = units_of(gap.join([*shared, *lower[0][len(new) - end :]])) - LIGHT_VERBS - LIGHT_WORDS
    if not topic or (start == 0 and not (gap and end and lower[0][-end] in _PREPOSITIONS)):
        return False
    switches = _SWITCHES.search(clause) or STARTING.search(clause)
    return switches is not None or any(HAPPENED.search(each) for each in reasons)


def _names_another_for(clause: str, earlier: str, *, reason: str) -> bool:
    """Return True if a reason names the value of an earlier sentence, and a clause gives another one for the same.

    The clause has the word beside that value ("in bed one", 刷黄色), and names the same thing or nothing else.
    """
    if not (FAILS.search(reason) or HAPPENED.search(reason)) or denies(clause):
        return False
    words = [
        each
        for each in _FRAME_TOKEN.findall(_OPENS.sub("", earlier))
        if each.lower() not in _ARTICLES
    ]
    lower = [each.lower() for each in words]
    there = [each.lower() for each in _FRAME_TOKEN.findall(reason) if each.lower() not in _ARTICLES]
    start, stop = _longest_run(lower, there)
    gap = "" if any(map(_is_han, words)) else " "
    value = gap.join(words[start:stop])
    given = {each.lower() for each in _FRAME_TOKEN.findall(clause)}
    if not units_of(value) or len(value) < 2 or start == 0 or value.isdigit():
        return False  # amounts are compared with what they count
    if not given.isdisjoint(lower[start:stop]) or any(map(str.isdigit, value)) != any(
        map(str.isdigit, clause)
    ):
        return False
    beside = {lower[start - 1], *lower[stop : stop + 1]}
    rest = units_of(gap.join([*words[:start], *words[stop:]])) - LIGHT_VERBS - LIGHT_WORDS
    topic = rest - {each for each in beside if each in rest}
    return not beside.isdisjoint(given) and (
        not topic or bool(topic & units_of(clause)) or _begins_with(clause, beside)
    )


def _begins_with(clause: str, words: Collection[str]) -> bool:
    first = _FRAME_TOKEN.search(_OPENS.sub("", clause))
    return first is not None and first[0].lower() in words


def _longest_run(words: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return where the longest run of words is that other words contain, too."""
    best = (0, 0)
    for start in range(len(words)):
        for at in range(len(others)):
            size = 0
            while (
                start + size < len(words)
                and at + size < len(others)
                and words[start + size] == others[at + size]
            ):
                size += 1
            if size > best[1] - best[0]:
                best = (start, start + size)
    return best


def _is_han(word: str) -> bool:
    return "\u4e00" <= word[0] <= "\u9fff"


def _is_subject(text: str) -> bool:
    """Return True if an English sentence begins with its subject, not with a verb."""
    return re.match(r"(?:the|our|my|we|i|it)\b", text.strip(), re.IGNORECASE) is not None

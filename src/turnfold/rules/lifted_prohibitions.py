"""Tells whether a later sentence permits what an earlier one forbids, or releases from what it demands.

A permission may stand before or after what it permits (可以打电话, 电话可以打; "you can call", "calls are fine"). It
must have no noun of its own, which would show that it speaks of another thing: a permission of beer lifts no
prohibition of wine.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import (
    DENIES,
    LIGHT_VERBS,
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    nouns_of,
    only_in_first,
    units_of,
)

__all__ = (
    "AFFIRMS",
    "CONDITION",
    "RELEASES",
    "TIMES",
    "affirming_clauses",
    "affirms",
    "asks_something",
    "lifts",
    "may_lift",
    "releases",
    "what_is_forbidden",
)


_ASKS = late_pattern(
    r"[?？]|[吗么呢]\W*$|能不能|可不可以|要不要|是不是|\b(?:can|may|could)\s+(?:i|we)\b.*\?",
    re.IGNORECASE,
)
AFFIRMS = late_pattern(
    r"(?<![不可])可以|(?<![不可才只])能(?![不够力量源耗否效])|[也都]行(?![程李业为人政])|行了?$|没(?:问题|事|关系)|不介意|允许|解禁"
    r"|还是(?=[^,，。]*?(?:吧|好|$))|无所谓|(?<![A-Za-z])ok(?![A-Za-z])"
    # One word boundary before all of them: at most places of a text this is all that is tried.
    r"|\b(?:(?:is|are|'s|'re)\s+(?:\w+\s+){0,2}?(?:ok(?:ay)?|fine|allowed|permitted|welcome|no\s+problem|possible|acceptable)\b"
    r"|(?:it's|it\s+is|that's)\s+(?:now\s+)?(?:ok(?:ay)?|fine|allowed)\s+(?:to|for|if)\b"
    r"|(?:you|we|they|people|anyone|anybody|everyone)(?:'re\s+allowed\s+to|\s+(?:can|may|could)(?:\s+\w+ly)?)\s+(?!not\b|only\b|never\b)"
    r"|\w+\s+(?:can|may)\s+be\s|go\s+ahead\b|feel\s+free\b|after\s+all\b|actually\s+(?:i|we)\s+(?:do|will)\b)",
    re.IGNORECASE,
)
"""Matches a clause that permits something, or wants something that was not wanted before."""
CONDITION = late_pattern(
    r"[^,，。可能]{2}[之以]?后(?=[就也都]?(?:可以|能))|(?:只要|如果|要是)[^,，。]{1,20}"
    r"|\b(?:if|as\s+long\s+as|provided|when|once|unless|after\s+(?!all))\b[^,;]{1,60}",
    re.IGNORECASE,
)
_AFFIRMING_WORDS = late_pattern(
    r"可以|能够?|[也都]行|行了|(?:^|\s)[^,，。\s]{1,4}说(?=[^,，。]{2})|没(?:问题|事|关系)|不介意|允许|解禁|无所谓|还是|考虑|接受|试试|直接|偶尔|随便|开始|刚才?|说过?|改(?:主意|变)了?|[两几一二三四五六七八九十\d]+\s?[个款份张瓶杯家位只台本束套间下]"
    r"|\b(?:ok(?:ay)?|fine|allowed|permitted|welcome|problem|possible|acceptable|ahead|free|now|again|with\s+me|by\s+me|actually|explained)\b",
    re.IGNORECASE,
)
_POINTS = late_pattern(
    "(?:的事儿?|这事|那个|这个|那条|那边|这边|方面)$|^(?:刚才?说|之前说|说过|我说过|原来说|前面说)|(?:的话)$"
)
"""Matches a Chinese clause that only names the subject of the next clause: 打电话的事，现在可以打了 ("about the calls:
...")."""
TIMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday morning evening afternoon night weekend week day month"
    " 周末 周 末 晚 早 中 午 夜 上 下".split()
)
_FORBIDDEN = late_pattern(
    r"(?:不要|不许|不准|不能|不得|不用|不必|不需要|不想|不可以|禁止|严禁|避免|切勿|勿|别|不再?|免)(?:再|给我|跟我|在)?(?P<zh>[^,，。;；]+)"
    r"|\b(?:never|don't|do\s+not|must\s+not|mustn't|cannot|can't|shouldn't|won't|no\s+need\s+(?:for|to)|no(?:\s+more)?|not|avoid|without|stop)\s+(?P<en>[^,;.]+)",
    re.IGNORECASE,
)
"""Matches the thing that a prohibition forbids, or that is said not to be needed."""
RELEASES = late_pattern(
    r"无所谓|不强求|没要求|不要求|不讲究|有没有都行|不必了|不重要|\b(?:does(?:n't|\s+not)|no\s+longer)\s+matters?\b|\bisn't\s+(?:needed|necessary|required)\b"
    r"|\b(?:is|are)\s+optional\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def asks_something(text: str) -> bool:
    """Return True if a sentence is a question."""
    return _ASKS.search(text) is not None


def affirms(text: str) -> bool:
    """Return True if a sentence permits something, or asks for it after an earlier refusal."""
    return bool(affirming_clauses(text))


@lru_cache(maxsize=512)
def affirming_clauses(text: str) -> tuple[str, ...]:
    """Return the clauses that permit something or want it after all, each with the clause that names the thing."""
    if asks_something(text[:LONGEST]) or not AFFIRMS.search(text[:LONGEST]):
        return ()
    found: list[str] = []
    pointed = ""
    for clause in clauses_of(text):
        if AFFIRMS.search(clause) and not DENIES.search(AFFIRMS.sub(" ", clause)):
            found.append(f"{pointed} {clause}" if pointed else clause)
        elif _POINTS.search(clause):
            pointed = _POINTS.sub("", clause)
    return tuple(found)


def _meant(clause: str) -> frozenset[str]:
    return units_of(_AFFIRMING_WORDS.sub(" ", CONDITION.sub(" ", clause)))


@lru_cache(maxsize=4096)
def what_is_forbidden(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the units (words, characters) of the clause that forbids something, and of the forbidden thing."""
    for clause in clauses_of(text):
        if found := _FORBIDDEN.search(clause):
            told = found["zh"] or found["en"]
            return units_of(clause), units_of(told) or units_of(clause)
    return frozenset(), frozenset()


def lifts(later: str, earlier: str) -> bool:
    """Return True if a sentence permits, or asks for, something that an earlier one forbids or makes unnecessary."""
    return _lifted(later, earlier) == 1


def may_lift(later: str, earlier: str) -> bool:
    """Return True if a sentence permits a part of what an earlier one forbids, or permits without naming a thing."""
    return _lifted(later, earlier) > 0


def _lifted(later: str, earlier: str) -> float:
    there, forbidden = what_is_forbidden(earlier)
    best = 0.0
    for clause in affirming_clauses(later) if forbidden else ():
        mine = _meant(clause)
        shared = mine - only_in_first(mine, there)
        own = only_in_first(mine, there)
        if not shared - TIMES and not forbidden <= TIMES:
            continue  # "call me in the evening" allows no orders in the evening
        own -= LIGHT_WORDS
        if shared - LIGHT_VERBS or shared >= forbidden:
            own -= LIGHT_VERBS
        if not shared or own:
            continue
        covered = len(forbidden) - len(only_in_first(forbidden, shared))
        if 2 * covered < len(forbidden) and not nouns_of(clause) & nouns_of(earlier):
            continue
        best = max(
            best,
            1.0 if 2 * covered >= len(forbidden) and (shared - LIGHT_VERBS or covered) else 0.5,
        )
    return best


def releases(later: str, earlier: str) -> bool:
    """Return True if a sentence says that an earlier request no longer matters: 电梯无所谓了."""
    for clause in clauses_of(later):
        if RELEASES.search(clause):
            mine = units_of(RELEASES.sub(" ", clause))
            if (
                mine
                and not only_in_first(mine, units_of(earlier))
                and nouns_of(RELEASES.sub(" ", clause)) & nouns_of(earlier)
            ):
                return True
    return False

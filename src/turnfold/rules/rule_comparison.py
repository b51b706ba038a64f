"""Compares two rules: the same words, values of the same class, opposites, limits and conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import is_negative
from turnfold.rules.lifted_prohibitions import TIMES, affirms, lifts
from turnfold.rules.standing_rule import StandingRule
from turnfold.rules.subjects import common_terms, named_things, parts_of, subject_of

__all__ = (
    "DATES",
    "LIMIT",
    "MOMENTS",
    "ONE_AT_A_TIME",
    "are_others",
    "classes_of",
    "contested_classes",
    "forbids_by_word",
    "forbids_outright",
    "is_denial",
    "only_names_a_moment",
    "own_topic",
    "replaces",
    "words_of",
)


_RESTATED = 0.8
"""Two rules count as the same if they share at least this part of their terms (words and values)."""
_SAME_TOPIC = 0.6
"""Two rules count as being about the same thing, although neither says that something changes, if they share at least
this part of their words."""
ONE_AT_A_TIME = frozenset({"@name", "@home", "@address", "@job", "@diet", "@headcount"})
"""Attributes of a person that have one value at a time ("I live in Oslo"), so that a new value replaces the old one."""
_PLAINLY_GIVEN = frozenset({"@name", "@home", "@address", "@headcount"})
"""Attributes of `ONE_AT_A_TIME` that a plain statement changes, even without a word such as "now"."""
LIMIT = late_pattern(
    r"\b(?:before|after|until|than|over|under|above|below|beyond|past|earlier|later|exceed\w*|within|up\s+to)\b"
    r"|超|以[上下内前后外]|之[前后]|[早晚少多高低大小长短]于",
    re.IGNORECASE,
)
"""Matches words of a prohibition that sets a limit; a later limit for the same thing replaces it."""
_NAME_OF = late_pattern(
    r"\W*(?:The|Our|My)\s(?:[a-z][\w-]*\s){1,3}is\s(?:the\s)?[A-Z][\w-]+(?:\s[A-Z][\w-]+)*\W*$"
)
"""Matches a sentence that says who or what has a role: "The main contact is Laura."."""
_CONDITION = late_pattern(
    r"\b(?:without|unless|until|before|except|only\s+(?:if|when|after|with))\b|除非|未经|没有?.{0,8}前|之前|以前|先.{0,10}再",
    re.IGNORECASE,
)
"""Matches words of a prohibition with a condition under which the thing is allowed."""
_STOPS = late_pattern(
    r"\b(?:stop|quit|no\s+need|no\s+longer|any\s?more|don't\s+(?:need|have)\s+to)\b|不用.{0,8}了|不必|不需要.{0,8}了|别再|停",
    re.IGNORECASE,
)
"""Matches words that end something that the user asked for earlier."""
MOMENTS = frozenset({"@day", "@date", "@month", "@time"})
DATES = frozenset({"@day", "@date", "@month"})


def forbids_outright(rule: StandingRule) -> bool:
    """Return True if a prohibition sets no limit, such as "not before 9"."""
    return not LIMIT.search(rule.plain)


def is_denial(rule: StandingRule) -> bool:
    """Return True if a rule forbids something, or has a negative word."""
    return rule.negative or is_negative(rule.plain, "en") or is_negative(rule.plain, "zh")


def words_of(rule: StandingRule) -> set[str]:
    """Return the words of a rule that say what it is about."""
    return {term for term in rule.scope if not term.startswith("@")}


def classes_of(rule: StandingRule) -> set[str]:
    """Return the classes of the values that a rule states, such as "@day" for a weekday."""
    return {term for term in rule.scope if term.startswith("@")}


def _similar(first: set[str], second: set[str]) -> float:
    common = len(common_terms(first, second))
    return common / (len(first) + len(second) - common) if common else 0.0


def replaces(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if `rule` replaces `other`: restates it, contradicts it, or gives another value for its attribute."""
    one = _attributes(rule, other)
    if one and (one != frozenset({"@name"}) or rule.negative == other.negative):
        return rule.act != "state" or not one.isdisjoint(_PLAINLY_GIVEN)
    words, others = words_of(rule), words_of(other)
    if rule.value == other.value and rule.negative == other.negative:
        same = rule.scope == other.scope and bool(words or rule.value)
        if _NAME_OF.match(rule.plain) and _NAME_OF.match(other.plain):
            same = same or any(
                term.startswith("@is:") for term in classes_of(rule) & classes_of(other)
            )
        return same or _similar(set(rule.terms), set(other.terms)) >= _RESTATED
    if rule.negative != other.negative:
        return _is_opposite(rule, other)
    same = any(term.startswith("@is:") for term in classes_of(rule) & classes_of(other))
    if rule.kind == other.kind == "task" and not same:
        return False
    if same:
        # "The standup is on Monday", "the standup is at 9:30": a day and an hour do not contradict each other.
        moments, others = classes_of(rule) & MOMENTS, classes_of(other) & MOMENTS
        return not (moments and others) or bool(contested_classes(rule, other) & MOMENTS)
    if not _conflict(rule, other):
        return False
    if rule.negative and not LIMIT.search(rule.plain):
        return False  # "never call customer 7", "never call customer 9": both hold
    return _is_another_version(rule, other) or _is_same_topic(rule, other)


def _is_same_topic(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if two rules with different values have nearly the same words besides."""
    words, others = words_of(rule), words_of(other)
    if not words and not others:
        # "Reply in French", "answer in English": they have no words besides the values they set.
        return "@reply" in rule.scope and "@reply" in other.scope
    own = own_topic(subject_of(rule.plain).topic, others) or _special(rule, other)
    return not own and _similar(words, others) >= _SAME_TOPIC


def _is_another_version(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if a sentence says that a program is used in another version now, and of the same thing.

    "We moved to Python 3.12" after "we are on Python 3.11", not after "the worker needs Python 3.11".
    """
    if rule.act not in ("change", "renew") or "task" in (rule.kind, other.kind):
        return False
    if is_denial(rule) or is_denial(other):
        return False
    if not any(term.startswith("@v:") for term in classes_of(rule) & classes_of(other)):
        return False
    own = own_topic(words_of(rule), words_of(other)) - TIMES
    return not own or (
        _OF_ALL.match(rule.plain) is not None and not own_topic(words_of(other), words_of(rule))
    )


_OF_ALL = late_pattern(
    r"\W*(?:(?:ok(?:ay)?|so|and|also|now|by\s+the\s+way|actually)\b\W*)*(?:we|i|it's|moved|upgraded|switched|migrated)\b"
    r"|\W*(?:我们?|咱们?|线上|生产|现在|已经|刚刚?|昨[天晚]|今天|都|全)*[升换改迁]",
    re.IGNORECASE,
)
"""Matches the beginning of a sentence about everything that the user works on: "we moved to Python 3.12"."""


def _attributes(rule: StandingRule, other: StandingRule) -> frozenset[str]:
    """Return the attributes that both rules state and that can have only one value at a time."""
    if rule.kind == "prohibition":
        return frozenset()  # "never change my address" gives no other address
    one = ONE_AT_A_TIME.intersection(rule.scope, other.scope)
    if classes_of(rule) & DATES and not classes_of(other) & DATES:
        return one - {"@headcount"}  # who comes on one day
    return one


def own_topic(words: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return the words that only the first sentence has.

    They show that it is about another thing, or about a special case.
    """
    mine = parts_of(words)
    return mine - common_terms(mine, parts_of(others))


def _special(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if only the later rule names a day or time, other than as its value: "Thursday's room is 505"."""
    more = (classes_of(rule) - classes_of(other)) & (MOMENTS | {"@daytime"})
    return bool(more) and bool(contested_classes(rule, other) - more)


def _is_opposite(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if two rules, one of them negative, share enough words to be taken for opposites.

    A request without a word of change lifts a prohibition only if it is about exactly the same: "please order it, quote
    NH-4410" does not lift "never order anything without asking me first".
    """
    if other.negative and affirms(rule.plain) and forbids_outright(other):
        return lifts(rule.plain, other.plain)
    words, others = words_of(rule), words_of(other)
    mine = parts_of(words) | named_things(rule.plain)
    theirs = parts_of(others) | named_things(other.plain)
    if not common_terms(mine, theirs) or are_others(rule, other):
        return False
    if other.negative and rule.act == "state":
        # "50 back to Lucy" does not contradict "Lucy can't come any more".
        more = set(rule.value) - set(other.value)
        same = not more and not _CONDITION.search(other.plain)
        return same and _similar(words, others) >= _SAME_TOPIC
    if rule.kind == "prohibition" and other.kind == "fact" and other.value:
        return False  # "don't call me" leaves the phone number as it is
    if rule.negative and _STOPS.search(rule.plain):
        return len(common_terms(others, words)) >= _SAME_TOPIC * len(others)
    if _similar(words, others) >= _RESTATED:
        return True
    subject = subject_of(rule.plain, changes=True)
    forbidden = subject.left if rule.kind == "prohibition" and rule.act == "state" else set[str]()
    own = own_topic(subject.topic | forbidden, others)
    return common_terms(theirs, mine) == theirs and not own


def are_others(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if one rule forbids a thing and the other allows a different thing: order 4711 and order 4712."""
    both = rule.value and other.value and set(rule.value).isdisjoint(other.value)
    return bool(both) and not (LIMIT.search(rule.plain) or LIMIT.search(other.plain))


def _conflict(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if both rules state a value of the same class (such as a weekday) and the two values differ."""
    return bool(contested_classes(rule, other))


def contested_classes(rule: StandingRule, other: StandingRule) -> set[str]:
    """Return the classes in which both rules state a value, if their values differ."""
    shared = {
        term
        for term in classes_of(rule) & classes_of(other)
        if not term.startswith(("@is:", "@reply"))
    }
    if DATES & classes_of(rule) and DATES & classes_of(other):
        shared.add("@day")  # "on Friday" and "on 3 March" both say when
    return shared if rule.value and other.value and rule.value != other.value else set()


def only_names_a_moment(rule: StandingRule) -> bool:
    """Return True if a rule names a day or time and not what is then: "Saturday the 19th then, final answer"."""
    words = [term for term in rule.scope if term[0] != "@" and (term.isascii() or len(term) > 1)]
    return bool(rule.value) and not words and not MOMENTS.isdisjoint(rule.scope)


def forbids_by_word(rule: StandingRule) -> bool:
    """Return True if a rule forbids with an explicit word; its kind alone may be a wrong guess."""
    return rule.negative and (is_negative(rule.plain, "en") or is_negative(rule.plain, "zh"))

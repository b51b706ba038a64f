"""Checks whether a new sentence may end an earlier rule, whatever made it look so.

A rule that has ended is shown no more, so a wrong ending loses what the user laid down, while two rules too many cost a
line. Every ending that other modules find must pass these checks.
"""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import DENIES, LEADING, clauses_of, nouns_of, only_in_first, units_of
from turnfold.rules.permissions import is_permission
from turnfold.rules.reversals import chooses_again
from turnfold.rules.rule_comparison import MOMENTS, classes_of, contested_classes
from turnfold.rules.standing_rule import StandingRule
from turnfold.text import content_terms

__all__ = ("changes_a_part", "is_about_the_same", "may_end", "names_both_values")


_MEANT = late_pattern(
    r"^\W*(?:(?:no|sorry|oops|wait|well|ok(?:ay)?|ah|oh)\b\W*)*i\s+(?:mean|meant|said)\b"
    r"|^(?:不好意思|不对|不是|等等|哦|啊|额|呃)?[,，]?我(?:是说|说的是|的意思是|指的是)",
    re.IGNORECASE,
)
"""Matches a sentence that corrects how the user's last request is understood: "I mean ask them, not book"."""
_JUST_SAID = 4
"""Most log entries between such a sentence and the request that it corrects."""
_REJECTED = late_pattern(
    r"(?:,?\s*\bnot\s+|\binstead\s+of\s+|不是\s*|而不是\s*|别写成\s*|不叫\s*)(?P<value>[A-Za-z]*\d[\w.:-]*)",
    re.IGNORECASE,
)
"""Matches a value that a sentence says was wrong: "it's 602, not 502"."""
_VALUE = late_pattern(r"[A-Za-z]*\d[\w.:-]*")
_MEASURED = late_pattern(
    r"(?P<clock>\d{1,2}:\d\d)|(?P<number>\d+)\s*(?P<unit>[\u4e00-\u9fff%]|st|nd|rd|th|am|pm|kg|km|cm|euros?|dollars?)",
    re.IGNORECASE,
)
"""Matches a number with what it measures: 23 号, 12:30, "5 pm"."""
_NUMBERS = frozenset({"@number", "@count"})
_OWN_TOPIC = 3
"""Least nouns (Chinese: also pairs of characters) of a sentence that names what it is about."""
_SAID_AGAIN = 0.66
"""Share of the words of an earlier rule from which a sentence counts as saying it again."""
_THIRD, _QUARTER = 0.34, 0.25
"""Least share of the nouns of the shorter of two sentences that both have, if they can be about the same thing: in
general, and if both give a number."""


def may_end(rule: StandingRule, said: str, old: StandingRule) -> bool:
    """Return True if nothing speaks against it that a new rule ends an old one; `said` are its words in context."""
    if old.trust == "user" and _MEANT.search(rule.plain):
        recent = rule.said_at - old.said_at <= _JUST_SAID
        return (
            recent
            and not old.negative
            and old.kind != "prohibition"
            and not DENIES.search(old.plain)
        )
    if old.negative and rule.act != "change" and _only_denies_the_same(said, old.plain):
        return False
    return not changes_a_part(said, old.plain) and _is_about(rule, said, old)


def names_both_values(rule: StandingRule, old: StandingRule) -> bool:
    """Return True if a changing sentence names the only value of an old rule, and another of the same class.

    等一下，23 号我父亲要去医院，还是 26 号吧 changes 好，就 23 号.
    """
    if rule.act != "change" or old.negative or old.kind == "task":
        return False
    before, now = _measured(old.plain), _measured(rule.plain)
    return len(before) == 1 and before < now and len({unit for _, unit in now}) == 1


def _measured(text: str) -> set[tuple[str, str]]:
    """Return the numbers of a text, each with the sign or word that says what it measures: ("23", "号")."""
    return {
        (found["clock"] or found["number"], ":" if found["clock"] else found["unit"].lower())
        for found in _MEASURED.finditer(text)
    }


def is_about_the_same(rule: StandingRule, said: str, old: StandingRule) -> bool:
    """Return True if a new rule may be about the same thing as an old one, so that a model may be told so.

    They give values of the same class, or share nouns; what permits or forbids is not judged here.
    """
    if rule.act == "permit" or is_permission(said) or chooses_again(said, old.plain):
        return True
    contested = contested_classes(rule, old)
    if contested - _NUMBERS:
        return True
    first, second = nouns_of(said), nouns_of(old.plain)
    if old.negative:
        return bool(first & second)
    if not classes_of(rule).isdisjoint(MOMENTS):
        return len(first & second) > 1  # it gives a time, and the old one none
    if len(first) < _OWN_TOPIC:
        return True  # "make it JD instead": it names no subject of its own
    shared = first & second
    if LEADING.sub("", old.plain).startswith(tuple(shared)):
        return True  # the old one is about it: 抬头写周建国
    least = _QUARTER if contested else _THIRD
    return bool(shared) and len(shared) >= least * min(len(first), len(second))


def _only_denies_the_same(later: str, earlier: str) -> bool:
    """Return True if all that two sentences share is what both deny, so that they do not contradict each other.

    "I mean ask them, not book" does not lift "don't book anything before I said ok".
    """
    there = units_of(earlier)
    denied, affirmed = set[str](), set[str]()
    for clause in clauses_of(later):
        found = DENIES.search(clause)
        before = clause[: found.start()] if found else clause
        affirmed |= units_of(before)
        denied |= units_of(clause[found.start() :]) if found else set()
    shared = denied - only_in_first(denied, there)
    again = len(there) - len(only_in_first(there, units_of(later)))
    if not shared or again >= _SAID_AGAIN * len(there):
        return False  # it has nothing in common with the earlier one, or says it again
    return not affirmed - only_in_first(affirmed, there) and not _VALUE.search(later)


def changes_a_part(later: str, earlier: str) -> bool:
    """Return True if a sentence says which value was wrong, and the earlier one has more values than that.

    "It is 3-602, not 502" changes the number in an address whose street it does not repeat.
    """
    rejected = {found["value"].lower() for found in _REJECTED.finditer(later)}
    values = {value.lower() for value in _VALUE.findall(earlier)}
    if not rejected & values:
        return False
    return bool(values - rejected - {value.lower() for value in _VALUE.findall(later)})


def _is_about(rule: StandingRule, said: str, old: StandingRule) -> bool:
    """Return True if a change shares a word or a class of values with a fact that it ends; other rules need not."""
    if old.kind != "fact" or rule.act != "change" or len(nouns_of(said)) < _OWN_TOPIC:
        return True
    if contested_classes(rule, old) or not set(rule.scope).isdisjoint(old.scope):
        return True
    return not frozenset(content_terms(said)).isdisjoint(content_terms(old.plain))

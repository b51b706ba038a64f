"""Checks whether a new sentence may end an earlier rule, whatever made it look so.

A rule that has ended is shown no more, so a wrong ending loses what the user laid down, while two rules too many cost a
line. Every ending that other modules find must pass these checks.
"""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import DENIES, LEADING, clauses_of, nouns_of, only_in_first, units_of
from turnfold.rules.lifted_prohibitions import affirms
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
_CONTACT = late_pattern(r"[\w.+-]+@[\w-]+\.\w+|\d[\d-]{6,}\d")
_LAID_DOWN = late_pattern(
    r"\b(?:rules?|bans?|restrictions?|limits?|instructions?|things?|said|told|asked|again|after\s+all|any\s?more|no\s+longer)\b"
    r"|规矩|规则|规定|限制|要求|禁令|说[的过]|那[条个]|取消|不用再|不再|了$|作废",
    re.IGNORECASE,
)
"""Matches words with which a user takes back what was laid down: "forget that rule", 之前说的取消."""
_NO_SUBJECT = "[改换挪调推提还就那要用请别不先我你您他她它这今明昨后以之从每刚]"
_SUBJECT = late_pattern(
    rf"\W*(?:(?P<zh>(?!{_NO_SUBJECT})[\u4e00-\u9fff]{{2,6}}?)(?:的)?"
    r"(?=[改换是在定挪调收降升涨减加]|周[一二三四五六日天末]|星期|每[天周月]|[上下]午|晚上|\d)"
    r"|(?:the|our|my)\s+(?P<en>(?!number|date|time|one)[a-z]+(?:\s[a-z]+)?)"
    r"\s+(?:is|are|was|has|have|will|starts?|goes|moves?|moved)\b)",
    re.IGNORECASE,
)
_CHANGES = late_pattern("[改换挪调降升涨]|推[到迟后]|提[前到高]")
_IT = late_pattern(r"\W*it(?:'s|\s+is|\s+has)\b", re.IGNORECASE)
_LEAD_NOUN = late_pattern(
    r"\W*(?:(?:now|next|then|and|also)\W+)+(?:the|our|my|[A-Z]\w+'s)\s+(?P<noun>[a-z]+)\b",
    re.IGNORECASE,
)
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
    if old.negative and not _may_lift(rule, said, old):
        return False
    if changes_a_part(said, old.plain) or _loses_contact(said, old.plain):
        return False
    return _is_about(rule, said, old) and not _names_another(rule, said, old)


def _may_lift(rule: StandingRule, said: str, old: StandingRule) -> bool:
    """Return True if a sentence can end a prohibition: it permits, says it anew, or takes back what was laid down.

    "Cancel Friday's meeting" complies with "no meetings on Fridays", and "I'm on chapter 12 now" says nothing of a ban
    until chapter 31.
    """
    if rule.act == "cancel":
        return _LAID_DOWN.search(said) is not None
    if rule.act in ("state", "renew") and not rule.negative:
        permits = is_permission(said) or affirms(said) or _LAID_DOWN.search(said) is not None
        return permits or _says_again(said, old.plain)
    return rule.act == "change" or not _only_denies_the_same(said, old.plain)


def _loses_contact(later: str, earlier: str) -> bool:
    """Return True if an earlier sentence has several numbers or addresses of people, and the later one repeats none."""
    contacts = set(_CONTACT.findall(earlier))
    return len(contacts) > 1 and contacts.isdisjoint(_CONTACT.findall(later))


def _names_another(rule: StandingRule, said: str, old: StandingRule) -> bool:
    """Return True if both sentences begin with what they are about, and these are two things.

    英语课改到八点 does not move 数学课周三晚上七点; "now the bathroom. It's 6.2 square metres" is not the kitchen.
    """
    if _IT.match(rule.plain) and rule.act == "state":
        return rule.said_at - old.said_at > _JUST_SAID or bool(rule.lead)
    first = _subject(_changing_clause(said), lead=bool(rule.lead))
    second = _subject(old.plain, lead=False)
    if not first or rule.act == "cancel":
        return False
    if first not in old.plain.lower():
        return bool(second) and second not in said.lower()
    # 周五改成练胸 after 周一周三练腿，周五练背 changes the second half.
    return (
        bool(second)
        and first not in clauses_of(old.plain.lower())[0]
        and second not in said.lower()
    )


def _changing_clause(text: str) -> str:
    """Return the Chinese clause that says that something changes, without reasons before it; else the whole text."""
    clauses = clauses_of(text)
    if len(clauses) < 2 or text.isascii():
        return text
    return next((each for each in clauses if _CHANGES.search(each)), "")


def _subject(text: str, *, lead: bool) -> str:
    """Return the thing with which a sentence begins, in small letters; "" if it begins with no noun."""
    if lead and (found := _LEAD_NOUN.match(text)):
        return found["noun"].lower()
    plain = LEADING.sub("", text)
    found = _SUBJECT.match(plain)
    return (found["zh"] or found["en"] or "").lower() if found else ""


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
    if not shared or _says_again(later, earlier):
        return False
    return not affirmed - only_in_first(affirmed, there) and not _VALUE.search(later)


def _says_again(later: str, earlier: str) -> bool:
    """Return True if a sentence has most words of an earlier one, as one that restates or reverses it does."""
    there = units_of(earlier)
    return len(there) - len(only_in_first(there, units_of(later))) >= _SAID_AGAIN * len(there)


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

"""Recognises another value for the same slot: the unit, the language, the format, the length, the ticket, the total.

"From here on use kilometres" has no word in common with "give distances in miles". It changes that rule because both
give a value of one small class, and because the later sentence names no other thing: "the menu is in German" does not
change the language of the answers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from turnfold._lazy_loading import late_pattern
from turnfold.rules.changed_values import amounts_of, another_amount
from turnfold.rules.clauses import (
    DENIES,
    LIGHT_VERBS,
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    only_in_first,
    units_of,
)
from turnfold.rules.subjects import without_frame
from turnfold.rules.topics import class_values

__all__ = ("Fills", "fills_again", "may_fill", "slots_filled", "slots_of")

Fills = Literal["surely", "perhaps", ""]

_CLASSES = frozenset(
    "@language @format @spelling @currency @script @tone @theme @indent @unit".split()
)
_SLOTS: dict[str, dict[str, re.Pattern[str]]] = {
    "distance": {
        "miles": re.compile(r"\b(?:miles?|yards|feet|imperial)\b|英里|英尺|英制", re.IGNORECASE),
        "km": re.compile(
            r"\b(?:kilomet\w+|kms?|met(?:re|er)s|metric)\b|公里|千米|公制", re.IGNORECASE
        ),
    },
    "weight": {
        "pounds": re.compile(r"\b(?:pounds|lbs|ounces)\b|磅|盎司|英制", re.IGNORECASE),
        "kg": re.compile(
            r"\b(?:kilos?|kilogram\w*|kg|grams?|metric)\b|公斤|千克|公制", re.IGNORECASE
        ),
        "jin": re.compile("(?<!公)斤"),
    },
    "clock": {
        "24": re.compile(r"\b24[- ]?h(?:ours?)?\b|24\s?小时制", re.IGNORECASE),
        "12": re.compile(r"\b12[- ]?h(?:ours?)?\b|\bam/pm\b|12\s?小时制", re.IGNORECASE),
    },
    "length": {
        "short": re.compile(
            r"\b(?:short(?:er)?|brief(?:er|ly)?|concise|terse|(?:one|two|three|four|five|\d+)\s+(?:sentences?|words|lines?|paragraphs?)|to\s+the\s+point|less\s+detail\w*)\b"
            r"|简短|简洁|精简|简单[点些]|短[一点些]|[一两二三四五六\d]+\s?句话?|\d+\s?字|言简意赅",
            re.IGNORECASE,
        ),
        "long": re.compile(
            r"\b(?:long(?:er)?|more\s+(?:detail\w*|depth|words|room)|(?:in\s+)?detail(?:ed)?|in\s+(?:full|depth)|(?:write|say|explain|tell\s+me)\s+more|elaborate|thorough(?:ly)?|a\s+(?:full\s+)?page|expand)\b"
            r"|[写说讲]?长[一点些]|详细|详尽|[讲说写展][^,，。]{0,2}(?:细|开)|多[说写讲]|展开",
            re.IGNORECASE,
        ),
    },
}
_TICKET = late_pattern(
    r"\b[GDCZTK]\d{1,4}(?!\d)|(?<![A-Za-z0-9])[A-Z]{2}\s?\d{3,4}(?!\d)|\bthe\s+\d{1,2}[:.]\d\d\b"
    r"|\d{1,2}[:：]\d\d的?(?=[^,，。]{0,3}(?:车|飞机|航班|高铁|动车|船|班))"
)
_TRAVEL = late_pattern(
    r"[车船机]票|航班|高铁|火车|飞机|轮渡|大巴|班[车船]|改签|\b(?:train|flight|fly|ferry|bus|coach|plane|ticket)s?\b|\b(?:put|moved|booked)\s+(?:me|us)\s+on\b|\bnow\s+on\b|\bon\s+the\s+\d"
)
_CLOCK = late_pattern(
    r"\d{1,2}[:：]\d\d|(?:\d{1,2}|[一二两三四五六七八九十]{1,3})点(?:半|[一二三四五六七八九十\d]{1,3})?"
)
_REBOOKS = late_pattern(
    r"改签|改坐|改乘|换乘|没赶上|误了|错过|延误|退票|停[运航飞]|\b(?:missed|rebook\w*|(?:put|moved|booked)\s+(?:me|us)\s+on(?:to)?|changed\s+(?:my|our|the)\s+(?:ticket|flight|train)|now\s+on|cancell?ed)\b",
    re.IGNORECASE,
)
_TOTAL = late_pattern(
    r"\b(?:budget|spend|costs?|afford)\b|预算|经费|花|总价|总共|控制在", re.IGNORECASE
)
_HAS = late_pattern(
    r"\b(?:we|i)(?:'ve|'re|\s+(?:now\s+)?(?:have|can|are|could|may))\b|\b(?:that|it)(?:\s+makes|'s|\s+is|\s+brings\s+us)\b|\bmake\s+(?:it|that)\b|\bup\s+to\b"
    r"|[加减提降涨砍调放压](?:到|成|至)|可以[花用到]|能[花用到]|有了?|够[花用]",
    re.IGNORECASE,
)
_SWITCHES = late_pattern(
    r"\b(?:from\s+(?:now|here|today|\w+day)\b|going\s+forward|instead|switch|actually|let's|rather|go\s+(?:back|with|for)|make\s+it|can|may"
    r"|please|better|prefer|now|will\s+do|is\s+(?:fine|ok(?:ay)?))\b"
    r"|以后|今后|改|换|还是|吧|就[行好]|也行|可以|[写说讲]|现在起|从现在|算了|接下来",
    re.IGNORECASE,
)
_HAPPENED = late_pattern(
    r"了|[过错]$|[不没太]|都|难"
    r"|\b(?:\w{2,}ed|got|has|have|had|is|are|isn't|won't|can't|don't|doesn't|insists?|wants?|hates?)\b",
    re.IGNORECASE,
)
_ASKS = late_pattern(r"[?？]|[吗么呢]\W*$")
_ADDS = late_pattern(
    r"\b(?:also|too(?=\W*$)|as\s+well|both|additionally|if|unless|when|only|for\s+this|this\s+time|once)\b"
    r"|另外|再|同时|如果|要是|的话|只有|除了|这次|一次",
    re.IGNORECASE,
)
_FOR_WHOM = late_pattern(
    r"\b(?:for|give|to)\s+(?:(?:my\s+|our\s+)?(?i:mum|mom|mother|dad|father|wife|husband|readers?|boss|clients?|customers?|kids|us|me|her|him|them)\b|[A-Z][a-z]+\b)"
    r"|给(?:我们?|他们?|她|会计|老板|客户)|(?<![一-鿿])(?:我妈|我爸|读者|客户)"
)
"""Matches the person for whom something is, which is no thing that the value could belong to."""
_FILLING = frozenset(
    "answer reply repli write speak say talk respons respond use give show send word sentenc line page paragraph format"
    " file unit here on please plain back put us rather good better do work text detail length"
    " more less easier easi simpler simpl time distanc bit little free feel man train ferri boat"
    " lot flight plane bus ticket next miss rebook cancel".split()
) | frozenset(
    "船轮渡给写说讲答回话句字点些细长短用格式单位签赶上误错过坐票车次航班改换到我就行好以后今起内多少一下开简详洁直接统都也吧加总共有花可能够"
)
"""Words of a sentence about a value that name no thing which the value could belong to."""


@lru_cache(maxsize=1024)
def _slots(text: str) -> dict[str, str]:
    """Return the slots of which a text gives exactly one value: {"distance": "km", "@language": "german"}."""
    found = {
        name: next(iter(values))
        for name, values in class_values(text).items()
        if name in _CLASSES and len(values) == 1
    }
    for name, values in _SLOTS.items():
        given = [value for value, pattern in values.items() if pattern.search(text)]
        if len(given) == 1:
            found[name] = given[0]
    tickets = {each[0].lower() for each in _TICKET.finditer(text)}
    if not tickets and _TRAVEL.search(text):
        tickets = {each[0] for each in _CLOCK.finditer(text)}
    if len(tickets) == 1:
        found["ticket"] = tickets.pop()
    return found


@lru_cache(maxsize=512)
def may_fill(text: str) -> bool:
    """Return True if a sentence may give another value for some slot, whatever was said before."""
    if len(text) > LONGEST or _ASKS.search(text):
        return False
    return _REBOOKS.search(text) is not None or bool(_SWITCHES.search(text) and _slots(text))


@lru_cache(maxsize=4096)
def slots_of(text: str) -> frozenset[str]:
    """Return the names of the slots of which a text gives a value that a later sentence can replace."""
    return frozenset(_slots(text)) | ({"total"} if _TOTAL.search(text) else frozenset[str]())


@lru_cache(maxsize=512)
def slots_filled(text: str) -> frozenset[str]:
    """Return the names of the slots of which a sentence may give another value; see `fills_again`."""
    if _ASKS.search(text) or len(text) > LONGEST:
        return frozenset()
    clauses = clauses_of(text)
    found = {name for clause in clauses for name in _slots(clause) if name != "ticket"}
    found |= {"ticket"} if _REBOOKS.search(text) else set[str]()
    return frozenset(found | ({"total"} if any(map(_HAS.search, clauses)) else set[str]()))


def fills_again(later: str, earlier: str) -> Fills:
    """Return whether a sentence gives another value for the slot of which an earlier one gives a value.

    "surely": the clause with the new value names no other thing, and says that something changes, or why. "perhaps": it
    names no other thing, but does not say that something changes.
    """
    if _ASKS.search(later) or len(later) > LONGEST or len(earlier) > LONGEST:
        return ""
    clauses = clauses_of(later)
    best: Fills = ""
    for number, clause in enumerate(clauses):
        if DENIES.search(clause) or not _is_other_value(clause, later, earlier):
            continue
        if _own(clause, earlier):
            continue
        reasons = [each for at, each in enumerate(clauses) if at != number]
        changes = _SWITCHES.search(clause) or any(_HAPPENED.search(each) for each in reasons)
        if changes and not _ADDS.search(later) and len(clauses_of(earlier)) == 1:
            return "surely"
        best = "perhaps"
    return best


def _is_other_value(clause: str, later: str, earlier: str) -> bool:
    new, old = _slots(clause), _slots(earlier)
    if any(name in old and old[name] != value for name, value in new.items() if name != "ticket"):
        return True
    if (
        _REBOOKS.search(later)
        and "ticket" in old
        and new.get("ticket", old["ticket"]) != old["ticket"]
    ):
        return True
    if not (_HAS.search(clause) and _TOTAL.search(earlier)):
        return False
    unit = another_amount(clause, earlier)
    return unit in ("", "money") and len(amounts_of(earlier)) == 1


@lru_cache(maxsize=1024)
def _named(text: str) -> frozenset[str]:
    """Return the words of a clause that can name the thing to which its value belongs."""
    values = {word for each in class_values(text).values() for word in each}
    plain = _CLOCK.sub(" ", _TICKET.sub(" ", without_frame(_FOR_WHOM.sub(" ", text))))
    for patterns in _SLOTS.values():
        for pattern in patterns.values():
            plain = pattern.sub(" ", plain)
    words = units_of(plain) - LIGHT_WORDS - LIGHT_VERBS - _FILLING - values
    return frozenset(each for each in words if not each[0].isdigit())


def _own(clause: str, earlier: str) -> set[str]:
    return only_in_first(_named(clause), units_of(earlier))

"""Compares the amounts, times, addresses and named values that two sentences give for the same thing."""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import (
    DENIES,
    LEADING,
    LIGHT_VERBS,
    clauses_of,
    nouns_of,
    only_in_first,
    shared_beginning,
    units_of,
)
from turnfold.rules.subjects import without_frame
from turnfold.rules.topics import SOMEWHAT, class_values

__all__ = (
    "amounts_of",
    "another_amount",
    "gives_anew",
)


_NUMERALS = frozenset("一二两三四五六七八九十")
_SCHEDULE = (
    r"每(?:天|日|晚|早|周[一二三四五六日天末]?|星期[一二三四五六日天]?|月|年|季度|小时)|一[天周月](?=[^,，。\d]{0,4}一?次)"
    r"|\b(?:daily|weekly|monthly|hourly|every\s+(?:day|week|month|morning|evening|\w+day)|(?:once|twice)\s+a\s+\w+|on\s+\w+days)\b"
)
_VALUES = late_pattern(
    _SCHEDULE + r"|早上|上午|中午|下午|晚上|(?:周|星期|礼拜)[一二三四五六日天末]"
    r"|(?:\d{1,2}|[一二两三四五六七八九十]{1,3})\s?点(?:半|[一二三四五六七八九十\d]{1,3})?"
    r"|[$€£¥]?\d[\d.,:/-]*\s*(?:[a-zA-Z%]{1,3}\b|万|千|元|块|点半?|号|月|日|个|台|桌|次|篇|天|人|米|码|秒|分钟?|小时)?|[月日号点半]"
)
_FILLING = frozenset(
    "成为到够线钱额度数量上限标准元万千块最多少以内只需高低加减放调提降升涨砍压缩延推改换挪到台桌个篇次天人张的就行号月日点工日整"
) | frozenset(
    "enough only most least cap limit cut trim drop go raise lower bump number amount total =budget max maximum".split()
)
"""Words that say nothing about what an amount is of."""
_AMOUNT = late_pattern(
    r"(?P<before>[$€£¥])?(?P<number>\d[\d.,:]*\d|\d|[一二两三四五六七八九十]+(?=[个台桌次篇天人张条份楼层点年岁]))\s*(?P<unit>[a-zA-Z%]+|[\u4e00-\u9fff])?"
)
_CLASSES = frozenset(
    "@database @cache @code @framework @cloud @indent @packager @theme @color @unit @language @script @tone @format"
    " @spelling @chat @ci @payment @editor @transport @carrier @milk @seat @cabin @drink @currency".split()
)
_WHEN = late_pattern(
    r"(?:周|星期|礼拜)[一二三四五六日天末]|[今明后]天|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\btomorrow\b",
    re.IGNORECASE,
)
_BOUND = late_pattern(
    r"超|以[上下内前后外]|之[前后]|[低高少多早晚大小长短]于|\b(?:before|after|until|than|over|under|above|below|exceed\w*|within|up\s+to)\b",
    re.IGNORECASE,
)
"""Matches words that set a limit: another limit for the same thing replaces it."""
_CLOCK = late_pattern(
    r"(?:\d{1,2}|[一二两三四五六七八九十]{1,3})\s?点(?:半|[一二三四五六七八九十\d]{1,3}(?![\d个]))"
)
"""Matches a time with minutes: 七点半, 7 点 40."""
_OFTEN = late_pattern(_SCHEDULE, re.IGNORECASE)
_MAIL = late_pattern(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}")
_UNIT_OF = {
    unit: kind
    for kind, units in {
        "": "before after per a an to for and or in on at each every as 的 吧 了 就 以 之 ， 或 也 一",
        "money": "元 块 万 千 k eur euros usd dollars pounds rmb",
        "time": "点 am pm",
        "date": "号 日 st nd rd th",
        "size": "码",
        "duration": "秒 分 时 小 天 周 ms s sec secs second seconds min mins minute minutes hour hours day days",
    }.items()
    for unit in units.split()
}


def gives_anew(later: str, earlier: str, *, changes: bool) -> float:
    """Return how surely a sentence gives another amount, time or name for what an earlier one states: 0, 0.5 or 1.

    Both name the same thing and the later one no other thing, and each has one value of the same class.
    """
    if not amounts_of(later) or not amounts_of(earlier):
        return 0.0
    earlier = _stated(earlier)
    best = 0.0
    lead: frozenset[str] = frozenset()
    for clause in clauses_of(later):
        kind = another_amount(clause, earlier)
        if kind is not None and _names_the_same(clause, earlier, kind, lead):
            special = not changes and _WHEN.search(clause) and not _WHEN.search(earlier)
            sure = changes and (kind != "often" or "often" in amounts_of(earlier))
            if not special and (changes or kind != "often"):
                best = max(best, 1.0 if sure else 0.5)
        begins = shared_beginning(_without_leading(clause), earlier)
        lead = nouns_of(begins) if begins else frozenset()
    return best


@lru_cache(maxsize=4096)
def _stated(text: str) -> str:
    """Return the clauses of a text that deny nothing, and those that set a limit."""
    clauses = clauses_of(text)
    return "，".join(each for each in clauses if _BOUND.search(each) or not DENIES.search(each))


@lru_cache(maxsize=4096)
def _without_leading(clause: str) -> str:
    return LEADING.sub("", clause)


def _names_the_same(clause: str, earlier: str, kind: str, lead: frozenset[str]) -> bool:
    """Return True if a clause, or the one before it (`lead`), names what an earlier sentence is about."""
    rest = _things_of(clause) - amounts_of(clause)[kind]
    own = only_in_first(rest, _units_with_and_without_values(earlier))
    own -= LIGHT_VERBS if rest - own else frozenset[str]()
    pairs = {each for each in nouns_of(clause) & nouns_of(earlier) if len(each) > 1}
    named = pairs or {each for each in rest - own if each.isascii()} or lead
    return bool(named) and not own


@lru_cache(maxsize=4096)
def _things_of(clause: str) -> frozenset[str]:
    """Return the words of a clause that can name what its amount is of."""
    plain = _VALUES.sub(" ", without_frame(_MAIL.sub(" ", clause)))
    others = [each for name, each in class_values(plain).items() if name not in _CLASSES]
    words = units_of(plain) - _FILLING - frozenset[str]().union(*others)
    return frozenset(each for each in words if not each[0].isdigit() and each not in _NUMERALS)


@lru_cache(maxsize=4096)
def _units_with_and_without_values(text: str) -> frozenset[str]:
    return units_of(_VALUES.sub(" ", text)) | units_of(text)


def another_amount(clause: str, earlier: str) -> str | None:
    """Return the unit or class of which both texts give one value, and not the same one; None if there is none."""
    new, old = amounts_of(clause), amounts_of(earlier)
    for unit, numbers in new.items():
        plain = unit not in _CLASSES and unit not in ("often", "mail")
        others = old.get(unit, old.get("", set()) if plain and unit else set[str]())
        if not unit and not others:
            told = [
                each
                for kind, each in old.items()
                if kind not in _CLASSES and kind not in ("often", "mail")
            ]
            others = told[0] if len(told) == 1 else others
        if len(others) == 1 and len(numbers - others) == 1:
            return unit
    return None


@lru_cache(maxsize=4096)
def amounts_of(text: str) -> dict[str, set[str]]:
    """Return the values of a text by unit or class: {"money": {"40"}, "often": {"每天"}}."""
    found: dict[str, set[str]] = {}
    text = SOMEWHAT.sub(" ", text)
    for each in _MAIL.finditer(text):
        found.setdefault("mail", set()).add(each[0].lower())
    for each in _OFTEN.finditer(text):
        found.setdefault("often", set()).add(each[0].lower())
    for name, values in class_values(text).items():
        if name in _CLASSES:
            found[name] = set(values)
    for each in _CLOCK.finditer(text):
        found.setdefault("time", set()).add(each[0].replace(" ", ""))
    text = _CLOCK.sub(" ", text)
    for each in _AMOUNT.finditer(_MAIL.sub(" ", _OFTEN.sub(" ", text))):
        unit = (each["unit"] or "").lower()
        kind = "money" if each["before"] else _UNIT_OF.get(unit, unit)
        number = each["number"].replace(",", "")
        found.setdefault(kind, set()).add(number + unit if kind == "duration" else number)
    return found

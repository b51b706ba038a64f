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
from turnfold.rules.lifted_prohibitions import affirms
from turnfold.rules.subjects import without_frame
from turnfold.rules.topics import SOMEWHAT, class_values

__all__ = (
    "amounts_of",
    "another_amount",
    "gives_anew",
    "only_reports",
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
"""Words and Chinese characters next to an amount that do not say what the amount is of: units, limits, verbs of change.
"""
_AMOUNT = late_pattern(
    r"(?P<before>[$€£¥])?(?P<number>\d[\d.,:]*\d|\d|[一二两三四五六七八九十]+(?=[个台桌次篇天人张条份楼层点年岁万千块元袋箱瓶盒包件杯斤套双本间晚位辆罐桶]))\s*(?P<unit>[a-zA-Z%]+|[\u4e00-\u9fff])?"
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
"""Matches words that set a limit ("at most"); a later limit for the same thing replaces an earlier one."""
_CLOCK = late_pattern(
    r"(?:\d{1,2}|[一二两三四五六七八九十]{1,3})\s?点(?:半|[一二三四五六七八九十\d]{1,3}(?![\d个]))"
)
"""Matches a time with minutes: 七点半, 7 点 40."""
_LIMITS = late_pattern(
    r"至[少多]|最[少多高低大小迟晚早长短]|不(?:得|能|许|要|可以?)?(?:超|[低高少多大小晚早]于)|[低高少多大小晚早]于|以[内上下]|之[前内]|控制在|[上下]限|限额"
    r"|\b(?:at\s+(?:the\s+)?(?:least|most|latest)|no\s+(?:more|less|fewer|later|earlier)\s+than|(?:more|less|fewer|later|earlier)\s+than|up\s+to"
    r"|under|below|above|over|within|exceed\w*|max\w*|min(?:imum)?|limit\w*|cap(?:ped)?|or\s+(?:more|less|fewer|better)|by\s+(?=\d|the\s|next|end))\b",
    re.IGNORECASE,
)
"""Matches words that set a limit for an amount or a time."""
_LAYS_DOWN = late_pattern(
    r"改[成为到用作在回一天]|[更修]改|改吧|换[成为到用掉]|换一|调[到成整高低]|提[高升到]|降|升|放宽|放开|收紧|缩[短减小]|延|推[迟后到]|提前|[加减涨砍压]到|限|目标|要求|标准|必须|应该|可以|也行|就行|都行|才行|够了|即可"
    r"|取消|作废|算了|不用|不需|不必|还是|定[在为成到]|吧|\b(?:rais\w*|lower\w*|increas\w*|reduc\w*|extend\w*|relax\w*|tighten\w*|push\w*|mov\w*"
    r"|postpone\w*|delay\w*|chang\w*|make|set|bump\w*|cut|trim|budget|target|goal|requir\w*|must|should|needs?|have\s+to|has\s+to|may|can|could|allow\w*"
    r"|fine|ok(?:ay)?|enough|will\s+do|instead|actually|drop|forget|cancel|never\s+mind|let['’]?s|go\s+(?:up|down|with)|want|keep|always|never)\b",
    re.IGNORECASE,
)
"""Matches words with which somebody sets a rule ("change it to", "from now on"), and does not report how things are."""
_LATER_ON = late_pattern(
    r"(?:记得|别忘了?|到时候?)[^,，。;；]*|\b(?:remember|(?:do\s+not|don['’]?t)\s+forget)\s+to\b[^,.;]*",
    re.IGNORECASE,
)
"""Matches words for a task to be done later: "remember to cancel it" cancels nothing now."""
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


_IT_IS = late_pattern(r"\w+\s+it\s+is\W*$", re.IGNORECASE)


def gives_anew(later: str, earlier: str, *, changes: bool) -> float:
    """Return how certainly a sentence gives a new amount, time or name for an earlier statement: 0, 0.5 or 1.

    It is above 0 only if both name the same thing, the later one names no other thing, and each has one value of the
    same class.
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
        # "Zhou says the shelf grows to 26 m, 2,400 more": what follows an amount of another thing is about that thing.
        another = bool(amounts_of(clause)) and bool(
            only_in_first(nouns_of(clause), units_of(earlier))
        )
        lead = nouns_of(begins) if begins and not another else frozenset()
    return best


@lru_cache(maxsize=4096)
def only_reports(later: str, earlier: str) -> bool:
    """Return True if the earlier sentence sets a limit and the later one only reports an amount or a time.

    "Coverage is at 73 % now" does not end "coverage must be at least 80 %", nor does a price end a budget.
    """
    if not _LIMITS.search(earlier) or _IT_IS.search(later) or affirms(later):
        return False
    now = _LATER_ON.sub(" ", later)
    return not (_LIMITS.search(now) or _LAYS_DOWN.search(now))


@lru_cache(maxsize=4096)
def _stated(text: str) -> str:
    """Return the clauses of a text that state a value, and those that set a limit.

    Clauses that deny a value are left out.
    """
    clauses = clauses_of(text)
    return "，".join(each for each in clauses if _BOUND.search(each) or not DENIES.search(each))


@lru_cache(maxsize=4096)
def _without_leading(clause: str) -> str:
    return LEADING.sub("", clause)


def _names_the_same(clause: str, earlier: str, kind: str, lead: frozenset[str]) -> bool:
    """Return True if a clause, or the clause before it (`lead`), names the thing of an earlier sentence."""
    rest = _things_of(clause) - amounts_of(clause)[kind]
    own = only_in_first(rest, _units_with_and_without_values(earlier))
    own -= LIGHT_VERBS if rest - own else frozenset[str]()
    pairs = {each for each in nouns_of(clause) & nouns_of(earlier) if len(each) > 1}
    named = pairs or {each for each in rest - own if each.isascii()} or lead
    return bool(named) and not own


@lru_cache(maxsize=4096)
def _things_of(clause: str) -> frozenset[str]:
    """Return the words of a clause that can name the thing to which its amount belongs."""
    plain = _VALUES.sub(" ", without_frame(_MAIL.sub(" ", clause)))
    others = [each for name, each in class_values(plain).items() if name not in _CLASSES]
    words = units_of(plain) - _FILLING - frozenset[str]().union(*others)
    return frozenset(each for each in words if not each[0].isdigit() and each not in _NUMERALS)


@lru_cache(maxsize=4096)
def _units_with_and_without_values(text: str) -> frozenset[str]:
    return units_of(_VALUES.sub(" ", text)) | units_of(text)


def another_amount(clause: str, earlier: str) -> str | None:
    """Return the unit or class in which each text gives one value and the two differ; None if there is none."""
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

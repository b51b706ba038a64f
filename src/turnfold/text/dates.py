"""Finds the days that a question names: "on May 4th", "three days ago", "last Friday", 4月28号, 上周五, 2023-04-28.

A day without a year is the last one before the question was asked, because questions about a conversation are about the
past. Words such as "today" are left out: what was said today is mostly in the prompt anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern

__all__ = (
    "NamedDays",
    "named_days",
)


_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_WEEKDAYS: Sequence[str] = "mon tues wednes thurs fri satur sun".split()
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?![\d:%])"
_YEAR = r"(?:,?[ ](?:of[ ])?(?P<{0}>(?:19|20)\d\d)\b)?"
_COUNT = r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten)"
_HAN = r"[一二两三四五六七八九十]{1,3}"
_NAMED = late_pattern(
    rf"""
    (?<!\d)(?P<iso>(?:19|20)\d\d[-/.]\d{{1,2}}[-/.]\d{{1,2}})(?!\d)
    | \b(?P<m1>{_MONTH})\ (?:the\ )?(?P<d1>{_DAY}){_YEAR.format("y1")}
    | (?<![\d.:])(?P<d2>{_DAY})\ (?:of\ )?(?P<m2>{_MONTH}){_YEAR.format("y2")}
    | \b(?P<m3>{_MONTH})\ (?P<y3>(?:19|20)\d\d)\b
    | \b(?:in|during|throughout)\ (?:early\ |late\ |mid-?\ ?)?(?P<m4>{_MONTH}){_YEAR.format("y4")}(?![\w-])
    | \b(?P<before_last>(?:the\ )?day\ before\ yesterday) | \b(?P<yesterday>yesterday|last\ night)\b
    | \b(?P<ago>{_COUNT})\ (?P<unit>day|week|month)s?\ ago\b
    | \blast\ (?P<last>week|month)\b | \b(?:last|on|this\ past)\ (?P<on>{"|".join(_WEEKDAYS)})day\b
    | (?<![\d个])(?:(?P<y5>(?:19|20)\d\d)年)?(?P<m5>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月(?:份)?
      (?:(?P<d5>\d{{1,2}}|{_HAN})(?:[日号]|(?![\d个%.点一二三四五六七八九十])))?
    | (?P<han_before>大?前天)(?!夜) | (?P<han_yesterday>昨[天日晚夜])
    | (?P<han_ago>\d{{1,3}}|{_HAN})(?:个)?(?P<han_unit>天|周|星期|礼拜|月)[以之]?前
    | (?P<han_week>上个?(?:周|星期|礼拜))(?P<han_on>[一二三四五六日天])? | (?P<han_month>上个?月)
    | (?<![每个上下这本各])(?:周|星期|礼拜)(?P<han_day>[一二三四五六日天])(?![个遍回])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST = 2_000
"""Most characters at the beginning of a question that are searched for days; the rest is ignored."""
_MOST = 4
"""Most days or periods that are returned for one question; further ones are ignored."""
_HAN_DIGITS = {digit: value for value, digit in enumerate("一二三四五六七八九十", 1)} | {"两": 2}
_WORDS = {
    word: value
    for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
} | {"a": 1, "an": 1}
_WEEK, _MONTH_DAYS = 7, 30


class NamedDays(NamedTuple):
    """A day or a period that a question names."""

    first: date
    last: date
    words: str = ""
    """The words of the question that name the day or period."""


def named_days(question: str, today: date, *, newest: date | None = None) -> list[NamedDays]:
    """Return the days and periods before or at `today` that a question names, at most four.

    A date without a year is the last one before the day of the `newest` message; without it, before `today`.
    """
    found: list[NamedDays] = []
    latest = min(newest or today, today)
    for match in _NAMED.finditer(question[:_LONGEST]):
        days = _days({k: v.lower() for k, v in match.groupdict().items() if v}, today, latest)
        found += [each._replace(words=match[0]) for each in days]
        if len(found) >= _MOST:
            break
    return found[:_MOST]


def _days(named: dict[str, str], today: date, latest: date) -> Iterator[NamedDays]:
    """Yield the day or period of one match; nothing for a date that no calendar has."""
    try:
        first, last = _calendar_days(named, latest) or _days_before(named, today)
    except (ValueError, OverflowError):
        return
    if first <= today:
        yield NamedDays(first, last)


def _calendar_days(named: dict[str, str], latest: date) -> tuple[date, date] | None:
    if iso := named.get("iso"):
        year, month, day = map(int, re.split(r"\D", iso))
        return _alone(date(year, month, day))
    for way in "12345":
        if (name := named.get(f"m{way}")) is not None:
            year = int(named.get(f"y{way}", 0))
            day = named.get(f"d{way}", "")
            return _day_of_month(_month(name), _number(re.sub(r"[a-z]", "", day)), year, latest)
    return None


def _day_of_month(month: int, day: int, year: int, latest: date) -> tuple[date, date]:
    """Return a day of a month, or with `day` 0 the whole month; without a year, the last one begun at `latest`."""
    first = date(year or latest.year, month, day or 1)
    if not year and first > latest:
        first = date(latest.year - 1, month, day or 1)
    return (first, first) if day else (first, _end_of_month(first))


def _days_before(named: dict[str, str], today: date) -> tuple[date, date]:
    monday = today - timedelta(days=today.weekday())
    if on := named.get("on"):
        return _weekday_before(_WEEKDAYS.index(on), today)
    if named.get("last") == "week" or "han_week" in named:
        if on := named.get("han_on"):
            return _alone(monday - timedelta(days=_WEEK - _han_weekday(on)))
        return monday - timedelta(days=_WEEK), monday - timedelta(days=1)
    if named.get("last") or "han_month" in named:
        end = today.replace(day=1) - timedelta(days=1)
        return end.replace(day=1), end
    if on := named.get("han_day"):
        return _weekday_before(_han_weekday(on), today)
    unit = named.get("unit", "") or named.get("han_unit", "")
    if not unit:
        far = len(named.get("han_before", "")) or 1 + ("before_last" in named)  # 前天, 大前天
        return _alone(today - timedelta(days=far))
    count = _number(named.get("ago") or named.get("han_ago", ""))
    size = {"day": 1, "天": 1, "month": _MONTH_DAYS, "月": _MONTH_DAYS}.get(unit, _WEEK)
    middle = today - timedelta(days=count * size)
    return middle - timedelta(days=size // 2), middle + timedelta(days=size // 2)


def _alone(day: date) -> tuple[date, date]:
    return day, day


def _weekday_before(weekday: int, today: date) -> tuple[date, date]:
    return _alone(today - timedelta(days=(today.weekday() - weekday - 1) % _WEEK + 1))


def _han_weekday(character: str) -> int:
    return "一二三四五六日".index(character.replace("天", "日"))


def _end_of_month(first: date) -> date:
    return (first + timedelta(days=_MONTH_DAYS + 1)).replace(day=1) - timedelta(days=1)


def _month(name: str) -> int:
    begin = name[:3]
    known = [number for number, month in enumerate(_MONTHS, 1) if month.startswith(begin)]
    return known[0] if known else _number(name)


def _number(text: str) -> int:
    """Return a number in digits, as an English word up to ten, or in Chinese up to 99; 0 for an empty text."""
    text = text.strip()
    if not text or text.isdecimal() or text in _WORDS:
        return _WORDS.get(text) or int(text or 0)
    tens, ten, ones = text.rpartition("十")
    return (10 * _HAN_DIGITS.get(tens, 1) if ten else 0) + _HAN_DIGITS.get(ones, 0)

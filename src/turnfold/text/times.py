"""Formats times for prompts, with date and UTC offset, and finds words like "yesterday" that need a date added.

A model does not know when a message was written unless the prompt says so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from turnfold._lazy_loading import late_pattern

__all__ = ("has_relative_time", "local_time", "time_text")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTES = 60
_UNIT = r"(?:minute|hour|day|night|week|weekend|fortnight|month|quarter|year|decade)s?"
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NUMBER = r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|few|couple\ of|several|many)"
_NUMERAL = r"[\d一二两三四五六七八九十几半]"
# A run of numerals is tried from its first character only: from each, a long run takes quadratic time.
_RELATIVE = late_pattern(
    rf"""
    \b(?: yesterday | today | tonight | tomorrow | recently | lately | nowadays
      | (?:last|next|this|past|coming|previous)\ (?:{_UNIT}|{_DAY}|morning|afternoon|evening
          |spring|summer|autumn|fall|winter|semester|january|february|march|april|may|june|july|august|september
          |october|november|december|few\ {_UNIT}|couple\ of\ {_UNIT}|{_NUMBER}\ {_UNIT})
      | {_NUMBER}\ (?:more\ )?{_UNIT}\ (?:ago|back|from\ now) | in\ (?:a\ |the\ next\ )?{_NUMBER}\ {_UNIT}
      | (?:a\ while|long|not\ long)\ ago | just\ now | the\ other\ (?:day|night|week) | these\ days
      | (?:on|by|until|since|till)\ {_DAY} )\b
    | [今昨明][天日晚早晨夜年] | [前后]天 | [去前后]年 | [这上下]个?(?:月|周|星期|礼拜|季度|学期) | 上次 | 本[周月年]
    | 最近 | 近[来日期] | 刚[刚才] | [前过这](?:几|两)天
    | (?<!{_NUMERAL}){_NUMERAL}++个?(?:天|周|星期|月|年|小时)[以之]?[前后]
    | (?<![每个])(?:周|星期|礼拜)[一二三四五六日天](?![个遍回])
    """,
    re.IGNORECASE | re.VERBOSE,
)


def local_time(created: int, zone: tzinfo = UTC) -> datetime:
    """Return microseconds since 1970 as a time in this zone; a time that the zone cannot express stays in UTC."""
    time = _EPOCH + timedelta(microseconds=created)
    try:
        return time.astimezone(zone)
    except OverflowError:  # the first or last day of the calendar
        return time


def time_text(time: datetime) -> str:
    """Format a time with the offset of its zone, such as `2026-11-18 16:47 UTC+8`."""
    offset = time.utcoffset() or timedelta(0)
    hours, minutes = divmod(abs(offset) // timedelta(minutes=1), _MINUTES)
    sign = "-" if offset < timedelta(0) else "+"
    shown = f"{sign}{hours}{f':{minutes:02d}' if minutes else ''}" if hours or minutes else ""
    return f"{time:%Y-%m-%d %H:%M} UTC{shown}"


def has_relative_time(text: str) -> bool:
    """Return True if a text has words that depend on when it was written, such as yesterday, last week, 明天, 上周."""
    return _RELATIVE.search(text) is not None

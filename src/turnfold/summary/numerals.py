"""Numbers, units, dates and times in one spelling, so that two ways of writing one value compare equal.

A faithful summary may write 4200 for "4,200", 15:30 for "下午3点半" or "20 May" for "2024-05-20".
Values stay strings of digits: nothing is rounded, and a hundred-digit number is as exact as a
short one.
"""

from __future__ import annotations

import re

__all__ = (
    "CHINESE_UNITS",
    "CURRENCIES",
    "ENGLISH_UNITS",
    "MONTHS",
    "MULTIPLIERS",
    "canonical_clock",
    "canonical_date",
    "canonical_number",
    "canonical_unit",
    "chinese_numeral",
    "english_numeral",
)

MULTIPLIERS = {
    "千": 3, "万": 4, "百万": 6, "千万": 7, "亿": 8,
    "k": 3, "thousand": 3, "million": 6, "mn": 6, "billion": 9, "bn": 9,
}  # fmt: skip

ENGLISH_UNITS = {
    "$": "usd", "us$": "usd", "usd": "usd", "dollar": "usd", "dollars": "usd", "bucks": "usd",
    "€": "eur", "eur": "eur", "euro": "eur", "euros": "eur",
    "£": "gbp", "gbp": "gbp", "pounds": "gbp", "pound": "gbp",
    "¥": "cny", "￥": "cny", "cny": "cny", "rmb": "cny", "yuan": "cny", "jpy": "jpy", "yen": "jpy", "hkd": "hkd",
    "%": "%", "percent": "%", "°c": "°c", "℃": "°c", "°f": "°f",
    "mg": "mg", "g": "g", "kg": "kg", "lb": "lb", "lbs": "lb", "oz": "oz", "ml": "ml", "l": "l",
    "mm": "mm", "cm": "cm", "m": "m", "km": "km", "mile": "mile", "miles": "mile", "ft": "ft", "feet": "ft",
    "inch": "in", "inches": "in",
    "ms": "ms", "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "min": "min", "mins": "min", "minute": "min", "minutes": "min",
    "h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "day", "days": "day",
    "week": "week", "weeks": "week", "month": "month", "months": "month",
    "year": "year", "years": "year", "yr": "year", "yrs": "year",
    "kb": "kb", "mb": "mb", "gb": "gb", "tb": "tb", "byte": "byte", "bytes": "byte",
}  # fmt: skip

CHINESE_UNITS = {
    "美元": "usd", "美金": "usd", "欧元": "eur", "英镑": "gbp", "日元": "jpy", "港币": "hkd", "港元": "hkd",
    "人民币": "cny", "元": "cny", "块钱": "cny", "块": "cny", "度": "°c", "摄氏度": "°c", "%": "%",
    "毫克": "mg", "克": "g", "公斤": "kg", "千克": "kg", "斤": "斤", "毫升": "ml", "升": "l",
    "毫米": "mm", "厘米": "cm", "公分": "cm", "米": "m", "公里": "km", "千米": "km",
    "毫秒": "ms", "秒": "s", "秒钟": "s", "分钟": "min", "小时": "h", "个小时": "h", "天": "day", "日": "day",
    "周": "week", "星期": "week", "个星期": "week", "个月": "month", "年": "year", "岁": "岁", "周岁": "岁",
    "月": "月", "个": "", "次": "次", "人": "人", "名": "", "位": "", "件": "", "条": "", "张": "", "台": "", "只": "",
    "本": "", "部": "", "家": "", "项": "", "章": "章", "节": "节", "页": "页", "号": "号", "楼": "楼", "层": "层",
    "室": "室", "期": "期", "级": "级", "倍": "倍", "种": "", "份": "", "套": "", "间": "", "辆": "",
    "杯": "", "瓶": "",
    "片": "片", "粒": "粒", "颗": "", "支": "", "盒": "盒", "步": "步", "晚": "night", "遍": "次", "顿": "次",
}  # fmt: skip

CURRENCIES = frozenset({"usd", "eur", "gbp", "cny", "jpy", "hkd"})
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_CHINESE_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CHINESE_STEPS = {"十": 10, "百": 100, "千": 1000}
_ENGLISH_NUMERALS = {
    word: value
    for value, word in enumerate(
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
        " eighteen nineteen twenty".split(),
        start=2,
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_SPACES = re.compile(r"\s+")


def canonical_number(written: str, *, shift: int = 0) -> str:
    """The value of a decimal number times ten to the `shift`, without separators or needless zeros."""
    sign = "-" if written[0] in "-−" else ""
    whole, _, fraction = written.lstrip("+-−").replace(",", "").partition(".")
    fraction = fraction.ljust(shift, "0")
    whole, fraction = (whole + fraction[:shift]).lstrip("0") or "0", fraction[shift:].rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def canonical_unit(written: str) -> str:
    """One name per unit; an unknown unit keeps its own, lower-cased and in the singular."""
    plain = _SPACES.sub("", written).lower()
    known = ENGLISH_UNITS.get(plain, CHINESE_UNITS.get(plain))
    if known is not None:
        return known
    return plain[:-1] if len(plain) > 3 and plain.endswith("s") and plain[-2] != "s" else plain


def canonical_date(year: str | None, month: str | None, day: str | None) -> str:
    """Year, month and day as `2024-5-20`, with nothing in the place of what the text does not say."""
    if year and len(year) == 2:
        year = f"20{year}"
    name = (month or "")[:3].lower()
    number = str(MONTHS.index(name) + 1) if name in MONTHS else (month or "").lstrip("0")
    return f"{year or ''}-{number}-{(day or '').lstrip('0')}"


def canonical_clock(hour: str, minute: str | None, half: str | None) -> str:
    """A time of day as `15:30` on the 24-hour clock; `half` is am, pm or a Chinese word for a part of the day."""
    hours, minutes = int(hour), int(minute or 0)
    part = (half or "").lower().replace(".", "")
    if part in ("pm", "下午", "晚上", "傍晚", "晚") and hours < 12:
        hours += 12
    if part in ("am", "凌晨") and hours == 12:
        hours = 0
    return f"{hours}:{minutes:02d}"


def chinese_numeral(written: str) -> int | None:
    """The value of a plain numeral below ten thousand, such as 三, 十二 or 三千五百; None for anything else."""
    if all(c in _CHINESE_DIGITS for c in written):
        # Two digits in a row, as in 三四天, mean "three or four".
        return (
            int("".join(str(_CHINESE_DIGITS[c]) for c in written))
            if len(written) in (1, 3, 4)
            else None
        )
    total, digit, last_step = 0, 0, 10_000
    for character in written:
        step = _CHINESE_STEPS.get(character)
        if step is None:
            digit = _CHINESE_DIGITS[character]
            continue
        if step >= last_step or (digit == 0 and step != 10):
            return None
        total, digit, last_step = total + (digit or 1) * step, 0, step
    return total + digit


def english_numeral(word: str) -> int | None:
    """The value of a number word from two to ninety; None for anything else ("one" is too often no number)."""
    return _ENGLISH_NUMERALS.get(word.lower())

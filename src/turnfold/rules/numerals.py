"""Writes Chinese numerals of several characters as digits, so that 四百块 and 400 块 are the same amount."""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern

__all__ = ("with_digits",)


_ONES = {sign: at for at, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_TENS = {"十": 10, "百": 100, "千": 1000}
_NUMERAL = late_pattern(
    "(?<![一二两三四五六七八九])(?:[一二两三四五六七八九][千百十万]|十(?=[一二三四五六七八九])|(?<![0-9一二两三四五六七八九十])十(?=[个条天周月年点号次页行人岁块元万]))"
    "[零〇一二两三四五六七八九十百千]*万?[零〇一二两三四五六七八九十百千]*"
)
"""Matches a numeral of at least two characters; not 千万 (by all means) or 十分 (very)."""
_IN_CASE = re.compile("万一(?![千百])")


def with_digits(text: str) -> str:
    """Return a text with its Chinese numerals as digits; 万 (ten thousand) at their end is kept as a unit."""
    if text.isascii() or _NUMERAL.search(text) is None:
        return text
    return _NUMERAL.sub(_digits, text)


def _digits(found: re.Match[str]) -> str:
    numeral = found[0]
    if _IN_CASE.search(numeral):
        return numeral
    above, sign, below = numeral.partition("万")
    if not sign:
        return str(_value(above))
    return f"{_value(above)}万" if not below else str(10_000 * _value(above) + _value(below, 1000))


def _value(numeral: str, following: int = 1) -> int:
    """Return the value of a numeral below 万; a last digit without a unit counts `following`, or as in 一百五 (150)."""
    total, digit, unit = 0, 0, 10 * following
    for sign in numeral:
        if sign in _TENS:
            unit = _TENS[sign]
            total += (digit or 1) * unit
            digit = 0
        elif sign in "零〇":
            unit = 10
        else:
            digit = _ONES[sign]
    return total + digit * max(unit // 10, 1)

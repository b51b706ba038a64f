"""Finds the hard facts of a text: names, numbers, dates, identifiers, rules and decisions.

Later turns need these word for word, so a summary must not lose or change them. They are found by regular expressions
and cue words, in English and Chinese, so neither the extractive summary nor the fidelity check needs a model.

Each fact has a key: two spellings with the same key are one fact. Numbers, units, dates and times have a canonical
spelling, because a correct summary may write 4200 for "4,200", 15:30 for "下午3点半" or "20 May" for "2024-05-20".
Values stay strings of digits: nothing is rounded, and a hundred-digit number is as exact as a short one.

All patterns are tried in one pass from the most to the least specific, so the digits of an order number are never also
a quantity. Every pattern starts only where a token starts and repeats no group that can match the same characters in
two ways, so the scan is linear for any input.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.fold.constraints import find_cues
from turnfold.text import FOLD_STOP_WORDS, SentenceKind, same_width, splits_word

__all__ = (
    "ENGLISH_UNITS",
    "FACT_WEIGHTS",
    "Fact",
    "FactKind",
    "FactMatch",
    "canonical_clock",
    "canonical_date",
    "canonical_number",
    "chinese_numeral",
    "english_numeral",
    "fact_at",
    "fact_weight",
    "find_hits",
)


_MULTIPLIERS = {
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

_CHINESE_UNITS = {
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

_CURRENCIES = frozenset({"usd", "eur", "gbp", "cny", "jpy", "hkd"})
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

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
_SPACES = late_pattern(r"\s+")


def canonical_number(written: str, *, shift: int = 0) -> str:
    """Return a decimal number times 10**`shift` as text, without separators or needless zeros: "4,200.0" is "4200"."""
    sign = "-" if written[0] in "-−" else ""
    whole, _, fraction = written.lstrip("+-−").replace(",", "").partition(".")
    fraction = fraction.ljust(shift, "0")
    whole, fraction = (whole + fraction[:shift]).lstrip("0") or "0", fraction[shift:].rstrip("0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _canonical_unit(written: str) -> str:
    """Return the same name for all spellings of a unit; an unknown unit in lower case and in the singular."""
    plain = _SPACES.sub("", written).lower()
    unit = ENGLISH_UNITS.get(plain, _CHINESE_UNITS.get(plain))
    if unit is not None:
        return unit
    return plain[:-1] if len(plain) > 3 and plain.endswith("s") and plain[-2] != "s" else plain


def canonical_date(year: str | None, month: str | None, day: str | None) -> str:
    """Return year, month and day as `2024-5-20`; a part that the text does not state is left empty."""
    if year and len(year) == 2:
        year = f"20{year}"
    name = (month or "")[:3].lower()
    number = str(_MONTHS.index(name) + 1) if name in _MONTHS else (month or "").lstrip("0")
    return f"{year or ''}-{number}-{(day or '').lstrip('0')}"


def canonical_clock(hour: str, minute: str | None, half: str | None) -> str:
    """Return a time of day as `15:30`; `half` is am, pm or a Chinese word for a part of the day."""
    hours, minutes = int(hour), int(minute or 0)
    part = (half or "").lower().replace(".", "")
    if part in ("pm", "下午", "晚上", "傍晚", "晚") and hours < 12:
        hours += 12
    if part in ("am", "凌晨") and hours == 12:
        hours = 0
    return f"{hours}:{minutes:02d}"


def chinese_numeral(written: str) -> int | None:
    """Return the value of a Chinese numeral below ten thousand, such as 三, 十二 or 三千五百; None for other texts."""
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
    """Return the value of a number word from two to ninety; None for other words ("one" is often not a number)."""
    return _ENGLISH_NUMERALS.get(word.lower())


FactKind = Literal[
    "constraint", "decision", "money", "id", "email", "url", "path", "date", "time", "version",
    "number", "name", "identifier", "unread",
]  # fmt: skip


class FactMatch(NamedTuple):
    """A fact found in a text: its kind, its key, and its position in the text."""

    kind: FactKind
    key: str
    start: int
    end: int


_Reader = Callable[[re.Match[str]], FactMatch | None]
"""Function that makes a fact from a regular-expression match; returns None if the match is not a fact."""


def _choice(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_FILE_ENDING = (
    "py|js|ts|tsx|jsx|json|jsonl|ya?ml|toml|md|txt|csv|tsv|xml|html?|css|sql|sh|go|rs|java|kt|swift"
    "|c|cc|cpp|h|hpp|rb|php|exs?|lock|log|ini|cfg|conf|env|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg"
    "|mp[34]|wav|zip|gz|tar|db|sqlite|ipynb"
)
_URL_BODY = r"[^\s<>\"'`，。；！？、）】」》]+"
_DAY_PART = "上午|下午|早上|晚上|中午|凌晨|傍晚|晚"
_WORD_UNIT = _choice(unit for unit in ENGLISH_UNITS if unit.isalpha())
_SIGN_UNIT = _choice(unit for unit in ENGLISH_UNITS if not unit.isalpha())
_CHINESE_UNIT = _choice(_CHINESE_UNITS)

_MAY_BEGIN = rf"""
    (?: (?<!\w)(?!\s)(?!(?!{_MONTH}|rmb\b|[a-z]+days?\b)(?-i:[A-Za-z][a-z]*+)[ ])
      | (?<=\w)(?![a-z_\s]) )
"""
# No pattern matches inside a word, at white space, or at a plain word before a space unless the word may name a date or
# a currency. The patterns imply this; testing it first is faster, because it fails at most positions.
_SHAPES = late_pattern(
    rf"""
    {_MAY_BEGIN} (?:
      (?P<url> (?<!\w)(?:https?|ftp|wss?|file)://{_URL_BODY} | (?<![\w.])www\.{_URL_BODY} )
    | (?P<email> (?<![\w.+-])[a-z0-9][\w.+-]{{0,63}}@[a-z0-9][\w-]{{0,62}}
        (?:\.[a-z0-9][\w-]{{0,62}})+ )
    | (?P<uuid> (?<![\w-])[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}(?!\w) )
    | (?P<iso> (?<![\w./-])(?P<y1>[12]\d{{3}})(?P<sep>[-/.])(?P<m1>\d{{1,2}})(?P=sep)
        (?P<d1>\d{{1,2}})(?!\d) )
    | (?P<slashed> (?<![\w./-])(?P<m2>\d{{1,2}})/(?P<d2>\d{{1,2}})/(?P<y2>\d{{4}}|\d\d)(?![\w/]) )
    | (?P<zh_date> (?<![\w.])(?:(?P<y3>\d{{4}}|\d\d)[ ]?年[ ]?)?(?P<m3>\d{{1,2}})[ ]?月
        (?:[ ]?(?P<d3>\d{{1,2}})[ ]?[日号])? )
    | (?P<zh_year> (?<![\w.])(?P<y6>[12]\d{{3}})[ ]?年 )
    | (?P<month_first> \b(?P<m4>{_MONTH})\s*(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)
        (?:,?\s+(?P<y4>[12]\d{{3}})\b)? )
    | (?P<day_first> (?<![\w.,])(?P<d5>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m5>{_MONTH})
        (?:,?\s+(?P<y5>[12]\d{{3}})\b)? )
    | (?P<month_year> \b(?P<m7>{_MONTH}),?\s+(?P<y7>[12]\d{{3}})\b )
    | (?P<weekday> \b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b
        | (?<![一两几每])(?:星期|礼拜|周)[一二三四五六日天](?![次个天遍回年岁]) )
    | (?P<clock> (?:(?<![\w.:])|(?<=\dT))(?P<h1>[01]?\d|2[0-4]):(?P<n1>[0-5]\d)
        (?::[0-5]\d(?:\.\d+)?)?(?!\d)(?:\s?(?P<p1>[ap]\.?m\b\.?))? )
    | (?P<hour> (?<![\w.:])(?P<h2>1[0-2]|0?[1-9])\s?(?P<p2>[ap]\.?m\b\.?) )
    | (?P<zh_clock> (?P<p3>{_DAY_PART})?(?<![\w.])(?P<h3>[01]?\d|2[0-4])[ ]?(?:点钟?|时(?!间))
        (?P<n3>半|[0-5]?\d(?=分)|[0-5]\d(?!\d))?分? )
    | (?P<path> (?<![\w./\\:@+-])(?: (?:~|\.{{1,2}})?/[\w.@+-]+(?:/[\w.@+-]*)*
        | [\w.@+-]++(?:/[\w.@+-]+){{2,}}/? | [\w.@+-]++/[\w@+-]*\.[a-z]\w*
        | [a-z]:\\[^\s"<>|*?，。；]+ ) )
    | (?P<file> (?<![\w./\\-])[\w-]++(?:\.[\w-]++)*\.(?:{_FILE_ENDING})(?![\w/]) )
    | (?P<version> (?<![\w.-])(?:v\d+(?:\.\d+)*|\d+(?:\.\d+){{2,}})(?:-[a-z][\w.]*)?(?!\w) )
    | (?P<digits> (?<![\w.-])\+?\d{{1,4}}(?:-\d{{2,8}}){{2,}}(?!\w)
        | (?<![\w.])\d{{4}}(?:\s\d{{4}}){{2,3}}(?!\w) )
    | (?P<number> (?:(?P<before>(?<!\w)(?:US\$|RMB)\s?|[$€£¥￥]\s?)|(?<![\w.]))
        (?P<sign>(?<![\w)])[-−])?(?P<value>(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?)
        (?P<times>\s?(?:{_choice(_MULTIPLIERS)})(?![a-z]))?
        (?: \s?(?P<unit>{_SIGN_UNIT}) | [\s-]?(?P<word_unit>{_WORD_UNIT})(?![a-z0-9_])
          | \s?(?P<zh_unit>{_CHINESE_UNIT}) | \s(?P<noun>[a-z]{{3,20}})\b )?
        (?!\w|[.,]\d) )
    | (?P<zh_number> (?<![几数多])第?(?P<numeral>[一二两三四五六七八九十]
        [零〇一二三四五六七八九十百千]{{0,6}})(?P<zh_unit2>{_CHINESE_UNIT}) )
    | (?P<code> (?<![\w-])\#?(?=[\w-]*\d)(?=[\d-]*[a-z_])[a-z0-9]+(?:[-_][a-z0-9]+)*(?!\w) )
    | (?P<flag> (?<![\w-])--[a-z][\w-]+ )
    | (?P<snake> (?<!\w)_{{0,2}}[a-z][a-z0-9]*(?:_+[a-z0-9]+)+_*(?:\(\))? )
    | (?P<dotted> (?<![\w.])[a-z_]\w+(?:\.[a-z_]\w+)+(?:\(\))? )
    | (?P<call> (?<![\w.])[a-z_]\w+\(\) )
    | (?P<camel> (?<![\w.])(?-i:[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]+)+|[a-z][A-Z][a-z]+)(?!\w) )
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_WORTH_A_SCAN = late_pattern(
    r"[\d@/\\]|[a-z_]_[a-z]|[a-z][A-Z]|\w\.\w|\w\(\)|--\w|[一二两三四五六七八九十]|day", re.ASCII
)
_LIST_NUMBER = late_pattern(r"\d{1,3}[.)、．](?!\d)\s*|\(\d{1,2}\)\s*", re.ASCII)
_INNER_LIST_NUMBER = late_pattern(r"[:：;；。，,]\s*\d{1,2}[.)、．](?!\d)", re.ASCII)
_ORDINAL = late_pattern(r"(\d+)(?:st|nd|rd|th)", re.ASCII | re.IGNORECASE)
_JSON_KEY_TAIL = late_pattern(r"\"\s*:", re.ASCII)
_PATH_SEPARATOR = late_pattern(r"[/\\]")
_TRAILING = ".,;:!?)]}'\"*"
_CERTAIN = late_pattern(
    r"\s*(?:agree|sure|certain|behind|with\s+you|right\b|true\b|同意|确定|肯定|赞成)", re.IGNORECASE
)
"""Matches the words after a "100%" that states no quantity: "100% sure"."""
_LONGEST_CODE = 80
_LONGEST_DOTTED_NAME = 120
_PARTS_OF_A_ROOTED_PATH = 2
_PARTS_OF_ANY_PATH = 3


def _find_shapes(text: str, *, json: bool, listed: bool) -> Iterator[FactMatch]:
    """Yield the facts of `text` that match a pattern; `text` must be a result of `same_width`.

    With `json`, the keys of JSON objects are left out; with `listed`, the numbers of list items.
    """
    if not _WORTH_A_SCAN.search(text):
        return
    ordinals = (
        {match.end() for match in _INNER_LIST_NUMBER.finditer(text)} if listed else set[int]()
    )
    first = _LIST_NUMBER.match(text) if listed else None
    for match in _SHAPES.finditer(text, first.end() if first else 0):
        quoted = json and text.startswith('"', max(0, match.start() - 1))
        if quoted and _JSON_KEY_TAIL.match(text, match.end()):
            continue
        if ordinals and match.lastgroup == "number" and match.end("value") + 1 in ordinals:
            continue
        hit = _READERS[match.lastgroup or ""](match)
        if hit is not None:
            yield hit


def _literal(kind: FactKind) -> _Reader:
    """Return a function that makes a fact of a match: its key is the matched text without final punctuation."""

    def read(match: re.Match[str]) -> FactMatch | None:
        text = match[0] if match[0].endswith("()") else match[0].rstrip(_TRAILING)
        return FactMatch(kind, text.casefold(), match.start(), match.start() + len(text))

    return read


def _read_path(match: re.Match[str]) -> FactMatch | None:
    text = match[0].rstrip(_TRAILING)
    parts = [part for part in _PATH_SEPARATOR.split(text) if part]
    has_ending = bool(parts) and "." in parts[-1].strip(".")
    rooted = text.startswith(("/", "~", "./", "../")) or "\\" in text
    enough = _PARTS_OF_A_ROOTED_PATH if rooted else _PARTS_OF_ANY_PATH
    if not (has_ending or len(parts) >= enough):
        return None
    if all(part.replace(".", "").isdigit() for part in parts):
        return None
    return FactMatch("path", text.casefold(), match.start(), match.start() + len(text))


def _read_dotted(match: re.Match[str]) -> FactMatch | None:
    """Make a fact of a dotted name such as `app.main`; None for `end.Next`, which is two sentences without a space."""
    first, _, rest = match[0].partition(".")
    missing_space = first.islower() and rest[:1].isupper() and rest.isalpha()
    too_long = len(match[0]) > _LONGEST_DOTTED_NAME
    return None if missing_space or too_long else _literal("identifier")(match)


def _read_code(match: re.Match[str]) -> FactMatch | None:
    """Make a fact of an order number, a hash or a similar code; None for a very long one, which is encoded data."""
    ordinal = _ORDINAL.fullmatch(match[0])
    if ordinal:
        return FactMatch("number", f"{canonical_number(ordinal[1])}|th", match.start(), match.end())
    return _literal("id")(match) if len(match[0]) <= _LONGEST_CODE else None


def _dated(year: str, month: str, day: str) -> _Reader:
    def read(match: re.Match[str]) -> FactMatch | None:
        groups = match.groupdict()
        first, second = groups.get(month), groups.get(day)
        if first and first.isdigit() and int(first) > len(_MONTHS):
            first, second = second, first
        key = canonical_date(groups.get(year), first, second)
        return FactMatch("date", key, match.start(), match.end())

    return read


def _read_weekday(match: re.Match[str]) -> FactMatch | None:
    text = match[0].lower()
    if text[0].isascii():
        day = ("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(text[:3])
    else:
        day = "一二三四五六日".index(text[-1].replace("天", "日"))
    return FactMatch("date", f"weekday {day}", match.start(), match.end())


def _clocked(hour: str, minute: str | None, half: str) -> _Reader:
    def read(match: re.Match[str]) -> FactMatch | None:
        minutes = match[minute] if minute else None
        key = canonical_clock(match[hour], "30" if minutes == "半" else minutes, match[half])
        return FactMatch("time", key, match.start(), match.end())

    return read


def _read_number(match: re.Match[str]) -> FactMatch | None:
    """Make a fact of a quantity; None for a single digit without a unit or noun, which is mostly an ordinal."""
    noun, end = match["noun"], match.end()
    if noun and noun.lower() in FOLD_STOP_WORDS:
        noun, end = None, match.start("noun") - 1
    written = next(filter(None, (match[name] for name in _UNIT_GROUPS)), noun or "")
    if not (written or match["times"] or len(match["value"]) > 1):
        return None
    shift = _MULTIPLIERS[match["times"].strip().lower()] if match["times"] else 0
    value = canonical_number((match["sign"] or "") + match["value"], shift=shift)
    unit = _canonical_unit(written)
    if (value, unit) == ("100", "%") and _CERTAIN.match(match.string, end):
        return None
    kind: FactKind = "money" if unit in _CURRENCIES else "number"
    return FactMatch(kind, f"{value}|{unit}", match.start(), end)


def _read_chinese_number(match: re.Match[str]) -> FactMatch | None:
    value = chinese_numeral(match["numeral"])
    if value is None or (value == 1 and not match[0].startswith("第")):
        return None
    if match["zh_unit2"] == "月" and value <= len(_MONTHS):
        return FactMatch("date", canonical_date(None, str(value), None), match.start(), match.end())
    unit = _canonical_unit(match["zh_unit2"])
    kind: FactKind = "money" if unit in _CURRENCIES else "number"
    return FactMatch(kind, f"{value}|{unit}", match.start(), match.end())


_UNIT_GROUPS = ("before", "unit", "word_unit", "zh_unit")
_READERS: dict[str, _Reader] = {
    "url": _literal("url"),
    "email": _literal("email"),
    "uuid": _literal("id"),
    "iso": _dated("y1", "m1", "d1"),
    "slashed": _dated("y2", "m2", "d2"),
    "zh_date": _dated("y3", "m3", "d3"),
    "zh_year": _dated("y6", "", ""),
    "month_first": _dated("y4", "m4", "d4"),
    "day_first": _dated("y5", "m5", "d5"),
    "month_year": _dated("y7", "m7", ""),
    "weekday": _read_weekday,
    "clock": _clocked("h1", "n1", "p1"),
    "hour": _clocked("h2", None, "p2"),
    "zh_clock": _clocked("h3", "n3", "p3"),
    "path": _read_path,
    "file": _literal("path"),
    "version": _literal("version"),
    "digits": _literal("id"),
    "number": _read_number,
    "zh_number": _read_chinese_number,
    "code": _read_code,
    "flag": _literal("identifier"),
    "snake": _literal("identifier"),
    "dotted": _read_dotted,
    "call": _literal("identifier"),
    "camel": _literal("identifier"),
}


FACT_WEIGHTS: dict[FactKind, float] = {
    "unread": 40.0,
    "constraint": 3.0,
    "decision": 2.5,
    "money": 2.0,
    "id": 1.8,
    "email": 1.8,
    "date": 1.6,
    "path": 1.5,
    "url": 1.5,
    "time": 1.4,
    "version": 1.2,
    "name": 1.2,
    "number": 1.2,
    "identifier": 0.8,
}
"""Weight of each kind of fact: how serious it is to lose one. The note that a part of a message was not read (`unread`)
weighs most, so that every summary keeps it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One hard fact: its kind, the words that state it, its key, and the few words around it."""

    kind: FactKind
    text: str
    key: str
    context: str
    speaker: str = ""
    day: str = ""
    """The date on which the fact was said, if its context has a relative date such as "yesterday"."""


_QUOTED = late_pattern(
    r"“(?P<a>[^“”]{1,60})”|「(?P<b>[^「」]{1,60})」|『(?P<c>[^『』]{1,60})』"
    r"|《(?P<d>[^《》]{1,60})》|`(?P<e>[^`]{1,80})`"
    r"|(?<![\w\"=])\"(?P<f>[^\s\"](?:[^\"]{0,58}[^\s\"])?)\"(?![\w\"])(?!\s*:)"
)
_LONGEST_NAME = 8
_CLAUSE_END = late_pattern(r"[,;:](?=\s)\s*|[，；：。]")
_COLUMNS_WHOLE = 72
_COLUMNS_BEFORE = 28
_COLUMNS_AFTER = 18


def fact_weight(kind: FactKind, *, voice: float, mentions: int) -> float:
    """Return the weight of a fact by its kind, the weight of its most trusted speaker and the number of mentions."""
    return FACT_WEIGHTS[kind] * voice * (1 + 0.2 * math.log2(mentions))


def fact_at(text: str, hit: FactMatch, *, speaker: str = "") -> Fact:
    """Return the fact that `hit` found in `text`, with the few words around it."""
    context = _context(text, hit.start, hit.end)
    return Fact(hit.kind, text[hit.start : hit.end], hit.key, context, speaker)


def find_hits(text: str, kind: SentenceKind = "prose") -> list[FactMatch]:
    """Return the hard facts of one sentence or line; a fact that is stated twice is returned twice.

    Quoted names are facts in prose and tables, but not in code and JSON, where quotation marks are syntax.
    """
    narrow = same_width(text)
    hits = list(_find_shapes(narrow, json=kind == "json", listed=kind == "prose"))
    if kind in ("prose", "row"):
        hits.extend(_quoted(narrow, {(hit.start, hit.end) for hit in hits}))
    for cue in find_cues(narrow):
        key = f"{cue.polarity}:{' '.join(sorted(cue.terms))}"
        rule: FactKind = "decision" if cue.polarity == "decide" else "constraint"
        hits.append(FactMatch(rule, key, cue.start, cue.end))
    return hits


def _quoted(text: str, found: set[tuple[int, int]]) -> Iterator[FactMatch]:
    """Yield quoted names; a quotation that ends like a sentence, or is as long as one, is not a name."""
    for match in _QUOTED.finditer(text):
        start, end = match.span(match.lastgroup or 0)
        name = " ".join(text[start:end].casefold().split())
        is_sentence = name.endswith(tuple(".!?。！？；")) or name.count(" ") >= _LONGEST_NAME
        if name and not is_sentence and (start, end) not in found:
            yield FactMatch("name", name, start, end)


def _context(text: str, start: int, end: int) -> str:
    """Return the sentence of a fact if it is short; otherwise the clauses around it, with "…" where a clause is cut."""
    if _columns(text) <= _COLUMNS_WHOLE:
        return text.strip()
    left = max(0, start - _reach(text[max(0, start - _COLUMNS_BEFORE) : start], _COLUMNS_BEFORE))
    clauses = [
        match.end() for match in _CLAUSE_END.finditer(text, max(0, left - _COLUMNS_BEFORE), start)
    ]
    left = clauses[0] if clauses else left if left > _COLUMNS_BEFORE // 2 else 0
    while 0 < left < start and splits_word(text, left):
        left += 1
    right = min(len(text), end + _reach(text[end : end + _COLUMNS_AFTER], _COLUMNS_AFTER))
    if len(text) - right <= _COLUMNS_AFTER:
        right = len(text)
    ends = [match.end() for match in _CLAUSE_END.finditer(text, end, right + _COLUMNS_AFTER)]
    if right < len(text) and ends:
        right = ends[-1]
    while end < right < len(text) and right not in ends and splits_word(text, right):
        right -= 1
    opening = "" if left == 0 or left in clauses else "…"
    closing = "" if right == len(text) or right in ends else "…"
    return opening + text[left:right].strip() + closing


def _columns(text: str) -> int:
    """Return the columns a text takes; a Chinese character is as wide as two letters."""
    return (
        len(text) if text.isascii() else len(text) + sum(character > "\u2e7f" for character in text)
    )


def _reach(neighbours: str, columns: int) -> int:
    """Return the number of characters of a text that fit into `columns`.

    A Chinese character is as wide as two letters.
    """
    return columns if neighbours.isascii() else columns // 2

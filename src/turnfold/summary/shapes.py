"""Facts known by their shape: addresses, dates, times, paths, versions, quantities, identifiers.

All shapes are tried in one pass from the most to the least specific, so the digits of an order
number are never also a quantity. Every pattern starts only where a token starts and repeats no
group that can match the same characters in two ways: the scan is linear for any input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from turnfold.summary.numerals import (
    CHINESE_UNITS,
    CURRENCIES,
    ENGLISH_UNITS,
    MONTHS,
    MULTIPLIERS,
    canonical_clock,
    canonical_date,
    canonical_number,
    canonical_unit,
    chinese_numeral,
)
from turnfold.summary.terms import STOP_WORDS

__all__ = ("FactKind", "Hit", "find_shapes")

FactKind = Literal[
    "constraint", "decision", "money", "id", "email", "url", "path", "date", "time", "version",
    "number", "name", "identifier", "unread",
]  # fmt: skip


class Hit(NamedTuple):
    """Where in a text a fact stands."""

    kind: FactKind
    key: str
    start: int
    end: int


_Reader = Callable[[re.Match[str]], Hit | None]


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
_CHINESE_UNIT = _choice(CHINESE_UNITS)

_MAY_BEGIN = rf"""
    (?: (?<!\w)(?!\s)(?!(?!{_MONTH}|rmb\b|[a-z]+days?\b)(?-i:[A-Za-z][a-z]*+)[ ])
      | (?<=\w)(?![a-z_\s]) )
"""
# No shape begins inside a word, with white space, or with a plain word before a space unless that may name a date or a
# currency. It follows from the shapes; asked first, it spares most places all of them.
_SHAPES = re.compile(
    rf"""
    {_MAY_BEGIN} (?:
      (?P<url> (?<!\w)(?:https?|ftp|wss?|file)://{_URL_BODY} | (?<![\w.])www\.{_URL_BODY} )
    | (?P<email> (?<![\w.+-])[a-z0-9][\w.+-]{{0,63}}@[a-z0-9][\w-]{{0,62}}
        (?:\.[a-z0-9][\w-]{{0,62}})+ )
    | (?P<uuid> (?<![\w-])[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}(?!\w) )
    | (?P<iso> (?<![\w./-])(?P<y1>[12]\d{{3}})(?P<sep>[-/.])(?P<m1>\d{{1,2}})(?P=sep)
        (?P<d1>\d{{1,2}})(?!\d) )
    | (?P<slashed> (?<![\w./-])(?P<m2>\d{{1,2}})/(?P<d2>\d{{1,2}})/(?P<y2>\d{{4}}|\d\d)(?![\w/]) )
    | (?P<zh_date> (?<![\w.])(?:(?P<y3>\d{{4}}|\d\d)年)?(?P<m3>\d{{1,2}})月
        (?:(?P<d3>\d{{1,2}})[日号])? )
    | (?P<zh_year> (?<![\w.])(?P<y6>[12]\d{{3}})年 )
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
    | (?P<zh_clock> (?P<p3>{_DAY_PART})?(?<![\w.])(?P<h3>[01]?\d|2[0-4])(?:点钟?|时(?!间))
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
        (?P<times>\s?(?:{_choice(MULTIPLIERS)})(?![a-z]))?
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
_WORTH_A_SCAN = re.compile(
    r"[\d@/\\]|[a-z_]_[a-z]|[a-z][A-Z]|\w\.\w|\w\(\)|--\w|[一二两三四五六七八九十]|day", re.ASCII
)
_LIST_NUMBER = re.compile(r"\d{1,3}[.)、．](?!\d)\s*|\(\d{1,2}\)\s*", re.ASCII)
_INNER_LIST_NUMBER = re.compile(r"[:：;；。，,]\s*\d{1,2}[.)、．](?!\d)", re.ASCII)
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)", re.ASCII | re.IGNORECASE)
_JSON_KEY_TAIL = re.compile(r"\"\s*:", re.ASCII)
_PATH_SEPARATOR = re.compile(r"[/\\]")
_TRAILING = ".,;:!?)]}'\"*"
_LONGEST_CODE = 80
_LONGEST_DOTTED_NAME = 120
_PARTS_OF_A_ROOTED_PATH = 2
_PARTS_OF_ANY_PATH = 3


def find_shapes(text: str, *, json: bool = False, listed: bool = True) -> Iterator[Hit]:
    """Facts of `text`, whose digits and letters are all of one width, that are known by shape.

    In `json` the names of keys are left out; in `listed` text so are the numbers of list items.
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
    """A reader for facts compared letter by letter, without the punctuation that follows them."""

    def read(match: re.Match[str]) -> Hit | None:
        text = match[0] if match[0].endswith("()") else match[0].rstrip(_TRAILING)
        return Hit(kind, text.casefold(), match.start(), match.start() + len(text))

    return read


def _read_path(match: re.Match[str]) -> Hit | None:
    text = match[0].rstrip(_TRAILING)
    parts = [part for part in _PATH_SEPARATOR.split(text) if part]
    has_ending = bool(parts) and "." in parts[-1].strip(".")
    rooted = text.startswith(("/", "~", "./", "../")) or "\\" in text
    enough = _PARTS_OF_A_ROOTED_PATH if rooted else _PARTS_OF_ANY_PATH
    if not (has_ending or len(parts) >= enough):
        return None
    if all(part.replace(".", "").isdigit() for part in parts):
        return None
    return Hit("path", text.casefold(), match.start(), match.start() + len(text))


def _read_dotted(match: re.Match[str]) -> Hit | None:
    """A dotted name; `end.Next` is two sentences without a space between them."""
    first, _, rest = match[0].partition(".")
    missing_space = first.islower() and rest[:1].isupper() and rest.isalpha()
    too_long = len(match[0]) > _LONGEST_DOTTED_NAME
    return None if missing_space or too_long else _literal("identifier")(match)


def _read_code(match: re.Match[str]) -> Hit | None:
    """Order numbers, hashes and the like; a very long run is encoded data, not a name."""
    ordinal = _ORDINAL.fullmatch(match[0])
    if ordinal:
        return Hit("number", f"{canonical_number(ordinal[1])}|th", match.start(), match.end())
    return _literal("id")(match) if len(match[0]) <= _LONGEST_CODE else None


def _dated(year: str, month: str, day: str) -> _Reader:
    def read(match: re.Match[str]) -> Hit | None:
        groups = match.groupdict()
        first, second = groups.get(month), groups.get(day)
        if first and first.isdigit() and int(first) > len(MONTHS):
            first, second = second, first
        key = canonical_date(groups.get(year), first, second)
        return Hit("date", key, match.start(), match.end())

    return read


def _read_weekday(match: re.Match[str]) -> Hit | None:
    text = match[0].lower()
    if text[0].isascii():
        day = ("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(text[:3])
    else:
        day = "一二三四五六日".index(text[-1].replace("天", "日"))
    return Hit("date", f"weekday {day}", match.start(), match.end())


def _clocked(hour: str, minute: str | None, half: str) -> _Reader:
    def read(match: re.Match[str]) -> Hit | None:
        minutes = match[minute] if minute else None
        key = canonical_clock(match[hour], "30" if minutes == "半" else minutes, match[half])
        return Hit("time", key, match.start(), match.end())

    return read


def _read_number(match: re.Match[str]) -> Hit | None:
    """A quantity; a single digit counts only with a unit or a noun: alone it is mostly an ordinal."""
    noun, end = match["noun"], match.end()
    if noun and noun.lower() in STOP_WORDS:
        noun, end = None, match.start("noun") - 1
    written = next(filter(None, (match[name] for name in _UNIT_GROUPS)), noun or "")
    if not (written or match["times"] or len(match["value"]) > 1):
        return None
    shift = MULTIPLIERS[match["times"].strip().lower()] if match["times"] else 0
    value = canonical_number((match["sign"] or "") + match["value"], shift=shift)
    unit = canonical_unit(written)
    kind: FactKind = "money" if unit in CURRENCIES else "number"
    return Hit(kind, f"{value}|{unit}", match.start(), end)


def _read_chinese_number(match: re.Match[str]) -> Hit | None:
    value = chinese_numeral(match["numeral"])
    if value is None or (value == 1 and not match[0].startswith("第")):
        return None
    if match["zh_unit2"] == "月" and value <= len(MONTHS):
        return Hit("date", canonical_date(None, str(value), None), match.start(), match.end())
    unit = canonical_unit(match["zh_unit2"])
    kind: FactKind = "money" if unit in CURRENCIES else "number"
    return Hit(kind, f"{value}|{unit}", match.start(), match.end())


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

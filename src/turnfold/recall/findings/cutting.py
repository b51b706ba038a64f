"""Shortening a text by tokens without breaking what it says.

A number cut off in the middle of a table row or a sentence reads like another number. So a text ends where a row or a
sentence ends, and a line says that it was cut. Only a sentence that is too long by itself ends between two words; a
row that is too long is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import cast

from turnfold.tokens import clip

__all__ = ("boundaries", "cut", "in_rows", "is_row")

_SENTENCE = re.compile(
    r"[。！？；…]+[”’」』）)】\"]*"
    r"|(?<![.!?])[.!?]+[\"'”’)\]]*(?=\s+[^\sa-z0-9])"
)
_HTML_ROW = re.compile(r"<tr\b.*?(?:</tr\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_ROW = re.compile(r"\s*[|{\[<]|.*(?:\t| \| )")
_WORD_END = re.compile(
    r"(?<=[\u3040-\u9fff\uac00-\ud7af])(?=[\u3040-\u9fff\uac00-\ud7af])|(?<=\s)(?=\S)"
)


def cut(text: str, limit: int, count: Callable[[str], int], *, mark: str) -> str:
    """`text` if it costs at most `limit` tokens, else its beginning up to a boundary with the line `mark` behind it.

    Empty where not even the mark fits.
    """
    near = clip(text, max(limit, 0), count)  # what lies beyond the limit is not even counted
    if len(near) == len(text):
        return text
    if count(mark) > limit:
        return ""

    def shown(length: int) -> str:
        head = text[:length].rstrip()
        return f"{head}\n{mark}" if head else mark

    ends = list(takewhile(lambda end: end <= len(near), boundaries(text)))
    best = _longest(ends, lambda end: count(shown(end)) <= limit)
    if best or is_row(text.lstrip("\n")):
        return shown(best)
    words = [match.start() for match in _WORD_END.finditer(near)]
    return shown(_longest(words, lambda end: count(shown(end)) <= limit))


def _longest(ends: list[int], fits: Callable[[int], bool]) -> int:
    """The last of the ends that fits, found by halving and then made sure of; 0 for none."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if fits(ends[middle]):
            low = middle + 1
        else:
            high = middle
    while low and not fits(ends[low - 1]):
        low -= 1
    return ends[low - 1] if low else 0


def is_row(line: str) -> bool:
    """Whether a line is a row of a table, or of JSON: it means something only whole."""
    return _ROW.match(line) is not None


def boundaries(text: str) -> Iterator[int]:
    """Where the text may end, in order."""
    rows = (match.span() for match in _HTML_ROW.finditer(text))
    start, stop = next(rows, (len(text), len(text)))
    for end in _line_boundaries(text):
        while end >= stop and stop < len(text):
            start, stop = next(rows, (len(text), len(text)))
        if not start < end < stop:
            yield end


def _line_boundaries(text: str) -> Iterator[int]:
    start = 0
    for line in text.splitlines(keepends=True):
        if not is_row(line):
            yield from (start + match.end() for match in _SENTENCE.finditer(line))
        start += len(line)
        yield start


def in_rows(text: str) -> str:
    """A JSON list, alone or as the only list of an object, with one element a line; any other text as it is.

    Written on one line it has no place to be cut.
    """
    if text[:1] not in ("[", "{") or "\n" in text:
        return text
    try:
        value = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return text
    if isinstance(value, list):
        return "\n".join(map(_compact, cast("list[object]", value)))
    fields = cast("dict[str, object]", value)
    lists = [name for name, member in fields.items() if isinstance(member, list)]
    if len(lists) != 1:
        return text
    rest = {name: member for name, member in fields.items() if name != lists[0]}
    rows = [_compact(member) for member in cast("list[object]", fields[lists[0]])]
    return "\n".join(([_compact(rest)] if rest else []) + [f"{lists[0]}:", *rows])


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

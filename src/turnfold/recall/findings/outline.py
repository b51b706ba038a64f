"""A table of contents as an outline.

Tools give it as nested JSON, most of which is punctuation and keys. As indented lines it costs a fraction, and where it
is still too large the deepest levels go first: the chapters of a book are worth more than the sections of one chapter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from turnfold.recall.findings.matching import folded, held_by
from turnfold.recall.findings.picking import most_that_fit, pick
from turnfold.recall.findings.wording import WORDS, Language

__all__ = ("Shortened", "chapters", "outline", "shortened_outline")

_TITLES = ("title", "name", "label", "heading", "chapter", "section")
_DEEPEST = 32


class Shortened(NamedTuple):
    """A text, and whether something of it was left out."""

    text: str
    whole: bool


class _Row(NamedTuple):
    depth: int
    text: str
    title: str = ""


def chapters(toc: object) -> list[str]:
    """The titles of its first level below the book itself."""
    rows = list(_rows(toc, 0))
    tops = [row for row in rows if row.depth == 0]
    if len(tops) == 1 and len(rows) > 1:
        tops = [row for row in rows if row.depth == 1]
    return [row.title or row.text for row in tops]


def outline(content: object) -> str:
    """The whole table of contents, a line for each row; a text that holds no JSON as it is.

    `content` is a value of JSON, or a text that may hold one.
    """
    rows = _read(content) if isinstance(content, str) else list(_rows(content, 0))
    if not rows:
        return content if isinstance(content, str) else ""
    return _lines(rows, range(len(rows)), "")


def shortened_outline(
    content: object,
    limit: int,
    count: Callable[[str], int],
    *,
    language: Language,
    asked: Collection[str] = (),
) -> Shortened:
    """The table of contents in at most `limit` tokens: level by level where it is JSON, line by line where not.

    `content` is a value of JSON, or a text that may hold one. Of the first level that is not whole, rows that hold
    what is asked are shown first, with those they stand under.
    """
    words = WORDS[language]
    rows = _read(content) if isinstance(content, str) else list(_rows(content, 0))
    if not rows:
        plain = content if isinstance(content, str) else ""
        text = pick(plain, limit, count, mark=words.cut, asked=asked)
        return Shortened(text, text == plain)
    if count(whole := _lines(rows, range(len(rows)), "")) <= limit:
        return Shortened(whole, whole=True)
    levels = 1 + max(row.depth for row in rows)
    sought = _sought(rows, asked)
    for shown in range(levels - 1, 0, -1):
        mark = words.levels.format(shown=shown, levels=levels)
        text = _levels(rows, shown, sought, mark, lambda text: count(text) <= limit)
        if text:
            return Shortened(text, whole=False)
    tops = "\n".join(row.text for row in rows if row.depth == 0)
    return Shortened(pick(tops, limit, count, mark=words.cut, asked=asked), whole=False)


def _levels(
    rows: Sequence[_Row], shown: int, sought: Sequence[int], mark: str, fits: Callable[[str], bool]
) -> str:
    """All rows of the first levels and, as far as they fit, those sought and the next; empty if not even that."""
    first = [at for at, row in enumerate(rows) if row.depth < shown]
    following = [at for at, row in enumerate(rows) if row.depth == shown]
    order = list(dict.fromkeys([*first, *sought, *following]))

    def text(more: int) -> str:
        return _lines(rows, sorted(order[: len(first) + more]), mark)

    if not fits(text(0)):
        return ""
    return text(most_that_fit(len(order) - len(first), lambda more: fits(text(more))))


def _lines(rows: Sequence[_Row], chosen: Iterable[int], mark: str) -> str:
    lines = ["  " * rows[at].depth + rows[at].text for at in chosen]
    return "\n".join([*lines, mark] if mark else lines)


def _sought(rows: Sequence[_Row], asked: Collection[str]) -> list[int]:
    """The rows that hold what is asked, the best first, each after those it stands under."""
    held = held_by([folded(row.text) for row in rows], asked)
    matching = sorted((at for at, much in enumerate(held) if much), key=lambda at: (-held[at], at))
    return list(dict.fromkeys(at for match in matching for at in _line_of(rows, match)))


def _line_of(rows: Sequence[_Row], at: int) -> list[int]:
    """A row and the rows it stands under, the topmost first."""
    line = [at]
    for before in range(at - 1, -1, -1):
        if rows[line[0]].depth == 0:
            break
        if rows[before].depth < rows[line[0]].depth:
            line.insert(0, before)
    return line


def _read(content: str) -> list[_Row]:
    if content.lstrip()[:1] not in ("{", "["):
        return []
    try:
        value = cast("object", json.loads(content))
    except (ValueError, RecursionError):
        return []
    return list(_rows(value, 0))


def _rows(value: object, depth: int) -> Iterator[_Row]:
    if depth > _DEEPEST:
        yield _Row(depth, json.dumps(value, ensure_ascii=False))
    elif isinstance(value, list):
        for member in cast("list[object]", value):
            yield from _rows(member, depth)
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        inner: dict[str, object] = {
            name: fields[name] for name in fields if isinstance(fields[name], dict | list)
        }
        title, own = _line({name: each for name, each in fields.items() if name not in inner})
        if own:
            yield _Row(depth, own, title)
        for name, member in inner.items():
            if not _holds_nodes(member):
                if member:
                    yield _Row(
                        depth + bool(own), f"{name}: {json.dumps(member, ensure_ascii=False)}"
                    )
                continue
            yield from _rows(member, depth + bool(own))
    elif value is not None:
        yield _Row(depth, " ".join(str(value).split()))


def _holds_nodes(value: object) -> bool:
    """Whether a value has lines of its own: a list of objects or titles, or an object."""
    if isinstance(value, dict):
        return bool(cast("dict[str, object]", value))
    members = cast("list[object]", value)
    return bool(members) and all(isinstance(each, dict | str) for each in members)


def _line(fields: dict[str, object]) -> tuple[str, str]:
    """The title of a node, and all its plain fields on one line."""
    told = {
        name: " ".join(str(member).split())
        for name, member in fields.items()
        if member not in (None, "")
    }
    title = next((name for name in _TITLES if name in told), "")
    rest = ", ".join(f"{name} {text}" for name, text in told.items() if name != title)
    if not title:
        return "", rest
    return told[title], f"{told[title]} ({rest})" if rest else told[title]

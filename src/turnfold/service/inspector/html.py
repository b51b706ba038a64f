"""Safe HTML elements, so that stored content cannot become markup, and the elements that several screens share.

Markup cannot be written as a string: element and attribute names must be on short lists, links must lead into the
inspector, and everything else is escaped text. Nothing that loads or runs by itself (images, frames, event attributes,
styles) is on the lists. Media is never loaded: a part that is not text is shown as its kind and size.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias, cast
from urllib.parse import quote, urlencode

from turnfold.errors import InvalidOption
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.search import Snippet
from turnfold.service.inspector.labels import PageLabels

__all__ = (
    "COPIED",
    "ROOT",
    "Element",
    "Node",
    "address",
    "checkpoint_link",
    "document",
    "entry_range",
    "facts",
    "json_block",
    "marked",
    "message_block",
    "moment",
    "session_trail",
    "sized",
    "table",
    "tag",
    "to_html",
)


ROOT: Final = "/ui"
"""Path the inspector is mounted at."""

_ELEMENTS: Final = frozenset(
    "a article aside body button code dd del details div dl dt em figcaption figure footer form h1 h2 h3 head header "
    "html input ins label li link main mark meta nav ol option p pre script section select small span strong summary "
    "svg g rect line path text title table tbody td th thead time tr ul".split()
)
_EMPTY: Final = frozenset(("input", "link", "meta"))
_ATTRIBUTES: Final = frozenset(
    "accept-charset action autocomplete charset class colspan content datetime dir for height href hreflang id "
    "inputmode lang max maxlength method min name open placeholder preserveAspectRatio rel required role rowspan scope "
    "selected spellcheck src step tabindex title type value viewBox width x x1 x2 y y1 y2 d".split()
)
_PREFIXES: Final = ("aria-", "data-")
_LINKS: Final = frozenset(("action", "href", "src"))
_INTERNAL_LINK: Final = re.compile(
    rf"{re.escape(ROOT)}(?:[/?#][\x21\x23-\x3b\x3d\x3f-\x5b\x5d-\x7e]*)?|[?#][\x21-\x7e]*"
)
_LARGEST_PAGE: Final = 4_000_000
"""Most characters of a page of the inspector; what does not fit is left out, and the page says so."""
_MARKUP: Final = 40
"""Characters that an element counts for, in addition to its text."""
COPIED: Final = "copied"
"""Class of a text that a button copies: it is written whole or not at all."""
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\ufffe\uffff]"
)
_FIGURE: Final = re.compile(r"[≈+-]? ?\d[\d,.]*%?")
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Matches invisible characters that change the writing direction, such as U+202E, and could make a line read as
another."""


@dataclass(frozen=True, slots=True)
class Element:
    """One HTML or SVG element with its attributes and children."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node, ...]


Node: TypeAlias = Element | str | None
"""Child of an element: another element, a text, or nothing."""


def tag(
    name: str, /, *children: Node | Iterable[Node], **attributes: str | float | bool | None
) -> Element:
    """Make an element. `class_` becomes `class`, `data_live` becomes `data-live`; None and False omit an attribute.

    Raises `InvalidOption` for a name that is not on the lists, and for a link that leaves the inspector.
    """
    if name not in _ELEMENTS:
        raise InvalidOption(f"<{name}> is not one of the HTML elements that the inspector allows")
    given = ((_attribute(key), value) for key, value in attributes.items())
    pairs = [
        (key, "" if value is True else str(value))
        for key, value in given
        if value is not None and value is not False
    ]
    for key, value in pairs:
        if key in _LINKS and not _INTERNAL_LINK.fullmatch(value):
            raise InvalidOption(
                f"{key}={value[:80]!r} is not a link within the inspector: only addresses below /ui are allowed"
            )
    nodes: list[Node] = []
    for child in children:
        if child is None or isinstance(child, str | Element):
            nodes.append(child)
        else:
            nodes.extend(child)
    return Element(name, tuple(pairs), tuple(nodes))


def address(*parts: str | int, **query: str | int | None) -> str:
    """Return the address of a page of the inspector; all parts are quoted, so that no stored name changes the path."""
    path = "/".join([ROOT, *(quote(str(part), safe="") for part in parts)])
    encoded = urlencode({key: value for key, value in query.items() if value is not None})
    return f"{path}?{encoded}" if encoded else path


def document(root: Element, *, cut: str = "") -> bytes:
    """Return a whole HTML page as bytes, with its doctype; a page that would be too large ends with the note `cut`."""
    pieces = ["<!DOCTYPE html>\n"]
    _write(root, pieces, _Room(_LARGEST_PAGE, cut))
    return "".join(pieces).encode()


def to_html(node: Node) -> str:
    """Return an element or text as HTML, with all text escaped."""
    pieces: list[str] = []
    _write(node, pieces, _Room(sys.maxsize))
    return "".join(pieces)


@dataclass(slots=True)
class _Room:
    """Characters that a page may still have, and the note that is written where it is cut."""

    left: int
    note: str = ""


def _write(node: Node, pieces: list[str], room: _Room) -> None:
    if node is None:
        return
    if room.left <= 0:
        pieces.append(escape(room.note))
        room.note = ""
        return
    if isinstance(node, str):
        pieces.append(escape(_visible(node[: room.left])))
        room.left -= len(node)
        return
    room.left -= _MARKUP
    if ("class", COPIED) in node.attributes:
        room = _Room(sys.maxsize)  # half of a command must not be copied
    pieces.append(f"<{node.name}")
    pieces.extend(f' {key}="{escape(_visible(value))}"' for key, value in node.attributes)
    pieces.append(">")
    if node.name in _EMPTY:
        return
    if node.name == "pre":
        pieces.append("\n")  # HTML parsers drop the first newline of <pre>
    for child in node.children:
        _write(child, pieces, room)
    pieces.append(f"</{node.name}>")


def _visible(text: str) -> str:
    """Replace invisible characters by visible ones, because stored text could use them to hide or reverse a line."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return _BIDI.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def _attribute(key: str) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name not in _ATTRIBUTES and not name.startswith(_PREFIXES):
        raise InvalidOption(f"{name!r} is not one of the HTML attributes that the inspector allows")
    return name


_LONGEST: Final = 20_000
"""Longest text shown inside JSON; longer ones are usually media in base64."""
_LONGEST_PART: Final = 100_000
"""Most characters of one part of a message that are shown; of a longer part, the beginning, with the number of
characters left out."""


def moment(microseconds: int) -> Element:
    """Return a time (microseconds since 1970) as HTML in UTC; the page's script shows it in the browser's zone."""
    if not microseconds:
        return tag("span", "-")
    seconds = time.gmtime(microseconds // 1_000_000)
    return tag(
        "time",
        time.strftime("%Y-%m-%d %H:%M:%S UTC", seconds),
        datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", seconds),
    )


def checkpoint_link(session: str, checkpoint: str, words: PageLabels) -> Node:
    """Return a link to a checkpoint (summary), named by the last entry it covers; a dash if there is no checkpoint."""
    if not checkpoint:
        return "-"
    upto = checkpoint.partition("-")[0]
    label = words("up to entry {seq}", seq=upto) if upto.isdecimal() else checkpoint
    href = f"{address('sessions', session, 'checkpoints')}#checkpoint-{quote(checkpoint, safe='')}"
    return tag("a", label, href=href, title=checkpoint)


def entry_range(first: int, last: int, words: PageLabels) -> str:
    """Return the label of a range of log entries, such as "entries 3 to 9"."""
    if first == last:
        return words("entry {seq:,}", seq=first)
    return words("entries {first:,} to {last:,}", first=first, last=last)


def marked(shown: Snippet) -> Iterator[Node]:
    """Yield a search snippet as HTML, with the matching words marked."""
    if shown.before:
        yield "…"
    at = 0
    for start, stop in shown.marks:
        yield shown.text[at:start]
        yield tag("mark", shown.text[start:stop])
        at = stop
    yield shown.text[at:]
    if shown.after:
        yield "…"


def table(heads: Sequence[Node], rows: Iterable[Sequence[Node]], *, class_: str = "") -> Element:
    """Return a table; columns of numbers are right-aligned, and on a narrow screen each row is a block.

    Each cell carries the heading of its column, which the narrow form shows in place of the heading row.
    """
    body = [list(row) for row in rows]
    kinds = [
        "figure" if _are_figures([row[at] for row in body]) else None for at in range(len(heads))
    ]
    columns = [(_text(head).rstrip(" ↑↓"), kind) for head, kind in zip(heads, kinds, strict=True)]
    lines = [
        tag("tr", [
            tag("td", cell, class_=kind, data_head=None if _text(cell) == head else head)
            for cell, (head, kind) in zip(row, columns, strict=True)
        ])
        for row in body
    ]  # fmt: skip
    titles = [
        tag("th", head, scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True)
    ]
    whole = tag(
        "table",
        tag("thead", tag("tr", titles)),
        tag("tbody", lines),
        class_=class_ or None,
    )
    return tag("div", whole, class_="table")


def _are_figures(cells: Sequence[Node]) -> bool:
    """Return True if a column contains numbers; some may be missing."""
    given = [_text(cell) for cell in cells if cell not in (None, "", "-")]
    return bool(given) and all(map(_FIGURE.fullmatch, given))


def _text(node: Node) -> str:
    """Return the text inside an HTML node, without its markup."""
    if isinstance(node, Element):
        return "".join(map(_text, node.children))
    return node or ""


def facts(pairs: Iterable[tuple[str, Node]]) -> Element:
    """Return an HTML list of names and values."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs])


def session_trail(
    words: PageLabels, session: str, *more: tuple[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the breadcrumbs (label, address) of a session's page: sessions, this session, then those in `more`."""
    return ((words("sessions"), address()), (session, address("sessions", session)), *more)


def sized(characters: int) -> str:
    """Return a number of characters as a rounded size with its unit, such as "12.0 kB"."""
    if characters < 2_000:
        return f"{characters:,} B"
    return f"{characters / 1_000:,.1f} kB" if characters < 2e6 else f"{characters / 1e6:,.1f} MB"


def message_block(message: Message, words: PageLabels) -> Element:
    """Return a whole message as HTML, part by part; media are shown as their kind and size."""
    return tag("div", list(_parts(message.parts, words)), class_="message")


def _parts(parts: Iterable[object], words: PageLabels) -> Iterator[Node]:
    for part in parts:
        match part:
            case TextPart():
                yield tag("pre", _beginning(part.text, words), dir="auto")
            case ThinkingPart():
                yield tag("pre", _beginning(part.text, words), class_="thinking", dir="auto")
            case ToolCall():
                yield tag("p", tag("code", part.name), " ", tag("code", part.id, class_="quiet"))
                yield tag("pre", _beginning(part.arguments, words))
            case ToolResult():
                yield tag("p", "→ ", tag("code", part.call_id, class_="quiet"))
                yield from _parts(part.content, words)
            case ImagePart() | FilePart() | AudioPart() | OpaquePart():
                yield tag("p", _unloaded(part, words), class_="media")
            case _:
                yield tag("pre", _beginning(repr(part), words))


def _beginning(text: str, words: PageLabels) -> str:
    """Return a text; of a very long one its beginning, with a note of how much is left out."""
    if len(text) <= _LONGEST_PART:
        return text
    rest = words("{size:,} characters, not shown", size=len(text) - _LONGEST_PART)
    return f"{text[:_LONGEST_PART]}… [{rest}]"


def _unloaded(part: ImagePart | FilePart | AudioPart | OpaquePart, words: PageLabels) -> str:
    match part:
        case ImagePart():
            kind, size = "image", len(part.url)
        case FilePart():
            kind, size = f"file {part.filename or part.media_type}", len(part.url)
        case AudioPart():
            kind, size = f"audio {part.format}", len(part.data)
        case OpaquePart():
            kind, size = f"opaque {part.provider}".strip(), len(part.json)
    return words("{size} of {kind}, not loaded", size=sized(size), kind=kind)


def json_block(value: object, words: PageLabels) -> Element:
    """Return a value as JSON in HTML; a very long string is shortened, with a note of how much is left out."""
    short = _shortened(value, words)
    return tag("pre", json.dumps(short, ensure_ascii=False, indent=2), class_="json")


def _shortened(value: object, words: PageLabels) -> object:
    if isinstance(value, str) and len(value) > _LONGEST:
        rest = words("{size:,} characters, not shown", size=len(value) - 200)
        return f"{value[:200]}… [{rest}]"
    if isinstance(value, Mapping):
        found = cast("Mapping[str, object]", value)
        return {key: _shortened(each, words) for key, each in found.items()}
    if isinstance(value, list | tuple):
        return [_shortened(each, words) for each in cast("Sequence[object]", value)]
    return value

"""Small things several screens show: moments, tables, messages whole, JSON.

Media is never loaded: a part that is no text is shown as its kind and size.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

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
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.words import Words

__all__ = ("facts", "json_block", "message_block", "moment", "session_trail", "sized", "table")

_LONGEST: Final = 20_000
"""Characters of one text inside JSON that are shown; media in base64 is longer and says nothing to a reader."""


def moment(microseconds: int) -> Element:
    """A time, in UTC."""
    if not microseconds:
        return tag("span", "-")
    seconds = time.gmtime(microseconds // 1_000_000)
    return tag(
        "time",
        time.strftime("%Y-%m-%d %H:%M:%S", seconds),
        datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", seconds),
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[Node]], *, class_: str = "") -> Element:
    """Rows under their heads."""
    return tag(
        "table",
        tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
        tag("tbody", [tag("tr", [tag("td", cell) for cell in row]) for row in rows]),
        class_=class_ or None,
    )


def facts(pairs: Iterable[tuple[str, Node]]) -> Element:
    """Names and what they are."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs])


def session_trail(
    words: Words, session: str, *more: tuple[str, str]
) -> tuple[tuple[str, str], ...]:
    """The way to a screen of a session."""
    return ((words("sessions"), address()), (session, address("sessions", session)), *more)


def sized(characters: int) -> str:
    """How much that is, roughly."""
    if characters < 2_000:
        return f"{characters:,} B"
    return f"{characters / 1_000:,.1f} kB" if characters < 2e6 else f"{characters / 1e6:,.1f} MB"


def message_block(message: Message, words: Words) -> Element:
    """A message whole, part by part."""
    return tag("div", list(_parts(message.parts, words)), class_="message")


def _parts(parts: Iterable[object], words: Words) -> Iterator[Node]:
    for part in parts:
        match part:
            case TextPart():
                yield tag("pre", part.text, dir="auto")
            case ThinkingPart():
                yield tag("pre", part.text, class_="thinking", dir="auto")
            case ToolCall():
                yield tag("p", tag("code", part.name), " ", tag("code", part.id, class_="quiet"))
                yield tag("pre", part.arguments)
            case ToolResult():
                yield tag("p", "→ ", tag("code", part.call_id, class_="quiet"))
                yield from _parts(part.content, words)
            case ImagePart() | FilePart() | AudioPart() | OpaquePart():
                yield tag("p", _unloaded(part, words), class_="media")
            case _:
                yield tag("pre", repr(part))


def _unloaded(part: ImagePart | FilePart | AudioPart | OpaquePart, words: Words) -> str:
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


def json_block(value: object, words: Words) -> Element:
    """A value as JSON; a text that is too long to read says how long it is."""
    shown = _shortened(value, words)
    return tag("pre", json.dumps(shown, ensure_ascii=False, indent=2), class_="json")


def _shortened(value: object, words: Words) -> object:
    if isinstance(value, str) and len(value) > _LONGEST:
        rest = words("{size:,} characters, not shown", size=len(value) - 200)
        return f"{value[:200]}… [{rest}]"
    if isinstance(value, Mapping):
        found = cast("Mapping[str, object]", value)
        return {key: _shortened(each, words) for key, each in found.items()}
    if isinstance(value, list | tuple):
        return [_shortened(each, words) for each in cast("Sequence[object]", value)]
    return value

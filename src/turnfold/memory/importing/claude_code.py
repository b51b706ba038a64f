"""Transcripts of Claude Code: one line per event, one block of an answer per line.

The lines of one answer share its id and are one message again here, which is how it must be sent back: thoughts and
tool calls of an answer cannot be parted. What a sub-agent said (a side chain) is a conversation of its own. The
sessions of a file are held in memory while it is read, because their lines are mixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from turnfold.errors import TurnfoldError
from turnfold.memory.importing.json_stream import Value
from turnfold.memory.importing.pieces import Bad, Begin, Found, Ignored, Said
from turnfold.wire import anthropic

__all__ = ("claude_code_histories", "is_claude_code")

_SPOKEN = ("user", "assistant")
_MICRO = 1_000_000

Fields = dict[str, object]


def is_claude_code(value: object) -> bool:
    """Whether a value is a line of such a transcript that somebody spoke in."""
    fields = _fields(value)
    return fields.get("type") in _SPOKEN and isinstance(fields.get("message"), dict)


@dataclass(slots=True)
class _Event:
    """A message as it was logged, its lines put together."""

    line: int
    fields: Fields
    message: Fields


@dataclass(slots=True)
class _Chain:
    """One conversation of the file."""

    events: list[_Event] = field(default_factory=list[_Event])
    answers: dict[str, _Event] = field(default_factory=dict[str, _Event])

    def take(self, line: int, fields: Fields) -> None:
        message = dict(_fields(fields["message"]))
        name = message.get("id")
        known = self.answers.get(name) if isinstance(name, str) else None
        if known is not None and message.get("role") == "assistant":
            known.message["content"] = _joined(known.message.get("content"), message.get("content"))
            return
        event = _Event(line, fields, message)
        self.events.append(event)
        if isinstance(name, str):
            self.answers[name] = event


def claude_code_histories(found: Iterator[Value | Bad], name: str) -> Found:
    """The conversations in a stream of lines."""
    chains: dict[str, _Chain] = {}
    sides: dict[str, str] = {}
    for each in found:
        if isinstance(each, Bad):
            yield each
            continue
        fields = _fields(each.value)
        if not fields:
            yield Bad(
                each.line, f"a {type(each.value).__name__} where a line of a transcript is expected"
            )
        elif not is_claude_code(fields):
            yield Ignored(f"line of type {_text(fields, 'type') or 'unknown'}")
        else:
            chains.setdefault(_chain_of(fields, name, sides), _Chain()).take(each.line, fields)
    for conversation, chain in chains.items():
        yield from _pieces(conversation, chain)


def _chain_of(fields: Fields, name: str, sides: dict[str, str]) -> str:
    session = _text(fields, "sessionId") or name
    if fields.get("isSidechain") is not True:
        return session
    agent = _text(fields, "agentId")
    own, parent = _text(fields, "uuid"), _text(fields, "parentUuid")
    root = sides.get(parent, own[:8])
    sides[own] = root
    return f"{session}/agent-{agent or root}"


def _pieces(conversation: str, chain: _Chain) -> Found:
    first = chain.events[0]
    yield Begin(conversation, first.line, _when(first.fields))
    for event in chain.events:
        try:
            message = anthropic.accept(event.message)
        except (TurnfoldError, RecursionError) as error:
            yield Bad(event.line, str(error))
        else:
            yield Said(message, event.line, _when(event.fields), _text(event.fields, "uuid"))


def _joined(before: object, more: object) -> list[object]:
    """The blocks of two lines of one answer; a call that is logged twice is one call."""
    known = _blocks(before)
    calls = {_text(_fields(block), "id") for block in known} - {""}
    return [*known, *(b for b in _blocks(more) if _text(_fields(b), "id") not in calls)]


def _blocks(content: object) -> list[object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(cast("list[object]", content)) if isinstance(content, list) else []


def _when(fields: Fields) -> int:
    try:
        told = datetime.fromisoformat(_text(fields, "timestamp"))
    except ValueError:
        return 0
    return int(told.timestamp() * _MICRO) if told.tzinfo is not None else 0


def _fields(value: object) -> Fields:
    return cast("Fields", value) if isinstance(value, dict) else {}


def _text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""

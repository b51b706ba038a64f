"""Reader of Claude Code transcripts: one line per event, one block of an assistant message per line.

The lines of one assistant message share its id and are joined again, because thoughts and tool calls of a message must
be sent back together. The messages of a sub-agent (a side chain) become a separate conversation. The sessions of a file
are kept in memory while it is read, because their lines are mixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from turnfold import wire
from turnfold.errors import TurnfoldError
from turnfold.importers.json_stream import Fields, Value, read_fields, text_field
from turnfold.importers.reader_events import (
    ConversationStart,
    HistoryEvents,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
)

__all__ = (
    "claude_code_histories",
    "is_claude_code",
)


_MESSAGE_TYPES = ("user", "assistant")
_MICRO = 1_000_000


def is_claude_code(value: object) -> bool:
    """Return True if a JSON value is a transcript line of Claude Code that has a message."""
    fields = read_fields(value)
    return fields.get("type") in _MESSAGE_TYPES and isinstance(fields.get("message"), dict)


@dataclass(slots=True)
class _Event:
    """One message of a Claude Code transcript, joined from its lines."""

    line: int
    fields: Fields
    message: Fields


@dataclass(slots=True)
class _Chain:
    """One conversation of a transcript file: the main conversation of a session, or that of a sub-agent."""

    events: list[_Event] = field(default_factory=list[_Event])
    answers: dict[str, _Event] = field(default_factory=dict[str, _Event])
    calls: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Ids of the content blocks that were read of each answer; an answer may have several lines in the file."""

    def take(self, line: int, fields: Fields) -> None:
        message = dict(read_fields(fields["message"]))
        name = message.get("id")
        known = self.answers.get(name) if isinstance(name, str) else None
        if known is not None and message.get("role") == "assistant":
            self._join(cast("str", name), known.message, message)
            return
        event = _Event(line, fields, message)
        self.events.append(event)
        if isinstance(name, str):
            self.answers[name] = event
            self.calls.pop(name, None)

    def _join(self, name: str, known: Fields, more: Fields) -> None:
        """Add the content blocks of another line of an answer; a tool call that is in both occurs once."""
        if name not in self.calls:
            known["content"] = _blocks(known.get("content"))
            self.calls[name] = _block_ids(known["content"])
        blocks, ids = cast("list[object]", known["content"]), self.calls[name]
        added = [
            each
            for each in _blocks(more.get("content"))
            if text_field(read_fields(each), "id") not in ids
        ]
        blocks += added
        ids |= _block_ids(added)


def claude_code_histories(found: Iterator[Value | UnreadableItem], name: str) -> HistoryEvents:
    """Yield the conversations in a Claude Code transcript as events; `name` is the id for lines without a session."""
    chains: dict[str, _Chain] = {}
    sides: dict[str, str] = {}
    for each in found:
        if isinstance(each, UnreadableItem):
            yield each
            continue
        fields = read_fields(each.value)
        if not fields:
            yield UnreadableItem(
                each.line, f"expected a transcript line, got {type(each.value).__name__}"
            )
        elif not is_claude_code(fields):
            yield IgnoredItem(f"line of type {text_field(fields, 'type') or 'unknown'}")
        else:
            chains.setdefault(_chain_of(fields, name, sides), _Chain()).take(each.line, fields)
    for conversation, chain in chains.items():
        yield from _history(conversation, chain)


def _chain_of(fields: Fields, name: str, sides: dict[str, str]) -> str:
    session = text_field(fields, "sessionId") or name
    if fields.get("isSidechain") is not True:
        return session
    agent = text_field(fields, "agentId")
    own, parent = text_field(fields, "uuid"), text_field(fields, "parentUuid")
    root = sides.get(parent, own[:8])
    sides[own] = root
    return f"{session}/agent-{agent or root}"


def _history(conversation: str, chain: _Chain) -> HistoryEvents:
    first = chain.events[0]
    yield ConversationStart(conversation, first.line, _time(first.fields))
    for event in chain.events:
        try:
            message = wire.anthropic.accept(event.message)
        except (TurnfoldError, RecursionError) as error:
            yield UnreadableItem(event.line, str(error))
        else:
            yield ImportedMessage(
                message, event.line, _time(event.fields), text_field(event.fields, "uuid")
            )


def _block_ids(blocks: list[object]) -> set[str]:
    return {text_field(read_fields(each), "id") for each in blocks} - {""}


def _blocks(content: object) -> list[object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(cast("list[object]", content)) if isinstance(content, list) else []


def _time(fields: Fields) -> int:
    try:
        time = datetime.fromisoformat(text_field(fields, "timestamp"))
    except ValueError:
        return 0
    return int(time.timestamp() * _MICRO) if time.tzinfo is not None else 0

"""The conversations of a ChatGPT data export: trees of messages, of which one branch was on the screen last.

A message to a tool is a tool call here and what the tool wrote is its result, however many messages it took. Pictures
and files are not in the export; what is said of them is kept as it stands. Branches that were left (an edited
question, an answer made anew) are conversations of their own when they are asked for, and counted when not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from turnfold.errors import TurnfoldError
from turnfold.memory.importing.json_stream import Value
from turnfold.memory.importing.pieces import Bad, Begin, Found, Ignored, Said
from turnfold.records import (
    ContentPart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.records.json_text import freeze_object

__all__ = ("chatgpt_histories",)

_PROVIDER = "chatgpt"
_EVERYBODY = ("", "all")
_MICRO = 1_000_000

Fields = dict[str, object]


def chatgpt_histories(found: Iterator[Value | Bad], name: str, *, branches: bool) -> Found:
    """The conversations in a stream of values."""
    number = 0
    for each in found:
        if isinstance(each, Bad):
            yield each
            continue
        talk = _fields(each.value)
        nodes = {key: _fields(node) for key, node in _fields(talk.get("mapping")).items()}
        if not nodes:
            yield Bad(each.line, "no conversation of a ChatGPT export: it has no mapping")
            continue
        number += 1
        own = _text(talk, "conversation_id") or _text(talk, "id") or f"{name}-{number}"
        yield from _Talk(talk, nodes, own, each.line).pieces(branches=branches)


class _Talk:
    """One conversation and its tree."""

    def __init__(self, talk: Fields, nodes: dict[str, Fields], name: str, line: int) -> None:
        self._talk, self._nodes, self._name, self._line = talk, nodes, name, line

    def pieces(self, *, branches: bool) -> Found:
        shown = self._path(self._newest())
        yield from self._branch(self._name, shown)
        left = [key for key in self._leaves() if key not in shown]
        if branches:
            for number, leaf in enumerate(left, 2):
                yield from self._branch(f"{self._name}~{number}", self._path(leaf))
            return
        on_screen = set(shown)
        others = (
            key for key, node in self._nodes.items() if key not in on_screen and node.get("message")
        )
        for _ in others:
            yield Ignored("message on a branch that was left")

    def _branch(self, name: str, path: list[str]) -> Found:
        yield Begin(name, self._line, _when(self._talk.get("create_time")))
        reading = _Reading(self._line, _text(self._talk, "title"))
        for key in path:
            message = _fields(self._nodes[key].get("message"))
            if message:
                yield from reading.take(key, message)
        yield from reading.rest()

    def _newest(self) -> str:
        named = _text(self._talk, "current_node")
        if named in self._nodes:
            return named
        return max(self._leaves(), key=lambda key: _when(self._message_of(key).get("create_time")))

    def _message_of(self, key: str) -> Fields:
        return _fields(self._nodes[key].get("message"))

    def _leaves(self) -> list[str]:
        parents = {_text(node, "parent") for node in self._nodes.values()}
        return [key for key in self._nodes if key not in parents] or list(self._nodes)[-1:]

    def _path(self, leaf: str) -> list[str]:
        path: dict[str, None] = {}
        while leaf in self._nodes and leaf not in path:  # a damaged tree may run in a circle
            path[leaf] = None
            leaf = _text(self._nodes[leaf], "parent")
        return list(path)[::-1]


class _Reading:
    """One branch, message by message; holds a result back until it is known to be complete."""

    def __init__(self, line: int, title: str) -> None:
        self._line, self._title = line, title
        self._call = ""
        self._held: Said | None = None

    def take(self, key: str, fields: Fields) -> Found:
        author = _fields(fields.get("author"))
        role = _text(author, "role")
        try:
            parts = _parts(_fields(fields.get("content")))
            if role == "tool":
                yield from self._result(key, fields, author, parts)
                return
            yield from self.rest()
            yield self._said(key, fields, role, parts)
        except (TurnfoldError, RecursionError) as error:
            yield Bad(self._line, f"message {key}: {error}")

    def rest(self) -> Found:
        """What was held back."""
        if self._held is not None:
            yield self._held
            self._held = None

    def _said(self, key: str, fields: Fields, role: str, parts: list[Part]) -> Said | Ignored:
        addressee = _text(fields, "recipient")
        if role == "assistant" and addressee not in _EVERYBODY:
            self._call = key
            thoughts = [part for part in parts if isinstance(part, ThinkingPart)]
            parts = [*thoughts, ToolCall(key, addressee, _arguments(parts))]
        if not parts:
            return Ignored(f"empty message of the {role or 'unknown role'}")
        if _fields(fields.get("content")).get("content_type") == "user_editable_context":
            role = "system"
        return self._finished(Message.of(role, parts, labels=self._labels(fields)), key, fields)

    def _result(self, key: str, fields: Fields, author: Fields, parts: list[Part]) -> Found:
        content = cast(
            "tuple[ContentPart, ...]", tuple(p for p in parts if not isinstance(p, ThinkingPart))
        )
        call = self._call or f"unasked:{key}"
        held = self._held
        if held is not None and held.message.results[0].call_id == call:
            earlier = held.message.results[0].content
            whole = Message.of(
                "tool",
                [ToolResult(call, (*earlier, *content))],
                name=held.message.name,
                labels=held.message.labels,
            )
            self._held = Said(whole, held.line, held.created, held.client_id)
            return
        yield from self.rest()
        message = Message.of(
            "tool",
            [ToolResult(call, content)],
            name=_text(author, "name") or None,
            labels=self._labels(fields),
        )
        self._held = self._finished(message, key, fields)

    def _finished(self, message: Message, key: str, fields: Fields) -> Said:
        if message.role == "user":
            self._call = ""
        return Said(message, self._line, _when(fields.get("create_time")), key)

    def _labels(self, fields: Fields) -> str:
        model = _text(_fields(fields.get("metadata")), "model_slug")
        labels: Fields = {"model": model} if model else {}
        if self._title:
            labels["title"] = self._title
            self._title = ""
        return freeze_object(labels, path="metadata") if labels else ""


def _parts(content: Fields) -> list[Part]:
    kind = _text(content, "content_type")
    if kind in ("text", "multimodal_text"):
        found = content.get("parts")
        pieces = cast("list[object]", found) if isinstance(found, list) else []
        return [part for piece in pieces for part in _piece(piece)]
    if kind == "thoughts":
        found = content.get("thoughts")
        thoughts = cast("list[object]", found) if isinstance(found, list) else []
        said = [_text(_fields(t), "content") or _text(_fields(t), "summary") for t in thoughts]
        text = "\n".join(filter(None, said))
        return [ThinkingPart(text, provider=_PROVIDER)] if text else []
    if kind == "user_editable_context":
        said = [_text(content, "user_profile"), _text(content, "user_instructions")]
        return _words("\n\n".join(filter(None, said)))
    words = _words(_text(content, "text") or _text(content, "result"))
    return words or ([_opaque(kind, content)] if kind else [])


def _piece(piece: object) -> list[Part]:
    if isinstance(piece, str):
        return _words(piece)
    fields = _fields(piece)
    kind = _text(fields, "content_type")
    if kind == "audio_transcription":
        return _words(_text(fields, "text"))
    return [_opaque(kind or "part", fields)] if fields else []


def _words(text: str) -> list[Part]:
    return [TextPart(text)] if text else []


def _opaque(kind: str, fields: Fields) -> OpaquePart:
    block: Fields = {"type": f"chatgpt_{kind}", **fields}
    return OpaquePart(freeze_object(block, path="content"), provider=_PROVIDER)


def _arguments(parts: list[Part]) -> str:
    """What was sent to the tool, as the arguments of a call: itself where it is a JSON object."""
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    try:
        if isinstance(json.loads(text), dict):
            return text
    except (ValueError, RecursionError):
        pass
    return json.dumps({"input": text}, ensure_ascii=False)


def _fields(value: object) -> Fields:
    return cast("Fields", value) if isinstance(value, dict) else {}


def _text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _when(seconds: object) -> int:
    if not isinstance(seconds, int | float) or not 0 < seconds < 1e11:
        return 0
    return int(seconds * _MICRO)

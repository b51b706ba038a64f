"""Reader of ChatGPT data exports. A conversation there is a tree of messages; the branch shown last is imported.

A message to a tool becomes a tool call; the tool's messages together become its result. Pictures and files are not in
the export; references to them are kept unchanged. Messages on abandoned branches (an edited question, a regenerated
answer) are counted and left out; with `branches` each abandoned branch becomes a separate conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from turnfold.errors import TurnfoldError
from turnfold.importers.json_stream import Fields, Value, read_fields, text_field
from turnfold.importers.reader_events import (
    ConversationStart,
    HistoryEvents,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
)
from turnfold.records import (
    ContentPart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    freeze_object,
)

__all__ = ("chatgpt_histories",)


_PROVIDER = "chatgpt"
_TO_USER = ("", "all")
_MICRO = 1_000_000
_MOST_REPEATED = 20
"""Most times that the messages of a ChatGPT conversation may be repeated by its branches, which each repeat their
beginning; beyond that the import is refused."""
_REPEATED_FREELY = 1_000
"""Number of messages that are added to those of a conversation before `_MOST_REPEATED` is applied, so that a short one
may have many branches."""


def chatgpt_histories(
    found: Iterator[Value | UnreadableItem], name: str, *, branches: bool
) -> HistoryEvents:
    """Yield the conversations in ChatGPT's export as events; ids of conversations without one are made from `name`."""
    number = 0
    for each in found:
        if isinstance(each, UnreadableItem):
            yield each
            continue
        conversation = read_fields(each.value)
        nodes = {
            key: read_fields(node) for key, node in read_fields(conversation.get("mapping")).items()
        }
        if not nodes:
            yield UnreadableItem(each.line, "not a ChatGPT conversation: it has no mapping")
            continue
        number += 1
        own = (
            text_field(conversation, "conversation_id")
            or text_field(conversation, "id")
            or f"{name}-{number}"
        )
        yield from _Conversation(conversation, nodes, own, each.line).events(branches=branches)


class _Conversation:
    """A conversation of a ChatGPT export: a tree of messages."""

    def __init__(
        self, conversation: Fields, nodes: dict[str, Fields], name: str, line: int
    ) -> None:
        self._conversation, self._nodes, self._name, self._line = conversation, nodes, name, line

    def events(self, *, branches: bool) -> HistoryEvents:
        shown = self._path(self._newest())
        yield from self._branch(self._name, shown)
        on_screen = set(shown)
        if branches:
            left = [key for key in self._leaves() if key not in on_screen]
            room = _MOST_REPEATED * (len(self._nodes) + _REPEATED_FREELY)
            for number, leaf in enumerate(left, 2):
                path = self._path(leaf)
                room -= len(path)
                if room < 0:
                    yield UnreadableItem(
                        self._line,
                        f"its branches repeat their beginnings more than {_MOST_REPEATED} times; "
                        "import it without branches",
                    )
                    return
                yield from self._branch(f"{self._name}~{number}", path)
            return
        others = (
            key for key, node in self._nodes.items() if key not in on_screen and node.get("message")
        )
        for _ in others:
            yield IgnoredItem("message on an abandoned branch")

    def _branch(self, name: str, path: list[str]) -> HistoryEvents:
        yield ConversationStart(name, self._line, _time(self._conversation.get("create_time")))
        reading = _BranchReader(self._line, text_field(self._conversation, "title"))
        for key in path:
            message = read_fields(self._nodes[key].get("message"))
            if message:
                yield from reading.take(key, message)
        yield from reading.pending()

    def _newest(self) -> str:
        named = text_field(self._conversation, "current_node")
        if named in self._nodes:
            return named
        return max(self._leaves(), key=lambda key: _time(self._message_of(key).get("create_time")))

    def _message_of(self, key: str) -> Fields:
        return read_fields(self._nodes[key].get("message"))

    def _leaves(self) -> list[str]:
        parents = {text_field(node, "parent") for node in self._nodes.values()}
        return [key for key in self._nodes if key not in parents] or list(self._nodes)[-1:]

    def _path(self, leaf: str) -> list[str]:
        path: dict[str, None] = {}
        while leaf in self._nodes and leaf not in path:  # a damaged tree may have a cycle
            path[leaf] = None
            leaf = text_field(self._nodes[leaf], "parent")
        return list(path)[::-1]


class _BranchReader:
    """Converts the messages on one branch of the tree; a tool result is yielded once all its messages were read."""

    def __init__(self, line: int, title: str) -> None:
        self._line, self._title = line, title
        self._call = ""
        self._pending: ImportedMessage | None = None
        self._more: list[ContentPart] = []
        """Content of further messages of the tool result that is not yielded yet."""

    def take(self, key: str, fields: Fields) -> HistoryEvents:
        author = read_fields(fields.get("author"))
        role = text_field(author, "role")
        try:
            parts = _parts(read_fields(fields.get("content")))
            if role == "tool":
                yield from self._result(key, fields, author, parts)
                return
            yield from self.pending()
            yield self._message(key, fields, role, parts)
        except (TurnfoldError, RecursionError) as error:
            yield UnreadableItem(self._line, f"message {key}: {error}")

    def pending(self) -> HistoryEvents:
        """Yield the tool result that is not yielded yet, if there is one; called before the next message."""
        pending, more = self._pending, self._more
        self._pending, self._more = None, []
        if pending is not None and more:
            [result] = pending.message.results
            whole = Message.of(
                "tool",
                [ToolResult(result.call_id, (*result.content, *more))],
                name=pending.message.name,
                labels=pending.message.labels,
            )
            pending = replace(pending, message=whole)
        if pending is not None:
            yield pending

    def _message(
        self, key: str, fields: Fields, role: str, parts: list[Part]
    ) -> ImportedMessage | IgnoredItem:
        addressee = text_field(fields, "recipient")
        if role == "assistant" and addressee not in _TO_USER:
            self._call = key
            thoughts = [part for part in parts if isinstance(part, ThinkingPart)]
            parts = [*thoughts, ToolCall(key, addressee, _arguments(parts))]
        if not parts:
            return IgnoredItem(f"empty message of the {role or 'unknown role'}")
        if read_fields(fields.get("content")).get("content_type") == "user_editable_context":
            role = "system"
        return self._finished(Message.of(role, parts, labels=self._labels(fields)), key, fields)

    def _result(self, key: str, fields: Fields, author: Fields, parts: list[Part]) -> HistoryEvents:
        content = cast(
            "tuple[ContentPart, ...]", tuple(p for p in parts if not isinstance(p, ThinkingPart))
        )
        call = self._call or f"unasked:{key}"
        pending = self._pending
        if pending is not None and pending.message.results[0].call_id == call:
            self._more += content
            return
        yield from self.pending()
        message = Message.of(
            "tool",
            [ToolResult(call, content)],
            name=text_field(author, "name") or None,
            labels=self._labels(fields),
        )
        self._pending = self._finished(message, key, fields)

    def _finished(self, message: Message, key: str, fields: Fields) -> ImportedMessage:
        if message.role == "user":
            self._call = ""
        return ImportedMessage(message, self._line, _time(fields.get("create_time")), key)

    def _labels(self, fields: Fields) -> str:
        model = text_field(read_fields(fields.get("metadata")), "model_slug")
        labels: Fields = {"model": model} if model else {}
        if self._title:
            labels["title"] = self._title
            self._title = ""
        return freeze_object(labels, path="metadata") if labels else ""


def _parts(content: Fields) -> list[Part]:
    kind = text_field(content, "content_type")
    if kind in ("text", "multimodal_text"):
        found = content.get("parts")
        events = cast("list[object]", found) if isinstance(found, list) else []
        return [part for piece in events for part in _content_part(piece)]
    if kind == "thoughts":
        found = content.get("thoughts")
        thoughts = cast("list[object]", found) if isinstance(found, list) else []
        texts = [
            text_field(read_fields(t), "content") or text_field(read_fields(t), "summary")
            for t in thoughts
        ]
        text = "\n".join(filter(None, texts))
        return [ThinkingPart(text, provider=_PROVIDER)] if text else []
    if kind == "user_editable_context":
        texts = [text_field(content, "user_profile"), text_field(content, "user_instructions")]
        return _text_parts("\n\n".join(filter(None, texts)))
    parts = _text_parts(text_field(content, "text") or text_field(content, "result"))
    return parts or ([_opaque(kind, content)] if kind else [])


def _content_part(piece: object) -> list[Part]:
    if isinstance(piece, str):
        return _text_parts(piece)
    fields = read_fields(piece)
    kind = text_field(fields, "content_type")
    if kind == "audio_transcription":
        return _text_parts(text_field(fields, "text"))
    return [_opaque(kind or "part", fields)] if fields else []


def _text_parts(text: str) -> list[Part]:
    return [TextPart(text)] if text else []


def _opaque(kind: str, fields: Fields) -> OpaquePart:
    block: Fields = {"type": f"chatgpt_{kind}", **fields}
    return OpaquePart(freeze_object(block, path="content"), provider=_PROVIDER)


def _arguments(parts: list[Part]) -> str:
    """Return the text sent to a tool as the JSON arguments of a tool call; a JSON object is returned unchanged."""
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    try:
        if isinstance(json.loads(text), dict):
            return text
    except (ValueError, RecursionError):
        pass
    return json.dumps({"input": text}, ensure_ascii=False)


def _time(seconds: object) -> int:
    if not isinstance(seconds, int | float) or not 0 < seconds < 1e11:
        return 0
    return int(seconds * _MICRO)

"""Readers of histories in the forms of model providers (OpenAI, Anthropic, Google) and of other libraries."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from turnfold import wire
from turnfold.errors import InvalidExport, TurnfoldError
from turnfold.importers.json_stream import Fields, Value, read_fields, text_field
from turnfold.importers.reader_events import (
    ConversationStart,
    HistoryEvents,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
)
from turnfold.records import Message

__all__ = (
    "BODIES",
    "CONVERSATION_IDS",
    "PROVIDERS",
    "is_langchain",
    "is_mem0",
    "is_sqlite",
    "langchain_histories",
    "mem0_histories",
    "provider_histories",
    "session_table",
    "table_values",
)


PROVIDERS: dict[str, ModuleType] = {
    "anthropic": wire.anthropic,
    "gemini": wire.gemini,
    "openai": wire.openai_chat,
    "openai-responses": wire.openai_responses,
}
BODIES = ("messages", "contents", "input")
"""Names of the fields of a request body that may hold the messages."""
CONVERSATION_IDS = (
    "conversation_id",
    "conversation",
    "session_id",
    "thread_id",
    "trace_id",
    "custom_id",
    "id",
)
"""Names of the fields that may hold the id of the conversation; the first one present is used."""
_KNOWN_FIELDS = frozenset(
    {
        *BODIES,
        *CONVERSATION_IDS,
        "system",
        "systemInstruction",
        "system_instruction",
        "instructions",
        "model",
    }
)


def provider_histories(
    found: Iterator[Value | UnreadableItem], provider: str, name: str
) -> HistoryEvents:
    """Yield the conversations in a provider's messages or request bodies; `name` is the id of those without an id."""
    accept = PROVIDERS[provider]
    is_started = False
    number = 0
    for each in found:
        if isinstance(each, UnreadableItem):
            yield each
            continue
        fields = read_fields(each.value)
        if not isinstance(each.value, dict):
            kind = type(each.value).__name__
            yield UnreadableItem(each.line, f"expected a message or a conversation, got {kind}")
        elif _is_body(fields):
            number += 1
            unnamed = name if number == 1 else f"{name}-{number}"
            yield from _conversation(accept, fields, each.line, unnamed)
            is_started = False
        else:
            if not is_started:
                yield ConversationStart(name, each.line)
                is_started = True
            yield _message(accept, fields, each.line)


def _is_body(fields: Fields) -> bool:
    """Return True for a request body with a list of messages, False for a single message or item."""
    if "role" in fields or "call_id" in fields:
        return False
    return any(key in fields for key in BODIES)


def _conversation(accept: ModuleType, fields: Fields, line: int, name: str) -> HistoryEvents:
    named = (fields.get(key) for key in CONVERSATION_IDS)
    conversation = next((value for value in named if isinstance(value, str) and value), name)
    model = fields.get("model")
    try:
        messages: list[Message] = accept.accept_all(
            fields, model=model if isinstance(model, str) else ""
        )
    except (TurnfoldError, RecursionError) as error:
        yield UnreadableItem(line, _problem(error))
        return
    yield ConversationStart(conversation, line)
    for key in fields:
        if key not in _KNOWN_FIELDS:
            yield IgnoredItem(f"field {key}")
    for message in messages:
        yield ImportedMessage(message, line)


def _message(accept: ModuleType, fields: Fields, line: int) -> ImportedMessage | UnreadableItem:
    try:
        return ImportedMessage(accept.accept(fields), line)
    except (TurnfoldError, RecursionError) as error:
        return UnreadableItem(line, _problem(error))


def _problem(error: Exception) -> str:
    return "nested too deeply to be read" if isinstance(error, RecursionError) else str(error)


_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "tool",
}
_BLOCKS_OF_ANTHROPIC: Final = frozenset({"tool_use", "thinking", "redacted_thinking"})
_MICRO: Final = 1_000_000
_SQLITE: Final = b"SQLite format 3\x00"
_TABLES: Final = {
    "openai-agents": ("agent_messages", "message_data", "input"),
    "langchain": ("message_store", "message", "messages"),
}
"""Format of a database -> its table of messages, the column with their JSON, and the field under which a request body
for the provider has them."""


# ---------------------------------------------------------------------------------------------- LangChain


def is_langchain(value: object) -> bool:
    """Return True if a value is a stored LangChain message, or an object with a list of such messages."""
    fields = read_fields(value)
    if fields.get("lc") and "kwargs" in fields:
        return True
    if isinstance(fields.get("type"), str) and isinstance(fields.get("data"), dict):
        return True
    messages = fields.get("messages")
    return isinstance(messages, list) and any(map(is_langchain, cast("list[object]", messages)))


def langchain_histories(found: Iterator[Value | UnreadableItem], name: str) -> HistoryEvents:
    """Yield LangChain conversations from JSON values: each is one message, or an object with an id and `messages`."""
    started = False
    number = 0
    for each in found:
        fields = read_fields(each.value) if isinstance(each, Value) else {}
        if isinstance(each, UnreadableItem):
            yield each
        elif isinstance(fields.get("messages"), list):
            number += 1
            ids = (text_field(fields, key) for key in CONVERSATION_IDS)
            unnamed = name if number == 1 else f"{name}-{number}"
            yield ConversationStart(next(filter(None, ids), unnamed), each.line)
            for message in cast("list[object]", fields["messages"]):
                yield _langchain_message(message, each.line)
            started = False
        else:
            if not started:
                yield ConversationStart(name, each.line)
                started = True
            yield _langchain_message(each.value, each.line)


def _langchain_message(value: object, line: int) -> ImportedMessage | UnreadableItem | IgnoredItem:
    fields = read_fields(value)
    inner = read_fields(fields.get("kwargs") if fields.get("lc") else fields.get("data"))
    kind = text_field(inner, "type") or text_field(fields, "type")
    if kind == "remove":
        return IgnoredItem("message of type remove")
    role = _ROLES.get(kind) or (text_field(inner, "role") if kind == "chat" else "")
    if not inner or not role:
        return UnreadableItem(line, f"expected a message of LangChain, got type {kind!r}")
    try:
        return ImportedMessage(_accept(role, inner), line)
    except (TurnfoldError, RecursionError) as error:
        return UnreadableItem(line, str(error) or "nested too deeply to be read")


def _accept(role: str, fields: Fields) -> Message:
    """Convert the fields of a LangChain message to turnfold's `Message`.

    Content blocks in Anthropic's form are read by Anthropic's codec, everything else by that of OpenAI's Chat
    Completions: LangChain keeps the form of the provider.
    """
    content, calls = fields.get("content"), _calls(fields)
    details = read_fields(fields.get("response_metadata"))
    model = text_field(details, "model_name") or text_field(details, "model")
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    kinds = {text_field(read_fields(block), "type") for block in blocks}
    if role == "assistant" and kinds & _BLOCKS_OF_ANTHROPIC:
        known = {text_field(read_fields(block), "id") for block in blocks}
        missing = [call for call in calls if call["id"] not in known]
        uses = [{"type": "tool_use", **_named(call), "input": call["args"]} for call in missing]
        return wire.anthropic.accept({"role": role, "content": [*blocks, *uses]}, model=model)
    written: dict[str, object] = {"role": role, "content": content}
    if role == "tool":
        written["tool_call_id"] = fields.get("tool_call_id")
    elif name := text_field(fields, "name"):
        written["name"] = name
    if calls:
        written["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": json.dumps(call["args"], ensure_ascii=False),
                },
            }
            for call in calls
        ]
    elif given := read_fields(fields.get("additional_kwargs")).get("tool_calls"):
        written["tool_calls"] = given  # as OpenAI sent them, in files of old releases
    return wire.openai_chat.accept(written, model=model)


def _calls(fields: Fields) -> list[Fields]:
    calls = fields.get("tool_calls")
    found = cast("list[object]", calls) if isinstance(calls, list) else []
    return [{"id": "", "name": "", "args": {}, **read_fields(call)} for call in found]


def _named(call: Fields) -> Fields:
    return {"id": call["id"], "name": call["name"]}


# --------------------------------------------------------------------------------------------------- mem0


def is_mem0(value: object) -> bool:
    """Return True for a memory that mem0 exported, and for a result of its `get_all`."""
    fields = read_fields(value)
    results = fields.get("results")
    if isinstance(results, list):
        return any(map(is_mem0, cast("list[object]", results)))
    return isinstance(fields.get("memory"), str) and "role" not in fields


def mem0_histories(found: Iterator[Value | UnreadableItem], name: str) -> HistoryEvents:
    """Yield one conversation per user, named like `user-42/mem0`, with the user's memories, oldest first.

    Memories become assistant messages, because a model wrote them: searches find them, but they never count as rules
    that the user gave.
    """
    owners: dict[str, list[tuple[int, str, int, Fields]]] = {}
    for each in found:
        if isinstance(each, UnreadableItem):
            yield each
            continue
        results = read_fields(each.value).get("results")
        values = cast("list[object]", results) if isinstance(results, list) else [each.value]
        for value in values:
            fields = read_fields(value)
            text = text_field(fields, "memory")
            if not text:
                yield UnreadableItem(each.line, "expected a memory of mem0 with a text in `memory`")
                continue
            ids = (text_field(fields, key) for key in ("user_id", "agent_id", "run_id"))
            owner = next(filter(None, ids), name)
            owners.setdefault(owner, []).append((_time(fields), text, each.line, fields))
    for owner, memories in owners.items():
        memories.sort(key=itemgetter(0))
        yield ConversationStart(f"{owner}/mem0", memories[0][2], memories[0][0])
        for created, text, line, fields in memories:
            message = Message("assistant", text, metadata={"source": "mem0"})
            yield ImportedMessage(message, line, created, text_field(fields, "id"))


def _time(fields: Fields) -> int:
    """Return the creation time of a mem0 memory, in microseconds since 1970; 0 if it has none."""
    try:
        time = datetime.fromisoformat(text_field(fields, "created_at"))
    except ValueError:
        return 0
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * _MICRO)


# ----------------------------------------------------------------------------------- tables of a SQLite file


def is_sqlite(path: Path) -> bool:
    """Return True if a file is a SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # open_text() raises an error that says why


def session_table(path: Path) -> str:
    """Return the format of a SQLite file, found by the names of its tables.

    Raises `InvalidExport` if no format is known.
    """
    try:
        with closing(_open(path)) as file:
            names = {row[0] for row in file.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None
    for format_name, (table, _, _) in _TABLES.items():
        if table in names:
            return format_name
    if "conversation" in names and "entry" in names:
        remedy = "It is a store of turnfold: use it with --store, or export it first"
    else:
        remedy = "Supported are the files of SQLiteSession (OpenAI Agents) and SQLChatMessageHistory (LangChain)"
    raise InvalidExport(
        f"{path.name} is a SQLite file without a table of messages that can be imported",
        remedy=remedy,
    )


def table_values(path: Path, format_name: str) -> Iterator[Value | UnreadableItem]:
    """Yield the sessions in a SQLite file's table, each as an object with an id and the list of messages."""
    table, column, body = _TABLES[format_name]
    query = f"SELECT session_id, id, {column} FROM {table} ORDER BY session_id, id"  # noqa: S608 (constants)
    try:
        with closing(_open(path)) as file:
            rows = cast("Iterator[tuple[str, int, str]]", file.execute(query))
            for session, group in groupby(rows, key=itemgetter(0)):
                messages: list[object] = []
                first = 0
                for _, number, text in group:
                    first = first or number
                    try:
                        messages.append(json.loads(text))
                    except (TypeError, ValueError, RecursionError) as error:
                        yield UnreadableItem(number, f"row {number} of {table}: {error}")
                yield Value(first, {"session_id": session, body: messages})
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: sqlite3.Error) -> InvalidExport:
    return InvalidExport(f"{path.name} cannot be read as SQLite: {error}")


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)

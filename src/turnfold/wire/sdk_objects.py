"""Read responses and messages of any provider's SDK as turnfold messages, with the reported token usage.

An object is recognised by the fields it has, never by its class, so that dictionaries of the same shape and compatible
servers are read too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Message, NewEntry, Usage, get_field
from turnfold.wire import anthropic, gemini, openai_chat, openai_responses
from turnfold.wire.json_values import JsonObject, list_at, object_at, object_of, plain_object

__all__ = (
    "SdkMessages",
    "read_sdk_objects",
)


_RESPONSE_ITEMS = ("function_call", "reasoning", "custom_tool_call", "computer_call", "web_search")
"""Prefixes of the item types in a response of OpenAI's Responses API."""
_PLAIN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "metadata"})
_ANSWERED = ("annotations", "refusal", "audio", "function_call")
"""Fields that mark a message as one of an OpenAI chat completion; in a request they may not be empty."""
_OUTPUT_BLOCKS = frozenset({"output_text", "refusal"})


@dataclass(frozen=True, slots=True)
class SdkMessages:
    """The result of reading SDK objects: messages and token usage; values that are no SDK objects are unchanged."""

    messages: object
    usage: Usage | None = None


def read_sdk_objects(value: object) -> SdkMessages:
    """Read one SDK object or a list of them; any other value is returned unchanged in `messages`.

    Raises `InvalidRecord` for an object that is not one finished response: a stream, a piece of a stream, a coroutine,
    or a response with several choices, of which only one can be the next message.
    """
    if isinstance(value, list | tuple):
        return _read_list(cast("Sequence[object]", value))
    found = _read(value)
    return SdkMessages(value) if found is None else found


def _is_plain(value: object) -> bool:
    """Return True if a value is a dictionary with only the usual message fields, so it is no SDK object."""
    return isinstance(value, dict) and cast("dict[str, object]", value).keys() <= _PLAIN


def _read_list(values: Sequence[object]) -> SdkMessages:
    if values and all(_is_response_item(each) for each in values):
        return SdkMessages(openai_responses.accept_all(list(values)))
    read = [_read(each) for each in values]
    if not any(read):
        return SdkMessages(values)
    messages: list[object] = []
    for value, found in zip(values, read, strict=True):
        if found is None:
            messages.append(value)
        else:
            messages += cast("list[object]", found.messages)
    usages = [found.usage for found in read if found is not None and found.usage is not None]
    return SdkMessages(messages, usages[-1] if usages else None)


def _read(value: object) -> SdkMessages | None:
    if value is None or isinstance(value, Message | NewEntry | str):
        return None
    if _is_plain(value):
        return None
    own = get_field(value, "message")
    if isinstance(own, Message):  # an `Answer` of turnfold.models
        usage = get_field(value, "usage")
        return SdkMessages([own], usage if isinstance(usage, Usage) else None)
    _refuse_unfinished(value)
    if isinstance(get_field(value, "choices"), list):
        _only(value, "choices", "response.choices[0].message")
        return SdkMessages([openai_chat.accept(_completion(value))], _usage(value))
    if isinstance(get_field(value, "candidates"), list):
        _only(value, "candidates", "response.candidates[0].content")
        return SdkMessages([gemini.accept(value)], _usage(value))
    if isinstance(get_field(value, "output"), list) and get_field(value, "type") is None:
        return SdkMessages(_response_messages(value), _usage(value))
    return _read_message(value)


def _read_message(value: object) -> SdkMessages | None:
    """Read an SDK's message, or a choice or candidate that contains one; returns None for any other object."""
    if _is_response_item(value):
        return SdkMessages([openai_responses.accept(value)])
    if get_field(value, "type") == "message" and get_field(value, "role") is not None:
        return SdkMessages([anthropic.accept(value)], _usage(value))
    if get_field(value, "role") == "assistant" and any(_has(value, name) for name in _ANSWERED):
        return SdkMessages([openai_chat.accept(_without_empty(plain_object(value)))])
    if get_field(value, "role") is None and _has(value, "finish_reason"):
        inner, content = get_field(value, "message"), get_field(value, "content")
        if inner is not None:
            return SdkMessages([openai_chat.accept(_without_empty(plain_object(inner)))])
        if content is not None:
            return SdkMessages([gemini.accept(content)])
    if isinstance(get_field(value, "parts"), list) and not _has(value, "content"):
        return SdkMessages([gemini.accept(value)])
    return None


def _completion(value: object) -> JsonObject:
    fields = plain_object(value)
    choice = object_of(list_at(fields, "choices")[0]) or {}
    message = _without_empty(object_at(choice, "message"))
    return {**fields, "choices": [{**choice, "message": message}]}


def _without_empty(message: JsonObject) -> JsonObject:
    """Return a message of a response without empty fields that a request must not have."""
    return {
        key: value
        for key, value in message.items()
        if key == "content" or not (value is None or value in ("", [], {}))
    }


def _has(value: object, name: str) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, name)


def _response_messages(value: object) -> list[Message]:
    if not get_field(value, "output"):
        error = get_field(value, "error") or get_field(value, "incomplete_details")
        raise InvalidRecord(
            f"the response has no output (status {get_field(value, 'status')!r}, {error!r})",
            path="output",
            remedy="Repeat the request: there is no answer to store",
        )
    return [openai_responses.accept(value)]


def _is_response_item(value: object) -> bool:
    kind = get_field(value, "type")
    if not isinstance(kind, str):
        return False
    if kind != "message":
        return kind.startswith(_RESPONSE_ITEMS)
    content = get_field(value, "content")
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return any(get_field(block, "type") in _OUTPUT_BLOCKS for block in blocks)


def _refuse_unfinished(value: object) -> None:
    kind = type(value).__name__
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # it would be reported as never awaited, which hides this error
        raise InvalidRecord(
            f"{kind} was not awaited, so it has no answer", remedy="Write: session.add(await ...)"
        )
    if get_field(value, "object") == "chat.completion.chunk":
        raise InvalidRecord(
            f"{kind} is a piece of a streamed answer",
            remedy='Join the pieces, then: session.assistant("".join(pieces))',
        )
    if hasattr(value, "__anext__"):
        raise InvalidRecord(
            f"{kind} is a stream, not an answer",
            remedy='Read it to its end, then: session.assistant("".join(pieces))',
        )


def _only(value: object, name: str, right: str) -> None:
    found = cast("list[object]", get_field(value, name))
    if len(found) != 1:
        raise InvalidRecord(
            f"the response has {len(found)} {name}; it must have exactly one",
            path=name,
            remedy=f"Add the one you use: session.add({right})" if found else "Repeat the request",
        )


def _usage(value: object) -> Usage | None:
    try:
        return Usage.of(value)
    except InvalidOption:  # a compatible server may report nothing
        return None

"""Assembles complete answers from streamed events, for each provider's interface; needs no SDK.

Each stream class takes the events one by one and gives the answer as it would be without streaming.
"""

from __future__ import annotations

from typing import cast

from turnfold.models.base_client import in_order, without_nulls
from turnfold.models.failures import CallFailed, failure_in, no_answer, stream_cut
from turnfold.wire import JsonObject, arguments_object, object_at, objects_of, text_at

__all__ = (
    "ChatStream",
    "GeminiStream",
    "MessageStream",
    "ResponsesStream",
    "checked_response",
    "normalized_chat",
    "normalized_message",
)


_NAMES = frozenset("format id index name object role status type".split())
"""Fields of a streamed event that hold a name: if such a field is repeated, its value replaces the earlier one."""


class ChatStream:
    """Assembles an answer from the chunks of an OpenAI Chat Completions stream."""

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._message: JsonObject = {}
        self._stop: object = None

    def add(self, event: JsonObject) -> str:
        """Add a chunk of the stream; return the text of the answer that it contains, or ""."""
        self._fields |= {
            key: value
            for key, value in event.items()
            if value is not None and key not in ("choices", "obfuscation")
        }
        text = ""
        for choice in objects_of(event.get("choices")):
            if choice.get("index") not in (0, None):
                continue  # only one answer was requested
            self._stop = choice.get("finish_reason") or self._stop
            delta = object_at(choice, "delta")
            _merge(self._message, delta)
            content = delta.get("content")
            text += content if isinstance(content, str) else ""
        return text

    def result(self) -> JsonObject:
        """Return the answer as it would be without streaming; raise `CallFailed` if its end is missing."""
        if self._stop is None:
            raise stream_cut()
        message = _joined_texts(self._message)
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": self._stop}
        return {**self._fields, "object": "chat.completion", "choices": [choice]}


def normalized_chat(response: JsonObject) -> JsonObject:
    """Return a Chat Completions response without empty fields, so that it is equal with and without streaming.

    Raises `CallFailed` if it has no choices.
    """
    if not objects_of(response.get("choices")):
        raise no_answer(response, "choices")
    choices: list[JsonObject] = []
    for choice in objects_of(response.get("choices")):
        message: JsonObject = {"role": "assistant", "content": None, **object_at(choice, "message")}
        message = {key: value for key, value in message.items() if not _is_empty(value)}
        calls = [_normalized_call(call) for call in objects_of(message.get("tool_calls"))]
        message |= {"tool_calls": calls} if calls else {}
        other_fields = in_order(without_nulls({**choice, "message": None}))
        choices.append({**other_fields, "message": {"content": None, **message}})
    return {**in_order(without_nulls({**response, "choices": None})), "choices": choices}


def _normalized_call(call: JsonObject) -> JsonObject:
    """Return a tool call without `index`: it numbers the fragments of a stream, but some servers always send it."""
    kept = {key: value for key, value in call.items() if key != "index" and value is not None}
    return {"type": "function", **kept}


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


class _Pieces:
    """The pieces of a streamed text so far.

    They are joined once at the end, so that a long answer is not copied often.
    """

    __slots__ = ("pieces",)

    def __init__(self, first: str) -> None:
        self.pieces = [first]


def _joined_texts(value: object) -> object:
    """Return a streamed message in which the pieces of each text are joined."""
    if isinstance(value, _Pieces):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: _joined_texts(inner) for key, inner in cast("JsonObject", value).items()}
    return (
        [_joined_texts(inner) for inner in cast("list[object]", value)]
        if isinstance(value, list)
        else value
    )


def _merge(result: JsonObject, delta: JsonObject) -> None:
    """Add the fragments in `delta` to the message `result`, field by field."""
    for key, value in delta.items():
        known = result.get(key)
        if value is None:
            continue
        if isinstance(value, dict) and isinstance(known, dict):
            _merge(cast("JsonObject", known), cast("JsonObject", value))
        elif isinstance(value, list):
            sofar = cast("list[object]", known) if isinstance(known, list) else []
            result[key] = _merge_lists(sofar, cast("list[object]", value))
        elif isinstance(value, str) and isinstance(known, str):
            result[key] = _merged_name(known, value, key)
        elif isinstance(value, str) and isinstance(known, _Pieces):
            known.pieces.append(value)
        elif isinstance(value, str) and key not in _NAMES:
            result[key] = _Pieces(value)
        else:
            result[key] = _copied(cast("object", value))


def _merged_name(known: str, value: str, key: str) -> str:
    """Return an id, role or type after the next chunk, which may repeat it, omit it or have a piece of it."""
    if not value or value == known:
        return known
    return known + value if key == "name" and known else value


def _merge_lists(result: list[object], pieces: list[object]) -> list[object]:
    for piece in pieces:
        fragment = cast("JsonObject", piece) if isinstance(piece, dict) else None
        found = None if fragment is None else _continued(result, fragment)
        if fragment is not None and found is not None:
            _merge(found, fragment)
        else:
            result.append(_copied(cast("object", piece)))
    return result


def _continued(result: list[object], fragment: JsonObject) -> JsonObject | None:
    """Return the list element (such as a tool call) that a streamed fragment continues; None if it begins another."""
    known = [cast("JsonObject", one) for one in result if isinstance(one, dict)]
    at, name = fragment.get("index"), fragment.get("id")
    if at is None and "function" not in fragment:
        return None  # a list that is not sent in fragments
    same = [one for one in known if one.get("index") == at]
    if not same:
        return None
    current = same[-1].get("id")
    return None if name and current and name != current else same[-1]


def _copied(value: object) -> object:
    """Return a copy of a chunk's value to append to, so that the chunk itself is not changed."""
    if isinstance(value, dict):
        made: JsonObject = {}
        _merge(made, cast("JsonObject", value))
        return made
    return _merge_lists([], cast("list[object]", value)) if isinstance(value, list) else value


_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""Types of the event that ends a Responses stream and holds the whole response."""


class ResponsesStream:
    """Assembles an answer from the events of an OpenAI Responses stream."""

    def __init__(self) -> None:
        self._items: dict[int, JsonObject] = {}
        self._response: JsonObject | None = None

    def add(self, event: JsonObject) -> str:
        """Add an event of the stream; return the text of the answer that it contains, or ""."""
        kind = text_at(event, "type")
        if kind == "response.output_text.delta":
            return text_at(event, "delta")
        if kind == "response.output_item.done":
            at = event.get("output_index")
            self._items[at if isinstance(at, int) else len(self._items)] = object_at(event, "item")
        elif kind in _LAST:
            self._response = object_at(event, "response")
        elif kind == "error":
            raise CallFailed(failure_in(event))
        return ""

    def result(self) -> JsonObject:
        """Return the response in the stream's last event; raise `CallFailed` if the stream ended before it."""
        if self._response is None:
            raise stream_cut()
        if objects_of(self._response.get("output")) or not self._items:
            return self._response
        return {**self._response, "output": [self._items[at] for at in sorted(self._items)]}


def checked_response(response: JsonObject) -> JsonObject:
    """Return a Responses response if it has an answer; raises `CallFailed` if it reports a failure."""
    if response.get("status") == "failed" or object_at(response, "error"):
        raise CallFailed(failure_in(object_at(response, "error")))
    if not isinstance(response.get("output"), list):
        raise no_answer(response, "output")
    return response


class GeminiStream:
    """Assembles an answer from the chunks of a Gemini stream."""

    def __init__(self) -> None:
        self._fields: JsonObject = {}
        self._candidate: JsonObject = {}
        self._parts: list[JsonObject] = []
        self._none: JsonObject = {}

    def add(self, event: JsonObject) -> str:
        """Add a chunk of the stream; return the text of the answer that it contains, or ""."""
        if object_at(event, "error"):
            raise CallFailed(failure_in(object_at(event, "error")))
        self._fields |= {key: value for key, value in event.items() if key != "candidates"}
        candidate = next(iter(objects_of(event.get("candidates"))), self._none)
        self._candidate |= {key: value for key, value in candidate.items() if key != "content"}
        text = ""
        for part in objects_of(object_at(candidate, "content").get("parts")):
            text += "" if part.get("thought") else text_at(part, "text")
            self._append(dict(part))
        return text

    def result(self) -> JsonObject:
        """Return the answer as it would be without streaming; raise `CallFailed` if its end is missing."""
        if "finishReason" not in self._candidate:
            raise stream_cut()
        content: JsonObject = {"role": "model", "parts": self._parts}
        return {**self._fields, "candidates": [{**self._candidate, "content": content}]}

    def _append(self, part: JsonObject) -> None:
        """Append a part of a Gemini chunk to the answer; a piece of text continues the text before it."""
        last = self._parts[-1] if self._parts else {}
        pieces = {"text", "thought", "thoughtSignature"}
        joins = "text" in part and "text" in last and {*part, *last} <= pieces
        if joins and "thoughtSignature" not in last and part.get("thought") == last.get("thought"):
            self._parts[-1] = {
                **last,
                **part,
                "text": text_at(last, "text") + text_at(part, "text"),
            }
        else:
            self._parts.append(part)


class MessageStream:
    """Assembles a message from the events of an Anthropic stream."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        """(block, field) -> pieces of the field's text so far; joined only at the end, so that a long answer is not
        copied often."""
        self._stopped = False

    def add(self, event: JsonObject) -> str:
        """Add an event of the stream; return the text of the answer that it contains, or ""."""
        index = event.get("index")
        at = index if isinstance(index, int) else len(self._blocks)
        match event.get("type"):
            case "message_start":
                self._message = dict(object_at(event, "message"))
            case "content_block_start":
                self._blocks[at] = dict(object_at(event, "content_block"))
                return text_at(self._blocks[at], "text")
            case "content_block_delta":
                return self._fill(at, object_at(event, "delta"))
            case "message_delta":
                self._message |= without_nulls(object_at(event, "delta"))
                usage = without_nulls(object_at(event, "usage"))
                self._message["usage"] = {**object_at(self._message, "usage"), **usage}
                if edited := event.get("context_management"):  # what the provider cleared
                    self._message["context_management"] = edited
            case "message_stop":
                self._stopped = True
            case _:
                pass  # pings and the ends of blocks say nothing more
        return ""

    def result(self) -> JsonObject:
        """Return the message as it would be without streaming; raise `CallFailed` if its end is missing."""
        if not self._stopped:
            raise stream_cut()
        for (at, field), pieces in self._texts.items():
            text = "".join(pieces)
            self._blocks[at][field] = _value(text) if field == "input" else text
        return {**self._message, "content": [self._blocks[at] for at in sorted(self._blocks)]}

    def _fill(self, at: int, delta: JsonObject) -> str:
        block = self._blocks.setdefault(at, {})
        match delta.get("type"):
            case "input_json_delta":
                self._texts.setdefault((at, "input"), []).append(text_at(delta, "partial_json"))
            case "citations_delta":
                known = cast("list[object]", block.get("citations") or [])
                block["citations"] = [*known, delta.get("citation")]
            case kind:
                # Text, thoughts, signatures, and whatever comes after them: fields named as in the block.
                for key, value in delta.items():
                    if key == "type":
                        continue
                    before = block.get(key)
                    if isinstance(before, str) and isinstance(value, str):
                        self._texts.setdefault((at, key), [before]).append(value)
                    else:
                        block[key] = value
                return text_at(delta, "text") if kind == "text_delta" else ""
        return ""


def normalized_message(response: JsonObject) -> JsonObject:
    """Return an Anthropic message without empty fields, so that it is equal with and without streaming.

    Raises `CallFailed` if it has no content.
    """
    if not isinstance(response.get("content"), list):
        raise no_answer(response, "content")
    blocks = [without_nulls(block) for block in objects_of(response.get("content"))]
    return {**in_order(without_nulls({**response, "content": None})), "content": blocks}


def _value(text: str) -> object:
    """Return streamed tool arguments as an object; the text itself if it is not JSON of an object."""
    found, sound = arguments_object(text)
    return found if sound else text

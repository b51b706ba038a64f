"""Anthropic's stream events, put together to the message that would have come whole.

Blocks come one after another, each begun empty and filled by deltas. Arguments of a tool arrive as pieces of JSON text;
signatures and encrypted thoughts must come out byte for byte, because the provider checks them when they are sent back.
"""

from __future__ import annotations

from typing import cast

from turnfold.models.failures import CallFailed, Failure, no_answer
from turnfold.models.plain_json import Json, in_order, items_at, object_at, without_nulls, word_at
from turnfold.wire.foreign import arguments_object

__all__ = ("MessageStream", "settled_message")


class MessageStream:
    """Collects the events of one answer."""

    def __init__(self) -> None:
        self._message: Json = {}
        self._blocks: dict[int, Json] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        """(block, field) -> its text so far: joined once, or a long answer would be copied over and over."""
        self._stopped = False

    def add(self, event: Json) -> str:
        """Take an event; the text in it."""
        index = event.get("index")
        at = index if isinstance(index, int) else len(self._blocks)
        match event.get("type"):
            case "message_start":
                self._message = dict(object_at(event, "message"))
            case "content_block_start":
                self._blocks[at] = dict(object_at(event, "content_block"))
                return word_at(self._blocks[at], "text")
            case "content_block_delta":
                return self._fill(at, object_at(event, "delta"))
            case "message_delta":
                self._message |= without_nulls(object_at(event, "delta"))
                usage = without_nulls(object_at(event, "usage"))
                self._message["usage"] = {**object_at(self._message, "usage"), **usage}
            case "message_stop":
                self._stopped = True
            case _:
                pass  # pings and the ends of blocks say nothing more
        return ""

    def whole(self) -> Json:
        """The message as it would have come whole; a failure when its end is missing."""
        if not self._stopped:
            raise CallFailed(Failure(message="the stream ended before the answer did", code="cut"))
        for (at, field), pieces in self._texts.items():
            text = "".join(pieces)
            self._blocks[at][field] = _value(text) if field == "input" else text
        return {**self._message, "content": [self._blocks[at] for at in sorted(self._blocks)]}

    def _fill(self, at: int, delta: Json) -> str:
        block = self._blocks.setdefault(at, {})
        match delta.get("type"):
            case "input_json_delta":
                self._texts.setdefault((at, "input"), []).append(word_at(delta, "partial_json"))
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
                return word_at(delta, "text") if kind == "text_delta" else ""
        return ""


def settled_message(response: Json) -> Json:
    """A whole answer without the fields that say nothing, which differ between a stream and a whole one."""
    if not isinstance(response.get("content"), list):
        raise no_answer(response, "content")
    blocks = [without_nulls(block) for block in items_at(response, "content")]
    return {**in_order(without_nulls({**response, "content": None})), "content": blocks}


def _value(text: str) -> object:
    """The arguments; their text where it is no JSON object that can be sent back, so that nothing is lost."""
    found, sound = arguments_object(text)
    return found if sound else text

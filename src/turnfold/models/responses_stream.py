"""OpenAI's Responses events: the last of them carries the whole answer.

What is left to do is to hand on the text as it comes, to notice an answer that failed half way, and to put the items
together for servers that leave them out of the last event.
"""

from __future__ import annotations

from turnfold.models.failures import CallFailed, Failure, failure_in, no_answer
from turnfold.models.plain_json import Json, items_at, object_at, word_at

__all__ = ("ResponsesStream", "settled_response")

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesStream:
    """Collects the events of one answer."""

    def __init__(self) -> None:
        self._items: dict[int, Json] = {}
        self._response: Json | None = None

    def add(self, event: Json) -> str:
        """Take an event; the text in it."""
        kind = word_at(event, "type")
        if kind == "response.output_text.delta":
            return word_at(event, "delta")
        if kind == "response.output_item.done":
            at = event.get("output_index")
            self._items[at if isinstance(at, int) else len(self._items)] = object_at(event, "item")
        elif kind in _LAST:
            self._response = object_at(event, "response")
        elif kind == "error":
            raise CallFailed(failure_in(event))
        return ""

    def whole(self) -> Json:
        """The last response; a failure when it never came."""
        if self._response is None:
            raise CallFailed(Failure(message="the stream ended before the answer did", code="cut"))
        if items_at(self._response, "output") or not self._items:
            return self._response
        return {**self._response, "output": [self._items[at] for at in sorted(self._items)]}


def settled_response(response: Json) -> Json:
    """The response, if it is an answer: one that failed comes with the status of a success."""
    if response.get("status") == "failed" or object_at(response, "error"):
        raise CallFailed(failure_in(object_at(response, "error")))
    if not isinstance(response.get("output"), list):
        raise no_answer(response, "output")
    return response

"""OpenAI's Chat chunks, put together to the answer that would have come whole.

A chunk carries fragments of the message under the same keys the whole message has. Most are text to append; what names
something (an id, a role, a type) comes once, or again and again, depending on the server. Keys nobody has heard of are
treated the same way, so the reasoning of DeepSeek or the signatures of Gemini arrive as they would have whole.
"""

from __future__ import annotations

from typing import cast

from turnfold.models.failures import CallFailed, Failure, no_answer
from turnfold.models.plain_json import Json, in_order, items_at, object_at, without_nulls

__all__ = ("ChatStream", "settled_chat")

_NAMES = frozenset("format id index name object role status type".split())
"""Fields that name something: never appended to when they come again."""


class ChatStream:
    """Collects the chunks of one answer."""

    def __init__(self) -> None:
        self._around: Json = {}
        self._message: Json = {}
        self._stop: object = None

    def add(self, event: Json) -> str:
        """Take a chunk; the text in it."""
        self._around |= {
            key: value
            for key, value in event.items()
            if value is not None and key not in ("choices", "obfuscation")
        }
        text = ""
        for choice in items_at(event, "choices"):
            if choice.get("index") not in (0, None):
                continue  # only one answer is asked for
            self._stop = choice.get("finish_reason") or self._stop
            delta = object_at(choice, "delta")
            _merge(self._message, delta)
            said = delta.get("content")
            text += said if isinstance(said, str) else ""
        return text

    def whole(self) -> Json:
        """The answer as it would have come whole; a failure when its end is missing."""
        if self._stop is None:
            raise CallFailed(Failure(message="the stream ended before the answer did", code="cut"))
        message = _told(self._message)
        choice: Json = {"index": 0, "message": message, "finish_reason": self._stop}
        return {**self._around, "object": "chat.completion", "choices": [choice]}


def settled_chat(response: Json) -> Json:
    """A whole answer without the fields that say nothing, which differ between a stream and a whole one."""
    if not items_at(response, "choices"):
        raise no_answer(response, "choices")
    settled: list[Json] = []
    for choice in items_at(response, "choices"):
        message: Json = {"role": "assistant", "content": None, **object_at(choice, "message")}
        message = {key: value for key, value in message.items() if not _says_nothing(value)}
        calls = [_settled_call(call) for call in items_at(message, "tool_calls")]
        message |= {"tool_calls": calls} if calls else {}
        around = in_order(without_nulls({**choice, "message": None}))
        settled.append({**around, "message": {"content": None, **message}})
    return {**in_order(without_nulls({**response, "choices": None})), "choices": settled}


def _settled_call(call: Json) -> Json:
    """`index` says where a fragment belongs; some servers leave it in a whole answer."""
    kept = {key: value for key, value in call.items() if key != "index" and value is not None}
    return {"type": "function", **kept}


def _says_nothing(value: object) -> bool:
    return value is None or value in ("", [], {})


class _Pieces:
    """A text that still grows. Joined once: a long answer appended to piece by piece is copied over and over."""

    __slots__ = ("pieces",)

    def __init__(self, first: str) -> None:
        self.pieces = [first]


def _told(value: object) -> object:
    """The value with every text in one piece."""
    if isinstance(value, _Pieces):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: _told(inner) for key, inner in cast("Json", value).items()}
    return (
        [_told(inner) for inner in cast("list[object]", value)]
        if isinstance(value, list)
        else value
    )


def _merge(whole: Json, delta: Json) -> None:
    for key, value in delta.items():
        known = whole.get(key)
        if value is None:
            continue
        if isinstance(value, dict) and isinstance(known, dict):
            _merge(cast("Json", known), cast("Json", value))
        elif isinstance(value, list):
            sofar = cast("list[object]", known) if isinstance(known, list) else []
            whole[key] = _joined(sofar, cast("list[object]", value))
        elif isinstance(value, str) and isinstance(known, str):
            whole[key] = _named(known, value, key)
        elif isinstance(value, str) and isinstance(known, _Pieces):
            known.pieces.append(value)
        elif isinstance(value, str) and key not in _NAMES:
            whole[key] = _Pieces(value)
        else:
            whole[key] = _fresh(cast("object", value))


def _named(known: str, value: str, key: str) -> str:
    """A server may repeat a name, leave it empty from the second chunk on, or send it in pieces."""
    if not value or value == known:
        return known
    return known + value if key == "name" and known else value


def _joined(whole: list[object], pieces: list[object]) -> list[object]:
    for piece in pieces:
        fragment = cast("Json", piece) if isinstance(piece, dict) else None
        found = None if fragment is None else _place(whole, fragment)
        if fragment is not None and found is not None:
            _merge(found, fragment)
        else:
            whole.append(_fresh(cast("object", piece)))
    return whole


def _place(whole: list[object], fragment: Json) -> Json | None:
    """The element a fragment continues: of the same index, unless it names another call."""
    known = [cast("Json", one) for one in whole if isinstance(one, dict)]
    at, name = fragment.get("index"), fragment.get("id")
    if at is None and "function" not in fragment:
        return None  # a list that is not sent in fragments
    same = [one for one in known if one.get("index") == at]
    if not same:
        return None
    current = same[-1].get("id")
    return None if name and current and name != current else same[-1]


def _fresh(value: object) -> object:
    """A copy that can be appended to: the chunk keeps its own."""
    if isinstance(value, dict):
        made: Json = {}
        _merge(made, cast("Json", value))
        return made
    return _joined([], cast("list[object]", value)) if isinstance(value, list) else value

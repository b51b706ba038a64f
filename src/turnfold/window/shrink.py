"""Making one message smaller without breaking it.

When the parts that may not be left out do not fit, the longest of them are shortened: text keeps its head and its tail
around a note of how much is missing and where to find it, arguments stay valid JSON, media and blocks that cannot be
shortened give way to a note. One number, the cap, says how many tokens any single part may keep; the same message
and cap always give the same result, so a shortened message stays byte-identical from call to call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.tokens import TokenCounter, clip, clip_end, count_upto

__all__ = (
    "SMALLEST_CAP",
    "common_cap",
    "may_be_left_of",
    "shrink_message",
    "shrink_text",
    "shrinkable_costs",
)

SMALLEST_CAP = 8
"""Tokens below which a shortened part says nothing any more; a budget that needs less is too small."""

_HEAD_SHARE = 2 / 3
_SMALLEST_NOTE = "…"
_ANY_NOTE = re.compile(r"\n\[… [0-9,]+ tokens in full(?:, see [^\n]*)? …\]\n|…")


def shrink_text(text: str, cap: int, count: Callable[[str], int], *, reference: str = "") -> str:
    """`text` in at most `cap` tokens: head and tail around a note of what is missing."""
    total = count(text)
    if total <= cap:
        return text
    note = f"\n[… {total:,} tokens in full{f', see {reference}' if reference else ''} …]\n"
    if 2 * count(note) > cap:
        note = _SMALLEST_NOTE
    room = cap - count(note) - 1  # one more for a token that forms across a joint
    while room > 0:
        head = clip(text, int(room * _HEAD_SHARE), count)
        tail = clip_end(text, room - count(head), count, start=len(head))
        shrunk = f"{head}{note}{tail}"
        over = count(shrunk) - cap
        if over <= 0:
            return shrunk
        room -= over
    return note if count(note) <= cap else ""


def may_be_left_of(shown: str, text: str) -> bool:
    """Whether `shown` is `text`, or what `shrink_text` may have left of it."""
    if shown in (text, ""):
        return True
    return any(
        text.startswith(shown[: note.start()]) and text.endswith(shown[note.end() :])
        for note in _ANY_NOTE.finditer(shown)
    )


def shrink_message(
    message: Message, cap: int, counter: TokenCounter, *, reference: str = ""
) -> Message:
    """`message` with every part that costs more than `cap` tokens shortened or replaced by a note."""

    def shrink(part: Part) -> Part | None:
        return _shrink_part(part, cap, counter, reference)

    parts = tuple(smaller for part in message.parts if (smaller := shrink(part)) is not None)
    if parts == message.parts:
        return message
    if not parts:
        parts = (TextPart(_SMALLEST_NOTE),)  # a message must say something
    return Message.of(
        message.role,
        parts,
        name=message.name,
        extra=message.extra,
        labels=message.labels,
        origin=message.origin and message.origin.without_form(),
    )


def shrinkable_costs(message: Message, counter: TokenCounter) -> list[int]:
    """The cost of each part a cap applies to. The rest of the message's cost is framing, ids and names."""
    return [cost for part in message.parts for cost in _costs(part, counter)]


def common_cap(costs: Iterable[int], room: int) -> int:
    """The largest cap under which parts of these costs fit into `room` together; 0 when none does."""
    waiting = sorted(costs)
    for index, cost in enumerate(waiting):
        even = room // (len(waiting) - index)
        if cost > even:
            return max(even, 0)
        room -= cost
    return waiting[-1] if waiting else 0


def _costs(part: Part, counter: TokenCounter) -> list[int]:
    match part:
        case ToolResult():
            return [counter.count_part(inner) for inner in part.content]
        case ToolCall():
            return [counter.count_text(part.arguments)]
        case _:
            return [counter.count_part(part)]


def _shrink_part(part: Part, cap: int, counter: TokenCounter, reference: str) -> Part | None:
    match part:
        case TextPart():
            text = shrink_text(part.text, cap, counter.count_text, reference=reference)
            return part if text == part.text else TextPart(text, part.extra)
        case ToolResult():
            inner = (_shrink_part(block, cap, counter, reference) for block in part.content)
            content = tuple(cast("ContentPart", block) for block in inner if block is not None)
            return ToolResult(part.call_id, content, part.is_error, part.extra)
        case ToolCall():
            arguments = _shrink_arguments(part.arguments, cap, counter.count_text)
            return ToolCall(part.id, part.name, arguments, part.extra)
        case ThinkingPart():
            # A signed thought is checked word for word by its provider: whole or not at all.
            return part if counter.count_part(part) <= cap else None
        case ImagePart() | AudioPart() | FilePart() | OpaquePart():
            if counter.count_part(part) <= cap:
                return part
            return _note(part, cap, counter.count_text, reference)


def _note(part: Part, cap: int, count: Callable[[str], int], reference: str) -> TextPart:
    kind = type(part).__name__.removesuffix("Part").lower()
    note = f"[{kind} left out to fit the budget{f', see {reference}' if reference else ''}]"
    return TextPart(shrink_text(note, cap, count))


def _shrink_arguments(arguments: str, cap: int, count: Callable[[str], int]) -> str:
    if count_upto(arguments, cap, count) <= cap:
        return arguments
    try:
        return _shrink_json(_sendable(arguments), cap, count)
    except (ValueError, RecursionError):
        # The model wrote no JSON, or JSON that cannot be sent on; what is sent must be valid.
        return _shrink_json({"text": arguments}, cap, count)


def _sendable(arguments: str) -> object:
    value = cast("object", json.loads(arguments))
    # Python reads NaN, numbers beyond all bounds and lone surrogates, which JSON and UTF-8 do not know.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return value


def _shrink_json(value: object, cap: int, count: Callable[[str], int]) -> str:
    # Numbers, keys and brackets stay whatever happens to the texts: where they alone are too much, nothing helps.
    bare = json.dumps(_with_texts(value, lambda _: ""), ensure_ascii=False)
    if count_upto(bare, 2 * cap, count) > 2 * cap:
        return "{}"
    # Each text is counted once and not in every round; of what is over the cap anyway, only that is needed.
    costs = {text: min(count_upto(text, 2 * cap, count), 2 * cap) for text in set(_texts_in(value))}
    longest = max(costs.values(), default=0)
    totals: dict[str, int] = {}

    def shortened(text: str) -> str:
        if costs[text] <= longest:
            return text
        if text not in totals:
            totals[text] = count(text)
        return shrink_text(text, longest, lambda asked: totals.get(asked) or count(asked))

    while longest > 1:
        longest = min(longest // 2, cap)
        smaller = json.dumps(_with_texts(value, shortened), ensure_ascii=False)
        if count_upto(smaller, cap, count) <= cap:
            return smaller
    return "{}"


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _texts_in(inner)


def _with_texts(value: object, replaced: Callable[[str], str]) -> object:
    """The value with each of its texts replaced, the keys left alone."""
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: _with_texts(inner, replaced) for key, inner in items}
    if isinstance(value, list):
        return [_with_texts(inner, replaced) for inner in cast("list[object]", value)]
    return value

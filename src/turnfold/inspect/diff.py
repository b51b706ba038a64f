"""Comparison of two calls: messages removed and added, and the first difference, where a provider's cache hit ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnfold.inspect.views import CallPoint, SentItem, call_point, sent_items
from turnfold.memory import Explanation, compare, same_tools
from turnfold.records import Message

__all__ = (
    "CallDiff",
    "FirstDifference",
    "diff_calls",
)


_CONTEXT = 40
"""Number of characters that are shown before and after the place at which two texts begin to differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first message that differs between two calls."""

    index: int
    before: SentItem | None
    """The message at this index in the first call; None if that call has no such message."""
    after: SentItem | None
    character: int
    """Index of the first different character; 0 if one of the messages is missing."""
    text_before: str
    text_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDiff:
    """Differences between the messages of two calls."""

    before: CallPoint
    after: CallPoint
    same: int
    """Number of messages at the beginning that both calls sent."""
    same_tokens: int
    rebilled: int
    """Tokens of the second call after the first difference: the provider's cache cannot serve these."""
    same_tools: bool
    """False if the tool schemas of the two calls differ. They stand before the messages, so nothing is then read from
    the cache."""
    first: FirstDifference | None
    """The first difference; None if both calls sent the same messages."""
    gone: tuple[SentItem, ...]
    new: tuple[SentItem, ...]
    sections: dict[str, int]
    """Section of the prompt -> tokens by which it grew; negative if it shrank."""
    reasons: tuple[str, ...]


def diff_calls(
    before: Explanation, after: Explanation, numbers: Mapping[str, int] | None = None
) -> CallDiff:
    """Return the differences of two calls of one conversation; `numbers` maps call ids to their numbers."""
    numbers = numbers or {}
    old_items, new_items = sent_items(before), sent_items(after)
    found = compare(before, after)
    same = found.shared_messages
    same_tokens = sum(item.tokens for item in new_items[:same])
    tools = same_tools(before.manifest, after.manifest)
    cached = same_tokens if tools else -after.manifest.tools
    return CallDiff(
        before=call_point(before.manifest, numbers.get(before.manifest.call, 0)),
        after=call_point(after.manifest, numbers.get(after.manifest.call, 0)),
        same=same,
        same_tokens=same_tokens,
        rebilled=sum(item.tokens for item in new_items) - cached,
        same_tools=tools,
        first=_first(before.messages, after.messages, old_items, new_items, same),
        gone=_only_in(old_items[same:], new_items[same:]),
        new=_only_in(new_items[same:], old_items[same:]),
        sections=found.sections,
        reasons=found.reasons,
    )


def _only_in(items: Sequence[SentItem], others: Sequence[SentItem]) -> tuple[SentItem, ...]:
    """Return the messages that `others` lacks; a message that occurs twice must be twice in `others`."""
    known = Counter(item.digest for item in others)
    missing: list[SentItem] = []
    for item in items:
        if known[item.digest]:
            known[item.digest] -= 1
        else:
            missing.append(item)
    return tuple(missing)


def _first(
    before: Sequence[Message],
    after: Sequence[Message],
    old_items: Sequence[SentItem],
    new_items: Sequence[SentItem],
    same: int,
) -> FirstDifference | None:
    old = _full_text(before[same]) if same < len(before) else ""
    new = _full_text(after[same]) if same < len(after) else ""
    if same >= len(before) and same >= len(after):
        return None
    at = _first_difference(old, new) if same < min(len(before), len(after)) else 0
    start = max(at - _CONTEXT, 0)
    return FirstDifference(
        index=same,
        before=old_items[same] if same < len(old_items) else None,
        after=new_items[same] if same < len(new_items) else None,
        character=at,
        text_before=old[start : at + _CONTEXT],
        text_after=new[start : at + _CONTEXT],
    )


def _full_text(message: Message) -> str:
    """Return the text and the tool calls of a message."""
    return message.text + "".join(f"{call.name}({call.arguments})" for call in message.calls)


def _first_difference(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))

"""Two calls side by side: where the second stops repeating the first, which is where a provider's cache ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnfold.memory.inspecting.call_view import CallPoint, call_point
from turnfold.memory.inspecting.items import Item, sent_items
from turnfold.memory.manifests import Explanation, compare
from turnfold.records import Message

__all__ = ("CallDiff", "FirstDifference", "diff_calls")

_AROUND = 40
"""Characters shown before and after the place where two texts part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first message that is not the same in both calls."""

    index: int
    before: Item | None
    """None where the first call had ended."""
    after: Item | None
    character: int
    """Where the texts of the two part; 0 where one of them is missing."""
    text_before: str
    text_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDiff:
    """What changed from one call to another."""

    before: CallPoint
    after: CallPoint
    same: int
    """Messages at the beginning that both sent."""
    same_tokens: int
    rebilled: int
    """Tokens of the second call behind the first difference: no cache of the first call serves them."""
    first: FirstDifference | None
    """None where the two sent the same messages."""
    gone: tuple[Item, ...]
    new: tuple[Item, ...]
    sections: dict[str, int]
    """Tokens each section grew by."""
    reasons: tuple[str, ...]


def diff_calls(before: Explanation, after: Explanation) -> CallDiff:
    """The difference of two calls of one conversation."""
    ours, theirs = sent_items(before), sent_items(after)
    found = compare(before, after)
    same = found.shared_messages
    same_tokens = sum(item.tokens for item in theirs[:same])
    return CallDiff(
        before=call_point(before.manifest),
        after=call_point(after.manifest),
        same=same,
        same_tokens=same_tokens,
        rebilled=sum(item.tokens for item in theirs) - same_tokens,
        first=_first(before.messages, after.messages, ours, theirs, same),
        gone=_only_in(ours[same:], theirs[same:]),
        new=_only_in(theirs[same:], ours[same:]),
        sections=found.sections,
        reasons=found.reasons,
    )


def _only_in(items: Sequence[Item], others: Sequence[Item]) -> tuple[Item, ...]:
    """The items the others do not have; one that stands twice has to stand twice there too."""
    known = Counter(item.digest for item in others)
    missing: list[Item] = []
    for item in items:
        if known[item.digest]:
            known[item.digest] -= 1
        else:
            missing.append(item)
    return tuple(missing)


def _first(
    before: Sequence[Message],
    after: Sequence[Message],
    ours: Sequence[Item],
    theirs: Sequence[Item],
    same: int,
) -> FirstDifference | None:
    old = _words(before[same]) if same < len(before) else ""
    new = _words(after[same]) if same < len(after) else ""
    if same >= len(before) and same >= len(after):
        return None
    at = _parting(old, new) if same < min(len(before), len(after)) else 0
    start = max(at - _AROUND, 0)
    return FirstDifference(
        index=same,
        before=ours[same] if same < len(ours) else None,
        after=theirs[same] if same < len(theirs) else None,
        character=at,
        text_before=old[start : at + _AROUND],
        text_after=new[start : at + _AROUND],
    )


def _words(message: Message) -> str:
    """What a message says and asks of tools."""
    return message.text + "".join(f"{call.name}({call.arguments})" for call in message.calls)


def _parting(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))

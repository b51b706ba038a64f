"""Decides when to fold (compact) history, and which part of it.

Folding is due when the counted tokens reach a share (threshold) of the budget, whatever was folded before. The messages
that stay verbatim fit the low mark and begin with a turn if possible. The newest turns that the caller wants to keep
stay even beyond the low mark, as long as the fold still frees enough tokens to be worth a changed prompt. So does the
last answer before the newest turn, which the user most likely refers to, wherever it fits at all. If system message,
pins and tools alone come near the threshold, a window within the low mark is not folded again, because that would free
nothing.
"""

from __future__ import annotations

from turnfold.errors import InvalidOption
from turnfold.window import Room, SpanView, cut_to_low

__all__ = (
    "check_threshold",
    "fold_due",
    "fold_span",
)


_LEAST_FREED = 0.125
"""A fold (compaction) that keeps the last exchange whole, although the window stays above the low mark, must free at
least this share of the window's tokens. Changing the prompt and calling a model for a few tokens in every turn would
cost more than it saves."""


def check_threshold(threshold: float, keep_turns: int) -> None:
    """Raise `InvalidOption` unless 0 < `threshold` <= 1 and `keep_turns` is not negative."""
    if not 0.0 < threshold <= 1.0:
        raise InvalidOption(
            f"threshold={threshold} must be above 0 and at most 1, a share of the budget"
        )
    if keep_turns < 0:
        raise InvalidOption(f"keep_turns={keep_turns} must not be negative")


def fold_due(tokens: int, allowed: int, threshold: float) -> bool:
    """Return True if `tokens` have reached the share `threshold` of the allowed tokens."""
    return tokens >= threshold * allowed


def fold_span(view: SpanView, room: Room, *, due: int, keep_turns: int) -> int:
    """Return the first span (messages that belong together) that stays verbatim; `view.start` to fold nothing.

    `due` is the number of tokens of the window at which folding is due. The spans that stay cost less than that, even
    with the longest summary, so that a fold is not due again at once.
    """
    low = room.low - room.aside
    if view.start >= view.last or view.within(
        view.start, tokens=low, messages=room.low_messages, size=room.low_bytes
    ):
        return view.start
    turns = view.transcript.grouper.turns
    recent = turns[-keep_turns] if 0 < keep_turns <= len(turns) else view.start
    cut = max(cut_to_low(view, room, aside=room.aside), view.start)
    most = (room.low + due) // 2 - room.aside
    if view.start < recent < cut and view.tokens(recent) <= most < due - room.aside:
        return recent
    last = _last_exchange(view, room, most=most) if keep_turns > 1 else cut
    if last >= cut:
        return cut
    freed = view.tokens(view.start) - view.tokens(last)
    return last if freed >= room.tokens * _LEAST_FREED else view.start


def _last_exchange(view: SpanView, room: Room, *, most: int) -> int:
    """Return the first span (message group) of the turn before the newest one.

    If that turn has more than `most` tokens, returns the span of its last message.

    Returns the newest span if there is no earlier turn in the view, or if not even the last message fits the room.
    """
    turns = view.transcript.grouper.turns
    if len(turns) < 2 or turns[-1] <= view.start:
        return view.last
    for start, tokens in ((turns[-2], most), (turns[-1] - 1, room.tokens - room.aside)):
        if start >= view.start and view.within(
            start, tokens=tokens, messages=room.messages, size=room.bytes
        ):
            return start
    return view.last

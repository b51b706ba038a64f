"""Which spans stay: plain functions from a view to a choice.

A strategy looks and answers; it changes nothing. What it answers is what to send (from which span on, with what
shortened) and what to record (the same, as the next call's starting point). Whatever it answers, the assembled
context is within budget and whole: `assemble` moves a careless choice on until it fits.

Nothing is cut while everything fits. When it no longer does, the cut goes down to the low mark in one step, on to
the next turn where enough remains, so that the prompt's beginning then stays the same for many calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from turnfold.errors import InvalidOption
from turnfold.records import Message
from turnfold.window.shrink import READABLE, SMALLEST_CAP, common_cap, shrinkable_costs
from turnfold.window.view import Room, SpanView

__all__ = (
    "Choice",
    "Strategy",
    "Summarizer",
    "compose",
    "cut_to_low",
    "oldest_first",
    "shrink_results",
    "sliding_window",
    "summarise",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the window begins, and what stands for the rest."""

    start: int
    """The first span shown."""
    reason: str = ""
    """Why everything before it is not."""
    caps: Mapping[int, int] = field(default_factory=dict[int, int])
    """Log position -> tokens any single part of that message may keep."""
    summary: str = ""
    """What stands for the spans before `covered`; empty when nothing does."""
    covered: int = 0
    """The first span the summary does not speak of."""


Strategy: TypeAlias = Callable[[SpanView, Room], Choice]


class Summarizer(Protocol):
    """Turns messages into a text that stands for them."""

    def __call__(self, messages: Sequence[Message], *, previous: str, limit: int) -> str:
        """A summary of `previous` followed by `messages`, in at most `limit` tokens."""
        ...


def oldest_first(view: SpanView, room: Room) -> Choice:
    """Leave out the oldest spans: none while everything fits, down to the low mark when it does not."""
    if view.start > view.last or view.fits(view.start, room):
        return _unchanged(view)
    reason = f"over budget: cut to the low mark of {room.low:,} tokens"
    start = cut_to_low(view, room)
    if start == view.last > view.start and not view.fits(start, room):
        view, start = _beside_huge(view, room)
    return replace(_unchanged(view), start=start, reason=reason)


def _beside_huge(view: SpanView, room: Room) -> tuple[SpanView, int]:
    """Shorten a newest span that is too large for the budget so that earlier ones are shown beside it.

    They get up to half of what a cut keeps, and huge parts of theirs are held to the same cap. Where none of them
    fits, the view is returned as it is: the newest span is then shortened to all there is.
    """
    counter_of, pieces = view.transcript.counter_of, list(view.pieces(view.last))
    costs = {
        piece: shrinkable_costs(piece.message, counter_of(piece))
        for piece in pieces
        if piece.position >= 0
    }
    framing = sum(piece.tokens for piece in pieces) - sum(map(sum, costs.values()))
    low = max(room.low, room.tokens // 2)
    earlier = view.tokens(view.start) - view.tokens(view.last)
    target = low - min(earlier, low // 2) - framing
    cap = common_cap([cost for each in costs.values() for cost in each], target)
    if cap < READABLE:
        return view, view.last
    caps = dict(view.caps)
    for piece in view.pieces(view.start):
        if piece.position < 0 or piece.tokens <= cap:
            continue
        if max(shrinkable_costs(piece.message, counter_of(piece)), default=0) > cap:
            caps[piece.position] = cap
    shortened = _moved(view, replace(_unchanged(view), caps=caps))
    start = shortened.first_within(
        view.start, tokens=low, messages=room.low_messages, size=room.low_bytes
    )
    return (shortened, start) if start < view.last else (view, view.last)


def sliding_window(*, messages: int = 0, turns: int = 0) -> Strategy:
    """Keep the newest `messages` messages or `turns` turns, whole spans only, and never more than fits.

    The window moves with every message, which a prompt cache cannot follow: prefer `oldest_first` where cost matters.
    """
    if (messages > 0) == (turns > 0) or messages < 0 or turns < 0:
        raise InvalidOption(
            f"sliding_window(messages={messages}, turns={turns}): give exactly one, positive"
        )

    def slide(view: SpanView, room: Room) -> Choice:
        transcript = view.transcript
        if turns:
            starts = transcript.grouper.turns
            start = starts[-turns] if len(starts) > turns else 0
        else:
            start = min(transcript.first_span_with(messages), view.last)
            while start < view.last and view.messages(start) > messages:
                start += 1
        kept = f"{turns} turns" if turns else f"{messages} messages"
        if start <= view.start:
            return oldest_first(view, room)
        slid = replace(_unchanged(view), start=start, reason=f"outside the newest {kept}")
        return oldest_first(_moved(view, slid), room) if not view.fits(start, room) else slid

    return slide


def summarise(summarizer: Summarizer) -> Strategy:
    """Cut like `oldest_first`, and let a summary stand for what was cut.

    Each message is given to the summariser once, whole, together with the summary so far. Where the budget's share
    for it holds no summary worth reading, or the summariser gives none, what is cut is left out and the summary so
    far stays.
    """

    def fold(view: SpanView, room: Room) -> Choice:
        if view.start > view.last or view.fits(view.start, room):
            return _unchanged(view)
        if room.summary < SMALLEST_CAP:
            return oldest_first(view, room)
        start = cut_to_low(view, room, aside=room.aside)
        if start == view.start:
            return _unchanged(view)
        spans = range(view.covered, start)
        folded = [piece.message for span in spans for piece in view.transcript.pieces(span)]
        text = summarizer(folded, previous=view.summary, limit=room.summary)
        if not text.strip():
            reason = "over budget: the summariser gave nothing"
            return replace(_unchanged(view), start=start, reason=reason)
        return Choice(start, "over budget: folded into the summary", view.caps, text, start)

    return fold


def shrink_results(*, cap: int) -> Strategy:
    """When over budget, shorten tool results of earlier turns to `cap` tokens instead of leaving spans out.

    All of them at once: every change inside the prompt costs the cached part behind it, so it should be rare.
    """
    if cap < SMALLEST_CAP:
        raise InvalidOption(f"cap {cap} leaves nothing readable; use at least {SMALLEST_CAP}")

    def shrink(view: SpanView, room: Room) -> Choice:
        if view.start > view.last or view.fits(view.start, room):
            return _unchanged(view)
        newest = max(view.transcript.turn_of(view.last), view.start)
        caps = dict(view.caps)
        for piece in view.between(view.start, newest):
            if piece.message.role != "tool" or piece.tokens <= cap:
                continue
            if view.transcript.shrunk(piece, cap).tokens < piece.tokens:
                caps[piece.position] = min(cap, caps.get(piece.position, cap))
        return replace(_unchanged(view), caps=caps)

    return shrink


def compose(*strategies: Strategy) -> Strategy:
    """Each strategy in turn, on what the one before it left."""
    if not strategies:
        raise InvalidOption("compose() needs at least one strategy")

    def composed(view: SpanView, room: Room) -> Choice:
        choice = _unchanged(view)
        for strategy in strategies:
            reason = choice.reason
            choice = strategy(_moved(view, choice), room)
            if not choice.reason:
                choice = replace(choice, reason=reason)
        return choice

    return composed


def _unchanged(view: SpanView) -> Choice:
    return Choice(view.start, "", view.caps, view.summary, view.covered)


def _moved(view: SpanView, choice: Choice) -> SpanView:
    return SpanView(
        view.transcript,
        choice.start,
        caps=choice.caps,
        summary=choice.summary,
        covered=choice.covered,
    )


def cut_to_low(view: SpanView, room: Room, *, aside: int = 0) -> int:
    """The first span of a window cut to the low mark, on to the next turn where enough of it remains.

    The running turn is kept whole as long as it fits: who works on a task needs the steps of it most.
    """
    transcript = view.transcript
    low = room.low - aside
    start = max(view.start, transcript.first_span_within(low + view.saved))
    if room.low_messages:
        start = max(start, transcript.first_span_with(room.low_messages))
    start = view.first_within(
        min(start, view.last), tokens=low, messages=room.low_messages, size=room.low_bytes
    )
    running = transcript.grouper.turns[-1] if transcript.grouper.turns else start
    if view.start <= running < start and view.within(
        running, tokens=room.tokens - aside, messages=room.messages, size=room.bytes
    ):
        return running
    turn = transcript.turn_from(start)
    if turn <= view.last and transcript.tokens_from(turn) >= room.snap * low:
        return turn
    return start

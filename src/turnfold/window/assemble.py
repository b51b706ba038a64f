"""One context under one budget.

The order of decisions: what is fixed (system, summary, tail, tools, reply) is priced; the strategy chooses where
the window begins; if even the newest span with the question it belongs to does not fit, those are shortened; if that
cannot help, the error shows the arithmetic. The result is within the budget and whole whatever the strategy chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.records import Message
from turnfold.window.context import Anchor, Context, Fate, Outcome
from turnfold.window.fates import list_fates
from turnfold.window.fixed import Fixed, price
from turnfold.window.shrink import READABLE, SMALLEST_CAP, common_cap, shrinkable_costs
from turnfold.window.strategies import Choice, Strategy, oldest_first
from turnfold.window.transcript import Piece, Transcript
from turnfold.window.view import Room, SpanView

__all__ = ("SQUEEZES", "anchored_view", "assemble", "fits", "next_anchor")


SQUEEZES = 3
"""Times the shares of system and summary, and every share of bytes, are halved before a newest turn that does not fit
beside them is given up."""


class _Window(NamedTuple):
    view: SpanView
    start: int
    reason: str


def assemble(
    transcript: Transcript,
    budget: Budget,
    *,
    anchor: Anchor | None = None,
    strategy: Strategy = oldest_first,
    tail: Sequence[Message] = (),
    tools: Sequence[Mapping[str, object]] = (),
    previous: Context | None = None,
) -> Context:
    """The best context that fits: never over budget, never a tool call or result without its other half.

    `anchor` is what the previous call's context returned as `context.anchor`; without it the window starts at the
    beginning of the log. `tail` goes just before the newest turn. `previous` only serves to measure the prefix.
    """
    _require_plain(tail)
    before = anchor or Anchor()
    squeezes = SQUEEZES if transcript.system or before.summary or budget.max_bytes else 0
    extras = _Extras(tail, tools, squeezes)
    context = _materialise(*_decide(transcript, budget, before, strategy, extras), budget, before)
    if previous is not None:
        context.follow(previous)
    return context


def _require_plain(tail: Sequence[Message]) -> None:
    for index, message in enumerate(tail):
        if message.role not in ("user", "assistant") or message.calls or not message.parts:
            raise InvalidOption(
                f"tail[{index}] is {message!r}: no provider takes a system message, a call, a result or an empty "
                "message inside the conversation; give user or assistant messages with content"
            )


class _Extras(NamedTuple):
    tail: Sequence[Message]
    tools: Sequence[Mapping[str, object]]
    squeezes: int
    """How often the shares of system and summary may be halved."""


def next_anchor(
    transcript: Transcript, budget: Budget, *, anchor: Anchor, strategy: Strategy
) -> Anchor:
    """The anchor of the context `assemble` would build, found without looking at the messages it would show."""
    window, _ = _decide(transcript, budget, anchor, strategy, _Extras((), (), squeezes=0))
    head = window.view.head(window.start) if window.start < transcript.spans else None
    return _anchor_of(window, head, anchor)


def _decide(
    transcript: Transcript, budget: Budget, before: Anchor, strategy: Strategy, extras: _Extras
) -> tuple[_Window, Fixed]:
    """The window and what stands around it. The strategy is asked once: it may have called a model to answer."""

    def fixed_with(summary: str, squeeze: int) -> Fixed:
        tail, tools, _ = extras
        return price(transcript, budget, summary=summary, tail=tail, tools=tools, squeeze=squeeze)

    view = anchored_view(transcript, before)
    summary = before.summary
    choice: Choice | None = None
    squeeze, refusal = 0, None
    while True:
        try:
            fixed = fixed_with(summary, squeeze)
            room = fixed.room(budget)
            if choice is None:
                choice = strategy(view, room)
                if choice.summary != summary:
                    summary = choice.summary
                    fixed = fixed_with(summary, squeeze)
                    room = fixed.room(budget)
            return _enforce(view, choice, room, fixed, budget), fixed
        except BudgetTooSmall as error:
            squeeze, refusal = squeeze + 1, refusal or error
            if squeeze > extras.squeezes:
                raise refusal from None  # what was needed before anything was halved


def anchored_view(transcript: Transcript, anchor: Anchor) -> SpanView:
    """The transcript as seen from an anchor."""
    return SpanView(
        transcript,
        transcript.span_at(anchor.position),
        caps=dict(anchor.caps),
        summary=anchor.summary,
        covered=transcript.span_at(anchor.covered),
    )


def fits(transcript: Transcript, budget: Budget, anchor: Anchor) -> bool:
    """Whether everything from the anchor on is within the budget as it is; does not build anything."""
    try:
        fixed = price(transcript, budget, summary=anchor.summary)
    except BudgetTooSmall:
        return False
    view = anchored_view(transcript, anchor)
    return view.start > view.last or view.fits(view.start, fixed.room(budget))


def _enforce(view: SpanView, choice: Choice, room: Room, fixed: Fixed, budget: Budget) -> _Window:
    """The strategy's choice, moved on until it fits, shortened if nothing else is left."""
    start = max(min(choice.start, view.last), 0)
    view = SpanView(
        view.transcript,
        start,
        caps=choice.caps,
        summary=choice.summary,
        covered=max(min(choice.covered, view.transcript.spans), 0),
    )
    if start > view.last or view.fits(start, room):
        return _Window(view, start, choice.reason)
    reason = choice.reason or "over budget"
    start = view.first_within(start, tokens=room.tokens, messages=room.messages, size=room.bytes)
    if not view.fits(start, room):
        view = _shorten(view, start, room, fixed, budget)
    return _Window(view, start, reason)


def _shorten(view: SpanView, start: int, room: Room, fixed: Fixed, budget: Budget) -> SpanView:
    """The view with the newest span, and the question it belongs to, shortened to fit."""
    pieces = list(view.pieces(start))
    if room.messages and len(pieces) > room.messages:
        parts = {**fixed.counts(), "newest turn": len(pieces)}
        raise BudgetTooSmall(
            needed=sum(parts.values()),
            allowed=budget.max_messages,
            parts=parts,
            unit="messages",
            remedy=f"The newest call and its results cannot be split: raise max_messages ({budget.max_messages})",
        )
    costs = {
        piece: shrinkable_costs(piece.message, view.transcript.counter_of(piece))
        for piece in pieces
        if piece.position >= 0
    }
    framing = sum(piece.tokens for piece in pieces) - sum(map(sum, costs.values()))
    shorter = view
    for cap in _caps([cost for each in costs.values() for cost in each], framing, room):
        longer = (piece for piece, each in costs.items() if max(each, default=0) > cap)
        caps = {**view.caps, **{piece.position: cap for piece in longer}}
        shorter = SpanView(
            view.transcript, start, caps=caps, summary=view.summary, covered=view.covered
        )
        if shorter.fits(start, room):
            return shorter
    raise _too_small(shorter, start, room, fixed, budget)


def _caps(costs: list[int], framing: int, room: Room) -> Iterator[int]:
    """Caps to try: for the low mark or half the room, for the whole room, then ever less.

    Less is needed for a byte limit, and for a counter whose counts of a message and of its parts disagree.
    """
    # A long system prompt may take all of the low mark; the newest turn may fill half the room all the same, and all
    # of it where many parts share it and half would leave nothing readable of each.
    low = max(room.low, room.tokens // 2)
    cap = max(common_cap(costs, low - framing), SMALLEST_CAP)
    whole = max(common_cap(costs, room.tokens - framing), SMALLEST_CAP)
    yield from (cap, whole) if cap >= READABLE else (whole, cap)
    while cap > SMALLEST_CAP:
        cap = max(cap * 3 // 4, SMALLEST_CAP)
        yield cap


def _too_small(
    shortest: SpanView, start: int, room: Room, fixed: Fixed, budget: Budget
) -> BudgetTooSmall:
    newest = f"newest turn, no part above {SMALLEST_CAP} tokens"
    if (tokens := shortest.tokens(start)) > room.tokens:
        parts, unit, allowed = {**fixed.costs(), newest: tokens}, "tokens", budget.tokens
        remedy = f"raise the budget ({budget.arithmetic()})"
    else:
        parts, unit, allowed = (
            {**fixed.sizes(), newest: shortest.bytes(start)},
            "bytes",
            budget.max_bytes,
        )
        remedy = f"raise max_bytes ({budget.max_bytes:,})"
    return BudgetTooSmall(
        needed=sum(parts.values()),
        allowed=allowed,
        parts=parts,
        unit=unit,
        remedy=f"The newest turn cannot be left out or shortened further: {remedy}",
    )


def _materialise(window: _Window, fixed: Fixed, budget: Budget, before: Anchor) -> Context:
    view, start, _ = window
    transcript = view.transcript
    turn = max(transcript.turn_of(view.last), start) if transcript.spans else 0
    head = view.head(start) if start < transcript.spans else None
    messages, costs, positions, edge = _shown(view, start, turn, head)
    anchor = _anchor_of(window, head, before)
    opening = (*fixed.system, *fixed.summary)
    ends = (
        len(fixed.system),
        len(opening),
        len(opening) + edge,
        len(opening) + edge + len(fixed.tail),
    )
    head_position = head.position if head is not None else -1
    return Context(
        messages=(
            *(piece.message for piece in opening),
            *messages[:edge],
            *(piece.message for piece in fixed.tail),
            *messages[edge:],
        ),
        costs=[
            *(piece.tokens for piece in opening),
            *costs[:edge],
            *(piece.tokens for piece in fixed.tail),
            *costs[edge:],
        ],
        positions=positions,
        ends=ends,
        head=head_position,
        tools=fixed.tools,
        budget=budget,
        counter=transcript.counter,
        anchor=anchor,
        fates=(
            *(Fate(-1, 0, Outcome.SHRUNK, note) for note in fixed.shortened),
            *list_fates(view, start=start, head=head_position, reason=anchor.reason),
        ),
        moved=anchor.position != before.position,
    )


def _anchor_of(window: _Window, head: Piece | None, before: Anchor) -> Anchor:
    """What to remember of a window; the very anchor it came from when nothing moved."""
    view, start, reason = window
    first = view.transcript.position_of(start)
    caps = _live_caps(view, first, head)
    covered = view.transcript.position_of(view.covered) if view.summary else 0
    anchor = Anchor(first, caps, view.summary, covered, before.reason)
    return before if anchor == before else replace(anchor, reason=reason or before.reason)


def _shown(
    view: SpanView, start: int, turn: int, head: Piece | None
) -> tuple[Sequence[Message], Sequence[int], Sequence[int], int]:
    """Messages, costs and positions of the window, and where in them the newest turn begins."""
    transcript = view.transcript
    first, ends = transcript.position_of(start), transcript.spans
    # What is shown exactly as logged is a slice, with no work per message; the rest is looked at piece by piece.
    plain = start if view.caps else transcript.regular_until(start)
    stop = transcript.position_of(plain)
    messages, costs = transcript.messages[first:stop], transcript.costs[first:stop]
    edge = transcript.position_of(min(plain, turn)) - first
    if head is None and plain == ends:
        return messages, costs, range(first, stop), edge
    older = list(view.between(plain, turn)) if plain < turn else []
    pieces = [*older, *view.between(max(plain, turn), ends)]
    messages += [piece.message for piece in pieces]
    costs.extend([piece.tokens for piece in pieces])
    positions = [*range(first, stop), *(piece.position for piece in pieces)]
    edge += len(older)
    if head is not None:
        messages.insert(0, head.message)
        costs.insert(0, head.tokens)
        positions.insert(0, head.position)
        edge += transcript.turn_of(turn) == turn
    return messages, costs, positions, edge


def _live_caps(view: SpanView, first: int, head: Piece | None) -> tuple[tuple[int, int], ...]:
    if not view.caps:
        return ()
    shown = {head.position} if head is not None else set[int]()
    return tuple(
        sorted(
            (position, cap)
            for position, cap in view.caps.items()
            if position >= first or position in shown
        )
    )

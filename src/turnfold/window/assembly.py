"""Builds one context within one budget: `assemble`.

In this order: the overhead (system messages, summary, tail of pins, rules and recalled passages, tools, reply) is
counted; the strategy chooses where the window begins; if the newest span (atomic group of messages) and the user
message of its turn do not fit, they are shortened; if they still do not fit, an error with the arithmetic is raised.
The result is within the budget, and has no tool call without its result and no result without its call, whatever the
strategy chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.records import Message
from turnfold.window.context import Anchor, Context, Omission, Outcome, list_omissions
from turnfold.window.counted_log import Piece, Transcript
from turnfold.window.shortened_messages import READABLE, SMALLEST_CAP, common_cap
from turnfold.window.shortened_prompt_sections import Overhead, price
from turnfold.window.strategies import Choice, Room, SpanView, Strategy, oldest_first

__all__ = (
    "SQUEEZES",
    "anchored_view",
    "assemble",
    "fits",
    "next_anchor",
)


SQUEEZES = 3
"""How often the shares of system and summary, and all shares of bytes, are halved to make room for the newest turn,
before `BudgetTooSmall` is raised."""


class _Window(NamedTuple):
    """The window that was chosen: its first span (group of messages), and why earlier ones are left out."""

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
    recall_room: int = 0,
    previous: Context | None = None,
) -> Context:
    """Build the best context that fits: never over budget, and never with a tool call or a result without the other.

    `anchor` is the previous call's `context.anchor`; without it the window starts at the beginning of the log.
    `strategy` chooses what leaves the window. `tail` goes just before the newest turn; it may take its share and
    `recall_room` tokens more. `tools` are the tool schemas, whose tokens are counted. `previous` is the previous call's
    context; it is used only to measure how much of its beginning this one repeats.
    """
    _check_tail(tail)
    before = anchor or Anchor()
    squeezes = SQUEEZES if transcript.system or before.summary or budget.max_bytes else 0
    extras = _Extras(tail, tools, squeezes, recall_room)
    context = _build(*_decide(transcript, budget, before, strategy, extras), budget, before)
    if previous is not None:
        context.follow(previous)
    return context


def _check_tail(tail: Sequence[Message]) -> None:
    for index, message in enumerate(tail):
        if message.role not in ("user", "assistant") or message.calls or not message.parts:
            raise InvalidOption(
                f"tail[{index}] is {message!r}, but providers refuse a system message, a call, a result or an empty "
                "message inside the conversation: give user or assistant messages with content"
            )


class _Extras(NamedTuple):
    """The parts of a prompt that the caller passes and that are not in the log.

    They are the tail (messages before the newest turn: pins, rules, recalled passages) and the tool schemas.
    """

    tail: Sequence[Message]
    tools: Sequence[Mapping[str, object]]
    squeezes: int
    """How often the shares of system and summary may be halved; see `SQUEEZES`."""
    recall_room: int = 0
    """Tokens that the tail (pins, rules, recalled passages) may take beyond its share of the budget."""


def next_anchor(
    transcript: Transcript, budget: Budget, *, anchor: Anchor, strategy: Strategy
) -> Anchor:
    """Return the anchor (where the window begins) that `assemble` would choose, without building the context."""
    window, _ = _decide(transcript, budget, anchor, strategy, _Extras((), (), squeezes=0))
    head = window.view.head(window.start) if window.start < transcript.spans else None
    return _anchor_of(window, head, anchor)


def _decide(
    transcript: Transcript, budget: Budget, before: Anchor, strategy: Strategy, extras: _Extras
) -> tuple[_Window, Overhead]:
    """Choose the window and count the overhead (system, summary, pins and recalled text, tools).

    Calls the strategy once.
    """

    def overhead_with(summary: str, squeeze: int) -> Overhead:
        return price(
            transcript,
            budget,
            summary=summary,
            tail=extras.tail,
            tools=extras.tools,
            recall_room=extras.recall_room,
            squeeze=squeeze,
        )

    view = anchored_view(transcript, before)
    summary = before.summary
    choice: Choice | None = None
    squeeze, first_error = 0, None
    while True:
        try:
            overhead = overhead_with(summary, squeeze)
            if choice is None:
                choice = strategy(view, overhead.room(budget))
                if choice.summary != summary:
                    summary = choice.summary
                    overhead = overhead_with(summary, squeeze)
            return _enforce(view, choice, overhead, budget), overhead
        except BudgetTooSmall as error:
            squeeze, first_error = squeeze + 1, first_error or error
            if squeeze > extras.squeezes:
                raise first_error from None  # it shows the sizes before any share was halved


def anchored_view(transcript: Transcript, anchor: Anchor) -> SpanView:
    """Return the transcript from `anchor` (where the window begins) on, in the form that a window strategy takes."""
    return SpanView(
        transcript,
        transcript.span_at(anchor.position),
        caps=dict(anchor.caps),
        summary=anchor.summary,
        covered=transcript.span_at(anchor.covered),
    )


def fits(transcript: Transcript, budget: Budget, anchor: Anchor) -> bool:
    """Return True if all messages from the anchor (start of the window) on fit the budget unshortened."""
    try:
        overhead = price(transcript, budget, summary=anchor.summary)
    except BudgetTooSmall:
        return False
    view = anchored_view(transcript, anchor)
    return view.start > view.last or view.fits(view.start, overhead.room(budget))


def _enforce(view: SpanView, choice: Choice, overhead: Overhead, budget: Budget) -> _Window:
    """Return the strategy's window; if it is too large, begin it later, then shorten its newest messages."""
    room = overhead.room(budget)
    start = max(min(choice.start, view.last), 0)
    covered = max(min(choice.covered, view.transcript.spans), 0)
    view = view.applying(replace(choice, start=start, covered=covered))
    if start > view.last or view.fits(start, room):
        return _Window(view, start, choice.reason)
    reason = choice.reason or "over budget"
    start = view.first_within(start, tokens=room.tokens, messages=room.messages, size=room.bytes)
    if not view.fits(start, room):
        view = _shorten(view, start, overhead, budget)
    return _Window(view, start, reason)


def _shorten(view: SpanView, start: int, overhead: Overhead, budget: Budget) -> SpanView:
    """Shorten the newest messages, which must be sent, until they fit the budget.

    Raises `BudgetTooSmall` if they cannot be made to fit.
    """
    room = overhead.room(budget)
    pieces = list(view.pieces(start))
    if room.messages and len(pieces) > room.messages:
        parts = {**overhead.counts(), "newest turn": len(pieces)}
        raise BudgetTooSmall(
            needed=sum(parts.values()),
            allowed=budget.max_messages,
            parts=parts,
            unit="messages",
            remedy=f"The newest call and its results cannot be split: raise max_messages ({budget.max_messages})",
        )
    costs, framing = view.part_costs(pieces)
    shorter = view
    for cap in _caps([cost for each in costs.values() for cost in each], framing, room):
        longer = (piece for piece, each in costs.items() if max(each, default=0) > cap)
        caps = {**view.caps, **{piece.position: cap for piece in longer}}
        shorter = view.applying(replace(view.choice(), start=start, caps=caps))
        if shorter.fits(start, room):
            return shorter
    raise _too_small(shorter, start, overhead, budget)


def _caps(costs: list[int], framing: int, room: Room) -> Iterator[int]:
    """Yield the caps (most tokens of a part) to try: to fill most of the room, to fill all of it, then smaller ones.

    Smaller caps are needed under a byte limit, or if a message costs more than its parts counted one by one. If there
    are very many parts, all of the room is filled first, because less would leave nothing readable of each.
    """
    cap = max(common_cap(costs, room.for_shortened - framing), SMALLEST_CAP)
    whole = max(common_cap(costs, room.tokens - framing), SMALLEST_CAP)
    yield from (cap, whole) if cap >= READABLE else (whole, cap)
    while cap > SMALLEST_CAP:
        cap = max(cap * 3 // 4, SMALLEST_CAP)
        yield cap


def _too_small(
    shortest: SpanView, start: int, overhead: Overhead, budget: Budget
) -> BudgetTooSmall:
    """Return the error for a newest turn that does not fit although it was shortened as far as possible."""
    newest = f"newest turn, no part above {SMALLEST_CAP} tokens"
    if (tokens := shortest.tokens(start)) > overhead.room(budget).tokens:
        parts, unit, allowed = {**overhead.costs(), newest: tokens}, "tokens", budget.tokens
        remedy = f"raise the budget ({budget.arithmetic()})"
    else:
        size = shortest.bytes(start)
        parts, unit, allowed = {**overhead.sizes(), newest: size}, "bytes", budget.max_bytes
        remedy = f"raise max_bytes ({budget.max_bytes:,})"
    return BudgetTooSmall(
        needed=sum(parts.values()),
        allowed=allowed,
        parts=parts,
        unit=unit,
        remedy=f"The newest turn cannot be left out or shortened further: {remedy}",
    )


def _build(window: _Window, overhead: Overhead, budget: Budget, before: Anchor) -> Context:
    """Return the context: system messages, summary, window, tail (pins, rules, recalled passages), newest turn.

    The window has the messages before the newest turn that are sent as logged or shortened.
    """
    view, start, _ = window
    transcript = view.transcript
    turn = max(transcript.turn_of(view.last), start) if transcript.spans else 0
    head = view.head(start) if start < transcript.spans else None
    messages, costs, positions, edge = _shown(view, start, turn, head)
    anchor = _anchor_of(window, head, before)
    opening = (*overhead.system, *overhead.summary)
    tail = overhead.tail
    window_end = len(opening) + edge
    head_position = head.position if head is not None else -1
    return Context(
        messages=(
            *(piece.message for piece in opening),
            *messages[:edge],
            *(piece.message for piece in tail),
            *messages[edge:],
        ),
        costs=[
            *(piece.tokens for piece in opening),
            *costs[:edge],
            *(piece.tokens for piece in tail),
            *costs[edge:],
        ],
        positions=positions,
        ends=(len(overhead.system), len(opening), window_end, window_end + len(tail)),
        head=head_position,
        tools=overhead.tools,
        budget=budget,
        counter=transcript.counter,
        anchor=anchor,
        fates=(
            *(Omission(-1, 0, Outcome.SHRUNK, note) for note in overhead.shortened),
            *list_omissions(view, start=start, head=head_position, reason=anchor.reason),
        ),
        moved=anchor.position != before.position,
    )


def _anchor_of(window: _Window, head: Piece | None, before: Anchor) -> Anchor:
    """Return the anchor (stored beginning) of a window; if it equals the previous anchor `before`, that object."""
    view, start, reason = window
    first = view.transcript.position_of(start)
    caps = _live_caps(view, first, head)
    covered = view.transcript.position_of(view.covered) if view.summary else 0
    anchor = Anchor(first, caps, view.summary, covered, before.reason)
    return before if anchor == before else replace(anchor, reason=reason or before.reason)


def _shown(
    view: SpanView, start: int, turn: int, head: Piece | None
) -> tuple[Sequence[Message], Sequence[int], Sequence[int], int]:
    """Return messages, tokens and log positions of the window, and the index where the newest turn begins."""
    transcript = view.transcript
    first, ends = transcript.position_of(start), transcript.spans
    # Messages shown exactly as logged are one slice, without work per message; only the rest go piece by piece.
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
    """Return the caps (most tokens of a part) of the messages from `first` on, and of the message `head`."""
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

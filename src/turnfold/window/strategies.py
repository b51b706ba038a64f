"""Window strategies: plain functions that choose which spans (atomic groups of messages) a call sends.

A strategy gets a `SpanView` (the spans from a first message of the window on, with the cost of each possible cut) and
a `Room` (limits). It returns a `Choice`: the first span to send, what to shorten, and the summary of the rest. It
changes nothing. The choice is stored and is where the next call starts from. If the chosen window does not fit,
`assemble` moves its start forward, so the context is always within budget and no span is split.

Nothing is cut while everything fits. When it no longer does, the window is cut in one step to a share of the budget,
the low mark, and to the start of the next turn if enough remains. So the beginning of the prompt stays the same for
many calls.

A window that begins inside a turn also shows the user message that opened the turn: without it the model would answer a
question it cannot see, and some providers refuse a conversation that begins with the assistant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias

from turnfold.errors import InvalidOption
from turnfold.records import Message
from turnfold.window.counted_log import Piece, Transcript
from turnfold.window.shortened_messages import READABLE, SMALLEST_CAP, common_cap, shrinkable_costs

__all__ = (
    "Choice",
    "Room",
    "SpanView",
    "Strategy",
    "Summarizer",
    "compose",
    "cut_to_low",
    "message_bytes",
    "oldest_first",
    "shrink_results",
    "sliding_window",
    "summarise",
)


class Room(NamedTuple):
    """Limits for the conversation: what system, summary, tail and tools leave of the budget.

    0 messages or bytes means no such limit. The tail is the text before the newest turn: pins, rules, passages.
    """

    tokens: int
    low: int
    """Most tokens that remain after a cut (the low mark)."""
    summary: int = 0
    """Tokens the text of a summary may have."""
    aside: int = 0
    """Tokens by which a new summary may exceed the present one; `tokens` and `low` include them."""
    messages: int = 0
    low_messages: int = 0
    """Most messages that remain after a cut."""
    bytes: int = 0
    low_bytes: int = 0
    """Most bytes that remain after a cut."""
    snap: float = 0.5
    """Share of the low mark that must remain, so that a cut moves forward to the next turn."""

    @property
    def for_shortened(self) -> int:
        """Most tokens that messages may have together if the newest one must be shortened.

        The rest of the room is kept for the next steps of the turn.
        """
        # After a long system prompt the low mark may be tiny. What is shortened gives way when more is said.
        return max(self.low, self.tokens * 3 // 4)


class _Use(NamedTuple):
    """Tokens, number and bytes of some messages, to compare with limits."""

    tokens: int
    messages: int
    size: int

    @classmethod
    def of(cls, piece: Piece, *, sized: bool) -> _Use:
        return cls(piece.tokens, 1, message_bytes(piece.message) if sized else 0)

    def plus(self, other: _Use) -> _Use:
        return _Use(
            self.tokens + other.tokens, self.messages + other.messages, self.size + other.size
        )

    def within(self, limit: _Use) -> bool:
        return all(mine <= allowed for mine, allowed in zip(self, limit, strict=True))


class SpanView:
    """The part of a log that a strategy gets: the spans (messages that stay together) from `start` on, with tokens."""

    __slots__ = ("_savings", "caps", "covered", "saved", "start", "summary", "transcript")

    def __init__(
        self,
        transcript: Transcript,
        start: int,
        *,
        caps: Mapping[int, int],
        summary: str = "",
        covered: int = 0,
    ) -> None:
        self.transcript = transcript
        self.start = start
        """The first span (message group) of the present window."""
        self.caps = dict(caps)
        """Log position of a message -> most tokens that a single part of the message may keep."""
        self.summary = summary
        """Summary of the spans (message groups) before `covered`; empty if there is none."""
        self.covered = covered
        """The first span (message group) the summary does not cover."""
        self._savings = {
            position: self._saving(position, cap) for position, cap in self.caps.items()
        }
        self.saved = sum(self._savings.values())
        """Tokens that all caps (limits of a message's parts) save together."""

    def choice(self) -> Choice:
        """Return the choice that sends exactly the messages of this view."""
        return Choice(self.start, "", self.caps, self.summary, self.covered)

    def applying(self, choice: Choice) -> SpanView:
        """Return this view with a strategy's choice applied: its start, shortened messages and summary."""
        return SpanView(
            self.transcript,
            choice.start,
            caps=choice.caps,
            summary=choice.summary,
            covered=choice.covered,
        )

    @property
    def last(self) -> int:
        """Index of the newest span (group of messages), which is never left out."""
        return self.transcript.spans - 1

    def head(self, start: int) -> Piece | None:
        """Return the user message that opened the turn of span (message group) `start`; None if the span begins it."""
        turn = self.transcript.turn_of(start)
        if turn < 0 or turn == start:
            return None
        piece = next(self.transcript.pieces(turn), None)
        return None if piece is None else self.capped(piece)

    def capped(self, piece: Piece) -> Piece:
        """Return a message as the window shows it: shortened if it has a cap (most tokens of a part)."""
        cap = self.caps.get(piece.position) if self.caps else None
        return piece if cap is None else self.transcript.shrunk(piece, cap)

    def shortens(self, position: int) -> bool:
        """Return True if the message at a log position is shortened: a part of it is longer than its cap allows."""
        piece = self._logged(position)
        return self.capped(piece).message is not piece.message

    def tokens(self, start: int) -> int:
        """Return the tokens of a window that begins with span (message group) `start`."""
        if self._savings and not self.transcript.regular_from(start):
            return sum(piece.tokens for piece in self.pieces(start))
        total = self.transcript.tokens_from(start)
        head = self.head(start)
        if head is not None:
            total += head.tokens
        if self._savings:
            first = self.transcript.position_of(start)
            total -= sum(saved for position, saved in self._savings.items() if position >= first)
        return total

    def messages(self, start: int) -> int:
        """Return the number of messages in a window that begins with span (message group) `start`."""
        return self.transcript.messages_from(start) + (self.head(start) is not None)

    def bytes(self, start: int) -> int:
        """Return the UTF-8 bytes, as JSON, of the messages of a window that begins with span `start`."""
        return sum(message_bytes(piece.message) for piece in self.pieces(start))

    def fits(self, start: int, room: Room) -> bool:
        """Return True if a window that begins with span `start` is within every limit of `room`."""
        return self.within(start, tokens=room.tokens, messages=room.messages, size=room.bytes)

    def within(self, start: int, *, tokens: int, messages: int, size: int) -> bool:
        """Return True if a window that begins with span `start` keeps these limits; a limit of 0 means no limit."""
        if self.tokens(start) > tokens:
            return False
        if messages and self.messages(start) > messages:
            return False
        return not size or self.bytes(start) <= size

    def first_within(self, start: int, *, tokens: int, messages: int, size: int) -> int:
        """Return the earliest span (message group) from `start` on whose window is within these limits.

        Returns the newest one if no window is.
        """
        if not size and not self._savings:
            while start < self.last and not self.within(
                start, tokens=tokens, messages=messages, size=size
            ):
                start += 1
            return start
        # Calling `within` for each span would measure every message again and again: add up from the newest span.
        found = self.last
        used = _Use(0, 0, 0)
        limit = _Use(tokens, messages or sys.maxsize, size or sys.maxsize)
        heads: dict[int, _Use] = {}
        for span in range(self.last, start - 1, -1):
            for piece in self.between(span, span + 1):
                used = used.plus(_Use.of(piece, sized=bool(size)))
            if not used.within(limit):
                break
            head = self.head(span)
            if head is not None and head.position not in heads:
                heads[head.position] = _Use.of(head, sized=bool(size))
            if head is None or used.plus(heads[head.position]).within(limit):
                found = span
        return found

    def pieces(self, start: int) -> Iterator[Piece]:
        """Yield all messages of a window that begins with span `start`, in order."""
        head = self.head(start)
        if head is not None:
            yield head
        yield from self.between(start, self.transcript.spans)

    def between(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the messages of the spans (message groups) from `start` to before `stop`, as the window shows them."""
        for span in range(start, stop):
            for piece in self.transcript.pieces(span):
                yield self.capped(piece)

    def part_costs(self, pieces: Sequence[Piece]) -> tuple[dict[Piece, list[int]], int]:
        """Return the tokens of the shortenable parts of each message, and the tokens of everything else."""
        counter_of = self.transcript.counter_of
        costs = {
            piece: shrinkable_costs(piece.message, counter_of(piece))
            for piece in pieces
            if piece.position >= 0
        }
        return costs, sum(piece.tokens for piece in pieces) - sum(map(sum, costs.values()))

    def _saving(self, position: int, cap: int) -> int:
        piece = self._logged(position)
        return piece.tokens - self.transcript.shrunk(piece, cap).tokens

    def _logged(self, position: int) -> Piece:
        transcript = self.transcript
        return Piece(transcript.messages[position], transcript.costs[position], position)


def message_bytes(message: Message) -> int:
    """Return the UTF-8 bytes of a message as a JSON list item, without the caller's labels, which are not sent."""
    if message.labels:
        message = Message.of(message.role, message.parts, name=message.name, extra=message.extra)
    text = json.dumps(message.model_dump(), ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8")) + 1


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of a window strategy: where the window begins, what is shortened, and a summary of older messages."""

    start: int
    """Index of the first span (group of messages) that is sent."""
    reason: str = ""
    """Why everything before `start` is left out."""
    caps: Mapping[int, int] = field(default_factory=dict[int, int])
    """Log position of a message -> most tokens that a single part of the message may keep."""
    summary: str = ""
    """Summary of the spans (message groups) before `covered`; empty if there is none."""
    covered: int = 0
    """The first span (message group) the summary does not cover."""


Strategy: TypeAlias = Callable[[SpanView, Room], Choice]
"""Function that chooses which spans (groups of messages) a call sends, given the view of the log and the limits."""


class Summarizer(Protocol):
    """A function that summarises messages, for the strategy `summarise`."""

    def __call__(self, messages: Sequence[Message], *, previous: str, limit: int) -> str:
        """Return a summary of `previous` followed by `messages`, in at most `limit` tokens."""
        ...


def oldest_first(view: SpanView, room: Room) -> Choice:
    """Strategy: if not all messages fit, leave out the oldest until only the budget's share `low` is used."""
    if view.start > view.last or view.fits(view.start, room):
        return view.choice()
    shorter = _with_smaller_caps(view, room)
    if shorter.fits(view.start, room):
        return shorter.choice()
    reason = f"over budget: cut to the low mark of {room.low:,} tokens"
    start = cut_to_low(view, room)
    if start == view.last > view.start and not view.fits(start, room):
        view, start = _shrink_huge_newest(view, room)
    return replace(view.choice(), start=start, reason=reason)


def _shrink_huge_newest(view: SpanView, room: Room) -> tuple[SpanView, int]:
    """Shorten the newest messages if they are too large for the budget, so that earlier ones are shown too.

    The earlier spans (message groups) get up to a third of the tokens that are used, and their huge parts the same cap.
    If none of them fits, the view is returned unchanged, and `assemble` shortens the newest span to fill all the room.
    """
    costs, framing = view.part_costs(list(view.pieces(view.last)))
    used = room.for_shortened
    earlier = view.tokens(view.start) - view.tokens(view.last)
    target = used - min(earlier, used // 3) - framing
    cap = common_cap([cost for each in costs.values() for cost in each], target)
    if cap < READABLE:
        return view, view.last
    costs, _ = view.part_costs([piece for piece in view.pieces(view.start) if piece.tokens > cap])
    longer = (piece for piece, each in costs.items() if max(each, default=0) > cap)
    caps = {**view.caps, **{piece.position: cap for piece in longer}}
    shortened = view.applying(replace(view.choice(), caps=caps))
    start = shortened.first_within(
        view.start, tokens=used, messages=room.low_messages, size=room.low_bytes
    )
    return (shortened, start) if start < view.last else (view, view.last)


def _with_smaller_caps(view: SpanView, room: Room) -> SpanView:
    """Return the view with shortened messages cut further, so that others fit too.

    They are cut to half of the tokens that are kept after a cut.
    """
    least = max(room.low // 2, READABLE)
    caps = {position: min(cap, least) for position, cap in view.caps.items()}
    return view.applying(replace(view.choice(), caps=caps)) if caps != view.caps else view


def sliding_window(*, messages: int = 0, turns: int = 0) -> Strategy:
    """Return a strategy that sends the newest `messages` messages or `turns` turns, and never more than fits.

    The window moves with every message, so the provider's prompt cache is rarely hit: prefer `oldest_first` if cost
    matters.
    """
    if (messages > 0) == (turns > 0) or messages < 0 or turns < 0:
        raise InvalidOption(
            f"sliding_window(messages={messages}, turns={turns}): give one of the two, as a positive number"
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
        slid = replace(view.choice(), start=start, reason=f"outside the newest {kept}")
        return oldest_first(view.applying(slid), room) if not view.fits(start, room) else slid

    return slide


def summarise(summarizer: Summarizer) -> Strategy:
    """Return a strategy that cuts like `oldest_first`, and replaces the messages that were cut by a summary.

    Each message is given to the summariser once, whole, together with the summary so far. If the budget's summary
    share is too small for a readable text, or the summariser returns none, the messages that were cut are left out and
    the summary so far stays.
    """

    def fold(view: SpanView, room: Room) -> Choice:
        if view.start > view.last or view.fits(view.start, room):
            return view.choice()
        if room.summary < SMALLEST_CAP:
            return oldest_first(view, room)
        start = cut_to_low(view, room, aside=room.aside)
        if start == view.start:
            return view.choice()
        spans = range(view.covered, start)
        folded = [piece.message for span in spans for piece in view.transcript.pieces(span)]
        text = summarizer(folded, previous=view.summary, limit=room.summary)
        if not text.strip():
            reason = "over budget: the summariser returned no summary"
            return replace(view.choice(), start=start, reason=reason)
        return Choice(start, "over budget: folded into the summary", view.caps, text, start)

    return fold


def shrink_results(*, cap: int) -> Strategy:
    """Return a strategy that, over budget, shortens tool results of earlier turns to `cap` tokens each.

    All are shortened at once, because each change inside the prompt invalidates the provider's cache from there on.
    """
    if cap < SMALLEST_CAP:
        raise InvalidOption(f"cap={cap} leaves nothing readable; use at least {SMALLEST_CAP}")

    def shrink(view: SpanView, room: Room) -> Choice:
        if view.start > view.last or view.fits(view.start, room):
            return view.choice()
        newest = max(view.transcript.turn_of(view.last), view.start)
        caps = dict(view.caps)
        for piece in view.between(view.start, newest):
            if piece.message.role != "tool" or piece.tokens <= cap:
                continue
            if view.transcript.shrunk(piece, cap).tokens < piece.tokens:
                caps[piece.position] = min(cap, caps.get(piece.position, cap))
        return replace(view.choice(), caps=caps)

    return shrink


def compose(*strategies: Strategy) -> Strategy:
    """Return a strategy that applies these strategies one after the other, each to the result of the one before."""
    if not strategies:
        raise InvalidOption("compose() needs at least one strategy")

    def composed(view: SpanView, room: Room) -> Choice:
        choice = view.choice()
        for strategy in strategies:
            reason = choice.reason
            choice = strategy(view.applying(choice), room)
            if not choice.reason:
                choice = replace(choice, reason=reason)
        return choice

    return composed


def cut_to_low(view: SpanView, room: Room, *, aside: int = 0) -> int:
    """Return the first span (message group) that is kept when the window is cut to the budget's share `low`.

    It begins a turn if enough remains. The current turn is kept whole as long as it fits, because an agent in the
    middle of a task needs its own steps most. `aside` tokens are kept free for a longer summary.
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

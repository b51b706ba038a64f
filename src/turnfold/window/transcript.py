"""A log with its costs, grouped into spans, ready to be cut anywhere in constant time.

Each message is counted once, when it is added. Running sums over spans answer "what would everything from here
on cost?" without looking at the messages, so building a window costs what the window holds and not what the log
holds.

The view of a span may differ from the log: a late result is shown with its call, an orphan or duplicate is not
shown, an unanswered call gets a placeholder result. All of that is decided here, as messages arrive, and is
part of the sums; the logged messages are never changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import NamedTuple, cast

from turnfold.records import Grouper, Message, Misplaced, Part, Placement, TextPart, ToolResult
from turnfold.tokens import TokenCounter
from turnfold.window.shrink import shrink_message

__all__ = ("NO_RESULT", "Piece", "Transcript")

_OVERHEAD = 800
"""Bytes a message takes beside its texts: the objects it is made of, its sums, what it is recognised by."""
NO_RESULT = "[no result was recorded for this call]"
"""What an unanswered call is answered with in the view, so that the provider accepts it."""


class Piece(NamedTuple):
    """One message as the view shows it."""

    message: Message
    tokens: int
    position: int
    """Where it stands in the log; -1 for a placeholder, which stands in none."""


class Transcript:
    """The messages of a conversation with their costs. Grows at its end; nothing in it is ever changed."""

    __slots__ = (
        "_counters",
        "_counts",
        "_homes",
        "_placeholders",
        "_shown",
        "_shrunk",
        "_sums",
        "_weighed",
        "costs",
        "counter",
        "grouper",
        "irregular_from",
        "memo",
        "messages",
        "misplaced",
        "numbers",
        "partly_here",
        "priced",
        "system",
        "system_apart",
    )  # fmt: skip

    def __init__(
        self, counter: TokenCounter, messages: Iterable[Message] = (), *, system_apart: bool = True
    ) -> None:
        self.counter = counter
        self.messages: list[Message] = []
        """Everything but system messages, in log order; a message's index is its position."""
        self.costs = array("q")
        """Tokens of each message."""
        self.numbers = array("q")
        """What each message is called outside, where that is not its position: its seq in a store."""
        self.system: list[Message] = []
        """System messages, which belong to no turn and are always sent first."""
        self.system_apart = system_apart
        """Whether they are kept apart; otherwise a system message is a span like any other."""
        self.grouper = Grouper()
        self.misplaced: dict[int, Misplaced] = {}
        """Positions that are not shown, or not all of them where they were logged, and why; ascending."""
        self.partly_here: set[int] = set()
        """Those of them of which a part is shown where it was logged."""
        self.irregular_from = -1
        """The newest span shown otherwise than logged; -1 when there is none."""
        self.memo: dict[object, object] = {}
        """Prices of the fixed parts of a context, kept by `fixed.price`."""
        self.priced: tuple[object, object, object] | None = None
        """All of them as they were asked for last: the budget, what was given, the answer."""
        self._sums = array("q", [0])
        self._counts = array("q", [0])
        self._shown: dict[int, list[Piece]] = {}
        self._homes: dict[int, tuple[int, ...]] = {}
        self._placeholders: dict[str, int] = {}
        self._shrunk: dict[tuple[Message, int, int], Piece] = {}
        self._weighed = (0, 0)
        self._counters: dict[tuple[Message, int], TokenCounter] = {}
        for message in messages:
            self.add(message)

    def add(
        self, message: Message, tokens: int | None = None, *, number: int | None = None
    ) -> None:
        """Append a message; `tokens` is its cost where it is known already, `number` its name outside."""
        if message.role == "system" and self.system_apart:
            self.system.append(message)
            return
        cost = self.counter.count_message(message) if tokens is None else tokens
        position = len(self.messages)
        placement = self.grouper.add(message, position)
        self.messages.append(message)
        self.costs.append(cost)
        if number is not None:
            self.numbers.append(number)
        if placement.opens:
            self._sums.append(self._sums[-1])
            self._counts.append(self._counts[-1])
        if not message.parts:
            self.misplaced[position] = Misplaced.EMPTY
            self._edit(placement.span)
        elif placement.regular and placement.span not in self._shown:
            self._charge(placement.span, Piece(message, cost, position))
        else:
            self._add_irregular(Piece(message, cost, position), placement)

    @property
    def held_bytes(self) -> int:
        """Bytes of memory its messages take, about; each message is looked at once."""
        known, total = self._weighed
        for message in self.messages[known:]:
            known += 1
            total += _OVERHEAD
            for part in message.parts:
                total += getsizeof(part.text) if type(part) is TextPart else _weight(part)
        self._weighed = (known, total)
        return total

    @property
    def spans(self) -> int:
        """How many spans there are."""
        return len(self._sums) - 1

    def tokens_from(self, span: int) -> int:
        """Tokens of everything shown from a span on."""
        return self._sums[-1] - self._sums[span]

    def messages_from(self, span: int) -> int:
        """How many messages are shown from a span on."""
        return self._counts[-1] - self._counts[span]

    def first_span_within(self, tokens: int) -> int:
        """The earliest span from which everything costs at most `tokens`; `spans` when none does."""
        return bisect_left(self._sums, self._sums[-1] - tokens)

    def first_span_with(self, messages: int) -> int:
        """The earliest span from which at most `messages` messages are shown; `spans` when there is none."""
        return bisect_left(self._counts, self._counts[-1] - messages)

    def span_at(self, position: int) -> int:
        """The first span that starts at or after a log position."""
        return bisect_left(self.grouper.firsts, position)

    def position_of(self, span: int) -> int:
        """Log position where a span starts; the end of the log for the span after the last."""
        return self.grouper.firsts[span] if span < len(self._sums) - 1 else len(self.messages)

    def home_of(self, position: int) -> int:
        """Log position of the newest span that a misplaced message is shown with, or its own."""
        homes = self.homes_of(position)
        return self.position_of(max(homes)) if homes else position

    def homes_of(self, position: int) -> tuple[int, ...]:
        """The earlier spans that results of a message are shown with, because their calls are there."""
        return self._homes.get(position, ())

    def turn_of(self, span: int) -> int:
        """The span that opens the turn a span belongs to; -1 before the first user message."""
        turns = self.grouper.turns
        index = bisect_right(turns, span) - 1
        return turns[index] if index >= 0 else -1

    def turn_from(self, span: int) -> int:
        """The first span at or after `span` that opens a turn; `spans` when there is none."""
        turns = self.grouper.turns
        index = bisect_left(turns, span)
        return turns[index] if index < len(turns) else self.spans

    def regular_from(self, span: int) -> bool:
        """Whether everything from a span on is shown exactly as logged."""
        newest_unanswered = next(reversed(self.grouper.unanswered), -1)
        return max(self.irregular_from, newest_unanswered) < span

    def regular_until(self, span: int) -> int:
        """The span up to which everything from `span` on is surely shown exactly as logged; `spans` when all is."""
        if self.irregular_from >= span:
            return span
        first = self.spans
        for unanswered in reversed(self.grouper.unanswered):
            if unanswered < span:
                break
            first = unanswered
        return first

    def pieces(self, span: int) -> Iterator[Piece]:
        """What the view shows of a span, in order."""
        shown = self._shown.get(span)
        if shown is not None:
            yield from shown
        else:
            for position in range(self.position_of(span), self.position_of(span + 1)):
                yield Piece(self.messages[position], self.costs[position], position)
        for call in self.grouper.unanswered.get(span, ()):
            yield Piece(_answer(call.id), self._placeholder_cost(call.id), -1)

    def shrunk(self, piece: Piece, cap: int) -> Piece:
        """The piece with no part above `cap` tokens; remembered, because it is asked for on every call."""
        if piece.position < 0:
            return piece
        key = (piece.message, piece.position, cap)  # one position may be shown as several pieces
        known = self._shrunk.get(key)
        if known is None:
            number = self.numbers[piece.position] if self.numbers else piece.position
            counter = self.counter_of(piece)
            message = shrink_message(piece.message, cap, counter, reference=f"#{number}")
            same = message is piece.message
            tokens = piece.tokens if same else self.counter.count_message(message)
            known = self._shrunk[key] = Piece(message, tokens, piece.position)
        return known

    def counter_of(self, piece: Piece) -> TokenCounter:
        """The counter for the parts of a piece: a huge text that was counted once is not counted again."""
        key = (piece.message, piece.position)
        known = self._counters.get(key)
        if known is None:
            known = self.counter.for_message(piece.message, piece.tokens)
            if known is not self.counter:
                self._counters[key] = known
        return known

    def _add_irregular(self, piece: Piece, placement: Placement) -> None:
        elsewhere = {index for indexes in placement.late.values() for index in indexes}
        here = [
            index
            for index in range(len(piece.message.parts))
            if index not in elsewhere and index not in placement.unplaced
        ]
        if not placement.regular:
            self.misplaced[piece.position] = next(iter(placement.unplaced.values()), Misplaced.LATE)
            self._homes[piece.position] = tuple(placement.late)
            if here:
                self.partly_here.add(piece.position)
        for span, indexes in placement.late.items():
            self._show(span, self._part_of(piece, indexes))
        self._edit(placement.span)
        if len(here) == len(piece.message.parts):
            self._show(placement.span, piece)
        elif here:
            self._show(placement.span, self._part_of(piece, here))

    def _part_of(self, piece: Piece, indexes: list[int]) -> Piece:
        if len(indexes) == len(piece.message.parts):
            return piece
        parts = tuple(piece.message.parts[index] for index in indexes)
        message = _with_parts(piece.message, parts)
        counter = self.counter_of(piece) if self.counter.is_additive else self.counter
        return Piece(message, counter.count_message(message), piece.position)

    def _show(self, span: int, piece: Piece) -> None:
        self._edit(span).append(piece)
        self._charge(span, piece)

    def _edit(self, span: int) -> list[Piece]:
        """The pieces of a span that is shown otherwise than logged, listed from now on."""
        shown = self._shown.get(span)
        if shown is None:
            # The message being added is in the log already, but not yet in the view.
            end = min(self.position_of(span + 1), len(self.messages) - 1)
            shown = self._shown[span] = [
                Piece(self.messages[position], self.costs[position], position)
                for position in range(self.position_of(span), end)
            ]
            self.irregular_from = max(self.irregular_from, span)
        return shown

    def _charge(self, span: int, piece: Piece) -> None:
        """Book a piece, with a placeholder for every call it makes, less one for every call it answers."""
        message, tokens, _ = piece
        calls, results = message.calls, message.results
        tokens += sum(self._placeholder_cost(call.id) for call in calls)
        for result in results:
            tokens -= self._placeholder_cost(result.call_id)
            self._placeholders.pop(result.call_id, None)  # only calls that wait are remembered
        _raise_from(self._sums, span + 1, tokens)
        _raise_from(self._counts, span + 1, 1 + len(calls) - len(results))

    def _placeholder_cost(self, call_id: str) -> int:
        # Asked once: what is booked with a call must be what is taken off with its result, and a counter that asks a
        # driver may answer otherwise the next time.
        known = self._placeholders.get(call_id)
        if known is None:
            known = self.counter.count_message(_answer(call_id))
            self._placeholders[call_id] = known
        return known


def _weight(part: Part) -> int:
    """Bytes of the texts of a part."""
    weight = 0
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, str):
            weight += getsizeof(value)
        elif isinstance(value, tuple):  # the content of a tool result
            weight += sum(map(_weight, cast("tuple[Part, ...]", value)))
    return weight


def _raise_from(sums: array[int], index: int, amount: int) -> None:
    if index == len(sums) - 1:
        sums[index] += amount
    elif amount:  # a late result: as many steps as it came late
        sums[index:] = array("q", [value + amount for value in sums[index:]])


def _answer(call_id: str) -> Message:
    return Message.of("tool", (ToolResult(call_id, (TextPart(NO_RESULT),)),))


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    if message.role == "tool" and not any(type(part) is ToolResult for part in parts):
        return Message.of("user", parts)  # what was said beside results that stand elsewhere
    origin = message.origin and message.origin.without_form()
    return Message.of(message.role, parts, name=message.name, extra=message.extra, origin=origin)

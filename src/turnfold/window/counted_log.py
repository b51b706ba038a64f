"""`Transcript`: a log with its token counts, grouped into spans (atomic groups of messages).

Each message is counted once, when it is added. Running sums give the tokens of all spans from a given one on without
reading messages, so building a window takes time in the size of the window, not of the log.

A span may be shown differently than logged: a late result is shown with its call, an orphan or duplicate is not shown,
an unanswered call gets a placeholder result. This module decides that as messages are added, and includes it in the
sums; the logged messages are never changed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import NamedTuple, cast

from turnfold.records import Grouper, Message, Misplaced, Part, Placement, TextPart, ToolResult
from turnfold.tokens import TokenCounter
from turnfold.window.shortened_messages import shrink_message

__all__ = (
    "NO_RESULT",
    "Piece",
    "Transcript",
)


_MESSAGE_BYTES = 800
"""Memory of a message without its texts, in bytes: its objects, sums and ids."""
NO_RESULT = "[no result was recorded for this call]"
"""Text of the placeholder result that is sent for a tool call without a result, so that the provider accepts it."""


class Piece(NamedTuple):
    """A message as a context shows it (maybe shortened, or part of a logged message), with its tokens."""

    message: Message
    tokens: int
    position: int
    """Position of the message in the log; -1 for a placeholder, which is not in the log."""


class Transcript:
    """The messages of a conversation with their token counts. Append-only."""

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
        "last_overhead",
        "memo",
        "messages",
        "misplaced",
        "numbers",
        "partly_here",
        "system",
        "system_apart",
    )

    def __init__(
        self, counter: TokenCounter, messages: Iterable[Message] = (), *, system_apart: bool = True
    ) -> None:
        self.counter = counter
        self.messages: list[Message] = []
        """All messages except system messages, in log order; the index of a message is its position."""
        self.costs = array("q")
        """Tokens of each message of `messages`."""
        self.numbers = array("q")
        """The number (`seq`) that each message has in its store, if different from its position."""
        self.system: list[Message] = []
        """System messages, which belong to no turn and are always sent first."""
        self.system_apart = system_apart
        """True if system messages are kept apart; if False, a system message is in a span (group) like any other
        message."""
        self.grouper = Grouper()
        self.misplaced: dict[int, Misplaced] = {}
        """Log position of a message that is not shown, or not entirely where it was logged -> why; in log order."""
        self.partly_here: set[int] = set()
        """Positions of misplaced messages that are still shown in part where they were logged."""
        self.irregular_from = -1
        """Index of the newest span (message group) that is shown differently than logged; -1 if there is none."""
        self.memo: dict[object, object] = {}
        """Cache of `shortened_prompt_sections.price`: token counts of system, summary, tail (pins, rules, recalled
        passages) and tools."""
        self.last_overhead: tuple[object, object, object] | None = None
        """Cache of the last result of `shortened_prompt_sections.price`: budget, key, result."""
        self._sums = array("q", [0])
        """Running sums of the tokens shown, by span (message group)."""
        self._counts = array("q", [0])
        """Running sums of the messages shown, by span (message group)."""
        self._shown: dict[int, list[Piece]] = {}
        """Index of a span (group of messages) -> the messages shown for it, if they differ from the logged ones."""
        self._homes: dict[int, tuple[int, ...]] = {}
        """Position of a tool result that was logged too late -> the spans (groups of messages) with its calls."""
        self._placeholders: dict[str, int] = {}
        """Id of an unanswered call -> tokens of its placeholder result."""
        self._shrunk: dict[tuple[Message, int, int], Piece] = {}
        """Cache of shortened messages, by message, position and cap (most tokens of a part)."""
        self._weighed = (0, 0)
        """Number of messages that `held_bytes` has measured, and their bytes."""
        self._counters: dict[tuple[Message, int], TokenCounter] = {}
        for message in messages:
            self.add(message)

    def add(
        self, message: Message, tokens: int | None = None, *, number: int | None = None
    ) -> None:
        """Append a message; `tokens` is its token count (if None, it is counted), `number` its number in the store."""
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
        """Approximate memory of the messages in bytes; a later call measures only the messages added since."""
        measured, total = self._weighed
        for message in self.messages[measured:]:
            measured += 1
            total += _MESSAGE_BYTES
            for part in message.parts:
                total += getsizeof(part.text) if type(part) is TextPart else _weight(part)
        self._weighed = (measured, total)
        return total

    @property
    def spans(self) -> int:
        """Number of spans (messages that must stay together, such as a call with its results)."""
        return len(self._sums) - 1

    def tokens_from(self, span: int) -> int:
        """Return the tokens of all messages shown from this span (group of messages) on."""
        return self._sums[-1] - self._sums[span]

    def messages_from(self, span: int) -> int:
        """Return the number of messages shown from this span (group of messages) on."""
        return self._counts[-1] - self._counts[span]

    def first_span_within(self, tokens: int) -> int:
        """Return the earliest span (message group) such that it and all later ones have at most `tokens`.

        Returns `spans`, the number of spans, if there is none.
        """
        return bisect_left(self._sums, self._sums[-1] - tokens)

    def first_span_with(self, messages: int) -> int:
        """Return the earliest span (message group) such that it and all later ones show at most `messages`.

        Returns `spans`, the number of spans, if there is none.
        """
        return bisect_left(self._counts, self._counts[-1] - messages)

    def span_at(self, position: int) -> int:
        """Return the index of the first span (group of messages) that starts at or after a log position."""
        return bisect_left(self.grouper.firsts, position)

    def position_of(self, span: int) -> int:
        """Return the log position of a span's first message; the length of the log for the span after the last."""
        return self.grouper.firsts[span] if span < len(self._sums) - 1 else len(self.messages)

    def homes_of(self, position: int) -> tuple[int, ...]:
        """Return the spans (message groups) with the calls that a late message answers.

        Its tool results are shown there.
        """
        return self._homes.get(position, ())

    def turn_of(self, span: int) -> int:
        """Return the span (message group) with the user message that opens a span's turn.

        Returns -1 before the first user message.
        """
        turns = self.grouper.turns
        index = bisect_right(turns, span) - 1
        return turns[index] if index >= 0 else -1

    def turn_from(self, span: int) -> int:
        """Return the first span (message group) from `span` on that begins a user turn; `spans` if there is none."""
        turns = self.grouper.turns
        index = bisect_left(turns, span)
        return turns[index] if index < len(turns) else self.spans

    def regular_from(self, span: int) -> bool:
        """Return True if all messages from this span (group of messages) on are shown exactly as logged."""
        newest_unanswered = next(reversed(self.grouper.unanswered), -1)
        return max(self.irregular_from, newest_unanswered) < span

    def regular_until(self, span: int) -> int:
        """Return the first span (message group) from `span` on that is not shown exactly as logged.

        Returns `spans`, their number, if all of them are.
        """
        if self.irregular_from >= span:
            return span
        first = self.spans
        for unanswered in reversed(self.grouper.unanswered):
            if unanswered < span:
                break
            first = unanswered
        return first

    def pieces(self, span: int) -> Iterator[Piece]:
        """Yield the messages that are shown for a span: its logged messages, moved results and placeholders."""
        shown = self._shown.get(span)
        if shown is not None:
            yield from shown
        else:
            for position in range(self.position_of(span), self.position_of(span + 1)):
                yield Piece(self.messages[position], self.costs[position], position)
        for call in self.grouper.unanswered.get(span, ()):
            yield Piece(_placeholder(call.id), self._placeholder_cost(call.id), -1)

    def shrunk(self, piece: Piece, cap: int) -> Piece:
        """Return a shown message with every part that has more than `cap` tokens shortened, as by `shrink_message`.

        The placeholder of a missing tool result is not shortened. The result is cached.
        """
        if piece.position < 0:
            return piece
        key = (piece.message, piece.position, cap)  # one position may be shown as several pieces
        cached = self._shrunk.get(key)
        if cached is None:
            number = self.numbers[piece.position] if self.numbers else piece.position
            counter = self.counter_of(piece)
            message = shrink_message(piece.message, cap, counter, reference=f"#{number}")
            same = message is piece.message
            tokens = piece.tokens if same else self.counter.count_message(message)
            cached = self._shrunk[key] = Piece(message, tokens, piece.position)
        return cached

    def counter_of(self, piece: Piece) -> TokenCounter:
        """Return a token counter for the parts of a shown message, which does not count a huge text twice."""
        key = (piece.message, piece.position)
        counter = self._counters.get(key)
        if counter is None:
            counter = self.counter.for_message(piece.message, piece.tokens)
            if counter is not self.counter:
                self._counters[key] = counter
        return counter

    def _add_irregular(self, piece: Piece, placement: Placement) -> None:
        """Add a message with misplaced tool results: late results join their calls.

        Results without a call are hidden.
        """
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
        """Return the editable list of messages to show for a span (message group); made on first use.

        It replaces the logged messages.
        """
        shown = self._shown.get(span)
        if shown is None:
            # The message being added is in the log already, but not yet shown.
            end = min(self.position_of(span + 1), len(self.messages) - 1)
            shown = self._shown[span] = [
                Piece(self.messages[position], self.costs[position], position)
                for position in range(self.position_of(span), end)
            ]
            self.irregular_from = max(self.irregular_from, span)
        return shown

    def _charge(self, span: int, piece: Piece) -> None:
        """Add a message to the token sums; a placeholder result is counted until the call gets its real result."""
        message, tokens, _ = piece
        calls, results = message.calls, message.results
        tokens += sum(self._placeholder_cost(call.id) for call in calls)
        for result in results:
            tokens -= self._placeholder_cost(result.call_id)
            self._placeholders.pop(result.call_id, None)  # kept for unanswered calls only
        _add_from(self._sums, span + 1, tokens)
        _add_from(self._counts, span + 1, 1 + len(calls) - len(results))

    def _placeholder_cost(self, call_id: str) -> int:
        # Cached: the result must subtract exactly what the call added, and a counter that calls a service may return
        # another number the next time.
        cost = self._placeholders.get(call_id)
        if cost is None:
            cost = self.counter.count_message(_placeholder(call_id))
            self._placeholders[call_id] = cost
        return cost


def _weight(part: Part) -> int:
    """Return the number of bytes that the texts of a part need in memory."""
    weight = 0
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, str):
            weight += getsizeof(value)
        elif isinstance(value, tuple):  # the content of a tool result
            weight += sum(map(_weight, cast("tuple[Part, ...]", value)))
    return weight


def _add_from(sums: array[int], index: int, amount: int) -> None:
    if index == len(sums) - 1:
        sums[index] += amount
    elif amount:  # a late result changes the sums of all spans after its call
        sums[index:] = array("q", [value + amount for value in sums[index:]])


def _placeholder(call_id: str) -> Message:
    return Message.of("tool", (ToolResult(call_id, (TextPart(NO_RESULT),)),))


def _with_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    if message.role == "tool" and not any(type(part) is ToolResult for part in parts):
        return Message.of("user", parts)  # text logged with results that are shown elsewhere
    origin = message.origin and message.origin.without_form()
    return Message.of(message.role, parts, name=message.name, extra=message.extra, origin=origin)

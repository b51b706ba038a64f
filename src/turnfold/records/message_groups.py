"""Groups the messages of a log into spans (atomic groups) and turns.

A provider rejects a tool result without its call and a call without its result, so no cut may fall between them. A
**span** is the smallest group that may be kept or left out: an assistant message with tool calls together with all
their results (parallel, interleaved with other messages, or late), or any other single message. A **turn** runs from
one user message to before the next.

Logs may be broken: results whose call was lost, two results for one call, calls without a result. `Grouper` places
every message in one pass, one message at a time, and reports what is irregular; the log itself is never changed. A
result belongs to the newest unanswered call with its id, because some models reuse ids.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import StrEnum

from turnfold.records.messages import Message
from turnfold.records.parts import ToolCall, ToolResult

__all__ = (
    "Grouper",
    "Misplaced",
    "Placement",
    "Span",
    "group_spans",
)


class Misplaced(StrEnum):
    """Reason why a message, or one of its tool results, is not shown at its place in the log."""

    LATE = "late"
    """The call of this tool result is in an earlier span (message group), with which the result is shown."""
    ORPHAN = "orphan"
    """No call with the id of this tool result came before the result, which is therefore not shown."""
    DUPLICATE = "duplicate"
    """The call of this tool result was already answered; this second result is not shown."""
    EMPTY = "empty"
    """The message has no content, which providers refuse; it is not shown."""


class Placement:
    """The span (messages that stay together) of a message, and which of its tool results belong to other spans."""

    __slots__ = ("late", "opens", "span", "unplaced")

    def __init__(self, span: int, *, opens: bool) -> None:
        self.span = span
        """Index of the span (message group) that the message is in; -1 for none."""
        self.opens = opens
        """True if the message is the first of its span (message group)."""
        self.late: dict[int, list[int]] = {}
        """Earlier span (message group) -> indexes of the tool results in this message that belong to that span."""
        self.unplaced: dict[int, Misplaced] = {}
        """Index of a part of the message that is not shown -> why."""

    @property
    def regular(self) -> bool:
        """True if the message is shown as a whole, where it was logged."""
        return not self.late and not self.unplaced


class Grouper:
    """Groups a growing log into spans (messages that stay together, such as a call with its results).

    Adding a message is O(1) in the length of the log.
    """

    __slots__ = ("_answered", "_pending", "firsts", "turns", "unanswered")

    def __init__(self) -> None:
        self.firsts = array("q")
        """Log position of the first message of each span (message group)."""
        self.turns = array("q")
        """Indexes of the spans (message groups) that start a user turn, ascending."""
        self.unanswered: dict[int, list[ToolCall]] = {}
        """Index of a span (message group) -> its calls without a result so far."""
        self._pending: dict[str, list[int]] = {}
        self._answered: set[str] = set()

    def add(self, message: Message, position: int) -> Placement:
        """Add the next message.

        Returns its span (message group), and the other spans that tool results in it belong to.
        """
        if message.role == "tool":
            return self._add_results(message, position)
        span = len(self.firsts)
        self.firsts.append(position)
        if message.role == "user" and message.parts:  # an empty one starts no turn
            self.turns.append(span)
        elif message.role == "assistant" and (calls := message.calls):
            self.unanswered[span] = list(calls)
            for call in calls:
                self._pending.setdefault(call.id, []).append(span)
        return Placement(span, opens=True)

    def _add_results(self, message: Message, position: int) -> Placement:
        last = len(self.firsts) - 1
        placement = Placement(last, opens=False)
        here = 0
        for index, part in enumerate(message.parts):
            if type(part) is not ToolResult:
                continue
            span = self._answer(part.call_id)
            if span is None:
                is_duplicate = part.call_id in self._answered
                placement.unplaced[index] = (
                    Misplaced.DUPLICATE if is_duplicate else Misplaced.ORPHAN
                )
            elif span != last:
                placement.late.setdefault(span, []).append(index)
            else:
                here += 1
        if last < 0 or (not here and len(message.results) < len(message.parts)):
            # The text of a message whose results are shown elsewhere must not be between a call and its results, so it
            # gets a span of its own. A result before the first span gets a span that shows nothing.
            self.firsts.append(position)
            placement.span, placement.opens = last + 1, True
        return placement

    def _answer(self, call_id: str) -> int | None:
        spans = self._pending.get(call_id)
        if not spans:
            return None
        span = spans.pop()
        if not spans:
            del self._pending[call_id]
        self._answered.add(call_id)
        calls = self.unanswered[span]
        del calls[next(i for i, call in enumerate(calls) if call.id == call_id)]
        if not calls:
            del self.unanswered[span]
        return span


class Span:
    """One span of a complete log: the positions of messages that must be kept or left out together."""

    __slots__ = ("positions", "starts_turn", "unanswered")

    def __init__(self, positions: tuple[int, ...], *, starts_turn: bool, unanswered: int) -> None:
        self.positions = positions
        """Log positions of the span's messages, in the order in which they are shown."""
        self.starts_turn = starts_turn
        self.unanswered = unanswered
        """Number of the span's tool calls without a result in the log."""

    def __repr__(self) -> str:
        return f"Span({list(self.positions)})"


def group_spans(messages: Iterable[Message]) -> list[Span]:
    """Return the spans of a log (messages that stay together); a tool result without its call is in no span."""
    grouper = Grouper()
    places: list[list[int]] = []
    for position, message in enumerate(messages):
        placement = grouper.add(message, position)
        if placement.opens:
            places.append([])
        for span in placement.late:
            places[span].append(position)
        elsewhere = sum(map(len, placement.late.values())) + len(placement.unplaced)
        if not message.parts or elsewhere < len(message.parts):
            places[placement.span].append(position)
    turns = set(grouper.turns)
    return [
        Span(
            tuple(positions),
            starts_turn=index in turns,
            unanswered=len(grouper.unanswered.get(index, ())),
        )
        for index, positions in enumerate(places)
    ]

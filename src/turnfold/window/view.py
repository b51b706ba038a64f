"""What a strategy may look at: the spans of a transcript from an anchor on, with what each cut would cost.

A window that begins inside a turn also shows the user message that opened the turn: without it the model would answer
a question it cannot see, and some providers refuse a conversation that begins with the assistant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from turnfold.records import Message
from turnfold.window.transcript import Piece, Transcript

__all__ = ("Room", "SpanView", "message_bytes")


class Room(NamedTuple):
    """What the conversation may spend after everything fixed; 0 messages or bytes means no such limit."""

    tokens: int
    low: int
    """Tokens to cut down to."""
    summary: int = 0
    """Tokens the text of a summary may have."""
    aside: int = 0
    """Tokens, inside `tokens` and `low`, that a longer summary than the present one may still take."""
    messages: int = 0
    low_messages: int = 0
    bytes: int = 0
    low_bytes: int = 0
    snap: float = 0.5
    """How much of the low mark must remain for a cut to move on to the next turn."""


class _Use(NamedTuple):
    """What some messages use of each limit."""

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
    """A transcript from `start` on, with some messages shortened."""

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
        """The span the window begins with now."""
        self.caps = dict(caps)
        """Log position -> tokens a single part of that message may keep."""
        self.summary = summary
        """What stands for the spans before `covered`; empty when nothing does."""
        self.covered = covered
        """The first span the summary does not speak of."""
        self._savings = {
            position: self._saving(position, cap) for position, cap in self.caps.items()
        }
        self.saved = sum(self._savings.values())
        """Tokens all the caps save together."""

    @property
    def last(self) -> int:
        """The newest span, which is never left out."""
        return self.transcript.spans - 1

    def head(self, start: int) -> Piece | None:
        """The user message that opened the turn `start` is in the middle of."""
        turn = self.transcript.turn_of(start)
        if turn < 0 or turn == start:
            return None
        piece = next(self.transcript.pieces(turn), None)
        return None if piece is None else self.capped(piece)

    def capped(self, piece: Piece) -> Piece:
        """The piece as it is shown, shortened if there is a cap on it."""
        cap = self.caps.get(piece.position) if self.caps else None
        return piece if cap is None else self.transcript.shrunk(piece, cap)

    def shortens(self, position: int) -> bool:
        """Whether the cap on a message changes it: there may be one, and nothing in the message above it."""
        piece = self._logged(position)
        return self.capped(piece).message is not piece.message

    def tokens(self, start: int) -> int:
        """What the window would cost if it began with `start`."""
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
        """How many messages the window would have if it began with `start`."""
        return self.transcript.messages_from(start) + (self.head(start) is not None)

    def bytes(self, start: int) -> int:
        """UTF-8 bytes of the window's messages as JSON if it began with `start`."""
        return sum(message_bytes(piece.message) for piece in self.pieces(start))

    def fits(self, start: int, room: Room) -> bool:
        """Whether the window from `start` is within every limit."""
        return self.within(start, tokens=room.tokens, messages=room.messages, size=room.bytes)

    def within(self, start: int, *, tokens: int, messages: int, size: int) -> bool:
        """Whether the window from `start` keeps to these numbers; 0 messages or bytes is no limit."""
        if self.tokens(start) > tokens:
            return False
        if messages and self.messages(start) > messages:
            return False
        return not size or self.bytes(start) <= size

    def first_within(self, start: int, *, tokens: int, messages: int, size: int) -> int:
        """The earliest span from `start` on whose window keeps to these numbers; the newest when none does."""
        if not size and not self._savings:
            while start < self.last and not self.within(
                start, tokens=tokens, messages=messages, size=size
            ):
                start += 1
            return start
        # Asking `within` of each span would look at every message again and again: add them up from the newest on.
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
        """Everything the window from `start` shows, in order."""
        head = self.head(start)
        if head is not None:
            yield head
        yield from self.between(start, self.transcript.spans)

    def between(self, start: int, stop: int) -> Iterator[Piece]:
        """What the spans from `start` up to `stop` show, in order."""
        for span in range(start, stop):
            for piece in self.transcript.pieces(span):
                yield self.capped(piece)

    def _saving(self, position: int, cap: int) -> int:
        piece = self._logged(position)
        return piece.tokens - self.transcript.shrunk(piece, cap).tokens

    def _logged(self, position: int) -> Piece:
        transcript = self.transcript
        return Piece(transcript.messages[position], transcript.costs[position], position)


def message_bytes(message: Message) -> int:
    """UTF-8 bytes of a message as a JSON list item, without the caller's notes, which are not sent."""
    if message.labels:
        message = Message.of(message.role, message.parts, name=message.name, extra=message.extra)
    text = json.dumps(message.model_dump(), ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8")) + 1

"""The messages a memory still holds: a log whose beginning can be let go for good.

A transcript only grows, but a memory with limits must give messages back, or a long session fills the process. What
lies before the anchor is released by rebuilding the log without it, once that is more than half of it: each message
is then copied a bounded number of times, however long the session runs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from turnfold.records import Message, Misplaced
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor, Piece, SpanView, Transcript, anchored_view, summary_message

__all__ = ("HeldMessages",)

_WORTH_RELEASING = 64
"""Messages let go below which the log is not rebuilt without them."""


class HeldMessages:
    """A transcript from an anchor on, with the windows that were handed out of it."""

    __slots__ = ("anchor", "complete", "numbers", "transcript", "windows")

    def __init__(self, counter: TokenCounter, system: Iterable[Message] = ()) -> None:
        self.transcript = Transcript(counter, system)
        self.anchor = Anchor()
        """Where what is held begins."""
        self.windows: dict[int, Anchor] = {}
        """Budget -> where the last window under it begins."""
        self.complete = True
        """Whether nothing has been let go."""
        self.numbers = array("q")
        """Place of each message of the transcript in the saved log; 0 where there is none."""

    def add(self, message: Message, number: int = 0, tokens: int | None = None) -> None:
        """Hold one more message; `number` is its place in the saved log, `tokens` its cost where it is known."""
        self.transcript.add(message, tokens)
        self.numbers.append(number)

    def count(self) -> int:
        """How many messages are held, system and summary included."""
        logged = len(self.transcript.messages) - self.anchor.position
        opening = len(self.transcript.system) + bool(self.anchor.summary)
        return opening + (self._head() is not None) + logged - len(self._outlived())

    def tokens(self) -> int:
        """Tokens of everything held."""
        return sum(piece.tokens for piece in self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """What is held, as it was added: no placeholders, nothing moved."""
        transcript = self.transcript
        opening = [*transcript.system]
        if self.anchor.summary:
            opening.append(summary_message(self.anchor.summary))
        for message in opening:
            yield Piece(message, transcript.counter.count_message(message), -1)
        head = self._head()
        if head is not None:
            yield head
        view, outlived = self.view(), self._outlived()
        for position in range(self.anchor.position, len(transcript.messages)):
            if position not in outlived:
                message, cost = transcript.messages[position], transcript.costs[position]
                yield view.capped(Piece(message, cost, position))

    def view(self) -> SpanView:
        """What is held, as a strategy sees it."""
        return anchored_view(self.transcript, self.anchor)

    def let_go(self, anchor: Anchor) -> None:
        """Hold only what the anchor shows; the rest is released when there is enough of it."""
        self.complete = self.complete and anchor.position == 0
        self.anchor = anchor
        first = self._first()
        if first > _WORTH_RELEASING and first > len(self.transcript.messages) // 2:
            self._rebuild(self._outlived())

    def has_strays(self) -> bool:
        """Whether anything is held that no window can show: results without a call, empty messages."""
        return next(self._strays(), None) is not None

    def release_strays(self) -> None:
        """Let go of what no window can show."""
        self._rebuild(set(self._strays()))

    def _first(self) -> int:
        """The first log position still needed: shown, or not yet folded into the summary."""
        anchor = self.anchor
        return min(anchor.position, anchor.covered) if anchor.summary else anchor.position

    def _head(self) -> Piece | None:
        view = self.view()
        return view.head(view.start) if view.start <= view.last else None

    def _strays(self) -> Iterator[int]:
        for position in reversed(self.transcript.misplaced):
            if position < self.anchor.position:
                return
            if not self._is_shown(position):
                yield position

    def _outlived(self) -> set[int]:
        """Log positions of results that outlived their call: where anything was let go, they go with it."""
        if self.complete or not self.transcript.misplaced:
            return set()
        late = (Misplaced.LATE, Misplaced.ORPHAN)
        return {at for at in self._strays() if self.transcript.misplaced[at] in late}

    def _is_shown(self, position: int) -> bool:
        transcript = self.transcript
        own = transcript.span_at(position + 1) - 1
        first = transcript.span_at(self.anchor.position)
        return any(
            piece.position == position
            for span in (own, *transcript.homes_of(position))
            if first <= span < transcript.spans
            for piece in transcript.pieces(span)
        )

    def _rebuild(self, unwanted: set[int]) -> None:
        """The log again without `unwanted` and what was let go; the head of a running turn stays with it."""
        old, head = self.transcript, self._head()
        wanted = [at for at in range(self._first(), len(old.messages)) if at not in unwanted]
        if head is not None and head.position < self._first():
            wanted.insert(0, head.position)
        self.transcript = Transcript(old.counter, old.system)
        for position in wanted:
            self.transcript.add(old.messages[position], old.costs[position])
        self.numbers = array("q", [self.numbers[position] for position in wanted])
        self.anchor = _moved(self.anchor, wanted)
        self.windows = {tokens: _moved(anchor, wanted) for tokens, anchor in self.windows.items()}


def _moved(anchor: Anchor, wanted: list[int]) -> Anchor:
    """The anchor in a log that has only the `wanted` positions of the old one."""
    kept = set(wanted)
    caps = tuple((bisect_left(wanted, at), cap) for at, cap in anchor.caps if at in kept)
    position, covered = bisect_left(wanted, anchor.position), bisect_left(wanted, anchor.covered)
    return Anchor(position, caps, anchor.summary, covered, anchor.reason)

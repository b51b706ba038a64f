"""The transcript of a `MessageMemory`: the messages within its limits, kept in the process.

`KeptMessages` is a transcript whose oldest messages can be released: a memory with limits must free messages, or a
long session fills the process. Released messages are freed by rebuilding the transcript once they are more than half
of it, so that each message is copied a bounded number of times however long the session runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from turnfold.records import Message, Misplaced
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor, Piece, SpanView, Transcript, anchored_view, summary_message

__all__ = ("KeptMessages",)


_MIN_RELEASED = 64
"""The transcript is rebuilt, to free memory, only if more messages than this are released, and more than half of all.
"""


class KeptMessages:
    """The messages that a memory keeps in the process, with its first message and the first one of each window."""

    __slots__ = ("anchor", "complete", "seq", "transcript", "windows")

    def __init__(
        self, counter: TokenCounter, system: Iterable[Message] = (), *, seq: int = 0
    ) -> None:
        self.transcript = Transcript(counter, system)
        self.anchor = Anchor()
        """Position of the first kept message, and the summary before it."""
        self.windows: dict[tuple[int, int], Anchor] = {}
        """Budget in tokens and bytes -> anchor (first message of the window) of the last window built for it."""
        self.complete = True
        """True if no message was released."""
        self.seq = seq
        """Number of the newest message, system messages included; in a stored session, its seq (log position)."""

    def add(self, message: Message, seq: int = 0, tokens: int | None = None) -> None:
        """Append a message; `seq` is its number (0 for the next number), `tokens` its token count if known."""
        self.seq = seq or self.seq + 1
        self.transcript.add(message, tokens, number=self.seq)

    def count(self) -> int:
        """Return the number of messages in the memory, including system messages and the summary."""
        after_anchor = len(self.transcript.messages) - self.anchor.position
        opening = len(self.transcript.system) + bool(self.anchor.summary)
        return opening + (self._head() is not None) + after_anchor - len(self._orphaned_results())

    def tokens(self) -> int:
        """Return the tokens of all messages in the memory, including system messages and the summary."""
        return sum(piece.tokens for piece in self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """Yield the messages in the memory with their tokens, in the order they were added, without placeholders."""
        transcript = self.transcript
        opening = [*transcript.system]
        if self.anchor.summary:
            opening.append(summary_message(self.anchor.summary))
        for message in opening:
            yield Piece(message, transcript.counter.count_message(message), -1)
        head = self._head()
        if head is not None:
            yield head
        view, orphaned = self.view(), self._orphaned_results()
        for position in range(self.anchor.position, len(transcript.messages)):
            if position not in orphaned:
                message, cost = transcript.messages[position], transcript.costs[position]
                yield view.capped(Piece(message, cost, position))

    def view(self) -> SpanView:
        """Return the messages in the memory as spans (messages that must stay together), for a truncation strategy."""
        return anchored_view(self.transcript, self.anchor)

    def release_before(self, anchor: Anchor) -> None:
        """Release the messages before `anchor`; they are freed once more than half of all messages are released."""
        self.complete = self.complete and anchor.position == 0
        self.anchor = anchor
        first = self.first_needed()
        if first > _MIN_RELEASED and first > len(self.transcript.messages) // 2:
            self._rebuild(self._orphaned_results())

    def has_unshown(self) -> bool:
        """Return True if some messages cannot be shown in any window: tool results without a call, empty messages."""
        return next(self._unshown(), None) is not None

    def release_unshown(self) -> None:
        """Release the messages that cannot be shown in any window: tool results without a call, empty messages."""
        self._rebuild(set(self._unshown()))

    def first_needed(self) -> int:
        """Return the position of the first message that is still needed: kept, or not covered by the summary yet."""
        anchor = self.anchor
        return min(anchor.position, anchor.covered) if anchor.summary else anchor.position

    def _head(self) -> Piece | None:
        view = self.view()
        return view.head(view.start) if view.start <= view.last else None

    def _unshown(self) -> Iterator[int]:
        for position in reversed(self.transcript.misplaced):
            if position < self.anchor.position:
                return
            if not self._is_shown(position):
                yield position

    def _orphaned_results(self) -> set[int]:
        """Return the positions of tool results whose call was released; they are left out like the call."""
        if self.complete or not self.transcript.misplaced:
            return set()
        late = (Misplaced.LATE, Misplaced.ORPHAN)
        return {at for at in self._unshown() if self.transcript.misplaced[at] in late}

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
        """Rebuild the transcript without released and `unwanted` messages; keep the user message of a running turn."""
        old, head = self.transcript, self._head()
        wanted = [at for at in range(self.first_needed(), len(old.messages)) if at not in unwanted]
        if head is not None and head.position < self.first_needed():
            wanted.insert(0, head.position)
        self.transcript = Transcript(old.counter, old.system)
        for position in wanted:
            number = old.numbers[position]
            self.transcript.add(old.messages[position], old.costs[position], number=number)
        first = self.anchor.position
        self.anchor = _remapped(self.anchor, wanted)
        # A window that began before the kept messages begins with them from now on.
        self.windows = {
            key: _remapped(anchor, wanted)
            for key, anchor in self.windows.items()
            if anchor.position >= first
        }


def _remapped(anchor: Anchor, wanted: list[int]) -> Anchor:
    """Return the anchor (first kept message) for a rebuilt transcript that has only the `wanted` old positions."""
    remaining = set(wanted)
    caps = tuple((bisect_left(wanted, at), cap) for at, cap in anchor.caps if at in remaining)
    position, covered = bisect_left(wanted, anchor.position), bisect_left(wanted, anchor.covered)
    return Anchor(position, caps, anchor.summary, covered, anchor.reason)

"""The part of a log that calls show, held in memory and grown at its end.

It begins at the anchor, preceded by the question of a turn that the anchor lies inside of; nothing before that is ever
loaded, so a session on a log of a million entries holds as much as one on a thousand. Outside, entries are called by
their seq: receipts, anchors and references in shortened text all speak of seqs, which are the same in every process.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall
from turnfold.memory.notes import StandIn, WindowNote
from turnfold.recall import telling_part
from turnfold.records import Checkpoint, Message
from turnfold.summary.due import fold_span
from turnfold.tokens import TokenCounter
from turnfold.window import (
    Anchor,
    Context,
    Fate,
    Outcome,
    Room,
    Strategy,
    Transcript,
    anchored_view,
    assemble,
    price,
)
from turnfold.window.assemble import SQUEEZES

__all__ = ("Around", "LiveWindow", "Numbered")


@dataclass(frozen=True, slots=True)
class Numbered:
    """A message with its place in the log and its cost."""

    seq: int
    message: Message
    tokens: int


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the window of a call."""

    system: Sequence[Numbered] = ()
    tail: Sequence[Message] = ()
    tools: Sequence[Mapping[str, object]] = ()
    checkpoint: Checkpoint | None = None
    """The summary that is shown; None before the first, and after everything it covers was cleared."""
    stand_in: StandIn | None = None
    """An extract shown instead of the checkpoint's summary, while the fold behind it has not landed."""
    cleared: int = 0
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of the entries brought back into the tail."""

    @property
    def summary(self) -> str:
        """The text that stands for what was folded."""
        if self.stand_in is not None:
            return self.stand_in.text
        return self.checkpoint.text if self.checkpoint else ""

    @property
    def folded(self) -> int:
        """The last seq that is behind a checkpoint, or cleared."""
        return max(self.cleared, self.checkpoint.upto if self.checkpoint else 0)

    @property
    def covered(self) -> int:
        """The last seq that needs no place in the window: folded, stood in for, or cleared."""
        return max(self.folded, self.stand_in.upto if self.stand_in else 0)


class LiveWindow:
    """Entries from an anchor on."""

    __slots__ = ("_system_seqs", "_transcript", "anchor", "caps", "counter", "head", "reason", "seq")  # fmt: skip

    def __init__(
        self, counter: TokenCounter, note: WindowNote, *, head: Numbered | None = None
    ) -> None:
        self.counter = counter
        self.anchor = note.anchor
        """Seq of the first entry shown verbatim."""
        self.head = head
        """The question of the turn the anchor lies inside of."""
        self.caps = dict(note.caps)
        self.reason = note.reason
        self.seq = note.anchor - 1
        """The newest entry that is held."""
        self._system_seqs = array("q")
        self._transcript = Transcript(counter)
        if head is not None:
            self._transcript.add(head.message, head.tokens, number=head.seq)

    def extend(self, entries: Iterable[Numbered]) -> None:
        """Hold the next entries of the log."""
        for entry in entries:
            if entry.message.role == "system":
                self._system_seqs.append(entry.seq)
            else:
                self._transcript.add(entry.message, entry.tokens, number=entry.seq)
            self.seq = entry.seq

    @property
    def held_bytes(self) -> int:
        """Bytes of memory its messages take, about."""
        return self._transcript.held_bytes

    @property
    def turn(self) -> int:
        """Seq of the user message that opened the newest turn; 0 before the first."""
        transcript = self._transcript
        if not transcript.grouper.turns:
            return 0
        return transcript.numbers[transcript.position_of(transcript.grouper.turns[-1])]

    def tokens(self, *, largest: int) -> int:
        """Cost of everything from the anchor on, no entry counted above `largest`."""
        costs = self._transcript.costs[self._position_of(self.anchor) :]
        return sum(min(cost, largest) for cost in costs)

    @property
    def question(self) -> str:
        """What the user said to open the newest turn; both ends of it where it is too long to look for every word."""
        transcript = self._transcript
        if not transcript.grouper.turns:
            return ""
        opener = transcript.messages[transcript.position_of(transcript.grouper.turns[-1])]
        return telling_part(opener.text)

    def note(
        self, *, query: str, tail: str, recalled: tuple[tuple[int, float], ...] = ()
    ) -> WindowNote:
        """What another process needs to build the same window."""
        head = self.head.seq if self.head else 0
        caps = tuple(sorted(self.caps.items()))
        return WindowNote(
            anchor=self.anchor,
            head=head,
            caps=caps,
            reason=self.reason,
            turn=self.turn if tail else 0,
            query=query if tail else "",
            tail=tail,
            recalled=recalled,
        )

    def build(self, budget: Budget, around: Around, strategy: Strategy) -> Context:
        """The context of a call, in seqs; the window moves on where the budget makes it."""
        transcript = self._transcript
        transcript.system = [entry.message for entry in around.system]
        context = assemble(
            transcript,
            budget,
            anchor=self._anchor(around),
            strategy=strategy,
            tail=around.tail,
            tools=around.tools,
        )
        asked = (
            self.head is not None and 0 in context.positions
        )  # whether its question is still shown
        before = self._before(around, question=self.head.seq if self.head and asked else 0)
        fates = (*before, *self._numbered(context.fates), *self._systems(around))
        anchor, head = context.anchor, context.head
        self._say_in_seqs(context, around, tuple(sorted(fates)))
        self._move(anchor, head)
        return context

    def summary_limit(self, budget: Budget, around: Around) -> int:
        """Tokens the text of a summary may have."""
        return self._room(budget, around).summary

    def fold_upto(
        self, budget: Budget, around: Around, *, threshold: float, keep_turns: int
    ) -> int:
        """The last seq to fold when folding is due; before the anchor when there is nothing worth it."""
        marks = budget.marks
        room = self._room(budget, around, low=min(marks.low, marks.folded))
        view = anchored_view(self._transcript, self._anchor(around))
        due = int(threshold * budget.tokens) - (budget.tokens - room.tokens)
        start = fold_span(view, room, due=due, keep_turns=keep_turns)
        return self._seq_of(self._transcript.position_of(start)) - 1

    def before_turns(self, turns: int) -> int:
        """The last seq before the newest `turns` turns; what lies before the anchor where it holds no more."""
        transcript = self._transcript
        if turns <= 0:
            return self.seq
        starts = transcript.grouper.turns
        first = transcript.position_of(starts[-turns]) if len(starts) >= turns else 0
        return max(self._seq_of(first), self.anchor) - 1

    def says_something(self, covered: int, upto: int) -> bool:
        """Whether anything after `covered` and up to `upto` was said: system messages are always sent, never folded."""
        numbers = self._transcript.numbers
        return self.anchor > covered + 1 or (len(numbers) > 0 and numbers[0] <= upto)

    def turn_end(self, turns: int) -> int:
        """The last seq of the oldest `turns` turns from the anchor on, of all of them if there are fewer."""
        transcript = self._transcript
        first = self._position_of(self.anchor)
        starts = [transcript.position_of(span) for span in transcript.grouper.turns]
        later = [position for position in starts if position > first]
        return self._seq_of(later[turns - 1]) - 1 if len(later) >= turns else self.seq

    def advance(self, anchor: int, *, reason: str) -> None:
        """Begin at a later entry: everything before it was folded or cleared."""
        if anchor <= self.anchor:
            return
        transcript = self._transcript
        position = self._position_of(anchor)
        span = transcript.span_at(position) if position < len(transcript.messages) else None
        turn = transcript.turn_of(span) if span is not None else -1
        head = transcript.position_of(turn) if span is not None and 0 <= turn < span else None
        self._rebase(anchor, position, head, reason)

    def _room(self, budget: Budget, around: Around, *, low: float = 0.0) -> Room:
        transcript = self._transcript
        transcript.system = [entry.message for entry in around.system]

        def room(squeeze: int) -> Room:
            fixed = price(
                transcript,
                budget,
                summary=around.summary,
                tail=around.tail,
                tools=around.tools,
                squeeze=squeeze,
            )
            return fixed.room(budget, low=low)

        for squeeze in range(
            SQUEEZES
        ):  # as a context is built: a long system message gives way first
            with suppress(BudgetTooSmall):
                return room(squeeze)
        return room(SQUEEZES)

    def _anchor(self, around: Around) -> Anchor:
        caps = tuple((self._position_of(seq), cap) for seq, cap in sorted(self.caps.items()))
        position = self._position_of(self.anchor)
        return Anchor(position, caps, around.summary, 0, self.reason)

    def _move(self, anchor: Anchor, head: int) -> None:
        position = anchor.position
        # Never back: where nothing from the anchor on can be shown, the question stands alone before it.
        moved = position > self._position_of(self.anchor)
        self.caps = {self._seq_of(at): cap for at, cap in anchor.caps}
        if moved:
            self._rebase(
                self._seq_of(position), position, head if head >= 0 else None, anchor.reason
            )

    def _rebase(self, anchor: int, position: int, head: int | None, reason: str) -> None:
        """Hold only what is shown from now on."""
        old = self._transcript
        self.head = None if head is None else self._entry(head)
        self._transcript = Transcript(self.counter)
        self._transcript.memo.update(old.memo)  # what stands around the window costs what it did
        if self.head is not None:
            self._transcript.add(self.head.message, self.head.tokens, number=self.head.seq)
        for at in range(position, len(old.messages)):
            self._transcript.add(old.messages[at], old.costs[at], number=old.numbers[at])
        kept = {self.head.seq} if self.head else set[int]()
        self.caps = {seq: cap for seq, cap in self.caps.items() if seq >= anchor or seq in kept}
        self.anchor, self.reason = anchor, reason
        self.seq = max(self.seq, anchor - 1)
        self._system_seqs = array("q", [seq for seq in self._system_seqs if seq >= anchor])

    def _entry(self, position: int) -> Numbered:
        held = self._transcript
        return Numbered(held.numbers[position], held.messages[position], held.costs[position])

    def _position_of(self, seq: int) -> int:
        return bisect_left(self._transcript.numbers, seq)

    def _seq_of(self, position: int) -> int:
        numbers = self._transcript.numbers
        return numbers[position] if position < len(numbers) else self.seq + 1

    def _before(self, around: Around, *, question: int) -> Iterator[Fate]:
        """What became of everything before the anchor that is not sent all the same: system, the turn's question."""
        sent = {question, *(entry.seq for entry in around.system)}
        covered = around.covered
        folded = f"folded into checkpoint {around.checkpoint.id}" if around.checkpoint else ""
        stood_in = "not folded yet: an extract stands in for it in the summary"
        for start, stop, outcome, why in (
            (1, around.cleared + 1, Outcome.DROPPED, "cleared by the caller"),
            (around.cleared + 1, around.folded + 1, Outcome.FOLDED, folded),
            (around.folded + 1, covered + 1, Outcome.FOLDED, stood_in),
            (covered + 1, self.anchor, Outcome.DROPPED, self.reason or "before the anchor"),
        ):
            if start < stop:
                for left, right in _around(start, stop, sent):
                    yield Fate(left, right, outcome, why)

    def _numbered(self, fates: Iterable[Fate]) -> Iterator[Fate]:
        """Fates by position as fates by seq; a stretch of positions may be several stretches of seqs."""
        numbers = self._transcript.numbers
        for fate in fates:
            if fate.start < 0:
                yield fate
                continue
            if fate.outcome is Outcome.DROPPED and numbers[fate.start] < self.anchor:
                # The question of the turn so far; what lies before the anchor is told of by `_before`.
                fate = fate._replace(start=fate.start + 1)  # noqa: PLW2901 (the rest of it)
                if fate.start >= fate.stop:
                    continue
            first = fate.start
            for at in range(fate.start + 1, fate.stop + 1):
                if at == fate.stop or numbers[at] != numbers[at - 1] + 1:
                    yield fate._replace(start=numbers[first], stop=numbers[at - 1] + 1)
                    first = at

    def _systems(self, around: Around) -> Iterator[Fate]:
        current = {entry.seq for entry in around.system}
        for seq in self._system_seqs:
            if seq in current:
                yield Fate(seq, seq + 1, Outcome.MOVED, "system message: sent first")
            else:
                yield Fate(seq, seq + 1, Outcome.DROPPED, "replaced by a newer system message")

    def _question(self, context: Context) -> int:
        """Seq of the user message shown before the anchor; -1 for none."""
        if context.head >= 0:
            return self._seq_of(context.head)
        alone = context.anchor.position < self._position_of(self.anchor)
        return self.head.seq if self.head and alone else -1

    def _say_in_seqs(self, context: Context, around: Around, fates: tuple[Fate, ...]) -> None:
        """Let a context that nobody has seen yet speak of seqs instead of positions."""
        numbers = self._transcript.numbers
        shown, positions = context.positions, array("q")
        if isinstance(shown, range):
            positions.extend(numbers[shown.start : shown.stop])
        else:
            positions.extend(numbers[at] if at >= 0 else -1 for at in shown)
        anchor = context.anchor
        caps = tuple((self._seq_of(at), cap) for at, cap in anchor.caps)
        context.head = self._question(context)
        context.positions, context.fates = positions, fates
        first = max(self._seq_of(anchor.position), self.anchor)
        context.anchor = Anchor(first, caps, anchor.summary, around.covered, anchor.reason)


def _around(start: int, stop: int, holes: set[int]) -> Iterator[tuple[int, int]]:
    """The stretches from `start` up to `stop` that the holes leave."""
    for hole in sorted(seq for seq in holes if start <= seq < stop):
        if start < hole:
            yield start, hole
        start = hole + 1
    if start < stop:
        yield start, stop

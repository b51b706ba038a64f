"""Stores a summary as a checkpoint that covers only entries from which the summary can have been made.

In the document a summary is passed without saying which entries it covers. With `upto` the caller says it. Otherwise
the offers of earlier queries tell how far they had read (see `stored_state`); without any offer the summary may cover
the whole log. The newest turns, and entries written meanwhile, stay verbatim. A text that is the current summary
already counts as a retry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, SummaryFailed
from turnfold.memories.short_memory.render import add_label, remove_label
from turnfold.memories.short_memory.stored_state import (
    ConversationView,
    ShortNotes,
    TurnNote,
    count_landing,
    has_offer,
    newest_seen,
)
from turnfold.memory import Folder, FoldRange, SummaryTask, SummaryWriter
from turnfold.records import Checkpoint, Entry
from turnfold.runtime import Runtime
from turnfold.telemetry import Meter

__all__ = (
    "LabelledWriter",
    "ShortFold",
    "check_summary",
)


_TRIES: Final = 64
"""Most attempts to store a summary; an attempt fails if another writer was first."""


@dataclass(frozen=True, slots=True)
class LabelledWriter:
    """Wraps a writer of summaries: puts the documented label before each summary."""

    writer: SummaryWriter

    @property
    def name(self) -> str:
        """Name of the wrapped writer of summaries."""
        return self.writer.name

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Write a summary of the task's messages, with the documented label before it."""
        bare = SummaryTask(task.passages, remove_label(task.previous), task.limit, task.count)
        return add_label((await self.writer.write(bare, runtime)).strip())


@dataclass(frozen=True, slots=True)
class ShortFold:
    """Folds (compacts) the older turns of one conversation behind a summary."""

    notes: ShortNotes
    folder: Folder
    limit: int
    """Most tokens of the summary that is written."""
    recent_turns: int
    """Number of newest turns that stay verbatim."""
    meter: Meter

    async def fold(self, summary: str | None, upto: int | None) -> Checkpoint:
        """Store the summary that was passed, or one that the writer makes, as a checkpoint.

        Returns the live checkpoint.
        """
        view = await self._view()
        note = view.turn
        # Computed once: a summary that another call stores meanwhile does not change what this one was made from. A
        # summary that the writer still has to make will be made from all entries it covers.
        bound = _newest_covered(view, note if summary is not None else TurnNote(), upto)
        lost = 0
        while lost < _TRIES:
            target = await self._target(view, bound)
            if summary is not None and _is_repeated(view, note, summary, upto, target):
                return _unchanged(view)
            if target <= view.covered:
                target = await self._end_of_oldest(view, bound, requested=_is_requested(view, note))
            if target <= view.covered:
                await self._record(None, bound)
                return _unchanged(view)
            made = await self._commit(view, target, summary)
            self._measure(made, view.covered)
            if made is None:
                lost += 1
            elif made.upto >= target:
                await self._record(made, bound)
                return made
            view = await self._view()
        raise Conflict(
            f"other writers stored summaries of conversation {self.folder.conversation!r} first, {_TRIES} times in a "
            "row: query the conversation again and summarise the result"
        )

    async def _view(self) -> ConversationView:
        return await self.notes.read_view(self.folder.conversation)

    async def _commit(
        self, view: ConversationView, target: int, summary: str | None
    ) -> Checkpoint | None:
        fold = FoldRange(view.latest, view.covered, target, self.limit, view.cleared)
        if summary is not None:
            made = await self.folder.fold_given(fold, add_label(summary))
        else:
            made = await self.folder.step(fold)
        if made is None and not (await self._view()).head.seq:
            raise ConversationDeleted(
                f"conversation {self.folder.conversation!r} was erased while it was being summarised; nothing "
                "was stored"
            )
        return made

    def _measure(self, made: Checkpoint | None, covered: int) -> None:
        if made is None:
            self.meter.add("folds_lost")
            return
        self.meter.add("checkpoints")
        self.meter.observe("checkpoint_entries", made.upto - covered)
        self.meter.observe("summary_tokens", self.folder.counted(made.text))
        self.meter.observe("summary_fidelity", made.fidelity)

    async def _record(self, made: Checkpoint | None, bound: int) -> None:
        """Store that one requested summary was written, and the checkpoint made from it, if any."""

        def recorded(note: TurnNote) -> TurnNote:
            changes: dict[str, object] = {"offers": count_landing(note.offers)}
            if made is not None:
                changes |= {"landed": made.id, "landed_bound": bound}
            return note.with_changes(changes)

        await self.notes.change_turn(self.folder.conversation, recorded)

    async def _target(self, view: ConversationView, bound: int) -> int:
        """Return the last entry to summarise: at most `bound`, before the newest turns, at the end of a turn."""
        end = min(bound, await self._before_recent(view))
        if view.covered < end < view.head.seq:
            [last, following] = await self._read(end - 1, end + 1)
            if last.turn == following.turn:
                turn = await self._turn(last.turn)
                end = turn[0].seq - 1
        return end

    async def _before_recent(self, view: ConversationView) -> int:
        number = view.head.turns - self.recent_turns + 1
        if self.recent_turns == 0:
            return view.head.seq
        if number < 1:
            return 0
        turn = await self._turn(number)
        return turn[0].seq - 1

    async def _end_of_oldest(self, view: ConversationView, bound: int, *, requested: bool) -> int:
        """Return the last entry of the oldest turn that no summary covers; 0 if that is after `bound`.

        If a query requested a summary, return the end of the oldest half of the turns: if only one turn was folded, the
        next query would request a summary again.
        """
        first = view.covered + 1
        if first > view.head.seq:
            return 0
        [entry] = await self._read(first - 1, first)
        more = (view.head.turns - entry.turn) // 2 if requested else 0
        for number in dict.fromkeys((entry.turn + more, entry.turn)):
            last = (await self._turn(number))[-1].seq
            if last <= bound:
                return last
        return 0

    async def _turn(self, number: int) -> list[Entry]:
        folder = self.folder
        return await folder.store.read_turn(folder.scope, folder.conversation, number)

    async def _read(self, after: int, upto: int) -> list[Entry]:
        folder = self.folder
        return await folder.store.read(
            folder.scope, folder.conversation, after=after, upto=upto, limit=upto - after
        )


def check_summary(summary: str | None, recent_turns: int) -> None:
    """Raise `SummaryFailed` for an empty summary, `InvalidOption` for a negative `recent_turns`."""
    if recent_turns < 0:
        raise InvalidOption(f"recent_turns={recent_turns} must not be negative")
    if summary is not None and not summary.strip():
        raise SummaryFailed(
            "the summary is empty: pass a text, or None to let the summariser write one"
        )


def _newest_covered(view: ConversationView, note: TurnNote, upto: int | None) -> int:
    """Return the newest entry that the summary may cover: `upto`, or the newest that earlier queries had read."""
    if upto is None:
        return newest_seen(note.offers, covered=view.covered, newest=view.head.seq)
    if not 0 <= upto <= view.head.seq:
        raise InvalidOption(
            f"upto={upto} is not in the log, which has entries 1 to {view.head.seq}; pass MemoryContext.upto"
        )
    return upto


def _is_requested(view: ConversationView, note: TurnNote) -> bool:
    """Return True if a query has requested a summary since the current checkpoint was stored."""
    return has_offer(note.offers, view.head.checkpoint)


def _is_repeated(
    view: ConversationView, note: TurnNote, summary: str, upto: int | None, target: int
) -> bool:
    """Return True if this is a retry of the call that stored this summary, not a new summary with the same text."""
    live = view.live
    if live is None or live.text != add_label(summary):
        return False
    if upto is None:
        return not _is_requested(view, note)
    if note.landed == live.id:
        return upto <= note.landed_bound
    return target <= view.covered


def _unchanged(view: ConversationView) -> Checkpoint:
    """Return the live checkpoint if a summary covers no new entries.

    Raises `InvalidOption` if there is no checkpoint.
    """
    if view.live is not None:
        return view.live
    raise InvalidOption(
        f"this summary cannot cover any turn of conversation {view.conversation!r} (entries {view.covered + 1} to "
        f"{view.head.seq}), so it was not stored: call query_memory_context() again, summarise the messages it "
        "returns, and give its `upto` with the summary"
    )

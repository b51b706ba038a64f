"""Which entries a summary may stand for: never one it cannot have seen.

The document hands over a text without saying what it is a summary of. A caller who says it (`upto`) gets exactly that.
For one who does not, the first reader who was offered to summarise left word of how far they had read; a summary
brought without any offer can have seen everything. Of that, the newest turns stay verbatim, and so does whatever was
written meanwhile. A text that is live already is a retry, not a second summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, SummaryFailed
from turnfold.memory.folding import Folder, FoldRange
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.short_term.offers import bound_of, is_offered, landed
from turnfold.memory.short_term.rendering import spoken, unlabelled
from turnfold.memory.short_term.standing import ShortNotes, Standing, TurnNote
from turnfold.memory.waiting import Way
from turnfold.memory.writers import SummaryTask, SummaryWriter
from turnfold.records import Checkpoint, Entry

__all__ = ("LabelledWriter", "ShortFold", "check_summary")

_TRIES: Final = 64
"""Contests with other summarisers that one summary may lose."""


@dataclass(frozen=True, slots=True)
class LabelledWriter:
    """A writer whose summaries are kept under the documented label."""

    writer: SummaryWriter

    @property
    def name(self) -> str:
        """The writer's."""
        return self.writer.name

    async def write(self, task: SummaryTask, way: Way) -> str:
        """The labelled summary."""
        bare = SummaryTask(task.passages, unlabelled(task.previous), task.limit, task.count)
        return spoken((await self.writer.write(bare, way)).strip())


@dataclass(frozen=True, slots=True)
class ShortFold:
    """One call to fold a conversation."""

    notes: ShortNotes
    folder: Folder
    limit: int
    """Tokens a summary may have that is written here."""
    recent_turns: int
    """Newest turns that stay verbatim."""
    meter: Meter

    async def fold(self, summary: str | None, upto: int | None) -> Checkpoint:
        """Fold behind a given summary, or one the writer makes; the checkpoint that is live then."""
        standing = await self._standing()
        note = await self.notes.turn(standing)
        # Fixed here: what another summary covers meanwhile does not change what this one has seen. One that is yet to
        # be written will have seen what it covers.
        bound = _bound(standing, note if summary is not None else TurnNote(), upto)
        lost = 0
        while lost < _TRIES:
            target = await self._target(standing, bound)
            if summary is not None and _is_repeated(standing, note, summary, upto, target):
                return _nothing_left(standing)
            if target <= standing.covered:
                target = await self._oldest_turns(
                    standing, bound, pressed=_is_pressed(standing, note)
                )
            if target <= standing.covered:
                await self._came(None, bound)
                return _nothing_left(standing)
            made = await self._commit(standing, target, summary)
            self._measure(made, standing.covered)
            if made is None:
                lost += 1
            elif made.upto >= target:
                await self._came(made, bound)
                return made
            standing = await self._standing()
        raise Conflict(
            f"other summaries of {self.folder.conversation!r} landed first {_TRIES} times: summarise what is there now"
        )

    async def _standing(self) -> Standing:
        return await self.notes.standing(self.folder.conversation)

    async def _commit(
        self, standing: Standing, target: int, summary: str | None
    ) -> Checkpoint | None:
        fold = FoldRange(standing.latest, standing.covered, target, self.limit, standing.cleared)
        if summary is not None:
            made = await self.folder.given(fold, spoken(summary))
        else:
            made = await self.folder.step(fold)
        if made is None and not (await self._standing()).head.seq:
            raise ConversationDeleted(
                f"conversation {self.folder.conversation!r} was erased while it was summarised"
            )
        return made

    def _measure(self, made: Checkpoint | None, covered: int) -> None:
        if made is None:
            self.meter.add("folds_lost")
            return
        self.meter.add("checkpoints")
        self.meter.observe("checkpoint_entries", made.upto - covered)
        self.meter.observe("summary_tokens", self.folder.counter.count_text(made.text))
        self.meter.observe("summary_fidelity", made.fidelity)

    async def _came(self, made: Checkpoint | None, bound: int) -> None:
        """Note that a summary has come, and what it made."""

        def came(note: TurnNote) -> TurnNote:
            changes: dict[str, object] = {"offers": landed(note.offers)}
            if made is not None:
                changes |= {"landed": made.id, "landed_bound": bound}
            return note.with_changes(changes)

        await self.notes.change_turn(self.folder.conversation, came)

    async def _target(self, standing: Standing, bound: int) -> int:
        """The last entry to fold: seen, before the newest turns, at the end of a turn."""
        end = min(bound, await self._before_recent(standing))
        if standing.covered < end < standing.head.seq:
            [last, following] = await self._read(end - 1, end + 1)
            if last.turn == following.turn:
                turn = await self._turn(last.turn)
                end = turn[0].seq - 1
        return end

    async def _before_recent(self, standing: Standing) -> int:
        number = standing.head.turns - self.recent_turns + 1
        if self.recent_turns == 0:
            return standing.head.seq
        if number < 1:
            return 0
        turn = await self._turn(number)
        return turn[0].seq - 1

    async def _oldest_turns(self, standing: Standing, bound: int, *, pressed: bool) -> int:
        """The end of the oldest turn no summary covers, if all of it can have been seen; 0 if not.

        Where a query asked for a summary, of the oldest half of them: one turn would be asked about again at once.
        """
        first = standing.covered + 1
        if first > standing.head.seq:
            return 0
        [entry] = await self._read(first - 1, first)
        more = (standing.head.turns - entry.turn) // 2 if pressed else 0
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
    """Refuse what can stand for nothing."""
    if recent_turns < 0:
        raise InvalidOption(f"recent_turns={recent_turns} must not be negative")
    if summary is not None and not summary.strip():
        raise SummaryFailed("the summary given is empty: nothing would stand for what it covers")


def _bound(standing: Standing, note: TurnNote, upto: int | None) -> int:
    """The newest entry the summary can have seen."""
    if upto is None:
        return bound_of(note.offers, covered=standing.covered, newest=standing.head.seq)
    if not 0 <= upto <= standing.head.seq:
        raise InvalidOption(
            f"upto={upto}: the log has entries 1 to {standing.head.seq}; hand over MemoryContext.upto"
        )
    return upto


def _is_pressed(standing: Standing, note: TurnNote) -> bool:
    """Whether a query asked for a summary since the last one."""
    return is_offered(note.offers, standing.head.checkpoint)


def _is_repeated(
    standing: Standing, note: TurnNote, summary: str, upto: int | None, target: int
) -> bool:
    """Whether this is a retry of the call that made its summary live, and not a new summary with the same text."""
    live = standing.live
    if live is None or live.text != spoken(summary):
        return False
    if upto is None:
        return not _is_pressed(standing, note)
    if note.landed == live.id:
        return upto <= note.landed_bound
    return target <= standing.covered


def _nothing_left(standing: Standing) -> Checkpoint:
    """What a summary of nothing new changes: nothing."""
    if standing.live is not None:
        return standing.live
    raise InvalidOption(
        f"conversation {standing.conversation!r} has no turn since its start that this summary can have seen "
        f"(entries {standing.covered + 1} to {standing.head.seq}): summarise what a query shows now, and hand over "
        "its upto"
    )

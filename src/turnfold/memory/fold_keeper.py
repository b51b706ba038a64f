"""When a conversation is folded, by whom, and what happens when that fails.

Whoever folds holds a lease, a note with an owner and an end, so that of many processes one asks the model; if it dies,
the lease ends and folding is due again. The lease only saves work: what keeps the history whole is the
compare-and-swap of the checkpoint. The lease knows a handle, not its threads and tasks: of those one folds at a time,
and who waited for it goes on from what it made. After a failure nobody tries again for a while, twice as long each
time; the last good window serves meanwhile, and after the last retry the session says that it is back to its full
history.

Whenever messages have left the window and no fold of them has landed, for whatever reason (the model is slow, fails or
rests, the process that folded was killed), an extract of them stands in: a sentence picked badly is better than a
message that is nowhere. It is shown in the summary's place and is no checkpoint, so the model still reads everything it
covers, and what the model writes replaces it.

A lease and a pause are stored with the wall clock's time, because several machines read them. A wall clock can be
stepped, so neither is believed beyond its own length: one that ends later than its length from now, or that has stood
unchanged for its length by this process's monotonic clock, is over.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from turnfold.errors import (
    Conflict,
    ConversationDeleted,
    InvalidOption,
    SummaryFailed,
)
from turnfold.memory.folding import STEP_TOKENS, Folder, FoldRange
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.notes import (
    FOLDING,
    SESSION,
    STAND_IN,
    FoldingNote,
    StandIn,
    StandInNote,
    read_note,
    write_note,
)
from turnfold.memory.writers import ExtractiveWriter, SummaryWriter
from turnfold.records import Checkpoint, Document
from turnfold.stores.log_mark import log_mark
from turnfold.summary.due import check_threshold

__all__ = ("FoldKeeper", "FoldMode", "FoldPolicy", "MemoryMode")

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 300.0
_MICRO = 1_000_000
_MOST_SEEN = 8


class FoldMode(StrEnum):
    """Who starts a fold."""

    MANUAL = "manual"
    """Only `checkpoint()`."""
    INLINE = "inline"
    """`context()`, before it answers."""
    BACKGROUND = "background"
    """`context()`, without waiting for it."""


class MemoryMode(StrEnum):
    """What a context shows of the past."""

    FULL_HISTORY = "FULL_HISTORY"
    """Everything, as far as the budget allows: before the first checkpoint, and while folding fails and no extract
    stands in."""
    SUMMARY_N = "SUMMARY_N"
    """A summary and the newest turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPolicy:
    """How a memory folds."""

    mode: FoldMode = FoldMode.INLINE
    writer: SummaryWriter = field(default_factory=ExtractiveWriter)
    threshold: float = 0.75
    """Share of the budget from which folding is due."""
    keep_turns: int = 8
    """Newest turns that stay verbatim where the budget allows."""
    retries: int = 3
    """Attempts after the first before a session is said to be back to its full history."""
    backoff: float = 1.0
    """Seconds before the second attempt; twice as long before each further one."""
    lease: float = 120.0
    """Seconds after which another process may take over."""
    stand_in: bool = True
    """Whether an extract stands in for messages that left the window before their fold has landed."""

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.keep_turns)
        for name in ("retries", "backoff", "lease"):
            if getattr(self, name) < 0:
                raise InvalidOption(f"{name}={getattr(self, name)} must not be negative")


@dataclass(slots=True)
class FoldKeeper:
    """Keeps one conversation folded."""

    folder: Folder
    policy: FoldPolicy
    clock: Callable[[], int]
    meter: Meter
    monotonic: Callable[[], float] = time.monotonic
    _seen: dict[int, float] = field(default_factory=dict[int, float], init=False)
    """When each end of a lease or pause was first seen, by the monotonic clock."""
    _owner: str = field(default_factory=lambda: f"{os.getpid()}-{secrets.token_hex(6)}")
    _one: AbstractAsyncContextManager[None] = field(init=False)
    """Lets one of this handle's folds through at a time."""
    _ended: int = field(default=0, init=False)
    """Folds of this handle that ended, however they did."""

    def __post_init__(self) -> None:
        self._one = self.folder.way.turnstile()

    async def status(self) -> FoldingNote:
        """Who folds, and how it went lately."""
        return (await self._note())[0]

    async def mode(self, live: Checkpoint | None, stand_in: StandIn | None) -> MemoryMode:
        """What a context shows of the past."""
        if stand_in is not None:
            return MemoryMode.SUMMARY_N
        written = live is not None and (bool(live.model) or not self.policy.stand_in)
        if live is None or (written and (await self.status()).failures > self.policy.retries):
            return MemoryMode.FULL_HISTORY
        return MemoryMode.SUMMARY_N

    async def step(self, fold: FoldRange) -> Checkpoint | None:
        """One step of a fold; None when another is at it, was faster, or it is too soon after a failure."""
        return await self._in_turn(fold, self._step)

    async def whole(
        self, fold: FoldRange, on_progress: Callable[[int, int], None] | None = None
    ) -> Checkpoint | None:
        """All steps of a fold; the last checkpoint that landed. `on_progress` is told the entries done and in all."""
        return await self._in_turn(fold, lambda current: self._steps(current, on_progress))

    async def _in_turn(
        self, fold: FoldRange, work: Callable[[FoldRange], Awaitable[Checkpoint | None]]
    ) -> Checkpoint | None:
        """Fold when no other of this handle does; what that one folded is not folded again, its checkpoint is given."""
        ended = self._ended
        async with self._one:
            try:
                if ended != self._ended:
                    fold = await self._current(fold)
                    if fold.after >= fold.upto:
                        return fold.previous
                return await work(fold)
            finally:
                self._ended += 1

    async def _step(self, fold: FoldRange) -> Checkpoint | None:
        if not await self._claim():
            return None
        try:
            landed = await self.folder.step(fold)
        except SummaryFailed as failure:
            if self.folder.way.stopping:  # given up by its own program: the model did nothing wrong
                await self._release(failures=None)
            else:
                await self._failed(failure)
            raise
        except (Exception, CancelledError):
            await self._release(failures=None)
            raise
        await self._release(failures=0)
        self._count(landed, fold)
        return landed

    async def _steps(
        self, fold: FoldRange, on_progress: Callable[[int, int], None] | None
    ) -> Checkpoint | None:
        landed: Checkpoint | None = None
        first = fold.after
        while fold.after < fold.upto:
            step = await self._step(fold)
            if step is None:
                break
            landed = step
            fold = replace(fold, previous=step, after=step.upto)
            if on_progress is not None:
                on_progress(step.upto - first, fold.upto - first)
        return landed

    async def given(self, fold: FoldRange, text: str) -> Checkpoint | None:
        """A fold behind a summary the caller wrote."""
        landed = await self.folder.given(fold, text)
        if landed is not None and (await self.status()).failures:
            await self._release(failures=0)
        self._count(landed, fold)
        return landed

    async def stand_in(
        self, fold: FoldRange, so_far: StandIn | None, *, upto: int, tokens: int
    ) -> bool:
        """Let an extract cover what left the window while no fold has landed; whether anything was added.

        It needs no lease and waits for nobody who asks the model. Where the extract is this memory's own summary it is
        committed as a checkpoint; otherwise it is a stand-in, which the model's summary replaces whenever it lands.
        About `tokens` of the log are read.
        """
        if not self.policy.stand_in:
            return False
        if isinstance(self.folder.writer, ExtractiveWriter):
            return await self._extract_steps(replace(fold, upto=upto), tokens)
        made = await self.folder.extract(fold, so_far, upto=upto, tokens=tokens)
        if made is None:
            return False
        await self._show(made, fold)
        fields = {"event": "fold_stood_in", "conversation": self._mark}
        _log.info("an extract stands in for a summary that has not landed", extra=fields)
        return True

    async def _extract_steps(self, fold: FoldRange, tokens: int) -> bool:
        """Commit extracts step by step, without the lease: whoever commits first wins."""
        fold, landed = await self._current(fold), False
        for _ in range(1 + tokens // STEP_TOKENS):
            if fold.after >= fold.upto:
                return True
            step = await self.folder.step(fold)
            self._count(step, fold)
            if step is None:
                return True  # another was faster: what it made is read next
            fold, landed = replace(fold, previous=step, after=step.upto), True
        return landed

    async def _show(self, made: Document, fold: FoldRange) -> None:
        """Store a stand-in and name it as the one contexts show from now on; a `Conflict` if another was faster."""
        folder = self.folder
        place = folder.scope, folder.conversation
        named = await folder.store.get_document(*place, SESSION, STAND_IN)
        await folder.store.put_document(*place, made, seen=fold.seen)
        note = StandInNote(key=made.key, upto=StandIn.read(made).upto)
        await folder.store.put_document(
            *place,
            write_note(SESSION, STAND_IN, note),
            expect=named.version if named else 0,
            seen=fold.seen,
        )

    def begin(self, fold: FoldRange) -> bool:
        """Fold in the background; False when that is under way."""
        name = f"fold {self._mark}"  # it names a thread or task, and those names get into logs
        return self.folder.way.begin(name, lambda: self._in_background(fold))

    async def _in_background(self, fold: FoldRange) -> None:
        way, pause = self.folder.way, self.policy.backoff
        for attempt in range(self.policy.retries + 1):
            try:
                await self.whole(await self._current(fold))
            except SummaryFailed:
                if attempt == self.policy.retries or way.stopping:
                    return
                await way.pause(pause * 1.05 + 0.01)  # just after it may be tried again
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception as error:  # due again with the next call
                kind = type(error).__name__
                fields = {"event": "folding_stopped", "conversation": self._mark, "error": kind}
                _log.warning("folding stopped: %s", kind, extra=fields)
                return
            else:
                return

    async def _current(self, fold: FoldRange) -> FoldRange:
        """The range from where it stands now: steps that landed before a failure are not repeated."""
        folder = self.folder
        live = await folder.store.live_checkpoint(folder.scope, folder.conversation)
        after = max(fold.after, live.upto if live else 0)
        return replace(fold, previous=live, after=after)

    async def _claim(self) -> bool:
        note, version = await self._note()
        now = self.clock()
        taken = note.owner not in ("", self._owner) and self._holds(note.until, self.policy.lease)
        if taken or self._holds(note.not_before, _LONGEST_PAUSE):
            return False
        until = now + int(self.policy.lease * _MICRO)
        return await self._put(replace_note(note, owner=self._owner, until=until), version)

    def _holds(self, end: int, length: float) -> bool:
        """Whether a lease or pause that ends at `end` and lasts `length` seconds still holds."""
        left = (end - self.clock()) / _MICRO
        if not 0 < left <= length:
            return False
        return self.monotonic() - self._first_seen(end) < length

    def _first_seen(self, end: int) -> float:
        """When this handle first saw a lease or pause with this end, by the monotonic clock."""
        seen = self._seen.setdefault(end, self.monotonic())
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        return seen

    async def _release(self, *, failures: int | None) -> None:
        note, version = await self._note()
        kept = note.failures if failures is None else failures
        if note.owner in ("", self._owner):
            await self._put(FoldingNote(failures=kept, error=note.error if kept else ""), version)

    async def _failed(self, failure: SummaryFailed) -> None:
        cause = failure.__cause__ or failure
        kind = type(cause).__name__
        note, version = await self._note()
        failures = note.failures + 1
        wait = min(self.policy.backoff * 2 ** (failures - 1), _LONGEST_PAUSE)
        not_before = self.clock() + int(wait * _MICRO)
        self.meter.add("fold_failures")
        fields = {"event": "fold_failed", "conversation": self._mark, "error": kind}
        _log.warning(
            "folding failed (%s), attempt %d: the last good window serves",
            kind,
            failures,
            extra={**fields, "attempt": failures},
        )
        await self._put(FoldingNote(failures=failures, not_before=not_before, error=kind), version)

    async def _note(self) -> tuple[FoldingNote, int]:
        folder = self.folder
        document = await folder.store.get_document(
            folder.scope, folder.conversation, SESSION, FOLDING
        )
        return read_note(document, FoldingNote), document.version if document else 0

    async def _put(self, note: FoldingNote, version: int) -> bool:
        folder = self.folder
        document = write_note(SESSION, FOLDING, note)
        try:
            await folder.store.put_document(
                folder.scope, folder.conversation, document, expect=version
            )
        except (Conflict, ConversationDeleted):
            return False
        return True

    @property
    def _mark(self) -> str:
        return log_mark(self.folder.scope.tenant, self.folder.conversation)

    def _count(self, landed: Checkpoint | None, fold: FoldRange) -> None:
        if landed is None:
            self.meter.add("folds_lost")
            return
        self.meter.add("checkpoints")
        self.meter.observe("checkpoint_entries", landed.upto - fold.after)
        self.meter.observe("summary_tokens", self.folder.counted(landed.text))
        self.meter.observe("summary_fidelity", landed.fidelity)


def replace_note(note: FoldingNote, *, owner: str, until: int) -> FoldingNote:
    """The note with another owner."""
    return FoldingNote(
        owner=owner,
        until=until,
        failures=note.failures,
        not_before=note.not_before,
        error=note.error,
    )

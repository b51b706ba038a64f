"""Folding (compaction): replacing the older entries of a conversation, in contexts, by a summary.

`Folder` makes one fold; `FoldManager` takes the lease that allows a process to fold, and handles failures.

- **One fold.** The range is fixed before the summary is written, so entries appended meanwhile stay verbatim. The
  checkpoint is committed by compare-and-swap on the previous one: of two concurrent folds one wins and the other's work
  is dropped, and a conversation erased meanwhile stays erased. A long range is folded in steps, each with a checkpoint
  of its own, so that no step reads more than a bounded piece of the log.
- **Cached prefix.** If the summarizer is the agent's own model, it is asked with the last prompt the agent sent plus an
  instruction, which the provider's prompt cache serves; see `summary_writers`. That is one step, however long, because
  the whole range is in that prompt. The token usage of the requests is stored in a document next to the checkpoint.
- **Lease.** The process that folds holds a lease: a note with an owner and an expiry time, so that only one process
  calls the model. If the owner dies, the lease expires and folding is due again. The lease only saves work; the
  compare-and-swap keeps the history whole. An extract is made without taking it. A lease belongs to a session handle,
  not to its threads and tasks: these fold one at a time, and the next one continues from the result of the one before.
- **Retry.** After a failure nobody tries again for a pause that doubles each time, and the last good window is used.
  After the last retry the session reports that it is back to its full history.
- **Stand-in.** If messages have left the window and their fold is not committed yet, for whatever reason (the model is
  slow, fails or pauses, the folding process was killed), contexts show an extract of them: a badly chosen sentence is
  better than a lost message. The extract is shown in place of the summary but is not a checkpoint, so the model still
  reads everything it covers, and the model's summary replaces it.
- **Clocks.** See `leases`; a pause ends as a lease does.
"""

from __future__ import annotations

import logging
import sys
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import partial
from hashlib import blake2b
from typing import Final

import msgspec

from turnfold.errors import Conflict, ConversationDeleted, SummaryFailed
from turnfold.fold import (
    MemoizedCounter,
    Passage,
    ReadCache,
    SourceFacts,
    as_summary,
    check_fidelity,
    day_of,
    passages_of,
    source_facts,
    split_prefix,
    with_annex,
    without_annex,
)
from turnfold.memory.cached_conversation import erased
from turnfold.memory.config import FoldPolicy, MemoryMode
from turnfold.memory.leases import StoredLease, new_owner
from turnfold.memory.summary_writers import (
    CALLER,
    ChatWriter,
    ExtractiveWriter,
    SentPrompt,
    SummaryRequest,
    SummaryTask,
    SummaryWriter,
    heading_tokens,
    without_headings,
)
from turnfold.records import (
    FOLDING,
    SESSION,
    STAND_IN,
    Checkpoint,
    Document,
    Entry,
    FoldingNote,
    StandIn,
    StandInNote,
    Usage,
    check_text,
    encode_message,
    plain_text,
    stand_in_document,
    write_note,
)
from turnfold.runtime import Runtime
from turnfold.stores import Scope, Store, log_mark
from turnfold.telemetry import Meter
from turnfold.text import clip, local_time
from turnfold.tokens import TokenCounter
from turnfold.window import Context

__all__ = (
    "FOLD_CALL",
    "STEP_TOKENS",
    "FoldCall",
    "FoldManager",
    "FoldRange",
    "Folder",
)


_log = logging.getLogger(__name__)
_PAGE = 256
STEP_TOKENS = 48_000
"""Most tokens of conversation that one step of a fold (compaction) reads. The results of its last tool call are read in
addition."""
FOLD_CALL: Final = "fold-call"
"""Kind of the documents that store which tokens the model requests of a fold (compaction) used, one document per
checkpoint (summary)."""
_ANNEX_SHARE = 0.25
"""Share of a summary's token limit that is kept for its annex, the list of facts that the model's text left out."""
_LONGEST_PAUSE = 300.0
"""Most seconds between a failed attempt to fold (compact) and the next; the pause doubles with each failure up to this.
"""
_TRUST = ("system", "assistant", "user", "tool")
"""Roles, most trusted first. A summary has the trust of the least trusted role among the messages that it covers."""


@dataclass(frozen=True, slots=True)
class FoldRange:
    """The range of log entries that a fold (compaction) covers, fixed when the fold began."""

    previous: Checkpoint | None
    """The live (newest) checkpoint (summary), which this fold continues; None before the first."""
    after: int
    """Seq (log position) of the last entry that needs no folding (compaction): covered by `previous`, or cleared."""
    upto: int
    """The last seq (log position) to fold (compact)."""
    limit: int
    """Most tokens that the summary may have."""
    cleared: int = 0
    """Seq (log position) of the last entry that was cleared."""
    seen: tuple[int, int] | None = None
    """Seq and epoch (random number of the write) of the newest entry when the range was fixed: if the store has no such
    entry, its history is another one."""
    sent: SentPrompt | None = None
    """The last prompt that this session handle built for the agent's model; None if it has built none."""
    outdated: tuple[str, ...] = ()
    """Sentences of rules that the user changed or took back; an extract leaves them out."""
    shown: int = 0
    """Seq (log position) of the user message of the running turn, which contexts show even after it is folded
    (compacted)."""
    again: tuple[Passage, ...] = ()
    """The user message of an ended turn, folded (compacted) by an earlier fold, which contexts show until this fold is
    committed."""
    reading: ReadCache = field(default_factory=ReadCache, compare=False, repr=False)
    """Cache of the sentences and facts of the entries in the range."""

    @property
    def by_caller(self) -> bool:
        """True if the caller wrote the previous summary, which then has no annex (list of facts it lacks)."""
        return self.previous is not None and self.previous.model == CALLER

    @property
    def previous_text(self) -> str:
        """The previous summary, which the new one continues.

        It is empty if there is none, or if `clear()` hid everything it covers.
        """
        previous = self.previous
        if previous is None or previous.upto <= self.cleared or previous.upto < self.after:
            return ""
        return previous.text


class FoldCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The requests that were made to a model for one checkpoint (summary)."""

    v: int = 1
    checkpoint: str
    model: str
    requests: tuple[tuple[bool, Usage | None], ...]
    """For each request, in order: True if it was the agent's own prompt with an instruction, False for a fresh prompt;
    and the usage that the provider reported."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Folds ranges of one conversation: reads the entries, lets the writer summarise them, commits the checkpoint."""

    store: Store
    scope: Scope
    conversation: str
    counter: TokenCounter
    writer: SummaryWriter
    runtime: Runtime
    meter: Meter = field(default_factory=Meter, repr=False, compare=False)
    """Object that counts the requests to a model."""
    zone: tzinfo = UTC
    """Time zone of the dates in a summary."""
    counted: MemoizedCounter = field(init=False, repr=False, compare=False)
    """Cached token counts of the lines of the last summary, because the next summary keeps most of these lines."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counted", MemoizedCounter(self.counter.count_text))

    async def step(self, fold: FoldRange) -> Checkpoint | None:
        """Fold the first step of a range and return its checkpoint (summary).

        Returns None if another process folded it or no entries are left.
        """
        prefix, entries = await self._read_sent(fold)
        entries = entries or await self._read(fold)
        if not entries:
            return None
        passages = _passages(entries, self.zone)
        task = SummaryTask(
            passages,
            self._previous_for_writer(fold),
            fold.limit,
            self.counted,
            fold.reading,
            prefix=prefix,
            tools=fold.sent.tools if fold.sent and prefix else (),
            outdated=fold.outdated,
            shown=fold.shown,
            again=fold.again,
        )
        source = [*_summary_passages(fold), *passages]
        facts = await self.runtime.compute(
            partial(source_facts, source, reading=task.reading, without=fold.outdated)
        )
        text = ""
        if passages or fold.previous_text:
            try:
                text = await self._write_summary(task, facts)
            finally:
                self._count_requests(task.requests)
        fidelity = await self.runtime.compute(partial(self._fidelity, text, task, facts))
        landed = await self.commit(fold, entries, text, fidelity=fidelity, model=self.writer.name)
        if landed is not None and any(request.usage for request in task.requests):
            await self._store_requests(landed, task.requests, fold)
        return landed

    async def _read_sent(self, fold: FoldRange) -> tuple[Context | None, list[Entry]]:
        """Return the agent's last prompt extended by the request for a summary, and the entries to fold.

        (None, []) if that prompt cannot be used, so that a fresh prompt is needed.
        """
        writer, sent = self.writer, fold.sent
        if (
            sent is None
            or not isinstance(writer, ChatWriter)
            or sent.context.anchor.covered != fold.after
        ):
            return None, []
        # The agent's prompt shows all or most of the range, so this reads at most its tokens and those of one step.
        entries = await self._read(fold, tokens=sent.context.tokens + STEP_TOKENS)
        if not entries or entries[-1].seq < fold.upto:
            return None, []
        try:
            prefix = writer.prepare(sent, entries, previous=fold.previous_text, limit=fold.limit)
        except Exception as error:  # of the user's own client: a fresh prompt needs less of it
            fields = {
                "event": "fold_prompt_failed",
                "conversation": log_mark(self.scope.tenant, self.conversation),
                "error": type(error).__name__,
            }
            _log.warning(
                "cannot ask for a summary with the agent's own prompt: using a fresh prompt",
                extra=fields,
            )
            return None, []
        return (prefix, entries) if prefix is not None else (None, [])

    def _count_requests(self, requests: Sequence[SummaryRequest]) -> None:
        for request in requests:
            self.meter.add("fold_requests")
            if request.usage is not None and request.usage.input:
                self.meter.observe("fold_input_tokens", request.usage.input)
                self.meter.observe("fold_cached_share", request.usage.cached / request.usage.input)

    async def _store_requests(
        self, landed: Checkpoint, requests: Sequence[SummaryRequest], fold: FoldRange
    ) -> None:
        """Store the token usage of a fold's requests, in a document next to its checkpoint (summary)."""
        found = FoldCall(
            checkpoint=landed.id,
            model=self.writer.name,
            requests=tuple((request.prefix, request.usage) for request in requests),
        )
        document = Document(FOLD_CALL, landed.id, msgspec.json.encode(found), 0)
        with suppress(Conflict, ConversationDeleted):  # erased or restored since the commit
            await self.store.put_document(self.scope, self.conversation, document, seen=fold.seen)

    async def extract(
        self, fold: FoldRange, current: StandIn | None, *, upto: int, tokens: int
    ) -> Document | None:
        """Return a document with an extract (important sentences) of the entries up to `upto`.

        The extract continues `current`, the one that contexts show now, if there is any. Returns None if no entries are
        new. About `tokens` of the log are read, so a longer range is covered in several calls.
        """
        after = max(fold.after, current.upto if current else 0)
        entries = await self._read(replace(fold, after=after, upto=upto), tokens=tokens)
        if not entries:
            return None
        passages = _passages(entries, self.zone)
        previous = current.text if current else fold.previous_text
        task = SummaryTask(
            passages,
            previous,
            fold.limit,
            self.counted,
            ReadCache(),
            outdated=fold.outdated,
            shown=fold.shown,
            again=fold.again,
        )
        text = ""
        if passages or previous:
            text = (await self._ask_writer(task, ExtractiveWriter())).strip()
        return stand_in_document(entries[-1].seq, text)

    async def fold_given(self, fold: FoldRange, text: str) -> Checkpoint | None:
        """Fold the whole range with a summary written by the caller, which is stored unchanged.

        Returns the checkpoint; None if another fold was stored first.
        """
        if not text.strip():
            raise SummaryFailed(
                f"summary= is empty: give a text that replaces entries {fold.after + 1} to {fold.upto} in contexts"
            )
        entries = await self._read(fold, tokens=sys.maxsize)
        if not entries or entries[-1].seq < fold.upto:
            raise erased(self.conversation)

        def check() -> float:
            self.counted(text)  # counted here, off the event loop, for the metrics
            self.counted.keep([text])
            return check_fidelity(
                [*_summary_passages(fold), *_passages(entries, self.zone)], text
            ).score

        fidelity = await self.runtime.compute(check)
        landed = await self.commit(fold, entries, text, fidelity=fidelity, model=CALLER)
        if landed is None and not await self._read_page(fold.after, fold.upto):
            raise erased(self.conversation)
        return landed

    async def commit(
        self,
        fold: FoldRange,
        entries: Sequence[Entry],
        text: str,
        *,
        fidelity: float,
        model: str,
    ) -> Checkpoint | None:
        """Store the summary as the newest checkpoint; return None if another fold was stored since `fold.previous`."""
        previous = fold.previous
        digest = blake2b((previous.digest if previous else "").encode(), digest_size=16)
        for entry in entries:
            digest.update(b"%d:" % entry.seq + encode_message(entry.message))
        upto = entries[-1].seq
        name = blake2b(
            f"{digest.hexdigest()} {model} {text}".encode("utf-8", "replace"), digest_size=6
        )
        checkpoint = Checkpoint(
            id=f"{upto}-{name.hexdigest()}",
            previous=previous.id if previous else "",
            upto=upto,
            text=text,
            digest=digest.hexdigest(),
            model=model,
            trust=_lowest_trust(
                entries, previous.trust if fold.previous_text and previous else "system"
            ),
            fidelity=fidelity,
        )
        try:
            return await self.store.add_checkpoint(
                self.scope,
                self.conversation,
                checkpoint,
                seen=fold.seen or (entries[-1].seq, entries[-1].epoch),
            )
        except (Conflict, ConversationDeleted):
            return None

    def _previous_for_writer(self, fold: FoldRange) -> str:
        """Return the previous summary as the writer gets it: for a model, without its annex (list of lost facts)."""
        if isinstance(self.writer, ExtractiveWriter) or fold.by_caller:
            return fold.previous_text
        return without_annex(fold.previous_text)

    async def _write_summary(self, task: SummaryTask, facts: SourceFacts) -> str:
        """Ask the writer for a summary, cut it to the limit, and append an annex with facts that a model left out."""
        written = (await self._ask_writer(task, self.writer)).strip()
        text = await self.runtime.compute(partial(self._within_limit, written, task, facts))
        if not text:
            raise SummaryFailed(
                f"the summariser {self.writer.name!r} returned an empty text: check it, then fold again"
            )
        return text

    def _fidelity(self, text: str, task: SummaryTask, facts: SourceFacts) -> float:
        """Return the share of the source's facts, 0 to 1, that a summary states; also caches the summary's tokens."""
        self.counted.keep([text, *text.splitlines()])
        return check_fidelity(facts, text, reading=task.reading).score

    def _within_limit(self, text: str, task: SummaryTask, facts: SourceFacts) -> str:
        """Cut a writer's text to the limit, and append an annex with facts that a model left out.

        Returns "" if the text is empty.
        """
        count, limit = self.counted, task.limit
        extractive = isinstance(self.writer, ExtractiveWriter)
        if not extractive:  # no line of a model's text may look like a heading or a speaker's line
            limit = max(limit - heading_tokens(count), limit // 2)
            text = as_summary(
                without_headings(text), {one.speaker for one in task.passages}
            ).strip()
        if not extractive or count(text) > limit:
            text = clip(text, limit, count)
        # An extract was chosen for its facts: cutting it to make room for an annex loses more than it adds.
        if extractive or not text:
            return text
        lost = check_fidelity(facts, text, reading=task.reading)
        if not lost.missing:
            return text
        shorter = clip(text, max(int(limit * (1 - _ANNEX_SHARE)), 1), count)
        if shorter != text:
            text, lost = shorter, check_fidelity(facts, shorter, reading=task.reading)
        return with_annex(text, lost, limit=limit, count=count)

    async def _ask_writer(self, task: SummaryTask, writer: SummaryWriter) -> str:
        try:
            text = await writer.write(task, self.runtime)
            return check_text(plain_text(text, path="summary"), path="summary")
        except SummaryFailed:
            raise
        except Exception as error:  # raised by a model, or by a text that no store can hold
            raise SummaryFailed(
                f"the summariser raised {type(error).__name__}, the cause of this error: check it, then fold again"
            ) from error

    async def _read(self, fold: FoldRange, *, tokens: int = STEP_TOKENS) -> list[Entry]:
        """Read the entries of one step of a fold (compaction).

        These are entries of up to `tokens`, then more up to the last result of the tool calls read.
        """
        entries: list[Entry] = []
        used = 0
        while page := await self._read_page(entries[-1].seq if entries else fold.after, fold.upto):
            for entry in page:
                if used >= tokens and entry.message.role != "tool":
                    return entries
                entries.append(entry)
                used += entry.tokens
        return entries

    async def _read_page(self, after: int, upto: int) -> list[Entry]:
        if after >= upto:
            return []
        return await self.store.read(
            self.scope, self.conversation, after=after, upto=upto, limit=_PAGE
        )


def _lowest_trust(entries: Sequence[Entry], previous: str) -> str:
    """Return the least trusted role among the entries and `previous`, the role of the previous summary."""
    roles = {entry.message.role for entry in entries} | {previous}
    return max(roles, key=_TRUST.index) if roles <= set(_TRUST) else "tool"


def _passages(entries: Sequence[Entry], zone: tzinfo) -> list[Passage]:
    """Return the messages as input of a summary, with their positions in the log and their dates in this zone."""
    spoken = [entry for entry in entries if entry.message.role != "system"]
    return [
        replace(passage, position=entry.seq, day=_day(entry, zone))
        for passage in passages_of([entry.message for entry in spoken])
        for entry in (spoken[passage.position],)
    ]


def _day(entry: Entry, zone: tzinfo) -> str:
    return f"{local_time(entry.created, zone):%Y-%m-%d}" if entry.created > 0 else ""


def _summary_passages(fold: FoldRange) -> list[Passage]:
    """Return the previous summary as input of the next one: a passage per line, with the speaker it names."""
    lines = [line.removeprefix("- ") for line in fold.previous_text.splitlines()]
    return [Passage(*split_prefix(line), 0, day=day_of(line)) for line in lines]


@dataclass(slots=True)
class FoldManager:
    """Makes the folds (compactions) of one conversation: lease, retries, temporary extract, background work."""

    folder: Folder
    policy: FoldPolicy
    clock: Callable[[], int]
    meter: Meter
    monotonic: Callable[[], float] = time.monotonic
    _owner: str = field(default_factory=new_owner)
    _lease: StoredLease[FoldingNote] = field(init=False)
    _handle_lock: AbstractAsyncContextManager[None] = field(init=False)
    """Lock that is held while this session handle folds (compacts), so that it makes one fold at a time."""
    _finished: int = field(default=0, init=False)
    """Number of folds (compactions) that this session handle finished, successful or not."""

    def __post_init__(self) -> None:
        folder = self.folder
        self._handle_lock = folder.runtime.lock()
        self._lease = StoredLease(
            folder.store,
            folder.scope,
            folder.conversation,
            FOLDING,
            FoldingNote,
            self.clock,
            self.monotonic,
        )

    async def status(self) -> FoldingNote:
        """Return which process holds the lease for folding (compaction), and the failures since the last success."""
        return (await self._lease.read())[0]

    async def mode(self, live: Checkpoint | None, stand_in: StandIn | None) -> MemoryMode:
        """Return which part of the history contexts show now: all of it, or a summary and the newest turns."""
        if stand_in is not None:
            return MemoryMode.SUMMARY_N
        written = live is not None and (bool(live.model) or not self.policy.stand_in)
        if live is None or (written and (await self.status()).failures > self.policy.retries):
            return MemoryMode.FULL_HISTORY
        return MemoryMode.SUMMARY_N

    async def step(self, fold: FoldRange) -> Checkpoint | None:
        """Fold (compact) one step and return its checkpoint (summary).

        Returns None if another process folds, or in the pause after a failure.
        """
        return await self._one_at_a_time(fold, self._step)

    async def fold_all(
        self, fold: FoldRange, on_progress: Callable[[int, int], None] | None = None
    ) -> Checkpoint | None:
        """Fold a whole range in steps and return the last checkpoint (summary); None if nothing was folded.

        `on_progress(entries done, entries in all)` is called after each step.
        """
        return await self._one_at_a_time(fold, lambda current: self._steps(current, on_progress))

    async def _one_at_a_time(
        self, fold: FoldRange, work: Callable[[FoldRange], Awaitable[Checkpoint | None]]
    ) -> Checkpoint | None:
        """Run `work`, a fold (compaction), for the part of a range that this session's earlier folds have left.

        Waits until those folds have ended. If they have left nothing of the range, returns the newest checkpoint; None
        if there is none.
        """
        finished = self._finished
        async with self._handle_lock:
            try:
                if finished != self._finished:
                    fold = await self._current(fold)
                    if fold.after >= fold.upto:
                        return fold.previous
                return await work(fold)
            finally:
                self._finished += 1

    async def _step(self, fold: FoldRange) -> Checkpoint | None:
        if isinstance(self.folder.writer, ExtractiveWriter):
            return await self._extract_step(fold)
        if not await self._claim():
            return None
        try:
            landed = await self.folder.step(fold)
        except SummaryFailed as failure:
            if self.folder.runtime.stopping:  # cancelled by this program: not the model's failure
                await self._release(failures=None)
            else:
                await self._record_failure(failure)
            raise
        except (Exception, CancelledError):
            await self._release(failures=None)
            raise
        await self._release(failures=0)
        self._count_metrics(landed, fold)
        return landed

    async def _extract_step(self, fold: FoldRange) -> Checkpoint | None:
        """Fold one step without taking the lease, because making an extract calls no model and cannot fail."""
        note, _ = await self._lease.read()
        if self._must_wait(note):
            return None
        landed = await self.folder.step(fold)
        if note.failures:
            await self._release(failures=0)
        self._count_metrics(landed, fold)
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
            fold = replace(fold, previous=step, after=step.upto, reading=ReadCache())
            if on_progress is not None:
                on_progress(step.upto - first, fold.upto - first)
        return landed

    async def fold_given(self, fold: FoldRange, text: str) -> Checkpoint | None:
        """Fold a range with a summary that the caller wrote.

        Returns None if another process committed a fold first.
        """
        landed = await self.folder.fold_given(fold, text)
        if landed is not None and (await self.status()).failures:
            await self._release(failures=0)
        self._count_metrics(landed, fold)
        return landed

    async def stand_in(
        self, fold: FoldRange, current: StandIn | None, *, upto: int, tokens: int
    ) -> bool:
        """Store an extract of messages that left the window before they were folded.

        The extract continues `current`, the one that contexts show now, if there is any. Returns True if anything was
        added. Needs no lease and does not wait for a process that calls the model. If the memory has no model for
        summaries, the extract is committed as a checkpoint; otherwise the model's summary replaces it later. About
        `tokens` of the log are read.
        """
        if not self.policy.stand_in:
            return False
        if isinstance(self.folder.writer, ExtractiveWriter):
            return await self._extract_steps(replace(fold, upto=upto), tokens)
        made = await self.folder.extract(fold, current, upto=upto, tokens=tokens)
        if made is None:
            return False
        await self._store_stand_in(made, fold)
        fields = {"event": "fold_stood_in", "conversation": self._log_id}
        _log.info("showing an extract until the summary is ready", extra=fields)
        return True

    async def _extract_steps(self, fold: FoldRange, tokens: int) -> bool:
        """Commit extracts as checkpoints in steps, without a lease; return True if this or another process made one."""
        fold, landed = await self._current(fold), False
        for _ in range(1 + tokens // STEP_TOKENS):
            if fold.after >= fold.upto:
                return True
            step = await self.folder.step(fold)
            self._count_metrics(step, fold)
            if step is None:
                return True  # another process was faster: its checkpoint is read next
            fold = replace(fold, previous=step, after=step.upto, reading=ReadCache())
            landed = True
        return landed

    async def _store_stand_in(self, made: Document, fold: FoldRange) -> None:
        """Store the extract that is shown until the summary is ready.

        Raises `Conflict` if another process stored one first.
        """
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

    def begin_background(self, fold: FoldRange) -> bool:
        """Start folding (compacting) in the background; return False if a background fold is already running."""
        name = f"fold {self._log_id}"  # the name of a thread or task, which appears in logs
        return self.folder.runtime.begin(name, lambda: self._in_background(fold))

    async def _in_background(self, fold: FoldRange) -> None:
        runtime, pause = self.folder.runtime, self.policy.backoff
        for attempt in range(self.policy.retries + 1):
            try:
                await self.fold_all(await self._current(fold))
            except SummaryFailed:
                if attempt == self.policy.retries or runtime.stopping:
                    return
                # Until just after the stored pause. If the memory is closed, the next one folds.
                if await runtime.pause(pause * 1.05 + 0.01):
                    return
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception as error:  # folding is due again with the next call
                kind = type(error).__name__
                fields = {"event": "folding_stopped", "conversation": self._log_id, "error": kind}
                text = "background folding (compaction) failed with %s: a later call tries again"
                _log.warning(text, kind, extra=fields)
                return
            else:
                return

    async def _current(self, fold: FoldRange) -> FoldRange:
        """Return the part of a range that no checkpoint covers yet, so that committed steps are not repeated."""
        folder = self.folder
        live = await folder.store.live_checkpoint(folder.scope, folder.conversation)
        # Not after `fold.after`: a failover may have lost the checkpoint that covered the entries before it.
        after = max(fold.cleared, live.upto if live else 0)
        return replace(fold, previous=live, after=after)

    async def _claim(self) -> bool:
        """Take the lease for folding (compaction).

        Returns False if another process holds it, or during the pause after a failed fold.
        """
        note, version = await self._lease.read()
        if self._must_wait(note):
            return False
        until = self._lease.end(self.policy.lease)
        claimed = msgspec.structs.replace(note, owner=self._owner, until=until)
        return await self._write_lease(claimed, version)

    def _must_wait(self, note: FoldingNote) -> bool:
        """Return True if another process holds the lease for folds (compactions), or in the pause after a failure."""
        taken = self._lease.is_taken(note, self._owner, self.policy.lease)
        return taken or self._lease.is_active(note.not_before, _LONGEST_PAUSE)

    async def _release(self, *, failures: int | None) -> None:
        """Give back the lease for folding (compaction), and store this number of failures.

        None leaves the stored number unchanged.
        """
        note, version = await self._lease.read()
        failures = note.failures if failures is None else failures
        if note.owner in ("", self._owner):
            error = note.error if failures else ""
            await self._write_lease(FoldingNote(failures=failures, error=error), version)

    async def _record_failure(self, failure: SummaryFailed) -> None:
        """Log a failed attempt, and store it together with the time before which no process tries again."""
        cause = failure.__cause__ or failure
        kind = type(cause).__name__
        note, version = await self._lease.read()
        failures = note.failures + 1
        wait = min(self.policy.backoff * 2 ** (failures - 1), _LONGEST_PAUSE)
        not_before = self._lease.end(wait)
        self.meter.add("fold_failures")
        fields = {"event": "fold_failed", "conversation": self._log_id, "error": kind}
        _log.warning(
            "folding failed (%s), attempt %d: using the last good window",
            kind,
            failures,
            extra={**fields, "attempt": failures},
        )
        await self._write_lease(
            FoldingNote(failures=failures, not_before=not_before, error=kind), version
        )

    async def _write_lease(self, note: FoldingNote, version: int) -> bool:
        try:
            return await self._lease.write(note, version) is not None
        except ConversationDeleted:
            return False

    @property
    def _log_id(self) -> str:
        return log_mark(self.folder.scope.tenant, self.folder.conversation)

    async def calls(self, *, after: str = "", limit: int = 100) -> list[FoldCall]:
        """Return a page of the requests that folds (compactions) sent to a model, by checkpoint id, with usage."""
        folder = self.folder
        found = await folder.store.documents(
            folder.scope, folder.conversation, FOLD_CALL, after=after, limit=limit
        )
        return [msgspec.json.decode(document.body, type=FoldCall) for document in found]

    def _count_metrics(self, landed: Checkpoint | None, fold: FoldRange) -> None:
        if landed is None:
            self.meter.add("folds_lost")
            return
        self.meter.add("checkpoints")
        self.meter.observe("checkpoint_entries", landed.upto - fold.after)
        self.meter.observe("summary_tokens", self.folder.counted(landed.text))
        self.meter.observe("summary_fidelity", landed.fidelity)

"""One fold, from the pinned range to the committed checkpoint.

The range is fixed before the summary is written: everything after its last seq stays verbatim, whatever is written
meanwhile. The checkpoint is committed by compare-and-swap on the one before it, so of two who fold at once one wins and
the other's work is dropped; a conversation erased meanwhile stays erased. A long range is folded in steps, each a
checkpoint of its own, so that no step reads more than a bounded piece of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from turnfold.errors import Conflict, ConversationDeleted, SummaryFailed
from turnfold.memory.notes import StandIn, stand_in_document
from turnfold.memory.waiting import Way
from turnfold.memory.writers import ExtractiveWriter, SummaryTask, SummaryWriter
from turnfold.records import Checkpoint, Document, Entry, encode_message
from turnfold.records.json_text import check_text, plain_text
from turnfold.stores.protocol import Scope, Store
from turnfold.summary import Passage, as_summary, check_fidelity, passages_of, with_annex
from turnfold.summary.fidelity import SourceFacts, source_facts, without_annex
from turnfold.summary.reading import CountedOnce, Reading
from turnfold.summary.speakers import split_prefix
from turnfold.tokens import TokenCounter, clip

__all__ = ("STEP_TOKENS", "FoldRange", "Folder", "lowest_trust")

_PAGE = 256
STEP_TOKENS = 48_000
"""Tokens of conversation one step folds at most, the last span aside."""
_ANNEX_SHARE = 0.25
"""Part of a summary's limit that a model's text gives up where it lost facts."""
_CALLER = "caller"
_TRUST = ("system", "assistant", "user", "tool")
"""Who may be believed, most first. A summary is no more trusted than the least trusted of what it covers."""


@dataclass(frozen=True, slots=True)
class FoldRange:
    """What a fold covers, pinned when it began."""

    previous: Checkpoint | None
    """The checkpoint that is live."""
    after: int
    """The last seq that needs no folding: covered by `previous`, or cleared."""
    upto: int
    limit: int
    """Tokens the summary may have."""
    cleared: int = 0
    """The last seq that was cleared."""
    seen: tuple[int, int] | None = None
    """Seq and epoch of the newest entry when it was pinned: a store that has no such entry is in another history."""

    @property
    def by_caller(self) -> bool:
        """Whether the summary so far was written by the caller, who may write what looks like an annex."""
        return self.previous is not None and self.previous.model == _CALLER

    @property
    def so_far(self) -> str:
        """The summary to go on from; empty where what it covers was cleared."""
        previous = self.previous
        if previous is None or previous.upto <= self.cleared or previous.upto < self.after:
            return ""
        return previous.text


@dataclass(frozen=True, slots=True)
class Folder:
    """Folds ranges of one conversation."""

    store: Store
    scope: Scope
    conversation: str
    counter: TokenCounter
    writer: SummaryWriter
    way: Way
    counted: CountedOnce = field(init=False, repr=False, compare=False)
    """What the lines of the last summary cost: the next one keeps most of them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counted", CountedOnce(self.counter.count_text))

    async def step(self, fold: FoldRange) -> Checkpoint | None:
        """Fold the beginning of a range; None when another was faster or the conversation is gone."""
        writer, reading = self.writer, Reading()
        entries = await self._entries(fold)
        if not entries:
            return None
        passages = passages_of(
            [entry.message for entry in entries if entry.message.role != "system"],
            first=entries[0].seq,
        )
        facts = source_facts([*_before(fold), *passages], reading=reading)
        text = ""
        if passages or fold.so_far:
            text = await self._text(passages, facts, fold, reading)
        fidelity = check_fidelity(facts, text, reading=reading).score
        self.counted.keep([text, *text.splitlines()])
        return await self.commit(fold, entries, text, fidelity=fidelity, model=writer.name)

    async def extract(
        self, fold: FoldRange, so_far: StandIn | None, *, upto: int, tokens: int
    ) -> Document | None:
        """Extend an extract over the entries up to `upto`; None when there is nothing to add.

        It reads about `tokens` of the log at most, so a longer range is covered in several calls.
        """
        after = max(fold.after, so_far.upto if so_far else 0)
        entries = await self._entries(replace(fold, after=after, upto=upto), tokens=tokens)
        if not entries:
            return None
        said = [entry.message for entry in entries if entry.message.role != "system"]
        previous = so_far.text if so_far else fold.so_far
        task = SummaryTask(
            passages_of(said, first=entries[0].seq), previous, fold.limit, self.counted, Reading()
        )
        text = (await self._written(task, ExtractiveWriter())).strip() if said or previous else ""
        return stand_in_document(entries[-1].seq, text)

    async def given(self, fold: FoldRange, text: str) -> Checkpoint | None:
        """Fold the whole range behind a summary the caller wrote, which is kept as it is."""
        if not text.strip():
            raise SummaryFailed(
                "the summary given is empty: nothing would stand for what it covers"
            )
        entries: list[Entry] = []
        while page := await self._page(entries[-1].seq if entries else fold.after, fold.upto):
            entries.extend(page)
        if not entries or entries[-1].seq < fold.upto:
            raise self._erased()
        passages = passages_of(
            [entry.message for entry in entries if entry.message.role != "system"],
            first=fold.after + 1,
        )
        fidelity = check_fidelity([*_before(fold), *passages], text).score
        landed = await self.commit(fold, entries, text, fidelity=fidelity, model=_CALLER)
        if landed is None and not await self._page(fold.after, fold.upto):
            raise self._erased()
        return landed

    def _erased(self) -> ConversationDeleted:
        """The error of a caller whose conversation was erased while its summary was on its way."""
        return ConversationDeleted(
            f"conversation {self.conversation!r} has been erased; use another id"
        )

    async def commit(
        self,
        fold: FoldRange,
        entries: Sequence[Entry],
        text: str,
        *,
        fidelity: float,
        model: str,
    ) -> Checkpoint | None:
        """Make the summary of these entries live; None when it no longer follows the live one."""
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
            trust=lowest_trust(entries, previous.trust if fold.so_far and previous else "system"),
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

    async def _text(
        self,
        passages: Sequence[Passage],
        facts: SourceFacts,
        fold: FoldRange,
        reading: Reading,
    ) -> str:
        count, writer = self.counted, self.writer
        extractive = isinstance(writer, ExtractiveWriter)
        # A model is not sent what was added to its last summary: those facts are checked for, and added, again.
        previous = fold.so_far if extractive or fold.by_caller else without_annex(fold.so_far)
        task = SummaryTask(passages, previous, fold.limit, count, reading)
        text = (await self._written(task, writer)).strip()
        if not extractive:  # whoever wrote it: no line of it may look like the structure around it
            text = as_summary(text, {passage.speaker for passage in passages}).strip()
        if not extractive or count(text) > fold.limit:
            text = clip(text, fold.limit, count)
        if not text:
            raise SummaryFailed("the summariser answered without text")
        # The extract was chosen for its facts: cutting it to make room for more of them loses more than it adds.
        if extractive:
            return text
        lost = check_fidelity(facts, text, reading=reading)
        if not lost.missing:
            return text
        shorter = clip(text, max(int(fold.limit * (1 - _ANNEX_SHARE)), 1), count)
        if shorter != text:
            text, lost = shorter, check_fidelity(facts, shorter, reading=reading)
        return with_annex(text, lost, limit=fold.limit, count=count)

    async def _written(self, task: SummaryTask, writer: SummaryWriter) -> str:
        try:
            text = await writer.write(task, self.way)
            return check_text(plain_text(text, path="summary"), path="summary")
        except SummaryFailed:
            raise
        except (
            Exception
        ) as error:  # whatever a model raises, and what no store can hold, is one failed attempt
            raise SummaryFailed(f"the summariser failed: {type(error).__name__}") from error

    async def _entries(self, fold: FoldRange, *, tokens: int = STEP_TOKENS) -> list[Entry]:
        """Read the entries of one step: up to `tokens`, then on to the end of the span."""
        entries: list[Entry] = []
        used = 0
        while page := await self._page(entries[-1].seq if entries else fold.after, fold.upto):
            for entry in page:
                if used >= tokens and entry.message.role != "tool":
                    return entries
                entries.append(entry)
                used += entry.tokens
        return entries

    async def _page(self, after: int, upto: int) -> list[Entry]:
        if after >= upto:
            return []
        return await self.store.read(
            self.scope, self.conversation, after=after, upto=upto, limit=_PAGE
        )


def lowest_trust(entries: Sequence[Entry], previous: str) -> str:
    """The least trusted voice among the entries and what the summary so far covers."""
    voices = {entry.message.role for entry in entries} | {previous}
    known = [voice for voice in _TRUST if voice in voices]
    return known[-1] if known and voices <= set(_TRUST) else "tool"


def _before(fold: FoldRange) -> list[Passage]:
    """The summary so far, line by line under the names in it: one name more would pile up from fold to fold."""
    lines = (split_prefix(line.removeprefix("- ")) for line in fold.so_far.splitlines())
    return [Passage(speaker, words, 0) for speaker, words in lines]

"""Stores the text of an agent's workspace at each turn, and its summary (`ContextMemoryStore`).

It is the store of design document 002; the rendered workspace of a turn is called its context.

A context is stored before its summary is written. If a process dies in between, an extract of the context is shown
until there is a summary. A summary is written once: of two writers the first wins and the other gets the stored one.

The summaries of all turns are rendered as one text of bounded size. The newest are shown as they are; the oldest are
folded (compacted) into an extract, and the text says how to recall them. A fold takes a fixed number of turns and the
extract of the fold before it, so that every process gets the same text and a new turn does not fold everything again.

A context that fits the prompt is summarised whole. Of a longer one only the changes since the turn before are read, and
if these are too long, its beginning and end; the summary records which of the three was read (`Reading`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from turnfold.errors import Conflict, InvalidOption
from turnfold.fold import Passage, extract_summary
from turnfold.memories.memory_module.export import ContextExporter, ExportedContexts, read_export
from turnfold.memories.memory_module.values import (
    ContextHit,
    ContextSnapshot,
    ImportedContexts,
    MemorySummary,
    Reading,
    full_context,
    read_summary,
    to_context,
    write_summary,
)
from turnfold.records import Snapshot
from turnfold.runtime import Runtime
from turnfold.stores import Scope, Store, redaction_of
from turnfold.text import clip, clip_end
from turnfold.window import shrink_text
from turnfold.workspace_snapshots import (
    SNAPSHOT_SUMMARY,
    AsyncSnapshots,
    RecalledContext,
    RecallRequest,
    SnapshotHead,
    SnapshotStorage,
    StoredSnapshot,
    WorkspaceRecall,
    check_snapshot_page,
    compare_contents,
    parse_request,
    turn_key,
)

__all__ = (
    "MIN_SUMMARY_TOKENS",
    "AsyncContextMemoryStore",
    "SummaryHistory",
    "extract_text",
    "text_to_read",
)


MIN_SUMMARY_TOKENS = 64
_STEP = 16
"""Number of summaries that one step folds (compacts), together with the result of the step before. Results of full
steps are cached."""
_FOLDED_SHARE = 3
"""Divisor of the token limit: a third of the tokens is for the folded (compacted) summaries."""
_HEADING_TOKENS = 24
"""Tokens kept free for the heading above the folded (compacted) summaries."""
_MAX_CACHED_FOLDS = 4096
_Source: TypeAlias = tuple[str, tuple[tuple[int, str], ...]]
"""Input of one fold (compaction) of summaries: the extract of the fold before, and the (turn, summary) pairs to add."""


class SummaryHistory:
    """Renders the summaries of all turns as one text within a token limit, and caches the folded parts."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._folds: dict[tuple[int, int], tuple[_Source, str]] = {}

    def text(self, summaries: Sequence[tuple[int, str]], *, tokens: int) -> str:
        """Return one line per turn in at most `tokens` tokens.

        `summaries` has (turn, text) pairs, oldest first.
        """
        if tokens < MIN_SUMMARY_TOKENS:
            raise InvalidOption(
                f"the summaries of the turns may have only {tokens} tokens, but need at least {MIN_SUMMARY_TOKENS}: "
                "raise this limit, or the budget that it is a share of"
            )
        texts = [(turn, " ".join(text.split())) for turn, text in summaries]
        lines = [_line(*each) for each in texts]
        newest = self._newest_lines(lines, tokens)
        if len(newest) == len(lines):
            whole = "\n".join(newest)
            if self._count(whole) <= tokens:
                return whole
        folded_tokens = tokens // _FOLDED_SHARE
        newest = self._newest_lines(lines, tokens - folded_tokens - _HEADING_TOKENS)
        while True:
            text = self._with_folded(texts, newest, folded_tokens)
            if self._count(text) <= tokens or not newest:
                return clip(text, tokens, self._count)
            newest = newest[1:]

    def _newest_lines(self, lines: Sequence[str], room: int) -> list[str]:
        """Return the newest lines that fit `room` tokens together; if not even the newest line fits, it is cut."""
        newest: list[str] = []
        for line in reversed(lines):
            cost = self._count(line) + 1
            if cost > room:
                if not newest:
                    newest.append(f"{clip(line, max(room - 4, 0), self._count)}…")
                break
            newest.append(line)
            room -= cost
        return newest[::-1]

    def _with_folded(
        self, texts: Sequence[tuple[int, str]], newest: Sequence[str], tokens: int
    ) -> str:
        older = texts[: len(texts) - len(newest)]
        if not older:
            return "\n".join(newest)
        first, last = older[0][0], older[-1][0]
        remark = f"[Turns {first}-{last}, shortened; recall_context shows any turn whole]"
        return "\n".join([remark, self._folded(older, tokens), *newest])

    def _folded(self, texts: Sequence[tuple[int, str]], tokens: int) -> str:
        previous = ""
        steps = len(texts) // _STEP
        for step in range(steps):
            source = previous, tuple(texts[step * _STEP : (step + 1) * _STEP])
            known = self._folds.get((step, tokens))
            if known is None or known[0] != source:
                if len(self._folds) >= _MAX_CACHED_FOLDS:
                    self._folds.clear()
                known = source, self._fold(source[1], previous, tokens)
                self._folds[step, tokens] = known
            previous = known[1]
        return self._fold(texts[steps * _STEP :], previous, tokens)

    def _fold(self, texts: Sequence[tuple[int, str]], previous: str, tokens: int) -> str:
        passages = [Passage(f"[Turn {turn}]", text, turn) for turn, text in texts]
        return extract_summary(passages, limit=tokens, count=self._count, previous=previous)


def _line(turn: int, text: str) -> str:
    # On one line, so that a summary cannot contain a line that looks like another turn's.
    return f"[Turn {turn}] {text}"


_EMPTY = "(empty workspace)"
_MAX_TOKEN_LENGTH = 16
"""Most characters per token in prose or code: a text with more than the limit times this number is over the limit
without counting."""


def text_to_read(
    text: str, before: str | None, *, tokens: int, count: Callable[[str], int]
) -> tuple[str, Reading]:
    """Return the text of a context that a summariser gets, and its extent: "whole", "changes" or "part".

    `before` is the context of the turn before, to find the changes; None if there is none.
    """
    if _fits(text, tokens, count):
        return text, "whole"
    changed = compare_contents("", before, text) if before else None
    if changed is not None and _fits(changed.patch, tokens, count):
        return changed.patch, "changes"
    longest = tokens * _MAX_TOKEN_LENGTH
    if len(text) > 2 * longest:
        half = tokens // 2 - 8
        ends = clip(text[:longest], half, count), clip_end(text[-longest:], half, count)
        text = f"\n[… {len(text):,} characters in full …]\n".join(ends)
    return shrink_text(text, tokens, count), "part"


def extract_text(text: str, *, tokens: int, count: Callable[[str], int]) -> str:
    """Return the most informative sentences of a text in at most `tokens`; never empty."""
    found = extract_summary([Passage("", text, 0)], limit=tokens, count=count)
    return " ".join(found.split()) or _EMPTY


def _fits(text: str, tokens: int, count: Callable[[str], int]) -> bool:
    return len(text) <= tokens * _MAX_TOKEN_LENGTH and count(text) <= tokens


_ID = re.compile(r"(?:sum_)?ctx_([1-9][0-9]{0,17})_")


def _turn_number(turn: int | str) -> int:
    """Return the turn number in the id of a context or summary; a number is returned unchanged, 0 for other text."""
    if isinstance(turn, int):
        return turn
    found = _ID.match(turn)
    return int(found[1]) if found else 0


_PAGE = 200
_READ_TOKENS = 4000
"""Most tokens of a context (an agent's workspace as text) that are read to make an extract of it."""
_EXTRACT_TOKENS = 120
"""Most tokens of the extract that is shown in place of a missing summary."""


class AsyncContextMemoryStore:
    """Stores, searches, recalls, exports and imports the contexts and summaries of one conversation."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        conversation: str,
        *,
        count: Callable[[str], int],
        clock: Callable[[], int],
        runtime: Runtime,
    ) -> None:
        self._lock = runtime.lock()
        self._store, self._scope, self._conversation = store, scope, conversation
        self._count = count
        self._clock = clock
        self._storage = SnapshotStorage(store, scope, conversation, runtime=runtime)
        self._snapshots = AsyncSnapshots(self._storage, count=count, clock=clock)
        self._recall = WorkspaceRecall(self._storage, count, self._summary_of)
        self._history = SummaryHistory(count)
        self._summaries: dict[int, str] = {}
        """Cache of the stored summaries: turn -> summary."""
        self._extracts: dict[int, str] = {}
        """Turn without a summary -> extract of the turn's context, which is shown in place of a summary."""
        self._checked_turn = 0
        """Contexts up to this turn have already been checked for missing summaries."""

    @property
    def snapshots(self) -> AsyncSnapshots:
        """The stored workspace contexts as snapshots, to read single files, diffs or lines."""
        return self._snapshots

    async def add_context(
        self, workspace: str | Snapshot, *, turn: int = 0, links: tuple[str, ...] = ()
    ) -> ContextSnapshot:
        """Store the context (rendered workspace) of a turn and return it; `turn=0` means the turn after the newest."""
        given = Snapshot(context=workspace) if isinstance(workspace, str) else workspace
        wanted = replace(
            given,
            turn=turn or given.turn,
            links=tuple(dict.fromkeys((*given.links, *links))),
            created=given.created or self._clock(),
        )
        if redaction := redaction_of(self._store):
            wanted = await redaction.snapshot(self._scope, self._conversation, wanted)
        taken = await self._snapshots.take(wanted)
        if taken.repeated and (there := await self.context(taken.turn)) is not None:
            return there
        return to_context(replace(wanted, turn=taken.turn), None)

    async def head_before(self, turn: int = 0) -> SnapshotHead | None:
        """Return id and turn of the newest stored context before `turn`; None if there is none.

        If `turn` is 0, the newest of all contexts is returned.
        """
        newest = await self._storage.newest(**({"below": turn} if turn else {}))
        found = await self._storage.stored(newest) if newest else None
        return found.head if found else None

    async def add_summary(self, summary: MemorySummary) -> MemorySummary:
        """Store the summary of a context and return it; if the context has a summary already, return the stored one."""
        stored = await self._storage.stored(summary.turn_number)
        if stored is None or stored.head.id != summary.context_id:
            raise InvalidOption(
                f"{summary.context_id} is not the context of turn {summary.turn_number:,}; give the id that "
                "add_context returned for that turn"
            )
        try:
            await self._put(summary)
        except Conflict:
            there = await self.summary(summary.turn_number)
            if there is None:
                raise
            return there
        return summary

    async def context(self, turn: int | str) -> ContextSnapshot | None:
        """Return the whole context of a turn, or of an id such as `ctx_2_4f1d09aa3b7c`; None if there is none."""
        snapshot = await self._snapshots.get(_turn_number(turn))
        if snapshot is None or (isinstance(turn, str) and snapshot.id != turn):
            return None
        return to_context(snapshot, await self.summary(snapshot.turn))

    async def contexts(self, *, after: int = 0, limit: int = 20) -> list[ContextSnapshot]:
        """Return a page of whole contexts: those of the turns after `after`, oldest first, at most `limit`."""
        heads = await self._snapshots.heads(after=after, limit=limit)
        found = [await self.context(head.turn) for head in heads]
        return [context for context in found if context is not None]

    async def summary(self, turn: int | str) -> MemorySummary | None:
        """Return the summary of a turn, or of an id such as `sum_ctx_2_4f1d09aa3b7c`; None if there is none."""
        number = _turn_number(turn)
        if number < 1:
            return None
        document = await self._store.get_document(
            self._scope, self._conversation, SNAPSHOT_SUMMARY, turn_key(number)
        )
        found = read_summary(document) if document else None
        return None if found is None or (isinstance(turn, str) and found.id != turn) else found

    async def summaries(self, *, after: int = 0, limit: int = 100) -> list[MemorySummary]:
        """Return a page of summaries: those of the turns after `after`, oldest first, at most `limit`."""
        check_snapshot_page(after, limit)
        documents = await self._store.documents(
            self._scope, self._conversation, SNAPSHOT_SUMMARY, after=turn_key(after), limit=limit
        )
        return [read_summary(document) for document in documents]

    async def accumulated_summaries(self, *, tokens: int) -> str:
        """Return the summaries of all turns, one line each, in at most `tokens`; the oldest are folded (compacted)."""
        async with self._lock:
            await self._refresh()
            texts = {**self._extracts, **self._summaries}
            return self._history.text(sorted(texts.items()), tokens=tokens) if texts else ""

    async def search(self, keyword: str, *, limit: int = 10) -> list[ContextHit]:
        """Find contexts by keyword in their new content and summaries, best first."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        found: list[ContextHit] = []
        for hit in await self._recall.search([keyword], limit=limit):
            stored = await self._storage.stored(hit.turn)
            if stored is not None:
                summary = await self._summary_of(stored)
                found.append(ContextHit(stored.head.id, hit.turn, summary, hit.score))
        return found

    async def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int
    ) -> RecalledContext:
        """Return content selected by turn numbers, context ids, path and lines, or keywords, in at most `tokens`."""
        return await self._recall.recall(parse_request(request), tokens=tokens)

    async def export(self) -> dict[str, object]:
        """Export all contexts and summaries of the conversation as JSON values, for `import_`."""
        exporter = ContextExporter()
        after = 0
        while heads := await self._snapshots.heads(after=after, limit=_PAGE):
            for head in heads:
                snapshot = await self._snapshots.get(head.turn)
                summary = await self.summary(head.turn)
                if snapshot is not None:
                    exporter.add(snapshot, summary)
            after = heads[-1].turn
        return exporter.export()

    async def import_(self, exported: Mapping[str, object]) -> ImportedContexts:
        """Import the result of `export`; contexts and summaries that are stored already are skipped.

        A faulty export raises `InvalidRecord` and nothing is imported. `Conflict` is raised if a turn has another
        context or summary here than in the export. A new conversation is written in one transaction; an existing one
        turn by turn, and repeating an interrupted import completes it.
        """
        imported = read_export(exported)
        head = await self._store.head(self._scope, self._conversation)
        if not imported.turns:
            return ImportedContexts(contexts=0, summaries=0)
        if not head.generation:
            pieces = imported.pieces(self._conversation)
            await self._store.restore(self._scope, pieces)
            return ImportedContexts(contexts=len(imported.turns), summaries=len(imported.summaries))
        known = await self._check_conflicts(imported)
        contexts = summaries = 0
        for snapshot in imported.snapshots():
            contexts += not (await self._snapshots.take(snapshot)).repeated
        for summary in imported.summaries:
            if summary.turn_number not in known:
                await self._put(summary)
                summaries += 1
        return ImportedContexts(contexts=contexts, summaries=summaries)

    async def _check_conflicts(self, imported: ExportedContexts) -> set[int]:
        """Return the turns whose summary is stored; raise `Conflict` if a stored one differs from the export."""
        for turn, context_id in imported.turns.items():
            there = await self._storage.stored(turn)
            if there is not None and there.head.id != context_id:
                raise Conflict(
                    f"turn {turn:,} has context {there.head.id} in the store and {context_id} in the export; "
                    "nothing was imported: import it under another conversation id"
                )
        known: set[int] = set()
        for summary in imported.summaries:
            found = await self.summary(summary.turn_number)
            if found is not None and found != summary:
                raise Conflict(
                    f"turn {summary.turn_number:,} has one summary in the store and another in the export; "
                    "nothing was imported: import it under another conversation id"
                )
            if found is not None:
                known.add(summary.turn_number)
        return known

    async def _put(self, summary: MemorySummary) -> None:
        document = write_summary(summary)
        await self._store.put_document(self._scope, self._conversation, document, expect=0)

    async def _summary_of(self, stored: StoredSnapshot) -> str:
        summary = await self.summary(stored.head.turn)
        return summary.summary if summary else stored.head.summary

    async def _refresh(self) -> None:
        """Read summaries that others have stored since, and make extracts for contexts without a summary."""
        newest = await self._snapshots.newest()
        if newest and await self._storage.stored(newest) is None:  # the conversation was erased
            self._summaries.clear()
            self._extracts.clear()
            return
        after = max(self._summaries, default=0)
        while page := await self.summaries(after=after, limit=_PAGE):
            self._summaries.update((each.turn_number, each.summary) for each in page)
            after = page[-1].turn_number
        for turn in list(self._extracts):
            late = await self.summary(turn)
            if late is not None:
                self._summaries[turn] = late.summary
                del self._extracts[turn]
        expected = self._checked_turn + 1
        for turn in (
            *sorted(turn for turn in self._summaries if turn > self._checked_turn),
            newest + 1,
        ):
            if turn > expected:
                await self._extract_between(expected, turn)
            expected = turn + 1
        self._checked_turn = max(self._checked_turn, newest)

    async def _extract_between(self, first: int, stop: int) -> None:
        """Make extracts of the contexts that have no summary, from turn `first` up to but not including turn `stop`."""
        after = first - 1
        while True:
            page = await self._storage.page(after=after, limit=1)
            if not page or page[0].head.turn >= stop:
                return
            head = page[0].head
            after = head.turn
            snapshot = await self._snapshots.get(head.turn)
            if snapshot is not None:
                self._extracts[head.turn] = head.summary or self._extract_context(
                    full_context(snapshot)
                )

    def _extract_context(self, text: str) -> str:
        read, _ = text_to_read(text, None, tokens=_READ_TOKENS, count=self._count)
        return extract_text(read, tokens=_EXTRACT_TOKENS, count=self._count)

"""The vectors of one conversation: made block by block in the background, stored once, shared by all processes.

A block is the vectors of 64 entries that follow one another, in a document whose name says which: whoever makes it
first keeps it, and a process that is killed leaves whole blocks only. What takes part in a recall is what the store
holds, and the newest entries that are not yet a block, embedded when they are asked for: two processes that see one
store bring back the same passages. An embedder that fails costs a recall by meaning and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from turnfold.errors import Conflict, TurnfoldError
from turnfold.memory.setting import Setting
from turnfold.models.embedding import Embedder
from turnfold.records import Document
from turnfold.stores.log_mark import log_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnfold.memory.meaning.vectors import Rows, Vectors

__all__ = ("MeaningStatus", "Meanings")

_log = logging.getLogger(__name__)
BLOCK = 64
"""Entries whose vectors are stored together."""
_PAGE = 32
_MOST_BLOCKS = 3_125
"""Blocks held: 200,000 entries. Older ones are found by words alone."""
_LONGEST = 1_000
"""Characters of a text that are embedded: an encoder of sentences makes nothing of more."""
_SECONDS = 120.0
"""How long an embedder may take for a block, or a question."""


@dataclass(frozen=True, slots=True)
class MeaningStatus:
    """How far the vectors of a conversation are made."""

    embedder: str
    indexed: int
    """Entries whose vectors are stored."""
    entries: int
    """Entries of the conversation."""


@dataclass(slots=True)
class Meanings:
    """Finds entries of one conversation by what they mean."""

    setting: Setting
    conversation: str
    embedder: Embedder
    _vectors: Vectors | None = None
    _left_out: int = 0
    """Blocks before those that are held."""
    _last: str = ""
    """Key of the newest block read."""
    _asked: dict[str, Rows] = field(default_factory=dict[str, "Rows"])
    """The question asked last and its vector: a turn asks the same one again."""
    _loose: dict[int, Rows] = field(default_factory=dict[int, "Rows"])
    """Vectors of the newest entries, by seq."""

    @property
    def held_bytes(self) -> int:
        """Bytes of vectors kept in memory."""
        return self._vectors.held_bytes if self._vectors is not None else 0

    async def near(
        self, query: str, *, after: int, before: int, most: int
    ) -> list[tuple[int, float]]:
        """The entries between two seqs that are nearest in meaning, as (seq, closeness), best first."""
        vectors = await self._level()
        if not vectors or not query.strip():
            return []
        try:
            newest = await self._newest(before)
            found = vectors.nearest(
                await self._vector(query),
                newest,
                first=max(after - self._left_out * BLOCK, 0),
                stop=max(min(before - 1 - self._left_out * BLOCK, len(vectors) + len(newest)), 0),
                most=most,
            )
        except Exception as error:  # whatever an embedder raises, words are still there
            self._failed(error)
            return []
        return [(self._left_out * BLOCK + place + 1, closeness) for place, closeness in found]

    async def status(self) -> MeaningStatus:
        """How far the vectors are made."""
        setting = self.setting
        vectors = await self._level()
        head = await setting.store.head(setting.scope, self.conversation)
        indexed = self._left_out * BLOCK + len(vectors)
        return MeaningStatus(self.embedder.name, indexed, head.seq)

    async def build(self, on_progress: Callable[[int, int], None] | None = None) -> MeaningStatus:
        """Make what is missing; `on_progress` is told how many of how many entries are done."""
        status = await self.status()
        whole = status.entries // BLOCK * BLOCK
        for first in range(status.indexed + 1, whole + 1, BLOCK):
            if self.setting.way.stopping:
                break
            await self._make(first)
            if on_progress is not None:
                on_progress(first + BLOCK - 1, whole)
        return await self.status()

    def begin(self, entries: int) -> bool:
        """Make what is missing in the background; False where nothing is, or that is under way."""
        held = self._left_out * BLOCK + (len(self._vectors) if self._vectors is not None else 0)
        if entries // BLOCK * BLOCK <= held:
            return False
        name = f"meaning {self._mark}"
        return self.setting.way.begin(name, self._in_background)

    async def _in_background(self) -> None:
        # With a reader of its own: the one in front may be asked at the same moment.
        aside = Meanings(self.setting, self.conversation, self.embedder)
        try:
            await aside.build()
        except Exception as error:  # due again with the next recall
            self._failed(error)

    async def _make(self, first: int) -> None:
        setting = self.setting
        entries = await setting.store.read(
            setting.scope, self.conversation, after=first - 1, upto=first + BLOCK - 1, limit=BLOCK
        )
        rows = await self._embedded([entry.message.text for entry in entries])
        from turnfold.memory.meaning.vectors import pack

        block = Document(self._kind, f"{first:012d}", pack(rows), 0)
        try:
            await setting.store.put_document(setting.scope, self.conversation, block, expect=0)
        except Conflict:
            return  # another process was faster
        setting.meter.add("meaning_entries", len(entries))

    async def _level(self) -> Vectors:
        """What the store holds by now."""
        from turnfold.memory.meaning.vectors import Vectors

        if self._vectors is None:
            self._vectors = Vectors()
        vectors, setting = self._vectors, self.setting
        while True:
            page = await setting.store.documents(
                setting.scope, self.conversation, self._kind, after=self._last, limit=_PAGE
            )
            for block in page:
                if int(block.key) != self._left_out * BLOCK + len(vectors) + 1:
                    return vectors  # one before it is still being made
                vectors.add(block.body, BLOCK)
                self._last = block.key
            if (many := len(vectors) // BLOCK - _MOST_BLOCKS) > 0:
                vectors.drop_first(many)
                self._left_out += many
            if len(page) < _PAGE:
                return vectors

    async def _newest(self, before: int) -> list[Rows]:
        """The vectors of the entries behind the last block, if they are too few for one."""
        setting = self.setting
        stored = await self._indexed()
        head = await setting.store.head(setting.scope, self.conversation)
        last = min(before - 1, head.seq)
        if head.seq - stored >= BLOCK or last <= stored:
            return []
        self._loose = {seq: row for seq, row in self._loose.items() if seq > stored}
        after = max(self._loose, default=stored)
        if last > after:
            entries = await setting.store.read(
                setting.scope, self.conversation, after=after, upto=last, limit=BLOCK
            )
            rows = await self._embedded([entry.message.text for entry in entries])
            self._loose.update((entry.seq, row) for entry, row in zip(entries, rows, strict=True))
        return [row for seq, row in sorted(self._loose.items()) if seq <= last]

    async def _indexed(self) -> int:
        return self._left_out * BLOCK + len(await self._level())

    async def _vector(self, query: str) -> Rows:
        if query not in self._asked:
            self._asked = {query: (await self._embedded([query]))[0]}
        return self._asked[query]

    async def _embedded(self, texts: Sequence[str]) -> Rows:
        from turnfold.memory.meaning.vectors import unit

        shortened = [text[:_LONGEST] for text in texts]
        found = await self.setting.way.ask(lambda: self.embedder.embed(shortened), seconds=_SECONDS)
        return unit(cast("Sequence[Sequence[float]]", found), len(texts))

    @property
    def _mark(self) -> str:
        return log_mark(self.setting.scope.tenant, self.conversation)

    @property
    def _kind(self) -> str:
        return f"meaning:{self.embedder.name}"

    def _failed(self, error: Exception) -> None:
        self.setting.meter.add("meaning_failures")
        kind = type(error).__name__
        told = f": {error}" if isinstance(error, TurnfoldError) else ""
        fields = {"event": "meaning_failed", "conversation": self._mark, "error": kind}
        _log.warning("recall by meaning failed: %s%s", kind, told, extra=fields)

"""Recall by meaning: the embedding vectors of one conversation, computed in the background and stored once.

A block holds the vectors of 16 consecutive entries, in a document named after the first of them. A long text has a
vector for each part of 500 bytes. The first process to write a block wins, and a killed process leaves only
whole blocks. A recall uses the stored blocks, and embeds the newest entries that do not fill a block yet, so two
processes with one store recall the same passages. If the embedder fails, recall uses words only.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, cast

from turnfold.errors import Conflict, TurnfoldError
from turnfold.memory.config import MemoryConfig
from turnfold.models import Embedder
from turnfold.records import Document, Entry
from turnfold.stores import log_mark

__all__ = (
    "MeaningStatus",
    "Meanings",
    "NearEntry",
    "has_vector_of",
    "parts_of",
)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnfold.memory.vector_search import Rows, Vectors


_log = logging.getLogger(__name__)
_KIND = "meaning:"
_FORM = ":parts"
"""Suffix of the kind of blocks that have a vector for each part of a text; blocks of an earlier version have no
suffix."""
BLOCK = 16
"""Entries per stored block of vectors. A recall embeds up to 15 entries that do not fill a block yet."""
_EARLIER_BLOCK = 64
"""Entries per block of an earlier version; such blocks are not read, but must be erased with their entries."""
_PAGE = 128
_MAX_ROWS = 200_000
"""Most vectors kept in memory. Older entries are found by words only."""
_PART_BYTES = 500
"""Bytes in UTF-8 of the part of a text that gets one vector: a Chinese character has three, and says as much as some
letters."""
_QUERY_CHARACTERS = 1_000
"""Number of characters at the beginning of a query that are embedded; the rest is ignored."""
_OVERLAP = 0.2
"""When a long text is split into parts for embedding, each part repeats at least this share of the part before."""
_MAX_PARTS = 16
"""Most vectors of one text; of a longer text, some sections between the embedded parts are not embedded. An encoder
takes some 15 ms for a part."""
_TIMEOUT = 120.0
"""Seconds that the embedder may take for a block of entries or a query; after that the call fails."""


def has_vector_of(document: Document, seq: int) -> bool:
    """Return True if a block contains the vectors of entry `seq`."""
    kind, entries = document.kind, BLOCK if document.kind.endswith(_FORM) else _EARLIER_BLOCK
    return kind.startswith(_KIND) and 0 <= seq - int(document.key) < entries


@dataclass(frozen=True, slots=True)
class MeaningStatus:
    """The number of entries of a conversation, and how many of them have stored vectors."""

    embedder: str
    indexed: int
    """Number of entries whose vectors are stored."""
    entries: int
    """Number of entries of the conversation."""


class NearEntry(NamedTuple):
    """An entry that is near to a query in meaning."""

    seq: int
    closeness: float
    """Nearness in meaning: 0 for an average entry; 1 for the nearest entry to expect by chance; above 1 for one that
    stands out."""
    part: int
    """Index of the part of the entry's text that is nearest in meaning; see `parts_of`."""


@dataclass(slots=True)
class Meanings:
    """Finds entries of one conversation by meaning: by the vectors of the entries and of the query."""

    config: MemoryConfig
    conversation: str
    embedder: Embedder
    _vectors: Vectors | None = None
    _offset: int = 0
    """Number of entries before the loaded vectors; the blocks of these entries are no longer in memory."""
    _last_key: str = ""
    """Key of the newest block of vectors that was read."""
    _last_query: dict[str, Rows] = field(default_factory=dict[str, "Rows"])
    """The last query and its vector: the calls of a turn repeat the same query."""
    _newest_rows: dict[int, Rows] = field(default_factory=dict[int, "Rows"])
    """Vectors by seq of the newest entries, which do not fill a block yet."""
    _history: int = 0
    """Counter `ConversationCache.history` (incremented if the store has another history) when the vectors were
    loaded."""

    def follow(self, history: int) -> None:
        """Drop the loaded vectors if the history is another one: an entry was erased, or the store was restored."""
        if history != self._history:
            self._history, self._vectors, self._newest_rows = history, None, {}
            self._offset, self._last_key = 0, ""

    @property
    def held_bytes(self) -> int:
        """Memory of the loaded vectors, in bytes."""
        return self._vectors.held_bytes if self._vectors is not None else 0

    async def near(
        self, query: str, *, after: int, before: int, most: int, without: int = 0
    ) -> list[NearEntry]:
        """Return the entries between two seqs that are nearest in meaning, best first.

        The entry `without` is left out, and does not raise the scores of its neighbours.
        """
        vectors = await self._load()
        if not vectors or not query.strip():
            return []
        try:
            newest = await self._newest_vectors(before)
            found = vectors.nearest(
                await self._query_vector(query),
                newest,
                first=max(after - self._offset, 0),
                stop=max(min(before - 1 - self._offset, len(vectors) + len(newest)), 0),
                most=most,
                without=without - 1 - self._offset if without else -1,
            )
        except Exception as error:  # of any kind: recall then uses words only
            self._log_failure(error)
            return []
        return [NearEntry(self._offset + each.place + 1, *each[1:]) for each in found]

    async def status(self) -> MeaningStatus:
        """Return how many entries the conversation has, and how many of them have stored vectors."""
        indexed = await self._indexed()
        head = await self.config.store.head(self.config.scope, self.conversation)
        return MeaningStatus(self.embedder.name, indexed, head.seq)

    async def build(self, on_progress: Callable[[int, int], None] | None = None) -> MeaningStatus:
        """Compute and store missing vectors; calls `on_progress(entries done, entries in all)` after each block."""
        status = await self.status()
        whole = status.entries // BLOCK * BLOCK
        for first in range(status.indexed + 1, whole + 1, BLOCK):
            if self.config.runtime.stopping:
                break
            if not await self._is_stored(first):  # only one block is missing after an erasure
                await self._build_block(first)
            if on_progress is not None:
                on_progress(first + BLOCK - 1, whole)
        return await self.status()

    def begin(self, entries: int) -> bool:
        """Start to compute missing vectors in the background.

        Returns False if none are missing or the work is already running.
        """
        held = self._offset + (len(self._vectors) if self._vectors is not None else 0)
        if entries // BLOCK * BLOCK <= held:
            return False
        name = f"meaning {self._log_id}"
        return self.config.runtime.begin(name, self._in_background)

    async def _in_background(self) -> None:
        # With a separate object, because this one may be in use at the same time.
        try:
            await Meanings(self.config, self.conversation, self.embedder).build()
        except Exception as error:  # retried with the next recall
            self._log_failure(error)

    async def _is_stored(self, first: int) -> bool:
        config = self.config
        found = await config.store.get_document(
            config.scope, self.conversation, self._kind, _block_key(first)
        )
        return found is not None

    async def _build_block(self, first: int) -> None:
        config = self.config
        entries = await config.store.read(
            config.scope, self.conversation, after=first - 1, upto=first + BLOCK - 1, limit=BLOCK
        )
        rows = await self._embed_parts(entries)
        from turnfold.memory.vector_search import pack

        block = Document(self._kind, _block_key(first), pack(rows), 0)
        seen = (entries[-1].seq, entries[-1].epoch)
        try:
            await config.store.put_document(
                config.scope, self.conversation, block, expect=0, seen=seen
            )
        except Conflict:
            return  # another process was faster, or an entry was erased meanwhile
        config.meter.add("meaning_entries", len(entries))

    async def _load(self) -> Vectors:
        """Return the vectors in memory, after loading the blocks that were stored since the last call."""
        from turnfold.memory.vector_search import Vectors

        if self._vectors is None:
            self._vectors = Vectors()
        vectors, config = self._vectors, self.config
        while True:
            page = await config.store.documents(
                config.scope, self.conversation, self._kind, after=self._last_key, limit=_PAGE
            )
            for block in page:
                if int(block.key) != self._offset + len(vectors) + 1:
                    return vectors  # a block before it is not stored yet
                vectors.add(block.body, BLOCK)
                self._last_key = block.key
            while vectors.rows > _MAX_ROWS:
                self._offset += vectors.drop_first()
            if len(page) < _PAGE:
                return vectors

    async def _newest_vectors(self, before: int) -> list[Rows]:
        """Return the vectors of the newest entries, too few to fill a block; empty if there are enough for a block."""
        config = self.config
        stored = await self._indexed()
        head = await config.store.head(config.scope, self.conversation)
        last = min(before - 1, head.seq)
        if head.seq - stored >= BLOCK or last <= stored:
            return []
        self._newest_rows = {seq: row for seq, row in self._newest_rows.items() if seq > stored}
        after = max(self._newest_rows, default=stored)
        if last > after:
            entries = await config.store.read(
                config.scope, self.conversation, after=after, upto=last, limit=BLOCK
            )
            found = await self._embed_parts(entries)
            self._newest_rows.update(
                (entry.seq, rows) for entry, rows in zip(entries, found, strict=True)
            )
        return [rows for seq, rows in sorted(self._newest_rows.items()) if seq <= last]

    async def _indexed(self) -> int:
        vectors = await self._load()
        return self._offset + len(vectors)

    async def _query_vector(self, query: str) -> Rows:
        if query not in self._last_query:
            self._last_query = {query: (await self._embed([query[:_QUERY_CHARACTERS]]))[0]}
        return self._last_query[query]

    async def _embed_parts(self, entries: Sequence[Entry]) -> list[Rows]:
        """Return the vectors of each entry: one per part of its text."""
        texts = [
            [entry.message.text[part] for part in parts_of(entry.message.text)] for entry in entries
        ]
        rows = await self._embed([part for parts in texts for part in parts])
        stops = accumulate(map(len, texts))
        return [rows[stop - len(parts) : stop] for parts, stop in zip(texts, stops, strict=True)]

    async def _embed(self, texts: Sequence[str]) -> Rows:
        from turnfold.memory.vector_search import unit

        found = await self.config.runtime.ask(lambda: self.embedder.embed(texts), seconds=_TIMEOUT)
        return unit(cast("Sequence[Sequence[float]]", found), len(texts))

    @property
    def _log_id(self) -> str:
        return log_mark(self.config.scope.tenant, self.conversation)

    @property
    def _kind(self) -> str:
        return f"{_KIND}{self.embedder.name}{_FORM}"

    def _log_failure(self, error: Exception) -> None:
        self.config.meter.add("meaning_failures")
        kind = type(error).__name__
        detail = f": {error}" if isinstance(error, TurnfoldError) else ""
        fields = {"event": "meaning_failed", "conversation": self._log_id, "error": kind}
        _log.warning("recall by meaning failed: %s%s", kind, detail, extra=fields)


def parts_of(text: str) -> list[slice]:
    """Return start and end of the parts of a text that get a vector, evenly spaced over the whole text.

    They overlap, so that a sentence at the end of one is whole in the next, unless `_MAX_PARTS` are too few.
    """
    length = len(text)
    size = max(int(_PART_BYTES * length / max(len(text.encode(errors="replace")), 1)), 1)
    needed = math.ceil((length / size - _OVERLAP) / (1 - _OVERLAP))
    many = min(max(needed, 1), _MAX_PARTS)
    step = (length - size) / (many - 1) if many > 1 else 0.0
    starts = [round(step * index) for index in range(many)]
    return [slice(start, start + size) for start in starts]


def _block_key(first: int) -> str:
    return f"{first:012d}"

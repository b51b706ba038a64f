"""Search of a whole memory: messages of all conversations, summaries of checkpoints, and documents.

The store ranks the hits; this module reads them and cuts from each the snippet with the words of the query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from turnfold.errors import InvalidOption
from turnfold.memory.config import MemoryConfig
from turnfold.memory.recall import terms_of_query
from turnfold.records import Checkpoint
from turnfold.search import CHECKPOINT, ENTRY, SNIPPET_CHARACTERS, Hit, Snippet, Within, snippet

__all__ = (
    "SearchResult",
    "search_memory",
)


_SHORT_TEXT = 5_000
"""Longest text, in characters, whose snippet is found on an event loop; for a longer one a thread is used."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result of a memory search: a message, a checkpoint's summary or a document, with a snippet."""

    conversation: str
    score: float
    """Higher is better; comparable within one search only."""
    snippet: Snippet
    """The part of the text that best shows why it was found."""
    text: str
    """The whole text."""
    created: int
    """Microseconds since 1970."""
    kind: str = ENTRY
    """The kind of result: empty for an entry, `checkpoint`, or the kind of a document."""
    key: str = ""
    """The checkpoint's id, or the document's key."""
    seq: int = 0
    """Seq of the entry; for a checkpoint, the last seq that it covers."""
    turn: int = 0
    """The turn of an entry."""
    role: str = ""
    """The role of an entry; empty for other kinds."""


async def search_memory(
    config: MemoryConfig,
    query: str,
    *,
    conversation: str | None,
    within: Within,
    limit: int,
    characters: int = SNIPPET_CHARACTERS,
) -> list[SearchResult]:
    """Search all conversations of a memory, or one, and return the best matches with snippets, best first."""
    if limit < 1:
        raise InvalidOption(f"limit={limit} must be at least 1")
    terms = await terms_of_query(query, config.runtime)
    hits = await config.store.search(
        config.scope, terms, conversation=conversation, limit=limit, within=within
    )
    reader = _HitReader(config, terms, characters, {})
    # A hit may have been erased since it was found.
    return [found for hit in hits if (found := await reader.read(hit)) is not None]


@dataclass(frozen=True, slots=True)
class _HitReader:
    """Reads the messages, summaries and documents that the hits of one search name, and cuts snippets from them."""

    config: MemoryConfig
    terms: list[str]
    characters: int
    chains: dict[str, Mapping[str, Checkpoint]]
    """Checkpoints by id, for each conversation with a checkpoint among the hits."""

    async def read(self, hit: Hit) -> SearchResult | None:
        """Read the message, summary or document that a search hit names, and cut its snippet.

        Returns None if it was erased.
        """
        if hit.kind == ENTRY:
            return await self._entry(hit)
        if hit.kind == CHECKPOINT:
            return await self._checkpoint(hit)
        config = self.config
        document = await config.store.get_document(
            config.scope, hit.conversation, hit.kind, hit.key
        )
        if document is None:
            return None
        return SearchResult(
            hit.conversation,
            hit.score,
            await self._snippet(document.text),
            document.text,
            document.created,
            hit.kind,
            hit.key,
        )

    async def _entry(self, hit: Hit) -> SearchResult | None:
        config = self.config
        read = await config.store.read(
            config.scope, hit.conversation, after=hit.seq - 1, upto=hit.seq, limit=1
        )
        if not read:
            return None
        entry, text = read[0], read[0].message.text
        return SearchResult(
            hit.conversation,
            hit.score,
            await self._snippet(text),
            text,
            entry.created,
            seq=entry.seq,
            turn=entry.turn,
            role=entry.message.role,
        )

    async def _checkpoint(self, hit: Hit) -> SearchResult | None:
        if hit.conversation not in self.chains:
            chain = await self.config.store.checkpoints(self.config.scope, hit.conversation)
            self.chains[hit.conversation] = {each.id: each for each in chain}
        made = self.chains[hit.conversation].get(hit.key)
        if made is None:
            return None
        return SearchResult(
            hit.conversation,
            hit.score,
            await self._snippet(made.text),
            made.text,
            made.created,
            CHECKPOINT,
            hit.key,
            made.upto,
        )

    async def _snippet(self, text: str) -> Snippet:
        """Return the part of a text that best matches the query; a long text is searched in a thread."""
        work = partial(snippet, text, self.terms, characters=self.characters)
        if len(text) <= _SHORT_TEXT or self.config.store.blocking:
            return work()
        return await asyncio.to_thread(work)

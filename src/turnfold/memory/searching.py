"""Searching a whole memory: what was said in any conversation, what was folded, and whatever else can be found.

The store says which places are the best; this reads them and cuts out of each the stretch that shows why it was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.memory.setting import Setting
from turnfold.recall import asked_terms
from turnfold.recall.snippets import SNIPPET_CHARACTERS, Snippet, snippet
from turnfold.records import Checkpoint
from turnfold.stores.ranking import Hit
from turnfold.stores.within import CHECKPOINT, ENTRY, Within

__all__ = ("Found", "search_memory")


@dataclass(frozen=True, slots=True)
class Found:
    """Something a search found."""

    conversation: str
    score: float
    """Higher is better; comparable within one answer only."""
    snippet: Snippet
    """The stretch that shows best why it was found."""
    text: str
    """All of it."""
    created: int
    """Microseconds since 1970."""
    kind: str = ENTRY
    """Empty for an entry, `checkpoint`, or the kind of a document."""
    key: str = ""
    """The checkpoint's id, or the document's key."""
    seq: int = 0
    """Where an entry stands; the last one a checkpoint covers."""
    turn: int = 0
    """The turn of an entry."""
    role: str = ""
    """Who said it; empty for what is no entry."""


async def search_memory(
    setting: Setting,
    query: str,
    *,
    conversation: str | None,
    within: Within,
    limit: int,
    characters: int = SNIPPET_CHARACTERS,
) -> list[Found]:
    """The best of what matches, best first."""
    if limit < 1:
        raise InvalidOption(f"limit={limit} must be at least 1")
    terms = asked_terms(query)
    hits = await setting.store.search(
        setting.scope, terms, conversation=conversation, limit=limit, within=within
    )
    reading = _Reading(setting, terms, characters, {})
    # What was erased since it was found is not there to be read.
    return [found for hit in hits if (found := await reading.found(hit)) is not None]


@dataclass(frozen=True, slots=True)
class _Reading:
    setting: Setting
    terms: list[str]
    characters: int
    chains: dict[str, Mapping[str, Checkpoint]]
    """The checkpoints of conversations that were asked for, by id."""

    async def found(self, hit: Hit) -> Found | None:
        """What stands at a place that was found."""
        if hit.kind == ENTRY:
            return await self._entry(hit)
        if hit.kind == CHECKPOINT:
            return await self._checkpoint(hit)
        setting = self.setting
        document = await setting.store.get_document(
            setting.scope, hit.conversation, hit.kind, hit.key
        )
        if document is None:
            return None
        return Found(
            hit.conversation,
            hit.score,
            self._snippet(document.text),
            document.text,
            document.created,
            hit.kind,
            hit.key,
        )

    async def _entry(self, hit: Hit) -> Found | None:
        setting = self.setting
        read = await setting.store.read(
            setting.scope, hit.conversation, after=hit.seq - 1, upto=hit.seq, limit=1
        )
        if not read:
            return None
        entry, text = read[0], read[0].message.text
        return Found(
            hit.conversation,
            hit.score,
            self._snippet(text),
            text,
            entry.created,
            seq=entry.seq,
            turn=entry.turn,
            role=entry.message.role,
        )

    async def _checkpoint(self, hit: Hit) -> Found | None:
        if hit.conversation not in self.chains:
            chain = await self.setting.store.checkpoints(self.setting.scope, hit.conversation)
            self.chains[hit.conversation] = {each.id: each for each in chain}
        made = self.chains[hit.conversation].get(hit.key)
        if made is None:
            return None
        return Found(
            hit.conversation,
            hit.score,
            self._snippet(made.text),
            made.text,
            made.created,
            CHECKPOINT,
            hit.key,
            made.upto,
        )

    def _snippet(self, text: str) -> Snippet:
        return snippet(text, self.terms, characters=self.characters)

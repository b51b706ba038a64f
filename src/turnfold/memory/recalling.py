"""Bringing back what was said before: the search and the reads behind a recall.

What is worth showing is decided by pure code (`turnfold.recall`); this asks the store for it, in few questions: one
search, and one read per stretch of the log that good places stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnfold.memory.follower import Follower
from turnfold.memory.setting import Setting
from turnfold.recall import Recalled, asked_terms, fill, places_to_read, ranked_places
from turnfold.records import Entry

__all__ = ("Recaller",)

_MOST_HITS = 400
"""Matches asked of a search; the window holds some of them already."""
_MOST_SPREAD = 200
"""Of those outside the window, how many take part."""


@dataclass(frozen=True, slots=True)
class Recaller:
    """Finds what one conversation said before."""

    setting: Setting
    follower: Follower

    async def matches(self, query: str, *, limit: int) -> list[Recalled]:
        """Entries that match, best first; system messages left out."""
        found: list[Recalled] = []
        for seq, score in await self._hits(asked_terms(query), max(limit * 2, 20)):
            if len(found) == limit:
                break
            found.extend(
                Recalled(entry.seq, entry.turn, entry.message, entry.created, score)
                for entry in await self._read(seq, seq)
                if entry.message.role != "system"
            )
        return found

    async def passages(
        self,
        query: str,
        *,
        tokens: int,
        measure: Callable[[Sequence[Recalled]], int],
        after: int = 0,
        before: int | None = None,
    ) -> list[Recalled]:
        """The best between two seqs and what stands beside it, in the order of the log; `measure` fits `tokens`."""
        terms = asked_terms(query)
        head = await self.setting.store.head(self.setting.scope, self.follower.conversation)
        hits = [
            (seq, score)
            for seq, score in await self._hits(terms, _MOST_HITS)
            if after < seq <= head.seq and (before is None or seq < before)
        ]
        if not hits:
            return []
        mean = head.tokens / head.seq
        places = ranked_places(
            hits[:_MOST_SPREAD], newest=head.seq, mean_tokens=mean, after=after, before=before
        )
        entries: dict[int, Entry] = {}
        for first, last in places_to_read(places, tokens=tokens, mean_tokens=mean):
            entries.update((entry.seq, entry) for entry in await self._read(first, last))
        count = self.setting.counter.count_text
        return fill(places, entries, terms=terms, tokens=tokens, count=count, measure=measure)

    async def _hits(self, terms: Sequence[str], limit: int) -> list[tuple[int, float]]:
        setting = self.setting
        hits = await setting.store.search(
            setting.scope, terms, conversation=self.follower.conversation, limit=limit
        )
        return [(hit.seq, hit.score) for hit in hits]

    async def _read(self, first: int, last: int) -> list[Entry]:
        setting = self.setting
        return await setting.store.read(
            setting.scope,
            self.follower.conversation,
            after=first - 1,
            upto=last,
            limit=last - first + 1,
        )

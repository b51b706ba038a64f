"""Bringing back what was said before: the search and the reads behind a recall.

What is worth showing is decided by pure code (`turnfold.recall`); this asks the store for it, in few questions: one
search, and one read per stretch of the log that good places stand in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.memory.follower import Follower
from turnfold.memory.meaning import Meanings
from turnfold.memory.setting import Setting
from turnfold.memory.tail import recalled_text
from turnfold.recall import (
    Recalled,
    asked_terms,
    fill,
    fuse,
    fused_parts,
    places_to_read,
    ranked_places,
    relevant_places,
    worth_of_places,
)
from turnfold.records import Entry
from turnfold.stores.within import ALL_ENTRIES, Within

__all__ = ("Recaller", "ScoreParts")

_MOST_HITS = 400
"""Matches asked of a search; the window holds some of them already."""
_MOST_SPREAD = 200
"""Of those outside the window, how many take part."""


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """What the score of an entry is made of; comparable within one answer only."""

    words: float = 0.0
    meaning: float | None = None
    """None where nobody says what texts mean."""
    beside: float = 0.0
    """What the matches around it add where passages are chosen."""


@dataclass(frozen=True, slots=True)
class Recaller:
    """Finds what one conversation said before."""

    setting: Setting
    follower: Follower
    meanings: Meanings | None = None
    """Finds by meaning beside the words; None where the memory has no embedder."""

    async def recall(
        self, query: str, *, limit: int, tokens: int | None, within: Within
    ) -> list[Recalled]:
        """Entries that match, at most `limit`; or, with `tokens`, as many as may be shown for that."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        if within.kinds != ALL_ENTRIES.kinds:
            raise InvalidOption("a recall brings back entries: search the memory for other kinds")
        if tokens is None:
            return await self.matches(query, limit=limit, within=within)
        if tokens < 1:
            raise InvalidOption(f"tokens={tokens} must be at least 1")
        count = self.setting.counter.count_text
        return await self.passages(
            query,
            tokens=tokens,
            measure=lambda found: count(recalled_text(found)),
            within=within,
        )

    async def matches(
        self, query: str, *, limit: int, within: Within = ALL_ENTRIES
    ) -> list[Recalled]:
        """Entries that match, best first; system messages left out."""
        found: list[Recalled] = []
        hits = await self._hits(asked_terms(query), max(limit * 2, 20), within)
        if within == ALL_ENTRIES:
            hits = await self._with_meaning(hits, query)
        for seq, score in hits:
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
        unasked: bool = False,
        shown: Callable[[Entry], bool] = lambda _: False,
        within: Within = ALL_ENTRIES,
    ) -> list[Recalled]:
        """The best between two seqs and what stands beside it, in the order of the log; `measure` fits `tokens`.

        What is `unasked` must speak of the query, or stand beside something that does. What is `shown` in another
        place is not shown again; what stands beside it is found as ever.
        """
        terms = asked_terms(query)
        head = await self.setting.store.head(self.setting.scope, self.follower.conversation)
        stop = head.seq + 1 if before is None else min(before, head.seq + 1)
        hits = [
            (seq, score)
            for seq, score in await self._hits(terms, _MOST_HITS, within)
            if after < seq < stop
        ]
        if within == ALL_ENTRIES:
            hits = await self._with_meaning(hits, query, after=after, before=stop)
        if not hits:
            return []
        mean = head.tokens / head.seq
        places = ranked_places(
            hits[:_MOST_SPREAD], newest=head.seq, mean_tokens=mean, after=after, before=before
        )
        entries: dict[int, Entry] = {}
        for first, last in places_to_read(places, tokens=tokens, mean_tokens=mean):
            entries.update((entry.seq, entry) for entry in await self._read(first, last))
        if unasked:
            places = relevant_places(places, entries, terms)
        entries = {seq: entry for seq, entry in entries.items() if not shown(entry)}
        count = self.setting.counter.count_text
        return fill(places, entries, terms=terms, tokens=tokens, count=count, measure=measure)

    async def score_parts(self, query: str) -> dict[int, ScoreParts]:
        """What the scores of a recall are made of, by seq; the first two together are those `matches` gives."""
        head = await self.setting.store.head(self.setting.scope, self.follower.conversation)
        hits = await self._hits(asked_terms(query), _MOST_HITS, ALL_ENTRIES)
        own: dict[int, tuple[float, float | None]] = {seq: (score, None) for seq, score in hits}
        if self.meanings is not None:
            near = await self.meanings.near(query, after=0, before=head.seq + 1, most=_MOST_SPREAD)
            own.update(fused_parts(hits[:_MOST_SPREAD], near) if near else {})
        sums = {seq: words + (meaning or 0.0) for seq, (words, meaning) in own.items()}
        best = sorted(sums.items(), key=lambda place: (-place[1], -place[0]))[:_MOST_SPREAD]
        mean = head.tokens / head.seq if head.seq else 0.0
        worth = worth_of_places(best, newest=head.seq, mean_tokens=mean)
        return {seq: ScoreParts(*own[seq], max(worth[seq] - score, 0.0)) for seq, score in best}

    async def _with_meaning(
        self,
        hits: list[tuple[int, float]],
        query: str,
        *,
        after: int = 0,
        before: int | None = None,
    ) -> list[tuple[int, float]]:
        """The hits, and what is near in meaning; the hits alone where nobody says what texts mean."""
        if self.meanings is None:
            return hits
        head = await self.setting.store.head(self.setting.scope, self.follower.conversation)
        stop = head.seq + 1 if before is None else before
        near = await self.meanings.near(query, after=after, before=stop, most=_MOST_SPREAD)
        self.meanings.begin(head.seq)
        return fuse(hits[:_MOST_SPREAD], near) if near else hits

    async def _hits(
        self, terms: Sequence[str], limit: int, within: Within
    ) -> list[tuple[int, float]]:
        setting = self.setting
        hits = await setting.store.search(
            setting.scope,
            terms,
            conversation=self.follower.conversation,
            limit=limit,
            within=within,
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

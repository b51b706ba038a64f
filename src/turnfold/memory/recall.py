"""Recall: finds entries of one conversation and reads them.

Ranking and selection are in `turnfold.search`, which does not use the store. This module makes the requests to the
store: one search, and one read per range of the log with good matches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from turnfold.errors import InvalidOption
from turnfold.memory.config import MemoryConfig
from turnfold.memory.conversation_cache import ConversationCache
from turnfold.memory.meaning import Meanings
from turnfold.memory.prompt_tail import recalled_text
from turnfold.records import Entry
from turnfold.search import (
    ALL_ENTRIES,
    Recalled,
    Within,
    fill,
    fuse,
    fused_parts,
    is_telling,
    places_to_read,
    ranked_places,
    relevant_places,
    worth_of_places,
)
from turnfold.stores import Head
from turnfold.text import search_terms

__all__ = (
    "Recaller",
    "ScoreParts",
)


_MAX_HITS = 400
"""The most hits of one search: more than are ranked, because some of them are in the window already."""
_RECENT_SCORE = 1e-6
"""Score of an entry that is shown because it is recent: below that of any match."""
_PLAIN_TOKENS = 1_600
"""The most tokens of recalled entries that rank well without being relevant (`relevant_places`)."""
_MAX_RANKED = 200
"""The most matches outside the window that are ranked."""


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts of an entry's score; comparable within one result only."""

    words: float = 0.0
    meaning: float | None = None
    """Score for nearness in meaning; None without an embedder."""
    neighbours: float = 0.0
    """Score added for matches near this entry when passages are chosen."""


@dataclass(frozen=True, slots=True)
class Recaller:
    """Finds entries of one conversation."""

    config: MemoryConfig
    cache: ConversationCache
    meanings: Meanings | None = None
    """Finds by meaning, in addition to words; None if the memory has no embedder."""

    async def recall(
        self, query: str, *, limit: int, tokens: int | None, within: Within
    ) -> list[Recalled]:
        """Return matching entries: at most `limit`, or with `tokens` as many as fit."""
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        if within.kinds != ALL_ENTRIES.kinds:
            raise InvalidOption("recall() finds entries only: use Memory.search() for other kinds")
        if tokens is None:
            return await self.matches(query, limit=limit, within=within)
        if tokens < 1:
            raise InvalidOption(f"tokens={tokens} must be at least 1")
        count = self.cache.counter.count_text
        return await self.passages(
            query,
            tokens=tokens,
            measure=lambda found: count(recalled_text(found)),
            within=within,
        )

    async def matches(
        self, query: str, *, limit: int, within: Within = ALL_ENTRIES
    ) -> list[Recalled]:
        """Return matching entries, best first, without system messages."""
        found: list[Recalled] = []
        hits = await self._hits(search_terms(query), max(limit * 2, 20), within)
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
        automatic: bool = False,
        shown: Callable[[Entry], bool] = lambda _: False,
        within: Within = ALL_ENTRIES,
        recent: int = 0,
    ) -> list[Recalled]:
        """Return the best entries after `after` and before `before`, with their neighbours, in log order.

        `measure` of the result is at most `tokens`. With `automatic` (the user's message is the query) entries that
        share too few words with the query get little room, or none. Entries for which `shown` is true are left out;
        their neighbours are not. Unused room is filled with the newest `recent` entries.
        """
        terms = search_terms(query)
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        stop = head.seq + 1 if before is None else min(before, head.seq + 1)
        hits = [
            (seq, score)
            for seq, score in await self._hits(terms, _MAX_HITS, within)
            if after < seq < stop
        ]
        if within == ALL_ENTRIES:
            hits = await self._with_meaning(hits, query, after=after, before=stop)
        if not hits and not recent:
            return []
        places, entries = await self._ranked_entries(
            hits[:_MAX_RANKED], head, tokens=tokens, after=after, before=before
        )
        found = {seq: entries[seq] for seq, _ in hits if seq in entries}
        close = relevant_places(places, found, terms) if automatic else places
        newest = await self._read(max(stop - recent, after + 1), stop - 1) if recent else []
        entries.update((entry.seq, entry) for entry in newest)
        entries = {seq: entry for seq, entry in entries.items() if not shown(entry)}
        select = partial(
            fill,
            entries=entries,
            terms=terms,
            count=cache(self.cache.counter.count_text),  # most are counted in both selections
            measure=measure,
        )
        relevant = {seq for seq, _ in close}
        if automatic and is_telling(terms):
            # What merely ranks well is worth a little room, what is relevant all of it.
            plain = min(tokens, measure(()) + _PLAIN_TOKENS)
            relevant |= {entry.seq for entry in select(places, tokens=plain)}
        chosen = [place for place in places if place[0] in relevant]
        others = [(entry.seq, _RECENT_SCORE * entry.seq / stop) for entry in newest]
        return select(
            [*chosen, *(each for each in others if each[0] not in relevant)], tokens=tokens
        )

    async def _ranked_entries(
        self,
        hits: Sequence[tuple[int, float]],
        head: Head,
        *,
        tokens: int,
        after: int,
        before: int | None,
    ) -> tuple[list[tuple[int, float]], dict[int, Entry]]:
        """Return the hits and their neighbours, best first, and the entries of the best of them."""
        mean = head.tokens / max(head.seq, 1)
        rank = partial(
            ranked_places, hits, newest=head.seq, mean_tokens=mean, after=after, before=before
        )
        entries: dict[int, Entry] = {}
        for first, last in places_to_read(rank(), tokens=tokens, mean_tokens=mean):
            entries.update((entry.seq, entry) for entry in await self._read(first, last))
        # Entries were chosen for reading by their average length; now the length of each is known.
        positions = {seq: entry.running - entry.tokens / 2 for seq, entry in entries.items()}
        return rank(positions=positions), entries

    async def score_parts(self, query: str) -> dict[int, ScoreParts]:
        """Return the parts of the scores by seq; `words` and `meaning` add up to the score of `matches`."""
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        hits = await self._hits(search_terms(query), _MAX_HITS, ALL_ENTRIES)
        own: dict[int, tuple[float, float | None]] = {seq: (score, None) for seq, score in hits}
        if self.meanings is not None:
            self.meanings.follow(self.cache.history)
            near = await self.meanings.near(query, after=0, before=head.seq + 1, most=_MAX_RANKED)
            own.update(fused_parts(hits[:_MAX_RANKED], near) if near else {})
        sums = {seq: words + (meaning or 0.0) for seq, (words, meaning) in own.items()}
        best = sorted(sums.items(), key=lambda place: (-place[1], -place[0]))[:_MAX_RANKED]
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
        """Merge the hits with the entries nearest in meaning; return the hits unchanged if there is no embedder."""
        if self.meanings is None:
            return hits
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        stop = head.seq + 1 if before is None else before
        self.meanings.follow(self.cache.history)
        near = await self.meanings.near(query, after=after, before=stop, most=_MAX_RANKED)
        self.meanings.begin(head.seq)
        return fuse(hits[:_MAX_RANKED], near) if near else hits

    async def _hits(
        self, terms: Sequence[str], limit: int, within: Within
    ) -> list[tuple[int, float]]:
        config = self.config
        hits = await config.store.search(
            config.scope,
            terms,
            conversation=self.cache.conversation,
            limit=limit,
            within=within,
        )
        return [(hit.seq, hit.score) for hit in hits]

    async def _read(self, first: int, last: int) -> list[Entry]:
        config = self.config
        return await config.store.read(
            config.scope,
            self.cache.conversation,
            after=first - 1,
            upto=last,
            limit=last - first + 1,
        )

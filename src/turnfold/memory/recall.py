"""Recall: finds entries of one conversation and reads them; search of a whole memory.

Ranking and selection are in `turnfold.search`, which does not use the store. This module makes the requests to the
store: one search, and one read of the ranges of the log with good matches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import cache, partial
from types import MappingProxyType
from typing import NamedTuple

from turnfold.errors import InvalidOption, LimitExceeded
from turnfold.memory.cached_conversation import ConversationCache
from turnfold.memory.cleared_entries import cleared_upto
from turnfold.memory.config import MemoryConfig
from turnfold.memory.embedding_index import Meanings, parts_of
from turnfold.memory.prompt_tail import recalled_text
from turnfold.records import Checkpoint, Entry, encode_message
from turnfold.runtime import Runtime
from turnfold.search import (
    ALL_ENTRIES,
    CHECKPOINT,
    ENTRY,
    SNIPPET_CHARACTERS,
    Hit,
    QueryTerms,
    Recalled,
    Snippet,
    Within,
    answers_first,
    asks_for_summary,
    company,
    covers,
    fill,
    fuse,
    fused_parts,
    idle_entries,
    is_courtesy,
    is_follow_up,
    is_question,
    is_searchable,
    places_to_read,
    ranked_places,
    relevant_places,
    snippet,
    trust_in_words,
    with_days,
    worth_of_places,
)
from turnfold.stores import Head
from turnfold.text import is_character, local_time, named_days, search_terms

__all__ = (
    "Recaller",
    "ScoreParts",
    "SearchResult",
    "search_memory",
    "terms_of_query",
)


_MAX_HITS = 400
"""Most results that a search by words returns. Results inside the window are left out only after that."""
_MOST_READ = 128 << 20
"""Most bytes of the entries from which a recall chooses; twice as many are read as it returns."""
_READ_AT_ONCE = 40
"""Number of matches that one request reads."""
_RECENT_ENTRIES = 48
"""Most entries that are shown only because they are recent."""
_RECENT_TURNS, _FOLLOWED_TURNS = 8, 16
"""Number of turns that a model sees, with those of the window, if room is left: after any message, and after one that
refers to what was said last."""
_RECENT_SCORE = 1e-6
"""Score of an entry that is shown only because it is recent; below the score of any match."""
_FOLLOWED_SHARE = 0.8
"""Score of an entry for a follow-up such as "why?", as a share of the score of the entry after it."""
_QUESTION_WITHIN = 64
"""Number of newest entries in which the user's last message is searched for, if `recall` is called without a query."""
_OPENING = 100
"""Tokens at the beginning of a long entry that count when the distance of entries is measured, so that a long entry is
near to the entry it answers."""
_JUDGED = 3
"""Number of best matches by words that are read, to see how many of the query's terms a single match has."""
_MAX_RANKED = 400
"""Most matches from before the window that are ranked and considered for the context."""
_SECOND = 1_000_000
"""Number of microseconds in a second."""
_WEEK = 8 * 86_400 * _SECOND
"""Longest period in a query, in microseconds, that counts as precise as a day: a week, and a day more for clock
changes."""
_LONG_QUERY = 2_000
"""Most characters of a query whose search terms are made on the event loop; a longer query is processed in a thread."""
_PROBES = 16
"""Number of entries that one request reads to find the first entry of a day."""
_LONG_TOKENS = 4_000
"""Most tokens of entries among which passages are chosen on the event loop; with more, a thread is used."""


async def terms_of_query(query: str, runtime: Runtime) -> list[str]:
    """Return the search terms of a query; a long query is split in a thread, to keep the event loop free."""
    if len(query) <= _LONG_QUERY:
        return search_terms(query)
    return await runtime.compute(partial(search_terms, query))


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts of a recalled entry's score; they can be compared within one result only.

    What an entry scores for a day that the query names is in none of them.
    """

    words: float = 0.0
    meaning: float | None = None
    """Score for nearness in meaning; None without an embedder."""
    neighbours: float = 0.0
    """Score that this entry gets because entries next to it in the log match, when passages are chosen."""


class _Meaning(NamedTuple):
    """The entries that are nearest to a query in meaning."""

    near: Sequence[tuple[int, float]] = ()
    """(seq, closeness) of entries, nearest in meaning first."""
    parts: Mapping[int, int] = MappingProxyType({})
    """Seq (log position) of an entry -> index of the part of its text that is nearest in meaning."""
    trust: float = 1.0
    """Weight of matches by words compared with matches by meaning, 0 to 1."""

    def nearest_parts(self, entries: Mapping[int, Entry]) -> dict[int, slice]:
        """Return which part of the text of each of these entries is nearest, by seq."""
        known = [(entries[seq], part) for seq, part in self.parts.items() if seq in entries]
        return {entry.seq: parts_of(entry.message.text)[part] for entry, part in known}


class _Dated(NamedTuple):
    """The entries that were written on the days that a query names."""

    seqs: Sequence[int] = ()
    """Seqs (log positions) of the dated entries, at most `_MAX_RANKED` (the oldest) of each period, in log order."""
    total: int = 0
    """Number of all entries written on the named days."""
    times: Sequence[tuple[int, int]] = ()
    """The start and the end of each period, in microseconds since 1970."""
    names: Sequence[str] = ()
    """The words of the query that name these days."""

    def terms(self, query: str, terms: Sequence[str]) -> list[str]:
        """Return the terms of the query without the numbers of its dates, which match any other number by chance."""
        rest = query
        for name in self.names:
            rest = rest.replace(name, " ")
        numbers = {term for name in self.names for term in search_terms(name) if term[0].isdigit()}
        dropped = numbers.difference(search_terms(rest)) if numbers else numbers
        return [term for term in terms if term not in dropped]

    def scored(
        self,
        places: Sequence[tuple[int, float]],
        head: Head,
        *,
        read: Mapping[int, Entry] | None,
        in_units: bool,
    ) -> list[tuple[int, float]]:
        """Return the places (log positions with their scores) with the score of the named days added.

        If the entries were `read`, their times say which were written on those days; before that, `seqs` does.
        """
        if not self.seqs:
            return list(places)
        seqs = self.seqs
        if read is not None:
            seqs = [
                seq
                for seq, entry in read.items()
                if any(first <= entry.created < stop for first, stop in self.times)
            ]
        days = all(stop - first <= _WEEK for first, stop in self.times)
        return with_days(
            places, seqs, count=self.total, entries=head.seq, days=days, in_units=in_units
        )


class _Found(NamedTuple):
    """The matches of a query, before they are ranked."""

    terms: Sequence[str]
    """The search terms of the query."""
    hits: Sequence[tuple[int, float]] = ()
    """(seq, score) of matches by words, best first."""
    meaning: _Meaning = _Meaning()
    dated: _Dated = _Dated()


@dataclass(frozen=True, slots=True)
class Recaller:
    """Finds entries of one conversation by words, and by meaning if the memory has an embedder."""

    config: MemoryConfig
    cache: ConversationCache
    meanings: Meanings | None = None
    """Search by meaning, in addition to words; None if the memory has no embedder."""

    async def recall(
        self, query: str, *, limit: int, tokens: int | None, within: Within
    ) -> list[Recalled]:
        """Return the entries that match a query: at most `limit`, or with `tokens` as many as fit.

        The user's newest message is left out if the query is its text: it finds nothing but the question itself.
        Cleared entries are left out.
        """
        if limit < 1:
            raise InvalidOption(f"limit={limit} must be at least 1")
        if within.kinds != ALL_ENTRIES.kinds:
            raise InvalidOption(
                "within.kinds= names other kinds than entries, but recall() finds entries only: use Memory.search()"
            )
        if tokens is not None and tokens < 1:
            raise InvalidOption(f"tokens={tokens} must be at least 1")
        question = await self._question(query)
        after = await cleared_upto(self.config.store, self.config.scope, self.cache.conversation)
        if tokens is None:
            return await self._matches(
                query, limit=limit, question=question, within=within, after=after
            )
        count = self.cache.counter.count_text
        return await self.passages(
            query,
            tokens=tokens,
            measure=lambda found: count(recalled_text(found)),
            question=question,
            within=within,
            after=after,
        )

    async def _question(self, query: str) -> int:
        """Return the log position of the user message in the running turn whose text is the query.

        Returns 0 if there is none.
        """
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        newest = await self._read(max(head.seq - _QUESTION_WITHIN, 0) + 1, head.seq)
        asked = (entry for entry in reversed(newest) if entry.message.role == "user")
        latest = next(asked, None)
        return latest.seq if latest and latest.message.text.strip() == query.strip() else 0

    async def _matches(
        self, query: str, *, limit: int, question: int, within: Within, after: int
    ) -> list[Recalled]:
        """Return matching entries behind `after`, best first, without system messages and the entry `question`."""
        terms = await terms_of_query(query, self.config.runtime)
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        dated = await self._dated(query, head, after=after, before=head.seq + 1, within=within)
        terms = dated.terms(query, terms)
        hits = await self._hits(terms, max(limit * 2, 20), within)
        hits = [hit for hit in hits if hit[0] > after and hit[0] != question]
        if within == ALL_ENTRIES:
            meaning = await self._meaning(hits, query, terms, head, question=question, after=after)
            hits = _with_meaning(hits, meaning, head.seq)
            hits = dated.scored(hits, head, read=None, in_units=bool(meaning.near))
            hits = [hit for hit in hits if hit[0] != question][: max(limit * 2, 20)]
        entries = await self._read_hits([seq for seq, _ in hits], limit)
        scores = {seq: score for seq, score in hits if seq in entries}
        order = answers_first(query, terms, entries, scores)
        return [
            Recalled(
                entry.seq, entry.turn, entry.message, entry.created, score, zone=self.config.zone
            )
            for entry, score in ((entries[seq], score) for seq, score in order[:limit])
        ]

    async def _read_hits(self, seqs: Sequence[int], limit: int) -> dict[int, Entry]:
        """Return the entries at these log positions, without system messages, by position.

        Raises `LimitExceeded` if they are very large.
        """
        found: dict[int, Entry] = {}
        size = 0
        for start in range(0, len(seqs), _READ_AT_ONCE):
            for each in await self._read_each(seqs[start : start + _READ_AT_ONCE]):
                size += len(encode_message(each.message))
                if size > _MOST_READ:
                    raise LimitExceeded(
                        f"the entries to choose from have more than {_MOST_READ:,} bytes: recall fewer than "
                        f"limit={limit}, or give tokens=",
                        allowed=_MOST_READ,
                        asked=size,
                        unit="bytes",
                        status=413,
                    )
                found[each.seq] = each
        return {seq: entry for seq, entry in found.items() if entry.message.role != "system"}

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
        question: int = 0,
        within: Within = ALL_ENTRIES,
        turns: int | None = None,
    ) -> list[Recalled]:
        """Return the best matches between two log positions, with their neighbours, in log order.

        `measure` of the result is at most `tokens`. With `automatic` (the user's message is the query) only entries
        that match well and say something are returned, none for a courtesy such as "thanks!", and only the newest for a
        follow-up such as "why?". Entries for which `shown` is true, and the entry `question`, the query itself, are
        left out. With `turns`, how many the model sees anyway, newest entries fill room that is left (see `_newest`).
        """
        terms = await terms_of_query(query, self.config.runtime)
        follows = automatic and is_follow_up(query)
        if automatic and not follows and (is_courtesy(query) or not is_searchable(terms)):
            return []
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        stop = head.seq + 1 if before is None else min(before, head.seq + 1)
        found = await self._found(
            query,
            terms,
            head,
            within,
            automatic=automatic,
            question=question,
            after=after,
            before=stop,
        )
        places, entries = await self._ranked_entries(
            found, head, tokens=tokens, after=after, before=before
        )
        entries.pop(question, None)
        if automatic:
            places, answered = _relevant(query, places, entries, found, head)
            turns = None if answered else turns
        newest = await self._newest(query, stop, after=after, turns=turns)
        choose = partial(
            self._choose,
            places,
            entries | {entry.seq: entry for entry in newest},
            [(entry.seq, _recent_score(entry, stop, follows=follows)) for entry in newest],
            near=found.meaning.nearest_parts(entries),
            terms=found.terms,
            tokens=tokens,
            measure=lambda found: measure(self._in_zone(found)),
            shown=shown,
            idle=automatic,
            after=after,
            before=stop,
        )
        return self._in_zone(await self._off_the_loop(choose, [*entries.values(), *newest]))

    async def _newest(self, query: str, stop: int, *, after: int, turns: int | None) -> list[Entry]:
        """Return the newest entries before `stop` that may fill room; the model sees `turns` anyway (None: no fill).

        It then sees eight turns, or sixteen with a follow-up. If the message asks for a summary, all may fill room.
        """
        most = _FOLLOWED_TURNS if is_follow_up(query) else _RECENT_TURNS
        every = asks_for_summary(query)
        if turns is None or (turns >= most and not every):
            return []
        read = await self._read(max(stop - _RECENT_ENTRIES, after + 1), stop - 1)
        return [entry for entry in read if every or entry.turn > read[-1].turn + turns - most]

    async def _off_the_loop(
        self, choose: Callable[[], list[Recalled]], read: Sequence[Entry]
    ) -> list[Recalled]:
        """Choose passages in a thread if the entries are long: a text of a million characters takes a second."""
        short = sum(each.tokens for each in read) <= _LONG_TOKENS
        return choose() if short else await self.config.runtime.compute(choose)

    async def _found(
        self,
        query: str,
        terms: Sequence[str],
        head: Head,
        within: Within,
        *,
        automatic: bool,
        question: int,
        after: int,
        before: int,
    ) -> _Found:
        """Return the matches by words between two log positions, by meaning, and by the days that a query names.

        Nothing is searched for a follow-up such as "why?". A message of the user that is no question (`automatic`) may
        name a day without asking for it.
        """
        dated = _Dated()
        if automatic and is_follow_up(query):
            return _Found(terms)
        if not automatic or is_question(query):
            dated = await self._dated(query, head, after=after, before=before, within=within)
            terms = dated.terms(query, terms)
        every = await self._hits(terms, _MAX_HITS, within)
        hits = [hit for hit in every if after < hit[0] < before and hit[0] != question]
        meaning = await self._meaning(
            hits, query, terms, head, question=question, after=after, before=before, within=within
        )
        return _Found(terms, hits, meaning, dated)

    def _in_zone(self, found: Sequence[Recalled]) -> list[Recalled]:
        """Return the entries with the time zone of the memory, in which a model is shown their times."""
        zone = self.config.zone
        return list(found) if zone is UTC else [replace(entry, zone=zone) for entry in found]

    def _choose(
        self,
        places: Sequence[tuple[int, float]],
        entries: Mapping[int, Entry],
        newest: Sequence[tuple[int, float]],
        *,
        near: Mapping[int, slice],
        terms: Sequence[str],
        tokens: int,
        measure: Callable[[Sequence[Recalled]], int],
        shown: Callable[[Entry], bool],
        idle: bool,
        after: int,
        before: int,
    ) -> list[Recalled]:
        """Choose the entries that `passages` returns, within `tokens`: those at `places` first, then the `newest`.

        If `idle`, entries that say nothing are left out.
        """
        hidden = {seq for seq, entry in entries.items() if shown(entry)}
        left_out = hidden | idle_entries(entries, hidden) if idle else hidden
        able = {seq: entry for seq, entry in entries.items() if seq not in left_out}
        others = [each for each in newest if each[0] not in dict(places)]
        return fill(
            [*places, *others],
            able,
            terms=terms,
            tokens=tokens,
            count=cache(self.cache.counter.count_text),
            measure=measure,
            near=near,
            needed=company(able, after=after, before=before),
        )

    async def _ranked_entries(
        self,
        found: _Found,
        head: Head,
        *,
        tokens: int,
        after: int,
        before: int | None,
    ) -> tuple[list[tuple[int, float]], dict[int, Entry]]:
        """Return (seq, score) of the matches and their neighbours, best first, and the entries read for them."""
        mean = head.tokens / max(head.seq, 1)

        def rank(positions: Mapping[int, float] | None = None) -> list[tuple[int, float]]:
            places = ranked_places(
                found.hits[:_MAX_RANKED],
                newest=head.seq,
                mean_tokens=mean,
                after=after,
                before=before,
                positions=positions,
            )
            places = _with_meaning(places, found.meaning, head.seq)
            read = None if positions is None else entries
            units = bool(found.meaning.near)
            return found.dated.scored(places, head, read=read, in_units=units)

        ranges = places_to_read(rank(), tokens=tokens, mean_tokens=mean)
        entries = {entry.seq: entry for entry in await self._read_ranges(ranges)}
        # The entries to read were chosen by the average length of entries; now rank them by their real lengths.
        positions = {
            seq: entry.running - entry.tokens + min(entry.tokens / 2, _OPENING)
            for seq, entry in entries.items()
        }
        return rank(positions=positions), entries

    async def _dated(
        self, query: str, head: Head, *, after: int, before: int, within: Within
    ) -> _Dated:
        """Return the entries between two log positions that were written on the days which the query names.

        There are none with filters, which may leave none of these entries.
        """
        zone = self.config.zone
        today = local_time(self.config.clock(), zone).date()
        if head.seq == 0 or within != ALL_ENTRIES or not named_days(query, today):
            return _Dated()
        newest = await self._read(head.seq, head.seq)
        written = local_time(newest[-1].created, zone).date() if newest else today
        seqs: list[int] = []
        times: list[tuple[int, int]] = []
        names: list[str] = []
        count = 0
        for days in named_days(query, today, newest=written):
            begin, end = (
                int(datetime.combine(day, time(), zone).timestamp()) * _SECOND
                for day in (days.first, days.last + timedelta(days=1))
            )
            first = await self._first_since(begin, after + 1, before)
            stop = await self._first_since(end, first, before)
            seqs += range(first, min(stop, first + _MAX_RANKED))
            if first < stop:
                times.append((begin, end))
                names.append(days.words)
            count += stop - first
        return _Dated(sorted(set(seqs)), count, times, names)

    async def _first_since(self, created: int, first: int, stop: int) -> int:
        """Return the first log position from `first` on that was written at this time or later; `stop` if none was.

        Each request reads some positions of the rest, at equal distances: times nearly always rise along a log.
        """
        while first < stop:
            step = max((stop - first) // _PROBES, 1)
            read = await self._read_each(range(first + step // 2, stop, step))
            if not read:
                return first
            for entry in read:
                if entry.created >= created:
                    stop = entry.seq
                    break
                first = entry.seq + 1
        return first

    async def score_parts(self, query: str) -> dict[int, ScoreParts]:
        """Return the parts of the score of each match; `words` and `meaning` add up to the score."""
        head = await self.config.store.head(self.config.scope, self.cache.conversation)
        terms = await terms_of_query(query, self.config.runtime)
        hits = await self._hits(terms, _MAX_HITS, ALL_ENTRIES)
        meaning = await self._meaning(hits, query, terms, head, index=False)
        mean = head.tokens / head.seq if head.seq else 0.0
        worth = worth_of_places(hits, newest=head.seq, mean_tokens=mean)
        if not meaning.near:
            return {seq: ScoreParts(own, None, max(worth[seq] - own, 0.0)) for seq, own in hits}
        fused = partial(fused_parts, meaning=meaning.near, entries=head.seq, trust=meaning.trust)
        own = fused(hits)
        spread = fused([(seq, worth.get(seq, 0.0)) for seq in own])
        return {seq: ScoreParts(*own[seq], max(spread[seq][0] - own[seq][0], 0.0)) for seq in own}

    async def _meaning(
        self,
        hits: Sequence[tuple[int, float]],
        query: str,
        terms: Sequence[str],
        head: Head,
        *,
        question: int = 0,
        after: int = 0,
        before: int | None = None,
        index: bool = True,
        within: Within = ALL_ENTRIES,
    ) -> _Meaning:
        """Return the entries that are nearest in meaning; none without an embedder or with filters.

        With `index`, vectors that are missing are computed in the background.
        """
        if self.meanings is None or within != ALL_ENTRIES:
            return _Meaning()
        stop = head.seq + 1 if before is None else before
        self.meanings.follow(self.cache.history)
        found = await self.meanings.near(
            query, after=after, before=stop, most=_MAX_RANKED, without=question
        )
        if index:
            self.meanings.begin(head.seq)
        if not found:
            return _Meaning()
        near = [(each.seq, each.closeness) for each in found]
        trust = await self._trust_in_words(hits, terms, dict(near), head.seq)
        return _Meaning(near, {each.seq: each.part for each in found}, trust)

    async def _trust_in_words(
        self,
        hits: Sequence[tuple[int, float]],
        terms: Sequence[str],
        close: Mapping[int, float],
        entries: int,
    ) -> float:
        """Return the weight, 0 to 1, of matches by words compared with matches by meaning.

        It is judged by the texts of the best matches.
        """
        telling = [term for term in terms if not is_character(term)]
        if not hits or not telling:
            return 1.0
        best = await self._read_each(seq for seq, _ in hits[:_JUDGED])
        share = partial(_largest_share, best, telling)
        if sum(entry.tokens for entry in best) > _LONG_TOKENS:
            covered = await self.config.runtime.compute(share)
        else:
            covered = share()
        nearest = max(close.get(seq, 0.0) for seq, _ in hits[:_JUDGED])
        return trust_in_words(hits[0][1], share=covered, closeness=nearest, entries=entries)

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
        return await self._read_ranges([(first, last)] if first <= last else [])

    async def _read_each(self, seqs: Iterable[int]) -> list[Entry]:
        """Return the entries at these log positions, oldest first."""
        return await self._read_ranges([(seq, seq) for seq in sorted(set(seqs))])

    async def _read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[Entry]:
        """Return the entries of these ranges (first seq, last seq), which are in order; one request to the store."""
        config = self.config
        if not ranges:
            return []
        return await config.store.read_ranges(config.scope, self.cache.conversation, ranges)


def _relevant(
    query: str,
    places: Sequence[tuple[int, float]],
    entries: Mapping[int, Entry],
    found: _Found,
    head: Head,
) -> tuple[list[tuple[int, float]], bool]:
    """Return the places that are worth showing, and whether one of them has most words of a question."""
    asked, units = is_question(query), bool(found.meaning.near)
    answered = asked and covers(entries, places, found.terms)
    return relevant_places(places, entries=head.seq, question=asked, in_units=units), answered


def _recent_score(entry: Entry, stop: int, *, follows: bool) -> float:
    """Return the score of one of the newest entries before `stop`: for a follow-up, the nearest score highest."""
    return _FOLLOWED_SHARE ** (stop - entry.seq) if follows else _RECENT_SCORE * entry.seq / stop


def _with_meaning(
    places: Sequence[tuple[int, float]], meaning: _Meaning, entries: int
) -> list[tuple[int, float]]:
    """Return the places found by words and by meaning, best first; unchanged if nothing is found by meaning."""
    if not meaning.near:
        return list(places)
    return fuse(places, meaning.near, entries=entries, trust=meaning.trust)


def _largest_share(entries: Sequence[Entry], terms: Sequence[str]) -> float:
    """Return the largest share of the terms that one of the entries contains."""
    counter = QueryTerms(terms)
    found = (len(counter.count_in(entry.message.text).counts) for entry in entries)
    return max(found, default=0) / len(terms)


_SHORT_TEXT = 5_000
"""Longest text, in characters, whose snippet is found on an event loop; for a longer one a thread is used."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result of a memory search: a message, a checkpoint's summary or a document, with a snippet."""

    conversation: str
    score: float
    """Relevance of the result: higher is better; comparable within one search only."""
    snippet: Snippet
    """The part of the text that best shows why the text was found."""
    text: str
    """The whole text of the entry, summary or document."""
    created: int
    """Time at which the entry was stored, in microseconds since 1970."""
    kind: str = ENTRY
    """The kind of result: empty for an entry, `checkpoint`, or the kind of a document."""
    key: str = ""
    """Id of the checkpoint (summary), or key of the document; empty for an entry."""
    seq: int = 0
    """Seq (log position) of the entry; for a checkpoint (summary), that of the last entry it covers."""
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
    """Checkpoints (summaries) by id, for each conversation with a checkpoint among the search results."""

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

"""Searching the PostgreSQL store: which entries hold the terms, and which of them are the best.

The usual question costs one round trip. Only when more entries hold the terms than can be weighed does a second one
choose among them, in the order every backend keeps (see ranking.py).
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from turnfold.recall import terms_of
from turnfold.records import decode_message
from turnfold.stores.postgres_engine import Link, PostgresEngine, Rows, Statement
from turnfold.stores.postgres_rows import Place, name_terms, scoped
from turnfold.stores.protocol import Hit
from turnfold.stores.ranking import MOST_CANDIDATES, Candidate, rank, rarity

__all__ = ("candidates", "heaviest_candidates", "search")

_HOME = (
    "turnfold_conversation AS home ON home.tenant = $1 AND home.conversation = term.conversation"
)
_FOUND = (
    "term.tenant = $1 AND term.terms && $2::text[] AND ($3::text IS NULL OR term.conversation = $3)"
)
_BODIES = (
    "SELECT chosen.name, chosen.seq, entry.body FROM chosen JOIN turnfold_entry AS entry "
    "ON entry.tenant = $1 AND entry.conversation = chosen.conversation AND entry.seq = chosen.seq"
)


async def search(
    engine: PostgresEngine, place: Place, terms: Sequence[str], *, everywhere: bool, limit: int
) -> list[Hit]:
    """The best entries of a conversation, or of the whole tenant, that hold any of the terms."""

    async def ask(link: Link) -> list[Rows]:
        return await link.finish(
            name_terms(place, terms),
            _total_entries(place, everywhere=everywhere),
            _holding(place, terms, everywhere=everywhere),
            candidates(place, terms, everywhere=everywhere, most=MOST_CANDIDATES + 1),
        )

    async def ask_again(link: Link) -> Rows:
        told = rarity(counts, total=count)
        _, rows = await link.finish(
            name_terms(place, terms),
            heaviest_candidates(place, told, everywhere=everywhere, most=MOST_CANDIDATES),
        )
        return rows

    def ranked() -> list[Hit]:
        return rank(_to_candidates(found), counts, total=count, limit=limit)

    _, total, holding, found = await engine.transact(place.tenant, ask, reading=True)
    counts = dict.fromkeys(terms, 0) | dict(cast("list[tuple[str, int]]", holding))
    count = cast("int", total[0][0])
    if len(found) > MOST_CANDIDATES:
        found = await engine.transact(place.tenant, ask_again, reading=True)
    # Reading that many texts takes long enough to be felt by everybody else in the event loop.
    return ranked() if engine.blocking else await asyncio.to_thread(ranked)


def _values(place: Place, terms: Sequence[str], *, everywhere: bool) -> tuple[object, ...]:
    return place.tenant, scoped(place, terms), None if everywhere else place.conversation


def _total_entries(place: Place, *, everywhere: bool) -> Statement:
    """How many entries a search looks at."""
    return Statement(
        "SELECT coalesce(sum(seq), 0)::bigint FROM turnfold_conversation "
        "WHERE tenant = $1 AND ($2::text IS NULL OR conversation = $2)",
        (place.tenant, None if everywhere else place.conversation),
    )


def _holding(place: Place, terms: Sequence[str], *, everywhere: bool) -> Statement:
    """How many entries hold each of the terms."""
    return Statement(
        "SELECT split_part(held, ':', 2), count(*) FROM turnfold_term AS term, unnest(term.terms) AS held "
        f"WHERE {_FOUND} AND held = ANY($2::text[]) GROUP BY held",
        _values(place, terms, everywhere=everywhere),
    )


def candidates(place: Place, terms: Sequence[str], *, everywhere: bool, most: int) -> Statement:
    """Entries that hold any of the terms, at most `most`, in no order."""
    chosen = (
        "SELECT term.conversation, term.seq, coalesce(home.long_name, home.conversation) AS name "
        f"FROM turnfold_term AS term JOIN {_HOME} WHERE {_FOUND} LIMIT $4"
    )
    return Statement(
        f"WITH chosen AS ({chosen}) {_BODIES}",
        (*_values(place, terms, everywhere=everywhere), most),
    )


def heaviest_candidates(
    place: Place, rarities: Mapping[str, int], *, everywhere: bool, most: int
) -> Statement:
    """Of very many entries that hold any of the terms, those to be weighed, in the order of `ranking.cut`."""
    told = (
        "SELECT term.conversation, term.seq, sum(asked.told) AS told FROM turnfold_term AS term, "
        "unnest(term.terms) AS held JOIN unnest($2::text[], $5::bigint[]) AS asked (term, told) ON asked.term = held "
        f"WHERE {_FOUND} GROUP BY term.conversation, term.seq"
    )
    chosen = (
        "SELECT term.conversation, term.seq, coalesce(home.long_name, home.conversation) AS name "
        f"FROM ({told}) AS term JOIN {_HOME} "
        "ORDER BY term.told DESC, home.seq - term.seq, "
        'coalesce(home.long_name, home.conversation) COLLATE "C" LIMIT $4'
    )
    return Statement(
        f"WITH chosen AS ({chosen}) {_BODIES}",
        (*_values(place, tuple(rarities), everywhere=everywhere), most, list(rarities.values())),
    )


def _to_candidates(found: Rows) -> list[Candidate]:
    """Entries with all their terms."""
    rows = cast("list[tuple[str, int, bytes]]", found)
    return [(name, seq, Counter(terms_of(decode_message(body).text))) for name, seq, body in rows]

"""Making the index of a conversation anew when its terms were made by other rules than today's.

Each conversation says by which rules its index was made. A search first sees to what it asks about, its conversation or
its tenant, so no answer ever mixes two sets of rules; it does so in steps, a transaction each, that say how far they
came. Who is killed between two steps loses nothing, and writers of the conversation wait for one step at most.
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from turnfold.recall import TERMS_MADE_BY
from turnfold.records import Message, decode_message
from turnfold.stores import postgres_beside as beside
from turnfold.stores import postgres_rows as sql
from turnfold.stores import postgres_terms as terms
from turnfold.stores.findable import CALL_REACH, ToolNames, findable
from turnfold.stores.ledger import Row
from turnfold.stores.postgres_engine import Link, PostgresEngine, Rows, Statement
from turnfold.stores.postgres_keys import Place

__all__ = ("find_stale", "remake")

_STEP = 1000
"""Entries that are indexed in one transaction."""
_HERE = "tenant = $1 AND conversation = $2"


def find_stale(place: Place, *, everywhere: bool) -> Statement:
    """A conversation whose index was made by other rules."""
    return Statement(
        "SELECT coalesce(long_name, conversation) FROM turnfold_conversation WHERE tenant = $1 "
        "AND ($2::text IS NULL OR conversation = $2) AND (indexed_by < $3 OR indexed_by > $3) AND NOT deleted LIMIT 1",
        (place.tenant, None if everywhere else place.conversation, TERMS_MADE_BY),
    )


async def remake(engine: PostgresEngine, place: Place, *, everywhere: bool) -> int:
    """Make the index of a conversation, or of all of a tenant's, anew where it must be; how many entries it was."""
    done = 0

    async def find(link: Link) -> Rows:
        [found] = await link.finish(find_stale(place, everywhere=everywhere))
        return found

    while found := await engine.transact(place.tenant, find, reading=True):
        stale = Place.of_keys(place.tenant, cast("str", found[0][0]))

        async def step(link: Link, stale: Place = stale) -> int:
            return await _step(link, stale)

        done += await engine.transact(place.tenant, step)
    return done


async def _step(link: Link, place: Place) -> int:
    link.take_long()
    [state], [head] = await link.ask(
        Statement(
            f"SELECT remade_by, remade, indexed_by, deleted FROM turnfold_conversation WHERE {_HERE} FOR UPDATE",
            place.keys,
        ),
        sql.find_head(place),
    )
    made_by, made, indexed_by, deleted = cast("tuple[str, int, str, bool]", tuple(state))
    if deleted or indexed_by == TERMS_MADE_BY:
        return 0
    after = made if made_by == TERMS_MADE_BY else 0
    newest = sql.to_held([head]).head.seq
    upto = min(after + _STEP, newest)
    first = max(after - CALL_REACH, 0)
    [found] = await link.ask(sql.rows_between(place, first, upto, upto - first))
    rows = sql.to_rows(place, found)
    await link.ask(
        terms.name_conversation(place),
        *_index_rows(place, [*rows], after=after),
        _came_to(place, upto),
    )
    if upto == newest:
        await _finish(link, place)
    return upto - after


def _index_rows(place: Place, rows: Sequence[Row], *, after: int) -> list[Statement]:
    """The index of the rows after a seq; those before tell which tool an answer is from."""
    earlier = [decode_message(row.body) for row in rows if row.seq <= after]
    tools = ToolNames(after=after, earlier=lambda: earlier)
    new = [row for row in rows if row.seq > after]
    if not new:
        return []
    said: list[Message] = [decode_message(row.body) for row in new]
    found_by = [findable(message, tools.of(message)) for message in said]
    gone = Statement(
        f"DELETE FROM turnfold_term WHERE {_HERE} AND kind = '' AND key = '' AND seq BETWEEN $3 AND $4",
        (*place.keys, new[0].seq, new[-1].seq),
    )
    return [gone, sql.index_rows(place, new, found_by)]


def _came_to(place: Place, seq: int) -> Statement:
    return Statement(
        f"UPDATE turnfold_conversation SET remade_by = $3, remade = $4 WHERE {_HERE}",
        (*place.keys, TERMS_MADE_BY, seq),
    )


async def _finish(link: Link, place: Place) -> None:
    """Index what stands beside the log, and say that all is done."""
    checkpoints, documents = await link.ask(
        beside.find_checkpoints(place), beside.find_searchable(place)
    )
    found = [
        *map(beside.found_by, beside.to_checkpoints(place, checkpoints)),
        *(beside.found_by(beside.to_document(place, row)) for row in documents),
    ]
    await link.ask(
        Statement(f"DELETE FROM turnfold_term WHERE {_HERE} AND kind <> ''", place.keys),
        Statement(
            f"UPDATE turnfold_conversation SET indexed_by = $3, remade_by = '', remade = 0, beside = 0 WHERE {_HERE}",
            (*place.keys, TERMS_MADE_BY),
        ),
        *terms.add_beside(place, found),
    )

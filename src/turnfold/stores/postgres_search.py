"""Searching the PostgreSQL store: which places hold the terms, and which of them are the best.

The usual question costs one round trip. Only when more places hold the terms than can be weighed does a second one
choose among them, in the order every backend keeps (see ranking.py).
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from turnfold.recall import AskedTerms
from turnfold.records import decode_message
from turnfold.stores.checksums import checked_row, damaged, is_sound_text
from turnfold.stores.findable import required_marks
from turnfold.stores.log_mark import log_mark
from turnfold.stores.postgres_beside import to_checkpoint
from turnfold.stores.postgres_engine import Link, PostgresEngine, Rows, Statement
from turnfold.stores.postgres_keys import Place, key_of
from turnfold.stores.postgres_remaking import find_stale, remake
from turnfold.stores.postgres_terms import name_terms, scoped, scoped_marks
from turnfold.stores.ranking import MOST_CANDIDATES, Candidate, Hit, choosing_terms, rank
from turnfold.stores.within import ALL_ENTRIES, CHECKPOINT, ENTRY, Within

__all__ = ("Question", "search")

_HOME = (
    "turnfold_conversation AS home ON home.tenant = $1 AND home.conversation = term.conversation"
)
_NAMES = (
    "term.conversation, term.seq, term.kind, term.key, coalesce(home.long_name, home.conversation) AS name, "
    "coalesce(term.long_kind, term.kind) AS real_kind, coalesce(term.long_key, term.key) AS real_key"
)
_ORDER = (
    'term.told DESC, home.arrival DESC, coalesce(term.long_kind, term.kind) COLLATE "C", term.seq DESC, '
    'coalesce(term.long_key, term.key) COLLATE "C"'
)
_TEXTS = (
    "SELECT chosen.name, chosen.seq, chosen.real_kind, chosen.real_key, entry.seq, "
    "coalesce(entry.long_id, entry.client_id, ''), entry.created, entry.turn, entry.tokens, entry.running, entry.body, "
    "entry.epoch, entry.checksum, document.text, document.checksum, checkpoint.record, checkpoint.checksum "
    "FROM chosen LEFT JOIN turnfold_entry AS entry ON chosen.kind = '' AND entry.tenant = $1 "
    "AND entry.conversation = chosen.conversation AND entry.seq = chosen.seq "
    "LEFT JOIN turnfold_document AS document ON chosen.kind <> '' AND document.tenant = $1 "
    "AND document.conversation = chosen.conversation AND document.kind = chosen.kind AND document.key = chosen.key "
    f"LEFT JOIN turnfold_checkpoint AS checkpoint ON chosen.kind = '{CHECKPOINT}' AND checkpoint.tenant = $1 "
    "AND checkpoint.conversation = chosen.conversation AND checkpoint.id = chosen.key"
)


async def search(
    engine: PostgresEngine,
    place: Place,
    terms: Sequence[str],
    *,
    everywhere: bool,
    limit: int,
    within: Within,
) -> list[Hit]:
    """The best places of a conversation, or of the whole tenant, that hold any of the terms."""
    question = Question(place, tuple(terms), everywhere=everywhere, within=within)

    async def ask(link: Link) -> list[Rows]:
        return await link.finish(
            name_terms(place, terms),
            find_stale(place, everywhere=everywhere),
            question.total(),
            question.holding(),
            question.any_places(MOST_CANDIDATES + 1),
        )

    _, stale, total, holding, found = await engine.transact(place.tenant, ask, reading=True)
    if stale:
        await remake(engine, place, everywhere=everywhere)
        _, _, total, holding, found = await engine.transact(place.tenant, ask, reading=True)
    count = cast("int", total[0][0])
    counts = dict.fromkeys(terms, 0) | dict(cast("list[tuple[str, int]]", holding))
    choosing = choosing_terms(counts, total=count)
    leaves_out = len(choosing.rarities) < sum(1 for held in counts.values() if held)
    if leaves_out or len(found) > MOST_CANDIDATES:

        async def ask_again(link: Link) -> Rows:
            _, rows = await link.finish(
                name_terms(place, terms),
                question.telling_places(choosing.rarities, MOST_CANDIDATES),
            )
            return rows

        found = await engine.transact(place.tenant, ask_again, reading=True)

    def ranked() -> list[Hit]:
        candidates = _candidates(place.tenant, found, AskedTerms(terms))
        return rank(candidates, counts, total=count, limit=limit)

    # Reading that many texts takes long enough to be felt by everybody else in the event loop.
    return ranked() if engine.blocking else await asyncio.to_thread(ranked)


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for, and where."""

    place: Place
    terms: tuple[str, ...]
    everywhere: bool = False
    within: Within = ALL_ENTRIES

    def total(self) -> Statement:
        """How many places a search looks at."""
        counted = "(CASE WHEN $3 THEN seq ELSE 0 END) + (CASE WHEN $4 THEN beside ELSE 0 END)"
        return Statement(
            f"SELECT coalesce(sum({counted}), 0)::bigint FROM turnfold_conversation "
            "WHERE tenant = $1 AND ($2::text IS NULL OR conversation = $2)",
            (self.place.tenant, self._conversation, *self._counted),
        )

    def holding(self) -> Statement:
        """How many places hold each of the terms."""
        return Statement(
            "SELECT split_part(held, ':', 2), count(*) FROM turnfold_term AS term, unnest(term.terms) AS held "
            "WHERE term.tenant = $1 AND term.terms && $2::text[] AND ($3::text IS NULL OR term.conversation = $3) "
            "AND CASE term.kind WHEN '' THEN $4::boolean ELSE $5::boolean END "
            "AND held = ANY($2::text[]) GROUP BY held",
            (*self._asked(self.terms), *self._counted),
        )

    def any_places(self, most: int) -> Statement:
        """Places that hold any of the terms, at most `most`, in no order."""
        where, values = self._where(self.terms)
        values.append(most)
        chosen = f"SELECT {_NAMES} FROM turnfold_term AS term JOIN {_HOME} WHERE {where} LIMIT ${len(values)}"
        return Statement(f"WITH chosen AS ({chosen}) {_TEXTS}", tuple(values))

    def telling_places(self, rarities: Mapping[str, int], most: int) -> Statement:
        """Of very many places, those to be weighed: of which the terms tell most, and of equals the newest."""
        where, values = self._where(tuple(rarities))
        values += [list(rarities.values()), most]
        told = (
            "SELECT term.conversation, term.seq, term.kind, term.long_kind, term.key, term.long_key, "
            "sum(asked.told) AS told FROM turnfold_term AS term, unnest(term.terms) AS held "
            f"JOIN unnest($2::text[], ${len(values) - 1}::bigint[]) AS asked (term, told) ON asked.term = held "
            f"WHERE {where} GROUP BY term.conversation, term.seq, term.kind, term.long_kind, term.key, term.long_key"
        )
        chosen = f"SELECT {_NAMES} FROM ({told}) AS term JOIN {_HOME} ORDER BY {_ORDER} LIMIT ${len(values)}"
        return Statement(f"WITH chosen AS ({chosen}) {_TEXTS}", tuple(values))

    @property
    def _conversation(self) -> str | None:
        return None if self.everywhere else self.place.conversation

    @property
    def _counted(self) -> tuple[bool, bool]:
        return self.within.counts(ENTRY), self.within.counts_beside

    def _asked(self, terms: Sequence[str]) -> tuple[object, ...]:
        return self.place.tenant, scoped(self.place, terms), self._conversation

    def _where(self, terms: Sequence[str]) -> tuple[str, list[object]]:
        """What a place must be to take part, and the values of it."""
        values = list(self._asked(terms))
        conditions = [
            "term.tenant = $1",
            "term.terms && $2::text[]",
            "($3::text IS NULL OR term.conversation = $3)",
        ]

        def also(condition: str, value: object) -> None:
            values.append(value)
            conditions.append(condition.format(f"${len(values)}"))

        within = self.within
        if within.kinds is not None:
            also("term.kind = ANY({}::text[])", [key_of(kind) for kind in sorted(within.kinds)])
        if within.entries_only:
            conditions.append("term.kind = ''")
        for marks in required_marks(within):
            also("term.terms && {}::text[]", scoped_marks(self.place, marks))
        if within.turns is not None:
            also("term.turn >= {}", within.turns[0])
            also("term.turn <= {}", within.turns[1])
        if within.since is not None:
            also("term.created >= {}", within.since)
        if within.until is not None:
            also("term.created < {}", within.until)
        return " AND ".join(conditions), values


def _candidates(tenant: str, found: Rows, asked: AskedTerms) -> Iterator[Candidate]:
    """Places with what they hold of the terms."""
    for row in found:
        name, seq, kind, key = cast("tuple[str, int, str, str]", tuple(row[:4]))
        entry, (text, text_sum, record, record_sum) = row[4:13], row[13:]
        mark = partial(log_mark, tenant, name)
        if entry[0] is not None:
            said = decode_message(checked_row(entry, 0, mark).body).text
        elif record is not None and kind == CHECKPOINT:
            said = to_checkpoint(record, record_sum, mark).text
        else:
            said = cast("bytes", text or b"").decode(errors="replace")
            if not is_sound_text(said, text_sum):
                raise damaged(f"document {kind}/{key}", mark)
        yield Candidate(name, seq, kind, key, asked.held_by(said))

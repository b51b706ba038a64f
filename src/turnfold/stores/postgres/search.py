"""Search in the PostgreSQL store, and rebuild a search index that was made by other rules for words.

In the names of functions, a *place* is a text in the search index: that of an entry, a checkpoint or a document. A
search usually takes one round trip. Only if more texts match than can be ranked, a second one selects among them, in
the order that all backends use (`rank` in `turnfold.search`).

Each conversation records the version of the rules for words (`TERMS_MADE_BY`) that made its index. A search first
rebuilds older indexes of the conversation or tenant that it searches, so no result mixes two versions. It rebuilds in
steps, each a transaction that records the progress: if the process is killed, the next one continues, and writers of
the conversation wait for one step at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from turnfold.records import decode_message
from turnfold.search import (
    ALL_ENTRIES,
    CALL_REACH,
    CHECKPOINT,
    ENTRY,
    MOST_CANDIDATES,
    Candidate,
    Hit,
    QueryTerms,
    ToolNames,
    Within,
    choosing_terms,
    findable,
    rank,
    required_marks,
)
from turnfold.stores.checksums import checked_row, damaged, is_sound_text
from turnfold.stores.fork_guard import run_off_loop
from turnfold.stores.log_semantics import Row, log_mark
from turnfold.stores.postgres import documents as doc_sql
from turnfold.stores.postgres import statements as sql
from turnfold.stores.postgres.statements import (
    HERE,
    ConversationKey,
    allow_terms,
    key_of,
    scoped,
    scoped_marks,
)
from turnfold.stores.postgres.transactions import Link, PostgresEngine, Rows, Statement
from turnfold.text import TERMS_MADE_BY

__all__ = ("search",)


# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)


_HOME = (
    "turnfold_conversation AS home ON home.tenant = $1 AND home.conversation = term.conversation"
)
_NAMES = (
    "term.conversation, term.seq, term.kind, term.key, coalesce(home.long_name, home.conversation) AS name, "
    "coalesce(term.long_kind, term.kind) AS real_kind, coalesce(term.long_key, term.key) AS real_key"
)
_ORDER = (
    'term.weight DESC, home.arrival DESC, coalesce(term.long_kind, term.kind) COLLATE "C", term.seq DESC, '
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
    place: ConversationKey,
    terms: Sequence[str],
    *,
    everywhere: bool,
    limit: int,
    within: Within,
) -> list[Hit]:
    """Return the best matches for any of the terms in a conversation, or in the whole tenant."""
    query = SearchQuery(place, tuple(terms), everywhere=everywhere, within=within)

    async def find(link: Link) -> list[Rows]:
        return await link.finish(
            allow_terms(place, terms),
            _find_stale(place, everywhere=everywhere),
            query.total(),
            query.holding(),
            query.any_places(MOST_CANDIDATES + 1),
        )

    _, stale, total, holding, found = await engine.transact(place.tenant, find, reading=True)
    if stale:
        await _rebuild_index(engine, place, everywhere=everywhere)
        _, _, total, holding, found = await engine.transact(place.tenant, find, reading=True)
    count = cast("int", total[0][0])
    counts = dict.fromkeys(terms, 0) | dict(cast("list[tuple[str, int]]", holding))
    choosing = choosing_terms(counts, total=count)
    leaves_out = len(choosing.rarities) < sum(1 for held in counts.values() if held)
    if leaves_out or len(found) > MOST_CANDIDATES:

        async def find_best(link: Link) -> Rows:
            _, rows = await link.finish(
                allow_terms(place, terms),
                query.best_places(choosing.rarities, MOST_CANDIDATES),
            )
            return rows

        found = await engine.transact(place.tenant, find_best, reading=True)

    def ranked() -> list[Hit]:
        candidates = _candidates(place.tenant, found, QueryTerms(terms))
        return rank(candidates, counts, total=count, limit=limit)

    # Decoding that many texts takes long enough to delay other tasks of the event loop.
    return await run_off_loop(ranked, blocking=engine.blocking)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Makes the SQL statements of one search: counts, and the texts to rank."""

    place: ConversationKey
    terms: tuple[str, ...]
    everywhere: bool = False
    within: Within = ALL_ENTRIES

    def total(self) -> Statement:
        """Return the statement that counts the texts that are searched."""
        counted = "(CASE WHEN $3 THEN seq ELSE 0 END) + (CASE WHEN $4 THEN beside ELSE 0 END)"
        return Statement(
            f"SELECT coalesce(sum({counted}), 0)::bigint FROM turnfold_conversation "
            "WHERE tenant = $1 AND ($2::text IS NULL OR conversation = $2)",
            (self.place.tenant, self._conversation, *self._counted),
        )

    def holding(self) -> Statement:
        """Return the statement that counts the texts that contain each search term."""
        return Statement(
            "SELECT split_part(held, ':', 2), count(*) FROM turnfold_term AS term, unnest(term.terms) AS held "
            "WHERE term.tenant = $1 AND term.terms && $2::text[] AND ($3::text IS NULL OR term.conversation = $3) "
            "AND CASE term.kind WHEN '' THEN $4::boolean ELSE $5::boolean END "
            "AND held = ANY($2::text[]) GROUP BY held",
            (*self._asked(self.terms), *self._counted),
        )

    def any_places(self, most: int) -> Statement:
        """Return the statement that selects at most `most` texts that contain any of the terms, in no order."""
        where, values = self._where(self.terms)
        values.append(most)
        chosen = f"SELECT {_NAMES} FROM turnfold_term AS term JOIN {_HOME} WHERE {where} LIMIT ${len(values)}"
        return Statement(f"WITH chosen AS ({chosen}) {_TEXTS}", tuple(values))

    def best_places(self, rarities: Mapping[str, int], most: int) -> Statement:
        """Return the statement that selects the `most` texts with the rarest terms, the newest among equals.

        `rarities` are the weights of the terms: the rarer a term, the more it weighs.
        """
        where, values = self._where(tuple(rarities))
        values += [list(rarities.values()), most]
        weight = (
            "SELECT term.conversation, term.seq, term.kind, term.long_kind, term.key, term.long_key, "
            "sum(asked.weight) AS weight FROM turnfold_term AS term, unnest(term.terms) AS held "
            f"JOIN unnest($2::text[], ${len(values) - 1}::bigint[]) AS asked (term, weight) ON asked.term = held "
            f"WHERE {where} GROUP BY term.conversation, term.seq, term.kind, term.long_kind, term.key, term.long_key"
        )
        chosen = f"SELECT {_NAMES} FROM ({weight}) AS term JOIN {_HOME} ORDER BY {_ORDER} LIMIT ${len(values)}"
        return Statement(f"WITH chosen AS ({chosen}) {_TEXTS}", tuple(values))

    @property
    def _conversation(self) -> str | None:
        return None if self.everywhere else self.place.conversation

    @property
    def _counted(self) -> tuple[bool, bool]:
        return self.within.counts(ENTRY), self.within.counts_documents

    def _asked(self, terms: Sequence[str]) -> tuple[object, ...]:
        return self.place.tenant, scoped(self.place, terms), self._conversation

    def _where(self, terms: Sequence[str]) -> tuple[str, list[object]]:
        """Return the SQL conditions that a result must meet (terms and filters), and their values."""
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


def _candidates(tenant: str, found: Rows, query: QueryTerms) -> Iterator[Candidate]:
    """Yield the entry, checkpoint or document of each row, with the search terms that it contains."""
    for row in found:
        name, seq, kind, key = cast("tuple[str, int, str, str]", tuple(row[:4]))
        entry, (text, text_sum, record, record_sum) = row[4:13], row[13:]
        mark = partial(log_mark, tenant, name)
        if entry[0] is not None:
            content = decode_message(checked_row(entry, 0, mark).body).text
        elif record is not None and kind == CHECKPOINT:
            content = doc_sql.to_checkpoint(record, record_sum, mark).text
        else:
            content = cast("bytes", text or b"").decode(errors="replace")
            if not is_sound_text(content, text_sum):
                raise damaged(f"the text of document {kind}/{key}", mark)
        yield Candidate(name, seq, kind, key, query.count_in(content))


_STEP = 1000
"""Most entries whose search index is made again in one transaction; further ones follow in the next."""


def _find_stale(place: ConversationKey, *, everywhere: bool) -> Statement:
    """Return the statement that selects a conversation whose index was made by the word rules of an older release."""
    return Statement(
        "SELECT coalesce(long_name, conversation) FROM turnfold_conversation WHERE tenant = $1 "
        "AND ($2::text IS NULL OR conversation = $2) AND (indexed_by < $3 OR indexed_by > $3) AND NOT erased LIMIT 1",
        (place.tenant, None if everywhere else place.conversation, TERMS_MADE_BY),
    )


async def _rebuild_index(
    engine: PostgresEngine, place: ConversationKey, *, everywhere: bool
) -> None:
    """Rebuild the search index of a conversation, or of all conversations of a tenant, where it is out of date."""

    async def find(link: Link) -> Rows:
        [found] = await link.finish(_find_stale(place, everywhere=everywhere))
        return found

    while found := await engine.transact(place.tenant, find, reading=True):
        stale = ConversationKey.of_keys(place.tenant, cast("str", found[0][0]))
        await engine.transact(place.tenant, partial(_step, place=stale))


async def _step(link: Link, place: ConversationKey) -> None:
    """Index the next `_STEP` entries of a conversation again; after the last entry, its checkpoints and documents."""
    link.allow_long()
    [state], [head] = await link.ask(
        Statement(
            f"SELECT remade_by, remade, indexed_by, erased FROM turnfold_conversation WHERE {HERE} FOR UPDATE",
            place.keys,
        ),
        sql.find_head(place),
    )
    made_by, made, indexed_by, deleted = cast("tuple[str, int, str, bool]", tuple(state))
    if deleted or indexed_by == TERMS_MADE_BY:
        return
    after = made if made_by == TERMS_MADE_BY else 0
    newest = sql.to_conversation([head]).head.seq
    upto = min(after + _STEP, newest)
    first = max(after - CALL_REACH, 0)
    [found] = await link.ask(sql.rows_between(place, first, upto, upto - first))
    rows = sql.to_rows(place, found)
    await link.ask(
        sql.allow_conversation(place),
        *_index_rows(place, rows, after=after),
        _save_progress(place, upto),
    )
    if upto == newest:
        await _index_texts(link, place)


def _index_rows(place: ConversationKey, rows: Sequence[Row], *, after: int) -> list[Statement]:
    """Return statements that put the entries with `seq > after` into the search index again.

    Earlier rows are passed too, because they have the tool calls of tool results.
    """
    earlier = [decode_message(row.body) for row in rows if row.seq <= after]
    tools = ToolNames(after=after, earlier=lambda: earlier)
    new = [row for row in rows if row.seq > after]
    if not new:
        return []
    messages = [decode_message(row.body) for row in new]
    texts = [findable(message, tools.of(message)) for message in messages]
    delete = Statement(
        f"DELETE FROM turnfold_term WHERE {HERE} AND kind = '' AND key = '' AND seq BETWEEN $3 AND $4",
        (*place.keys, new[0].seq, new[-1].seq),
    )
    return [delete, sql.index_rows(place, new, texts)]


def _save_progress(place: ConversationKey, seq: int) -> Statement:
    return Statement(
        f"UPDATE turnfold_conversation SET remade_by = $3, remade = $4 WHERE {HERE}",
        (*place.keys, TERMS_MADE_BY, seq),
    )


async def _index_texts(link: Link, place: ConversationKey) -> None:
    """Index the checkpoints and documents of a conversation again, and record that its index is up to date."""
    checkpoints, documents = await link.ask(
        doc_sql.find_checkpoints(place), doc_sql.find_searchable(place)
    )
    found = [
        *map(doc_sql.indexed_text, doc_sql.to_checkpoints(place, checkpoints)),
        *(doc_sql.indexed_text(doc_sql.to_document(place, row)) for row in documents),
    ]
    await link.ask(
        Statement(f"DELETE FROM turnfold_term WHERE {HERE} AND kind <> ''", place.keys),
        Statement(
            f"UPDATE turnfold_conversation SET indexed_by = $3, remade_by = '', remade = 0, beside = 0 WHERE {HERE}",
            (*place.keys, TERMS_MADE_BY),
        ),
        *sql.index_texts(place, found),
    )

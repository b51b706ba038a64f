"""The store in the memory of the process, for tests and as the reference that other backends are compared with.

It consists of dictionaries and one lock, and is not durable. Messages are stored encoded, as in every other store, so
that a message that fails in another store fails here too. A search scans everything.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from turnfold.errors import ConversationDeleted, StoreUnavailable
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry, decode_message
from turnfold.search import (
    ALL_ENTRIES,
    CHECKPOINT,
    ENTRY,
    MOST_CANDIDATES,
    Candidate,
    Hit,
    QueryTerms,
    TermChoice,
    ToolNames,
    Within,
    choosing_terms,
    findable,
    marks_of_text,
    query_terms,
    rank,
    required_marks,
)
from turnfold.stores.log_semantics import (
    Row,
    Stored,
    check_checkpoint,
    check_document,
    check_erasure,
    check_seen,
    check_state,
    check_succession,
    check_version,
    new_epoch,
    next_version,
    plan_append,
    prepare,
    repeated_checkpoint,
    row_entry,
    split_checkpoints,
)
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    ConversationOpening,
    Erasure,
    Head,
    Health,
    Piece,
    Restored,
    Scope,
    State,
    View,
    Written,
    check_budget,
    check_document_name,
    check_kinds,
    check_name,
    check_page,
    check_range,
    check_ranges,
    check_turn,
)
from turnfold.stores.restore_checks import (
    KnownPieces,
    Pieces,
    check_new,
    check_same,
    check_same_whole,
)
from turnfold.tokens import TokenCounter, cautious_counter

__all__ = ("MemoryStore",)


@dataclass(slots=True)
class _Conversation:
    created: int
    updated: int
    head: Head
    rows: list[Row] = field(default_factory=list[Row])
    by_id: dict[str, Stored] = field(default_factory=dict[str, Stored])
    checkpoints: list[Checkpoint] = field(default_factory=list[Checkpoint])
    documents: dict[tuple[str, str], Document] = field(
        default_factory=dict[tuple[str, str], Document]
    )
    dropped: int = 0
    deleted: bool = False


class MemoryStore:
    """Store that keeps conversations in dictionaries. Thread-safe; everything is lost when the process ends."""

    abilities = frozenset({Ability.SEARCH, Ability.ERASES_BYTES, Ability.IN_ORDER})
    blocking = True

    def __init__(
        self, *, counter: TokenCounter | None = None, clock: Callable[[], int] | None = None
    ) -> None:
        self._counter = counter or cautious_counter()
        self._clock = clock or (lambda: time.time_ns() // 1000)
        self._lock = threading.RLock()
        self._conversations: dict[tuple[str, str], _Conversation] = {}
        self._closed = False

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        batch = prepare(entries, self._counter)
        with self._change(scope, conversation) as record:
            self._recount(record)
            known = {name: record.by_id[name] for name in batch.client_ids if name in record.by_id}
            now, epoch = self._clock(), new_epoch()
            plan = plan_append(batch, record.head, known, created=now, epoch=epoch, expect=expect)
            before = record.head.state
            if isinstance(plan, Stored):
                last = plan.seq + len(entries) - 1
                return Appended(plan.seq, last, repeated=True, head=record.head, before=before)
            self._add_rows(record, plan)
            first, last = plan[0].seq, plan[-1].seq
            return Appended(first, last, repeated=False, head=record.head, before=before)

    async def head(self, scope: Scope, conversation: str) -> Head:
        with self._lock:
            return self._find(scope, conversation).head

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        check_kinds(kinds)
        with self._lock:
            record = self._find(scope, conversation)
            live = record.checkpoints[-1] if record.checkpoints else None
            places = sorted(place for place in record.documents if place[0] in kinds)
            return View(record.head, live, tuple(record.documents[place] for place in places))

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        check_range(after, upto, limit)
        with self._lock:
            rows = self._find(scope, conversation).rows
            stop = len(rows) if upto is None else min(upto, len(rows))
            found = rows[after:stop][:limit]
        return [row_entry(row) for row in found]

    async def read_ranges(
        self, scope: Scope, conversation: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Entry]:
        check_ranges(ranges)
        with self._lock:
            rows = self._find(scope, conversation).rows
            found = [row for first, last in ranges for row in rows[first - 1 : last]]
        return [row_entry(row) for row in found]

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        check_turn(turn)
        with self._lock:
            rows = self._find(scope, conversation).rows
            first = bisect_right(rows, turn - 1, key=lambda row: row.turn)
            last = bisect_right(rows, turn, key=lambda row: row.turn)
            return [row_entry(row) for row in rows[first:last]]

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        for name in client_ids:
            check_name(name, "client id")
        with self._lock:
            record = self._find(scope, conversation)
            seqs = sorted(
                record.by_id[name].seq for name in set(client_ids) if name in record.by_id
            )
            return [row_entry(record.rows[seq - 1]) for seq in seqs]

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        check_budget(tokens, messages)
        with self._lock:
            record = self._find(scope, conversation)
            self._recount(record)
            first = len(record.rows)
            while (
                first
                and record.head.tokens
                - (record.rows[first - 1].running - record.rows[first - 1].tokens)
                <= tokens
            ):
                if messages and len(record.rows) - first >= messages:
                    break
                first -= 1
            found = record.rows[first:]
        return [row_entry(row) for row in found]

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        check_checkpoint(checkpoint)
        with self._change(scope, conversation) as record:
            repeated = repeated_checkpoint(checkpoint, record.checkpoints)
            if repeated is not None:
                return repeated
            live = record.checkpoints[-1] if record.checkpoints else None
            check_succession(checkpoint, live, record.head)
            _check_seen(record, seen)
            stored = replace(checkpoint, created=self._clock())
            record.checkpoints.append(stored)
            self._touch(record, checkpoint=stored.id)
            return stored

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        with self._lock:
            checkpoints = self._find(scope, conversation).checkpoints
            return checkpoints[-1] if checkpoints else None

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        with self._lock:
            return list(self._find(scope, conversation).checkpoints)

    async def drop_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: str,
        *,
        put: Sequence[Document] = (),
        drop: Sequence[Document] = (),
        state: State | None = None,
    ) -> list[Checkpoint]:
        for document in put:
            check_document(document)
        with self._change(scope, conversation) as record:
            kept, gone = split_checkpoints(record.checkpoints, checkpoint)
            if state is not None:
                check_state(state, record.head)
            _check_versions(record, (*put, *drop))
            epoch, covered = new_epoch(), kept[-1].upto if kept else 0
            for index in range(covered, len(record.rows)):
                record.rows[index] = record.rows[index]._replace(epoch=epoch)
            record.checkpoints = kept
            self._change_documents(record, put, drop)
            self._touch(record, checkpoint=kept[-1].id if kept else "", epoch=epoch)
            return gone

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: State | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        return self._put(scope, conversation, document, expect=expect, state=state, seen=seen)

    def _put(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None,
        state: State | None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        check_document(document)
        with self._change(scope, conversation) as record:
            before = record.head.state
            if state is not None:
                check_state(state, record.head)
            _check_seen(record, seen)
            place = (document.kind, document.key)
            version = record.documents[place].version if place in record.documents else 0
            check_version(expect, version, document.kind, document.key)
            version = next_version(version, record.dropped)
            stored = replace(document, version=version, created=self._clock())
            record.documents[place] = stored
            self._touch(record)
            return Written(stored, before, record.head.state)

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        return self._put(scope, conversation, document, expect=0, state=state).after

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        check_document_name(kind, key)
        with self._lock:
            return self._find(scope, conversation).documents.get((kind, key))

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        check_name(kind, "document kind")
        check_page(after, limit)
        with self._lock:
            found = self._find(scope, conversation).documents
            keys = sorted(key for each_kind, key in found if each_kind == kind and key > after)
            return [found[kind, key] for key in keys[:limit]]

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        check_document_name(kind, key)
        with self._change(scope, conversation) as record:
            known = record.documents.get((kind, key))
            check_version(expect, known.version if known else 0, kind, key)
            if known is None:
                return False
            del record.documents[kind, key]
            record.dropped = max(record.dropped, known.version)
            self._touch(record)
            return True

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        check_page(after, limit)
        with self._lock:
            self._check_open()
            names = sorted(
                name
                for (tenant, name), record in self._conversations.items()
                if tenant == scope.tenant and name > after and not record.deleted
            )
            found = [(name, self._conversations[scope.tenant, name]) for name in names[:limit]]
            return [
                ConversationInfo(name, record.head, record.created, record.updated)
                for name, record in found
            ]

    async def search(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        conversation: str | None = None,
        limit: int = 20,
        within: Within = ALL_ENTRIES,
    ) -> list[Hit]:
        check_page("", limit)
        if conversation is not None:
            check_name(conversation, "conversation id")
        wanted = query_terms(terms)
        with self._lock:
            self._check_open()
            searched = [
                _SearchedConversation(
                    name,
                    tuple(record.rows),
                    tuple(record.checkpoints),
                    tuple(record.documents.values()),
                )
                for (tenant, name), record in self._conversations.items()
                if tenant == scope.tenant and conversation in (None, name)
            ]
        return _search(searched, wanted, limit=limit, within=within)

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        with self._lock:
            record = self._find(scope, conversation)
            if record.deleted or not record.head.generation:
                return None
            documents = [record.documents[place] for place in sorted(record.documents)]
            opening = ConversationOpening(
                conversation, record.created, record.updated, record.dropped
            )
            captured = Captured(opening, record.head, tuple(record.checkpoints))
        for document in documents:
            take(document)
        return captured

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        stream = Pieces(pieces, self._counter)
        made: dict[tuple[str, str], _Conversation] = {}
        with self._lock:
            self._check_open()
            while (opening := stream.next_conversation()) is not None:
                place = (scope.tenant, opening.conversation)
                known = made.get(place) or self._conversations.get(place)
                if known is None:
                    made[place] = self._rebuild(opening, stream)
                    stream.count_written()
                else:
                    _check_same(opening.conversation, known, stream)
                    stream.count_existing()
            self._conversations.update(made)
        return stream.restored()

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        check_name(conversation, "conversation id")
        with self._lock:
            record = self._find(scope, conversation)
            erasure = Erasure(
                conversation,
                len(record.rows),
                len(record.checkpoints),
                len(record.documents),
                record.deleted,
            )
            now = self._clock()
            head = Head(generation=record.head.generation + 1, epoch=new_epoch())
            tombstone = _Conversation(now, now, head, deleted=True)
            self._conversations[scope.tenant, conversation] = tombstone
            return erasure

    async def erase(
        self,
        scope: Scope,
        conversation: str,
        seq: int,
        message: Message,
        *,
        replace: Sequence[Document] = (),
        drop: Sequence[Document] = (),
    ) -> Erasure:
        check_range(seq, None, 0)
        for document in replace:
            check_document(document)
        with self._change(scope, conversation) as record:
            row = record.rows[seq - 1] if 0 < seq <= len(record.rows) else None
            body = check_erasure(row, seq, message)
            _check_versions(record, (*replace, *drop))
            self._recount(record)
            already = record.rows[seq - 1].body == body
            dropped = [] if already else [one for one in record.checkpoints if one.upto >= seq]
            if not already:
                self._replace_row(record, seq, body)
                del record.checkpoints[len(record.checkpoints) - len(dropped) :]
            self._change_documents(record, replace, drop)
            live = record.checkpoints[-1].id if record.checkpoints else ""
            if not already or replace or drop:
                self._touch(record, checkpoint=live)
            changed = len(replace) + len(drop)
            return Erasure(conversation, int(not already), len(dropped), changed, already)

    def _change_documents(
        self, record: _Conversation, put: Sequence[Document], drop: Sequence[Document]
    ) -> None:
        for each in put:
            version = next_version(each.version, record.dropped)
            stored = replace(each, version=version, created=self._clock())
            record.documents[each.kind, each.key] = stored
        for each in drop:
            del record.documents[each.kind, each.key]
            record.dropped = max(record.dropped, each.version)

    def _replace_row(self, record: _Conversation, seq: int, body: bytes) -> None:
        epoch, old = new_epoch(), record.rows[seq - 1]
        cost = self._counter.count_message(decode_message(body))
        record.rows[seq - 1] = old._replace(body=body, tokens=cost)
        if old.client_id:
            record.by_id[old.client_id] = Stored(seq, body)
        for index in range(seq - 1, len(record.rows)):
            row = record.rows[index]
            record.rows[index] = row._replace(running=row.running + cost - old.tokens, epoch=epoch)
        record.head = replace(record.head, tokens=record.rows[-1].running)

    async def health(self) -> Health:
        return Health(ok=not self._closed, backend="memory")

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed; open a new one")

    def _find(self, scope: Scope, conversation: str) -> _Conversation:
        self._check_open()
        check_name(conversation, "conversation id")
        record = self._conversations.get((scope.tenant, conversation))
        return record if record is not None else _Conversation(0, 0, Head())

    @contextmanager
    def _change(self, scope: Scope, conversation: str) -> Generator[_Conversation]:
        with self._lock:
            record = self._find(scope, conversation)
            if record.deleted:
                raise ConversationDeleted(
                    f"conversation {conversation!r} has been erased; use another id"
                )
            yield record
            if record.head.generation:  # otherwise nothing was written
                self._conversations[scope.tenant, conversation] = record

    def _add_rows(self, record: _Conversation, rows: list[Row]) -> None:
        for row in rows:
            record.rows.append(row)
            if row.client_id:
                record.by_id[row.client_id] = Stored(row.seq, row.body)
        last = rows[-1]
        record.head = replace(
            record.head,
            seq=last.seq,
            tokens=last.running,
            turns=last.turn,
            counter=self._counter.name,
        )
        self._touch(record, epoch=last.epoch)

    def _rebuild(self, opening: ConversationOpening, stream: Pieces) -> _Conversation:
        record = _Conversation(0, 0, Head(), dropped=opening.dropped)
        while (batch := stream.next_batch()) is not None:
            ids = [name for name in batch.client_ids if name in record.by_id]
            check_new(opening.conversation, batch, ids)
            record.documents.update(((each.kind, each.key), each) for each in batch.documents)
            record.checkpoints.extend(batch.checkpoints)
            if batch.rows:
                self._add_rows(record, batch.rows)
        self._touch(record, checkpoint=stream.order.live)
        record.created, record.updated = opening.created, opening.updated
        return record

    def _touch(
        self, record: _Conversation, *, checkpoint: str | None = None, epoch: int = 0
    ) -> None:
        record.updated = self._clock()
        record.created = record.created or record.updated
        live = record.head.checkpoint if checkpoint is None else checkpoint
        generation, epoch = record.head.generation + 1, epoch or new_epoch()
        record.head = replace(record.head, generation=generation, checkpoint=live, epoch=epoch)

    def _recount(self, record: _Conversation) -> None:
        if not record.rows or record.head.counter == self._counter.name:
            return
        running = 0
        for index, row in enumerate(record.rows):
            cost = self._counter.count_message(row_entry(row).message)
            running += cost
            record.rows[index] = row._replace(tokens=cost, running=running)
        record.head = replace(record.head, tokens=running, counter=self._counter.name)
        self._touch(record)


def _check_same(conversation: str, record: _Conversation, stream: Pieces) -> None:
    if record.deleted:
        raise ConversationDeleted(f"conversation {conversation!r} has been erased; use another id")
    known = KnownPieces(
        record.documents,
        {row.seq: row for row in record.rows},
        {checkpoint.upto: checkpoint for checkpoint in record.checkpoints},
    )
    while (batch := stream.next_batch(counted=False)) is not None:
        check_same(conversation, batch, known)
    counts = (len(record.rows), len(record.checkpoints), len(record.documents))
    check_same_whole(stream.order, created=record.created, counts=counts)


def _check_versions(record: _Conversation, documents: Iterable[Document]) -> None:
    for each in documents:
        known = record.documents.get((each.kind, each.key))
        check_version(each.version, known.version if known else 0, each.kind, each.key)


def _check_seen(record: _Conversation, seen: tuple[int, int] | None) -> None:
    if seen is not None:
        known = 0 < seen[0] <= len(record.rows)
        check_seen(seen, record.rows[seen[0] - 1].epoch if known else -1)


# -------------------------------------------------------------------------------------------- search


class _SearchedConversation(NamedTuple):
    """The entries, checkpoints and documents of one conversation, for a search to scan."""

    name: str
    rows: Sequence[Row]
    checkpoints: Sequence[Checkpoint]
    documents: Sequence[Document]


class _Place(NamedTuple):
    """A text that a search compares with its filters: that of an entry, checkpoint or document, with its position."""

    candidate: Candidate
    arrival: int
    """Position of the conversation among those of its tenant, by time of creation."""
    marks: frozenset[str]
    created: int
    turn: int


def _search(
    searched: Sequence[_SearchedConversation], terms: Sequence[str], *, limit: int, within: Within
) -> list[Hit]:
    """Return the best search results in these conversations, which must be in the order of their creation."""
    query = QueryTerms(terms)
    places = [
        place
        for arrival, each in enumerate(searched)
        for place in (*_entry_places(each, arrival, query), *_text_places(each, arrival, query))
        if within.counts(place.candidate.kind)
    ]
    holding = {
        term: sum(term in place.candidate.matches.counts for place in places) for term in terms
    }
    choosing = choosing_terms(holding, total=len(places))
    chosen = [place for place in places if _weight(place, choosing) and _matches(place, within)]
    chosen.sort(key=lambda place: _order(place, choosing))
    candidates = [place.candidate for place in chosen[:MOST_CANDIDATES]]
    return rank(candidates, holding, total=len(places), limit=limit)


def _entry_places(
    searched: _SearchedConversation, arrival: int, query: QueryTerms
) -> Iterator[_Place]:
    tools = ToolNames()
    for row in searched.rows:
        message = row_entry(row).message
        found = findable(message, tools.of(message))
        candidate = Candidate(searched.name, row.seq, ENTRY, "", query.count_in(found.text))
        yield _Place(candidate, arrival, found.marks, row.created, row.turn)


def _text_places(
    searched: _SearchedConversation, arrival: int, query: QueryTerms
) -> Iterator[_Place]:
    texts: Mapping[tuple[str, str], tuple[str, int]] = {
        **{(CHECKPOINT, each.id): (each.text, each.created) for each in searched.checkpoints},
        **{(each.kind, each.key): (each.text, each.created) for each in searched.documents},
    }
    for (kind, key), (text, created) in texts.items():
        if text:
            candidate = Candidate(searched.name, 0, kind, key, query.count_in(text))
            yield _Place(candidate, arrival, marks_of_text(text), created, 0)


def _weight(place: _Place, choosing: TermChoice) -> int:
    present = place.candidate.matches.counts
    return sum(value for term, value in choosing.rarities.items() if term in present)


def _matches(place: _Place, within: Within) -> bool:
    return (
        within.includes(place.candidate.kind)
        and within.includes_time(place.created)
        and (place.candidate.kind != ENTRY or within.includes_turn(place.turn))
        and all(not place.marks.isdisjoint(marks) for marks in required_marks(within))
    )


def _order(place: _Place, choosing: TermChoice) -> tuple[int, int, str, int, str]:
    found = place.candidate
    return -_weight(place, choosing), -place.arrival, found.kind, -found.seq, found.key

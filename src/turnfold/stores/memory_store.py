"""The store that lives in the process: the reference for what the others must answer, and the store of tests.

One lock, plain dictionaries, no durability. It keeps encoded bodies like every other store, so that nothing can
pass here that would fail on disk.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from turnfold.errors import ConversationDeleted, StoreUnavailable
from turnfold.records import Checkpoint, Document, Entry, NewEntry
from turnfold.stores.ledger import (
    Row,
    Stored,
    check_checkpoint,
    check_document,
    check_seen,
    check_state,
    check_succession,
    check_version,
    known_checkpoint,
    new_epoch,
    next_version,
    plan_append,
    prepare,
    row_entry,
)
from turnfold.stores.memory_search import Searched, search
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Hit,
    Opening,
    Piece,
    Restored,
    Scope,
    State,
    Written,
    check_budget,
    check_document_name,
    check_name,
    check_page,
    check_range,
    check_turn,
)
from turnfold.stores.ranking import query_terms
from turnfold.stores.restoring import Known, Pieces, check_new, check_same, check_same_whole
from turnfold.stores.within import ALL_ENTRIES, Within
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
    """Conversations in dictionaries. Safe across threads; gone with the process."""

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
        with self._writing(scope, conversation) as held:
            self._recount(held)
            known = {name: held.by_id[name] for name in batch.client_ids if name in held.by_id}
            now, epoch = self._clock(), new_epoch()
            plan = plan_append(batch, held.head, known, created=now, epoch=epoch, expect=expect)
            before = held.head.state
            if isinstance(plan, Stored):
                last = plan.seq + len(entries) - 1
                return Appended(plan.seq, last, repeated=True, head=held.head, before=before)
            self._write(held, plan)
            first, last = plan[0].seq, plan[-1].seq
            return Appended(first, last, repeated=False, head=held.head, before=before)

    async def head(self, scope: Scope, conversation: str) -> Head:
        with self._lock:
            return self._found(scope, conversation).head

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
            rows = self._found(scope, conversation).rows
            stop = len(rows) if upto is None else min(upto, len(rows))
            found = rows[after:stop][:limit]
        return [row_entry(row) for row in found]

    async def read_turn(self, scope: Scope, conversation: str, turn: int) -> list[Entry]:
        check_turn(turn)
        with self._lock:
            rows = self._found(scope, conversation).rows
            first = bisect_right(rows, turn - 1, key=lambda row: row.turn)
            last = bisect_right(rows, turn, key=lambda row: row.turn)
            return [row_entry(row) for row in rows[first:last]]

    async def find(self, scope: Scope, conversation: str, client_ids: Sequence[str]) -> list[Entry]:
        for name in client_ids:
            check_name(name, "client id")
        with self._lock:
            held = self._found(scope, conversation)
            seqs = sorted(held.by_id[name].seq for name in set(client_ids) if name in held.by_id)
            return [row_entry(held.rows[seq - 1]) for seq in seqs]

    async def tail(
        self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
    ) -> list[Entry]:
        check_budget(tokens, messages)
        with self._lock:
            held = self._found(scope, conversation)
            self._recount(held)
            first = len(held.rows)
            while (
                first
                and held.head.tokens - (held.rows[first - 1].running - held.rows[first - 1].tokens)
                <= tokens
            ):
                if messages and len(held.rows) - first >= messages:
                    break
                first -= 1
            found = held.rows[first:]
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
        with self._writing(scope, conversation) as held:
            known = known_checkpoint(checkpoint, held.checkpoints)
            if known is not None:
                return known
            live = held.checkpoints[-1] if held.checkpoints else None
            check_succession(checkpoint, live, held.head)
            _check_seen(held, seen)
            stored = replace(checkpoint, created=self._clock())
            held.checkpoints.append(stored)
            self._touch(held, checkpoint=stored.id)
            return stored

    async def live_checkpoint(self, scope: Scope, conversation: str) -> Checkpoint | None:
        with self._lock:
            kept = self._found(scope, conversation).checkpoints
            return kept[-1] if kept else None

    async def checkpoints(self, scope: Scope, conversation: str) -> list[Checkpoint]:
        with self._lock:
            return list(self._found(scope, conversation).checkpoints)

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
        check_document(document)
        with self._writing(scope, conversation) as held:
            before = held.head.state
            if state is not None:
                check_state(state, held.head)
            _check_seen(held, seen)
            place = (document.kind, document.key)
            version = held.documents[place].version if place in held.documents else 0
            check_version(expect, version, document.kind, document.key)
            version = next_version(version, held.dropped)
            stored = replace(document, version=version, created=self._clock())
            held.documents[place] = stored
            self._touch(held)
            return Written(stored, before, held.head.state)

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        check_document(document)
        with self._writing(scope, conversation) as held:
            check_state(state, held.head)
            place = (document.kind, document.key)
            check_version(0, 1 if place in held.documents else 0, *place)
            version = next_version(0, held.dropped)
            held.documents[place] = replace(document, version=version, created=self._clock())
            self._touch(held)
            return held.head.state

    async def get_document(
        self, scope: Scope, conversation: str, kind: str, key: str
    ) -> Document | None:
        check_document_name(kind, key)
        with self._lock:
            return self._found(scope, conversation).documents.get((kind, key))

    async def documents(
        self, scope: Scope, conversation: str, kind: str, *, after: str = "", limit: int = 1000
    ) -> list[Document]:
        check_name(kind, "document kind")
        check_page(after, limit)
        with self._lock:
            found = self._found(scope, conversation).documents
            keys = sorted(key for kept, key in found if kept == kind and key > after)
            return [found[kind, key] for key in keys[:limit]]

    async def drop_document(
        self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
    ) -> bool:
        check_document_name(kind, key)
        with self._writing(scope, conversation) as held:
            known = held.documents.get((kind, key))
            check_version(expect, known.version if known else 0, kind, key)
            if known is None:
                return False
            del held.documents[kind, key]
            held.dropped = max(held.dropped, known.version)
            self._touch(held)
            return True

    async def conversations(
        self, scope: Scope, *, after: str = "", limit: int = 100
    ) -> list[ConversationInfo]:
        check_page(after, limit)
        with self._lock:
            self._check_open()
            names = sorted(
                name
                for (tenant, name), held in self._conversations.items()
                if tenant == scope.tenant and name > after and not held.deleted
            )
            return [self._info(scope, name) for name in names[:limit]]

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
                Searched(
                    name, tuple(held.rows), tuple(held.checkpoints), tuple(held.documents.values())
                )
                for (tenant, name), held in self._conversations.items()
                if tenant == scope.tenant and conversation in (None, name)
            ]
        return search(searched, wanted, limit=limit, within=within)

    async def capture(
        self, scope: Scope, conversation: str, take: Callable[[Document], None]
    ) -> Captured | None:
        with self._lock:
            held = self._found(scope, conversation)
            if held.deleted or not held.head.generation:
                return None
            documents = [held.documents[place] for place in sorted(held.documents)]
            opening = Opening(conversation, held.created, held.updated, held.dropped)
            captured = Captured(opening, held.head, tuple(held.checkpoints))
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
                    made[place] = self._rebuilt(opening, stream)
                    stream.written()
                else:
                    _check_same(opening.conversation, known, stream)
                    stream.found()
            self._conversations.update(made)
        return stream.restored()

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        check_name(conversation, "conversation id")
        with self._lock:
            held = self._found(scope, conversation)
            erasure = Erasure(
                conversation,
                len(held.rows),
                len(held.checkpoints),
                len(held.documents),
                held.deleted,
            )
            now = self._clock()
            head = Head(generation=held.head.generation + 1, epoch=new_epoch())
            grave = _Conversation(now, now, head, deleted=True)
            self._conversations[scope.tenant, conversation] = grave
            return erasure

    async def health(self) -> Health:
        return Health(ok=not self._closed, backend="memory")

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed")

    def _found(self, scope: Scope, conversation: str) -> _Conversation:
        self._check_open()
        check_name(conversation, "conversation id")
        held = self._conversations.get((scope.tenant, conversation))
        return held if held is not None else _Conversation(0, 0, Head())

    @contextmanager
    def _writing(self, scope: Scope, conversation: str) -> Generator[_Conversation]:
        with self._lock:
            held = self._found(scope, conversation)
            if held.deleted:
                raise ConversationDeleted(
                    f"conversation {conversation!r} has been erased; use another id"
                )
            yield held
            if (
                held.head.generation
            ):  # something was written: an untouched conversation leaves no trace
                self._conversations[scope.tenant, conversation] = held

    def _write(self, held: _Conversation, rows: list[Row]) -> None:
        for row in rows:
            held.rows.append(row)
            if row.client_id:
                held.by_id[row.client_id] = Stored(row.seq, row.body)
        last = rows[-1]
        held.head = replace(
            held.head,
            seq=last.seq,
            tokens=last.running,
            turns=last.turn,
            counter=self._counter.name,
        )
        self._touch(held, epoch=last.epoch)

    def _rebuilt(self, opening: Opening, stream: Pieces) -> _Conversation:
        held = _Conversation(0, 0, Head(), dropped=opening.dropped)
        while (batch := stream.next_batch()) is not None:
            ids = [name for name in batch.client_ids if name in held.by_id]
            check_new(opening.conversation, batch, ids)
            held.documents.update(((each.kind, each.key), each) for each in batch.documents)
            held.checkpoints.extend(batch.checkpoints)
            if batch.rows:
                self._write(held, batch.rows)
        self._touch(held, checkpoint=stream.order.live)
        held.created, held.updated = opening.created, opening.updated
        return held

    def _touch(self, held: _Conversation, *, checkpoint: str | None = None, epoch: int = 0) -> None:
        held.updated = self._clock()
        held.created = held.created or held.updated
        live = held.head.checkpoint if checkpoint is None else checkpoint
        generation, epoch = held.head.generation + 1, epoch or new_epoch()
        held.head = replace(held.head, generation=generation, checkpoint=live, epoch=epoch)

    def _recount(self, held: _Conversation) -> None:
        if not held.rows or held.head.counter == self._counter.name:
            return
        running = 0
        for index, row in enumerate(held.rows):
            cost = self._counter.count_message(row_entry(row).message)
            running += cost
            held.rows[index] = row._replace(tokens=cost, running=running)
        held.head = replace(held.head, tokens=running, counter=self._counter.name)
        self._touch(held)

    def _info(self, scope: Scope, name: str) -> ConversationInfo:
        held = self._conversations[scope.tenant, name]
        return ConversationInfo(name, held.head, held.created, held.updated)


def _check_same(conversation: str, held: _Conversation, stream: Pieces) -> None:
    if held.deleted:
        raise ConversationDeleted(f"conversation {conversation!r} has been erased; use another id")
    known = Known(
        held.documents,
        {row.seq: row for row in held.rows},
        {checkpoint.upto: checkpoint for checkpoint in held.checkpoints},
    )
    while (batch := stream.next_batch(counted=False)) is not None:
        check_same(conversation, batch, known)
    counts = (len(held.rows), len(held.checkpoints), len(held.documents))
    check_same_whole(stream.order, created=held.created, counts=counts)


def _check_seen(held: _Conversation, seen: tuple[int, int] | None) -> None:
    if seen is not None:
        known = 0 < seen[0] <= len(held.rows)
        check_seen(seen, held.rows[seen[0] - 1].epoch if known else -1)

"""Stores the threads of LangGraph: finds the home (conversation) of each; reads and writes checkpoints and writes.

A thread has a home (a conversation of the store) of its own, and one small document that names the home. A home only
grows. To delete a part of a thread (pruning, deleting runs), the rest is moved to a new home and the old home is
erased. After each write, the writer checks that the thread still has the same home; if it was moved, the data is
written to the new home too. The process that moves a thread reads the old home once more after the move. So no write is
lost, without a lock. The name of a deleted thread can be used again, unless the session of the same id was erased.

Each value of a channel is stored once, and the next version as its difference from an earlier one: mostly from the one
before, each eighth version from the one eight before, each sixty-fourth from the one sixty-four before, and so on.
Reading any of n versions then takes at most 8 * log8(n) steps, and a list that grew to n items costs about n * log8(n)
items to store. Stored data is not trusted: a value must be made from an earlier one, must not exceed the limit, and its
digest is checked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, TypeAlias, TypeVar

import msgspec

from turnfold._caches import SizedCache
from turnfold.adapters._common import is_home, new_home
from turnfold.adapters.langchain.checkpoints.documents import (
    CHECKPOINT,
    REMEDY,
    WRITES,
    BodyCodec,
    BodySeal,
    ChannelValue,
    DeltaScript,
    DocumentPlace,
    SizeLimit,
    StoredCheckpoint,
    Typed,
    ValueRef,
    Write,
    Writes,
    ancestor_cycle,
    applied_size,
    apply_delta,
    checkpoint_key,
    delta_size,
    is_checkpoint_id,
    make_delta,
    namespace_prefix,
    writes_key,
)
from turnfold.errors import Conflict, ConversationDeleted, InvalidRecord
from turnfold.records import Document
from turnfold.stores import (
    LANGGRAPH_HOMES,
    Scope,
    Store,
    all_conversations,
    all_documents,
    document_name,
    refuse_erased,
)

__all__ = (
    "ChannelValues",
    "CheckpointStorage",
    "NewCheckpoint",
    "ThreadPlace",
    "Threads",
    "Version",
)


Version: TypeAlias = int | float | str | None
_SMALL = 256
"""Values with fewer bytes than this are stored whole."""
_STRIDE = 8
"""Versions of a value are stored as differences from earlier ones: a version whose number is divisible by a power of
this number is stored as the difference from the version that many before it, for example version 128 from version 64.
"""
_MAX_SHARE = 0.75
"""If a difference is larger than this share of the value, the value is stored whole."""


class ChannelValues:
    """Reads and writes the channel values of one namespace of a thread."""

    def __init__(
        self,
        load: Callable[[ValueRef], Awaitable[DeltaScript | None]],
        cache: SizedCache[bytes, bytes],
        *,
        max_bytes: int,
    ) -> None:
        self._load = load
        self._cache = cache
        """Values by digest, for all threads and namespaces: equal digests mean equal values."""
        self._max_bytes = max_bytes
        """The most bytes that all values of a checkpoint may have together."""

    async def read(self, stored: StoredCheckpoint) -> dict[str, Typed]:
        """Return the serialized value of each channel of a checkpoint."""
        self._check_sizes(stored.values)
        found: dict[str, Typed] = {}
        limit = SizeLimit(self._max_bytes)
        for channel, value in stored.values.items():
            data = await self._bytes(value.ref.at(stored.id), stored)
            limit.add_size(len(data), f"checkpoint {stored.id}, channel {channel!r}")
            found[channel] = (value.kind, data)
        return found

    def _check_sizes(self, values: Mapping[str, ChannelValue]) -> None:
        size = sum(value.size for value in values.values())
        if size > self._max_bytes:
            raise InvalidRecord(
                f"the values of a checkpoint have {size:,} bytes, but may have only {self._max_bytes:,}",
                remedy="Keep large data elsewhere, or raise max_checkpoint_bytes",
            )

    async def write(
        self,
        new: Mapping[str, tuple[Version, Typed]],
        *,
        inherited: Mapping[str, ChannelValue],
        before: StoredCheckpoint | None,
    ) -> tuple[dict[str, ChannelValue], list[DeltaScript]]:
        """Return the value of each channel of a checkpoint, and a `DeltaScript` for each value that is not stored yet.

        New values are stored as differences from those of `before`.
        """
        values = dict(inherited)
        scripts: dict[bytes, DeltaScript] = {}
        for channel, (version, (kind, data)) in new.items():
            digest = _digest(data)
            self._cache.put(digest, data, size=len(data))
            value = before.values.get(channel) if before is not None else None
            last = value.ref.at(before.id) if value is not None and before is not None else None
            if last is not None and last.digest == digest:
                values[channel] = ChannelValue(version, kind, last, len(data))
                continue
            values[channel] = ChannelValue(version, kind, ValueRef(digest), len(data))
            if digest not in scripts:
                scripts[digest] = await self._make_script(digest, data, last)
        self._check_sizes(values)
        return values, list(scripts.values())

    async def _make_script(self, digest: bytes, data: bytes, last: ValueRef | None) -> DeltaScript:
        whole = DeltaScript(digest, 0, None, [data])
        if last is None or len(data) < _SMALL:
            return whole
        script = await self._load_script(last)
        index = script.index + 1
        at: ValueRef = last
        while script.index != _base_of(index):
            if script.base is None:
                return whole
            at = script.base
            script = self._checked_earlier(await self._load_script(at), script)
        pieces = make_delta(await self._bytes(at), data)
        if delta_size(pieces) > _MAX_SHARE * len(data):
            return whole
        return DeltaScript(digest, index, at, pieces)

    async def _bytes(self, ref: ValueRef, known: StoredCheckpoint | None = None) -> bytes:
        steps: list[DeltaScript] = []
        at: ValueRef | None = ref
        data = b""
        while at is not None:
            cached = self._cache.get(at.digest)
            if cached is not None:
                data = cached
                break
            script = await self._load_script(at, known)
            if steps:
                self._checked_earlier(script, steps[-1])
            steps.append(script)
            at = script.base
        for script in reversed(steps):
            size = applied_size(len(data), script.pieces)
            if not 0 <= size <= self._max_bytes:
                made = (
                    "is damaged: bytes are missing" if size < 0 else f"has {size:,} bytes, too many"
                )
                raise InvalidRecord(
                    f"a value stored with checkpoint {ref.holder} {made}",
                    remedy=f"Raise max_checkpoint_bytes={self._max_bytes:,} if your application wrote it",
                )
            data = apply_delta(data, script.pieces)
        if steps:
            if _digest(data) != ref.digest:
                raise InvalidRecord(
                    f"a value stored with checkpoint {ref.holder} is damaged: its {len(data):,} bytes have another "
                    "digest",
                    remedy="Restore the store from a backup",
                )
            self._cache.put(ref.digest, data, size=len(data))
        return data

    @staticmethod
    def _checked_earlier(script: DeltaScript, later: DeltaScript) -> DeltaScript:
        """Return `script`, the difference that an earlier version of a value is stored as.

        Raises `InvalidRecord` if it is not earlier than the version `later`, so that damaged data cannot cause an
        endless loop.
        """
        if script.index >= later.index:
            raise InvalidRecord(
                f"a stored value is damaged: its version {later.index:,} is based on version {script.index:,}, which "
                "is not earlier",
                remedy="Restore the store from a backup",
            )
        return script

    async def _load_script(
        self, ref: ValueRef, known: StoredCheckpoint | None = None
    ) -> DeltaScript:
        script = known.script(ref.digest) if known is not None and known.id == ref.holder else None
        script = script or await self._load(ref)
        if script is None:
            raise InvalidRecord(
                f"the stored checkpoints are damaged: checkpoint {ref.holder} lacks a value that another one refers to",
                remedy="Restore the store from a backup",
            )
        return script


def _base_of(index: int) -> int:
    """Return the number of the earlier version on which version `index` of a value is based, as a difference."""
    step = 1
    while index % (step * _STRIDE) == 0:
        step *= _STRIDE
    return index - step


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


_THREAD: Final = LANGGRAPH_HOMES.kind
_MOST_HOMES = 4096
_TRIES = 16
"""Attempts to make one change; an attempt fails if another writer was first."""


class ThreadPlace(msgspec.Struct, frozen=True):
    """Index document of a LangGraph thread: names the conversation (`home`) in which its data is stored."""

    thread: str
    home: str
    left: tuple[str, ...] = ()
    """Conversations that the thread was moved out of, by a move in progress or interrupted; they are to be erased."""


class Threads:
    """Finds, creates and deletes LangGraph threads in a store."""

    def __init__(self, store: Store, scope: Scope, *, name: str) -> None:
        self._store, self._scope = store, scope
        self._names = replace(LANGGRAPH_HOMES, name=name)
        self._index = f"{name}:{LANGGRAPH_HOMES.index}"
        """The conversation of the store that holds one document per thread."""
        self._homes: SizedCache[str, str] = SizedCache(limit=_MOST_HOMES)
        """The last known conversation (home) of each thread."""

    def known(self, thread: str) -> str:
        """Return the cached id of the conversation that holds a thread's data; empty if it is not cached."""
        return self._homes.get(thread) or ""

    async def find(self, thread: str) -> tuple[ThreadPlace | None, int]:
        """Return the index document of a thread and its version; (None, 0) if there is no such thread."""
        document = await self._store.get_document(
            self._scope, self._index, _THREAD, document_name(thread)
        )
        if document is None:
            self._homes.drop(thread)
            return None, 0
        place = self._place(document)
        self._homes.put(thread, place.home)
        return place, document.version

    async def home(self, thread: str) -> str:
        """Return the id of the conversation that holds a thread's data; a new thread gets a new conversation.

        Raises `ConversationDeleted` if the session of the same id was erased: a run that goes on after the erasure must
        not write the thread back.
        """
        for _ in range(_TRIES):
            place, _ = await self.find(thread)
            if place is not None:
                return place.home
            await self.refuse_erased(thread)
            try:
                await self.put(ThreadPlace(thread, self.new_home(thread)), expect=0)
            except Conflict:
                continue  # another writer gave it one
            await self.refuse_erased(thread)
        raise Conflict(
            f"thread {thread!r} was deleted {_TRIES} times while it was created; try again"
        )

    async def refuse_erased(self, thread: str) -> None:
        """Delete what is stored of a thread and raise `ConversationDeleted` if the session of its id was erased."""
        try:
            await refuse_erased(self._store, self._scope, thread)
        except ConversationDeleted:
            await self.delete(thread)
            raise

    async def all(self) -> list[ThreadPlace]:
        """Return the index documents of all threads."""
        documents = await all_documents(self._store, self._scope, self._index, _THREAD)
        return [self._place(document) for document in documents]

    async def put(self, place: ThreadPlace, *, expect: int) -> int:
        """Write the index document of a thread if it has the version `expect`; return the new version."""
        body = msgspec.json.encode(place)
        document = Document(_THREAD, document_name(place.thread), body, 0)
        stored = await self._store.put_document(self._scope, self._index, document, expect=expect)
        self._homes.put(place.thread, place.home)
        return stored.document.version

    async def delete(self, thread: str) -> None:
        """Erase a thread with all its data."""
        for _ in range(_TRIES):
            try:
                place, version = await self.find(thread)
            except InvalidRecord:
                # The document that names its home cannot be trusted: delete whatever bears the thread's name.
                place, version = ThreadPlace(thread, "", await self._find_homes(thread)), None
            if place is None:
                return
            # The homes go first: a process that dies in between leaves a document that can be deleted again.
            await self.erase(*filter(None, (place.home, *place.left)))
            try:
                await self._store.drop_document(
                    self._scope, self._index, _THREAD, document_name(thread), expect=version
                )
            except Conflict:
                continue  # it moved meanwhile
            self._homes.drop(thread)
            return
        raise Conflict(
            f"thread {thread!r} was moved {_TRIES} times while it was deleted; try again"
        )

    async def erase(self, *homes: str) -> None:
        """Erase these conversations of the store, which held a thread's data."""
        for home in homes:
            await self._store.delete(self._scope, home)

    def new_home(self, thread: str) -> str:
        """Return a new unique id for the conversation that holds a thread's data."""
        return new_home(self._home_prefix(thread))

    def _home_prefix(self, thread: str) -> str:
        return self._names.prefix(thread)

    async def _find_homes(self, thread: str) -> tuple[str, ...]:
        """Return the ids of all conversations in the store that are named like those of this thread's data."""
        prefix = self._home_prefix(thread)
        listed = await all_conversations(self._store, self._scope, prefix=prefix)
        return tuple(one.conversation for one in listed if is_home(one.conversation, prefix))

    def _place(self, document: Document) -> ThreadPlace:
        """Decode the index document of a thread; raise `InvalidRecord` if its conversations are not this thread's."""
        try:
            place = msgspec.json.decode(document.body, type=ThreadPlace)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(
                f"the stored document of thread {document.key!r} cannot be decoded: {error}",
                remedy=REMEDY,
            ) from None
        prefix = self._home_prefix(place.thread)
        if document_name(place.thread) != document.key or not all(
            is_home(home, prefix) for home in (place.home, *place.left)
        ):
            raise InvalidRecord(
                f"the stored document of thread {document.key!r} names conversation {place.home[:200]!r}, which "
                "does not belong to it",
                remedy=REMEDY,
            )
        return place


_DOCUMENT_PAGE: Final = 200
_FEW: Final = 8
"""Number of documents with task results ("writes") that are read at first; a step of a graph rarely has more tasks. If
there are more, the others follow."""
_MAX_VALUE_BYTES = 64 << 20
_MAX_DOCUMENT_BYTES = 32 << 20

_Body = TypeVar("_Body", StoredCheckpoint, Writes)


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint to be stored, with the values of its channels not serialized yet."""

    namespace: str
    id: str
    parent: str
    checkpoint: Typed
    metadata: Typed
    versions: Mapping[str, Version]
    """Version of every channel of the checkpoint."""
    changed: AbstractSet[str]
    """The channels whose values differ from those of the checkpoint's parent."""
    typed: Callable[[str], Typed | None]
    """Function that returns the value of a channel, or None; it is not called for unchanged channels."""


class CheckpointStorage:
    """Reads and writes the checkpoints and pending writes of threads, each in its conversation of the store."""

    def __init__(
        self, store: Store, scope: Scope, *, seal_key: bytes | str | None, max_bytes: int
    ) -> None:
        self._store, self._scope = store, scope
        self._bodies = BodyCodec(BodySeal(key=seal_key, max_bytes=max_bytes))
        self._max_bytes = max_bytes
        self._values: SizedCache[bytes, bytes] = SizedCache(limit=_MAX_VALUE_BYTES)
        self._checkpoints: SizedCache[tuple[str, str], StoredCheckpoint] = SizedCache(
            limit=_MAX_DOCUMENT_BYTES
        )
        """Cache by conversation (home) and key. A document only grows, so everything in an old copy is still valid."""

    async def checkpoint(
        self, home: str, namespace: str, checkpoint: str
    ) -> StoredCheckpoint | None:
        """Return a checkpoint as it is stored now; None if no checkpoint has this id."""
        return await self._read(home, checkpoint_key(namespace, checkpoint))

    async def newest(self, home: str, namespace: str) -> StoredCheckpoint | None:
        """Return the newest checkpoint of a namespace; None if there is none."""
        page = await self.page(home, after=namespace_prefix(namespace), limit=1)
        return page[0] if page and page[0].namespace == namespace else None

    async def page(
        self, home: str, *, after: str = "", limit: int = _DOCUMENT_PAGE
    ) -> list[StoredCheckpoint]:
        """Return a page of the checkpoints in a conversation: namespace by namespace, the newest first."""
        documents = await self._store.documents(
            self._scope, home, CHECKPOINT, after=after, limit=limit
        )
        return [self._remember(home, document) for document in documents]

    async def all(self, home: str) -> list[StoredCheckpoint]:
        """Return every checkpoint in a conversation, newest first within its namespace."""
        documents = await all_documents(self._store, self._scope, home, CHECKPOINT)
        return [self._remember(home, document) for document in documents]

    async def values(self, home: str, stored: StoredCheckpoint) -> dict[str, Typed]:
        """Return the serialized value of each channel of a checkpoint."""
        return await self._values_of(home, stored.namespace).read(stored)

    async def put(
        self, home: str, new: NewCheckpoint, *, before: StoredCheckpoint | None = None
    ) -> StoredCheckpoint:
        """Store a checkpoint; `before` is the checkpoint it continues, if that is not its parent."""
        space = new.namespace
        parent = await self._cached(home, space, new.parent) if new.parent else None
        inherited: dict[str, ChannelValue] = {}
        given: dict[str, tuple[Version, Typed]] = {}
        for channel, version in new.versions.items():
            value = parent.values.get(channel) if parent is not None else None
            if value is not None and value.version == version and channel not in new.changed:
                inherited[channel] = value.at(new.parent)
            elif (typed := new.typed(channel)) is not None:
                given[channel] = (version, typed)
        values, scripts = await self._values_of(home, space).write(
            given, inherited=inherited, before=before or parent
        )
        stored = StoredCheckpoint(
            space, new.id, new.parent, new.checkpoint, new.metadata, values, scripts
        )
        return await self._store_checkpoint(home, stored)

    async def _store_checkpoint(self, home: str, stored: StoredCheckpoint) -> StoredCheckpoint:
        def merged(document: Document | None, new: StoredCheckpoint) -> StoredCheckpoint:
            if document is None:
                return new
            # It was stored before, and other checkpoints may refer to the values in its document.
            there, known = self._remember(home, document), {one.digest for one in new.scripts}
            more = [script for script in there.scripts if script.digest not in known]
            return msgspec.structs.replace(new, scripts=[*new.scripts, *more])

        place = DocumentPlace(home, CHECKPOINT, checkpoint_key(stored.namespace, stored.id))
        stored, size = await self._put_merged(place, stored, merged)
        self._checkpoints.put((home, place.key), stored, size=size)
        return stored

    async def add_writes(
        self, home: str, namespace: str, checkpoint: str, task: str, new: Sequence[Write]
    ) -> None:
        """Add `new` to the stored writes of a task: the values that it wrote after a checkpoint.

        If a write with the same index is stored already, the new one is ignored; with an index below 0 it replaces the
        stored one.
        """

        def merged(document: Document | None, _: Writes) -> Writes | None:
            there = self._bodies.writes(home, document).writes if document else []
            writes = _merged_writes(there, new)
            return Writes(checkpoint, task, writes) if writes != there else None

        place = DocumentPlace(home, WRITES, writes_key(namespace, checkpoint, task))
        await self._put_merged(place, Writes(checkpoint, task, list(new)), merged)

    async def _put_merged(
        self,
        place: DocumentPlace,
        record: _Body,
        merged: Callable[[Document | None, _Body], _Body | None],
    ) -> tuple[_Body, int]:
        """Write `record` as a new document; if the document exists, write the result of `merged` instead.

        `merged` gets the stored record and `record`; if it returns None, the stored document stays. Returns the record
        that was written (or was to be written) last, and its size in bytes.
        """
        version = 0
        for _ in range(_TRIES):
            body = self._bodies.pack(record, place)
            new = Document(place.kind, place.key, body, 0)
            try:
                await self._store.put_document(self._scope, place.home, new, expect=version)
            except Conflict:
                document = await self._store.get_document(self._scope, *place)
                version = document.version if document else 0
                together = merged(document, record)
                if together is not None:
                    record = together
                    continue
            return record, len(body)
        raise Conflict(
            f"{place.path} was not written: other writers changed it first, {_TRIES} times in a row; try again"
        )

    async def writes(self, home: str, namespace: str, checkpoint: str) -> list[Writes]:
        """Return the writes that tasks made after a checkpoint, task by task."""
        prefix = after = checkpoint_key(namespace, checkpoint)
        found: list[Writes] = []
        limit = _FEW
        while True:
            page = await self._store.documents(self._scope, home, WRITES, after=after, limit=limit)
            own = [document for document in page if document.key.startswith(prefix)]
            found += [self._bodies.writes(home, document) for document in own]
            if len(own) < limit:
                return found
            after, limit = page[-1].key, _DOCUMENT_PAGE

    async def ancestors(
        self, home: str, stored: StoredCheckpoint
    ) -> AsyncIterator[tuple[StoredCheckpoint, list[Writes]]]:
        """Yield the ancestors of a checkpoint, parent first, each with the writes that tasks made after it.

        Checkpoints and writes are read by pages: they are stored with the newest first, so ancestors follow.
        """
        place = self._store, self._scope, home
        after = checkpoint_key(stored.namespace, stored.id)
        checkpoints = _DocumentReader(*place, CHECKPOINT, after)
        writes = _DocumentReader(*place, WRITES, after)
        seen = {stored.id}
        while parent := stored.parent:
            if parent in seen:
                raise ancestor_cycle(parent)
            seen.add(parent)
            key = checkpoint_key(stored.namespace, parent)
            documents = await checkpoints.starting_with(key)
            found = self._remember(home, documents[0]) if documents else await self._read(home, key)
            if found is None:
                return
            stored = found
            if documents:
                tasks = await writes.starting_with(key)
                yield stored, [self._bodies.writes(home, each) for each in tasks]
            else:  # it sorts before its child: LangGraph did not make these ids
                yield stored, await self.writes(home, stored.namespace, stored.id)

    async def _cached(self, home: str, namespace: str, checkpoint: str) -> StoredCheckpoint | None:
        key = checkpoint_key(namespace, checkpoint)
        return self._checkpoints.get((home, key)) or await self._read(home, key)

    def _values_of(self, home: str, namespace: str) -> ChannelValues:
        async def load(ref: ValueRef) -> DeltaScript | None:
            if not is_checkpoint_id(ref.holder):
                return None
            stored = await self._cached(home, namespace, ref.holder)
            script = stored.script(ref.digest) if stored is not None else None
            if script is None:  # another process may have added to it
                stored = await self.checkpoint(home, namespace, ref.holder)
                script = stored.script(ref.digest) if stored is not None else None
            return script

        return ChannelValues(load, self._values, max_bytes=self._max_bytes)

    async def _read(self, home: str, key: str) -> StoredCheckpoint | None:
        document = await self._store.get_document(self._scope, home, CHECKPOINT, key)
        return self._remember(home, document) if document else None

    def _remember(self, home: str, document: Document) -> StoredCheckpoint:
        """Decode the document of a checkpoint, and cache the result."""
        stored, size = self._bodies.checkpoint(home, document)
        self._checkpoints.put((home, document.key), stored, size=size)
        return stored


class _DocumentReader:
    """Reads documents of a kind in the order of their keys, by pages that grow."""

    def __init__(self, store: Store, scope: Scope, home: str, kind: str, after: str) -> None:
        self._store, self._where = store, (scope, home, kind)
        self._after = after
        self._page: deque[Document] = deque()
        self._limit = _FEW

    async def starting_with(self, prefix: str) -> list[Document]:
        """Return the documents whose key starts with `prefix`; later calls must have greater prefixes."""
        found: list[Document] = []
        while document := await self._next():
            if not document.key.startswith(prefix):
                if document.key > prefix:
                    break
            else:
                found.append(document)
            self._page.popleft()
        return found

    async def _next(self) -> Document | None:
        if not self._page and self._limit:
            scope, home, kind = self._where
            page = await self._store.documents(
                scope, home, kind, after=self._after, limit=self._limit
            )
            self._page.extend(page)
            self._limit = 0 if len(page) < self._limit else min(4 * self._limit, _DOCUMENT_PAGE)
            self._after = page[-1].key if page else self._after
        return self._page[0] if self._page else None


def _merged_writes(there: Sequence[Write], new: Sequence[Write]) -> list[Write]:
    taken = {write.index: write for write in there}
    for write in new:
        if write.index < 0 or write.index not in taken:
            taken[write.index] = write
    return list(taken.values())

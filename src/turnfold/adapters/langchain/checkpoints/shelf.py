"""The documents of a thread's home: checkpoints with their values, and the writes that wait after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from turnfold.adapters.langchain.checkpoints.documents import (
    CHECKPOINT,
    WRITES,
    Bodies,
    Held,
    Kept,
    Ref,
    Script,
    Typed,
    Write,
    Writes,
    checkpoint_key,
    is_checkpoint_id,
    namespace_prefix,
    writes_key,
)
from turnfold.adapters.langchain.checkpoints.sealed_body import BodySeal, DocumentPlace
from turnfold.adapters.langchain.checkpoints.values import Recent, Values, Version
from turnfold.errors import Conflict
from turnfold.records import Document
from turnfold.stores.protocol import Scope, Store

__all__ = ("NewCheckpoint", "Shelf")

_PAGE: Final = 200
_FEW: Final = 8
"""Documents of writes that are asked for first: more tasks than this in one step are rare."""
_MOST_VALUES = 64 << 20
_MOST_DOCUMENTS = 32 << 20
_TRIES = 16
_Recent: TypeAlias = "Recent[tuple[str, str], Kept]"


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """A checkpoint to be kept."""

    namespace: str
    id: str
    parent: str
    checkpoint: Typed
    metadata: Typed
    versions: Mapping[str, Version]
    """Of every channel."""
    changed: AbstractSet[str]
    """The channels that are not what they were with its parent."""
    typed: Callable[[str], Typed | None]
    """The value of a channel; None where it has none. Not asked for what is as it was."""


class Shelf:
    """Reads and writes the documents of homes."""

    def __init__(
        self, store: Store, scope: Scope, *, seal_key: bytes | str | None, max_bytes: int
    ) -> None:
        self._store, self._scope = store, scope
        self._bodies = Bodies(BodySeal(key=seal_key, max_bytes=max_bytes))
        self._max_bytes = max_bytes
        self._values: Recent[bytes, bytes] = Recent(most=_MOST_VALUES)
        self._kept: _Recent = Recent(most=_MOST_DOCUMENTS)
        """By home and name. A document only ever gains bytes, so an old copy is good for what it has."""

    async def kept(self, home: str, namespace: str, checkpoint: str) -> Kept | None:
        """A checkpoint as it is kept now."""
        return (await self._read(home, checkpoint_key(namespace, checkpoint)))[0]

    async def newest(self, home: str, namespace: str) -> Kept | None:
        """The newest checkpoint of a namespace."""
        page = await self.page(home, after=namespace_prefix(namespace), limit=1)
        return page[0] if page and page[0].namespace == namespace else None

    async def page(self, home: str, *, after: str = "", limit: int = _PAGE) -> list[Kept]:
        """Checkpoints of a home by name: namespace by namespace, the newest first."""
        documents = await self._store.documents(
            self._scope, home, CHECKPOINT, after=after, limit=limit
        )
        return [self._remember(home, document) for document in documents]

    async def all(self, home: str) -> list[Kept]:
        """Every checkpoint of a home, newest first within its namespace."""
        found: list[Kept] = []
        after = ""
        while page := await self.page(home, after=after):
            found += page
            after = checkpoint_key(page[-1].namespace, page[-1].id)
        return found

    async def values(self, home: str, kept: Kept) -> dict[str, Typed]:
        """The values of a checkpoint."""
        return await self._values_of(home, kept.namespace).read(kept)

    async def put(self, home: str, new: NewCheckpoint, *, before: Kept | None = None) -> Kept:
        """Keep a checkpoint; `before` is the one it goes on from where that is not its parent."""
        space = new.namespace
        parent = await self._known(home, space, new.parent) if new.parent else None
        inherited: dict[str, Held] = {}
        given: dict[str, tuple[Version, Typed]] = {}
        for channel, version in new.versions.items():
            held = parent.values.get(channel) if parent is not None else None
            if held is not None and held.version == version and channel not in new.changed:
                inherited[channel] = held.at(new.parent)
            elif (typed := new.typed(channel)) is not None:
                given[channel] = (version, typed)
        values, scripts = await self._values_of(home, space).write(
            given, inherited=inherited, before=before or parent
        )
        kept = Kept(space, new.id, new.parent, new.checkpoint, new.metadata, values, scripts)
        return await self._store_kept(home, kept)

    async def _store_kept(self, home: str, kept: Kept) -> Kept:
        key = checkpoint_key(kept.namespace, kept.id)
        version = 0
        for _ in range(_TRIES):
            body = self._bodies.pack(kept, DocumentPlace(home, CHECKPOINT, key))
            try:
                await self._store.put_document(
                    self._scope, home, Document(CHECKPOINT, key, body, 0), expect=version
                )
            except Conflict:
                there, version = await self._read(home, key)
                if there is not None:  # stored before: others may hold on to the bytes it has
                    known = {script.digest for script in kept.scripts}
                    more = [script for script in there.scripts if script.digest not in known]
                    kept = msgspec.structs.replace(kept, scripts=[*kept.scripts, *more])
                continue
            self._kept.put((home, key), kept, size=len(body))
            return kept
        raise Conflict(f"checkpoint {kept.id}: {_TRIES} other writers were first; try again")

    async def add_writes(
        self, home: str, namespace: str, checkpoint: str, task: str, new: Sequence[Write]
    ) -> None:
        """Keep what a task wrote. What it wrote before at the same place stays, marks below 0 are replaced."""
        key = writes_key(namespace, checkpoint, task)
        version, writes = 0, list(new)
        for _ in range(_TRIES):
            body = self._bodies.pack(
                Writes(checkpoint, task, writes), DocumentPlace(home, WRITES, key)
            )
            try:
                await self._store.put_document(
                    self._scope, home, Document(WRITES, key, body, 0), expect=version
                )
            except Conflict:
                document = await self._store.get_document(self._scope, home, WRITES, key)
                version = document.version if document else 0
                there = self._bodies.writes(home, document).writes if document else []
                writes = _joined(there, new)
                if writes == there:
                    return
                continue
            return
        raise Conflict(f"writes of task {task}: {_TRIES} other writers were first; try again")

    async def writes(self, home: str, namespace: str, checkpoint: str) -> list[Writes]:
        """What tasks wrote after a checkpoint, one of them after another."""
        prefix = after = checkpoint_key(namespace, checkpoint)
        found: list[Writes] = []
        limit = _FEW
        while True:
            page = await self._store.documents(self._scope, home, WRITES, after=after, limit=limit)
            own = [document for document in page if document.key.startswith(prefix)]
            found += [self._bodies.writes(home, document) for document in own]
            if len(own) < limit:
                return found
            after, limit = page[-1].key, _PAGE

    async def _known(self, home: str, namespace: str, checkpoint: str) -> Kept | None:
        key = checkpoint_key(namespace, checkpoint)
        return self._kept.get((home, key)) or (await self._read(home, key))[0]

    def _values_of(self, home: str, namespace: str) -> Values:
        async def load(ref: Ref) -> Script | None:
            if not is_checkpoint_id(ref.holder):
                return None
            kept = await self._known(home, namespace, ref.holder)
            script = kept.script(ref.digest) if kept is not None else None
            if script is None:  # another process may have added to it
                kept = await self.kept(home, namespace, ref.holder)
                script = kept.script(ref.digest) if kept is not None else None
            return script

        return Values(load, self._values, max_bytes=self._max_bytes)

    async def _read(self, home: str, key: str) -> tuple[Kept | None, int]:
        document = await self._store.get_document(self._scope, home, CHECKPOINT, key)
        return (self._remember(home, document), document.version) if document else (None, 0)

    def _remember(self, home: str, document: Document) -> Kept:
        kept, size = self._bodies.kept(home, document)
        self._kept.put((home, document.key), kept, size=size)
        return kept


def _joined(there: Sequence[Write], new: Sequence[Write]) -> list[Write]:
    taken = {write.index: write for write in there}
    for write in new:
        if write.index < 0 or write.index not in taken:
            taken[write.index] = write
    return list(taken.values())

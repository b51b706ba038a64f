"""Drops a checkpoint (the stored summary of a fold), and lists the dropped ones.

A summary may be wrong, because of a prompt injection or a bad model answer. Dropping its checkpoint takes the
conversation back to the checkpoint before. Later checkpoints were made from its text and are dropped too, and so are
the documents built on it: the stored beginnings of windows, and the temporary extract that is shown while a fold is not
finished. All of that is one transaction. The entries that are no longer covered get new epochs (random numbers of a
write), so the commit of a fold that began earlier is refused.

A dropped checkpoint is kept as a document that no context and no search shows, so that `explain()` can still rebuild
the prompts of earlier calls. Erasing an entry that the checkpoint covers removes that document.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from turnfold.errors import Conflict, InvalidRecord, NotFound
from turnfold.records import SESSION, STAND_IN, WINDOW, Checkpoint, Document
from turnfold.stores import Scope, Store, all_documents

__all__ = ("DROPPED_CHECKPOINT", "drop_checkpoint", "dropped_checkpoints", "read_dropped")


DROPPED_CHECKPOINT: Final = "dropped-checkpoint"
"""Kind of the documents that store dropped checkpoints (summaries); the key of a document is the checkpoint's id."""
_MAX_TRIES: Final = 64
_STRICT_TRIES: Final = 8
"""Number of first attempts to drop a checkpoint that fail if anything in the conversation changes meanwhile. Later
attempts allow other writes, so that a busy writer cannot block the drop for ever."""


@dataclass(slots=True)
class _Rollback:
    """The documents that must be deleted or written when the checkpoints (summaries) of a conversation are dropped."""

    built: list[Document] = field(default_factory=list[Document])
    """Documents that depend on the newest checkpoint (starts of windows, temporary extracts) and are dropped together
    with it."""
    versions: dict[str, int] = field(default_factory=dict[str, int])
    """Checkpoint id -> version of its document, for checkpoints that were dropped before."""

    def take(self, document: Document) -> None:
        """Sort one document of the conversation into `built` or `versions`; ignore documents of other kinds."""
        if document.kind == WINDOW or (document.kind, document.key) == (SESSION, STAND_IN):
            self.built.append(document)
        elif document.kind == DROPPED_CHECKPOINT:
            self.versions[document.key] = document.version

    def kept(self, checkpoints: Iterable[Checkpoint]) -> list[Document]:
        """Return documents that store these checkpoints (summaries) for audit after they were dropped."""
        return [
            Document(
                DROPPED_CHECKPOINT,
                each.id,
                msgspec.json.encode(each),
                self.versions.get(each.id, 0),
            )
            for each in checkpoints
        ]


async def drop_checkpoint(
    store: Store, scope: Scope, conversation: str, checkpoint: str
) -> list[Checkpoint]:
    """Drop a checkpoint (stored summary) and all later ones; return the dropped checkpoints, oldest first.

    Raises `NotFound` if there is no such conversation or checkpoint.
    """
    attempt = 0
    while True:
        attempt += 1
        change = _Rollback()
        captured = await store.capture(scope, conversation, change.take)
        if captured is None:
            raise NotFound(
                f"there is no conversation {conversation!r}: check the id. The conversation may have been deleted, or "
                "nothing has been stored in it yet"
            )
        ids = [each.id for each in captured.checkpoints]
        at = ids.index(checkpoint) if checkpoint in ids else len(ids)
        strict = attempt <= _STRICT_TRIES
        try:
            gone = await store.drop_checkpoint(
                scope,
                conversation,
                checkpoint,
                put=change.kept(captured.checkpoints[at:]),
                drop=change.built,
                state=captured.head.state if strict else None,
            )
        except Conflict:  # the conversation changed meanwhile
            if attempt == _MAX_TRIES:
                raise
            continue
        if not strict:
            await _drop_later(store, scope, conversation)
        return gone


async def _drop_later(store: Store, scope: Scope, conversation: str) -> None:
    """Drop documents that depend on the dropped checkpoint and were written by other processes during the drop."""
    later = _Rollback()
    await store.capture(scope, conversation, later.take)
    for each in later.built:
        with suppress(Conflict):  # written again since, without the dropped text
            await store.drop_document(scope, conversation, each.kind, each.key, expect=each.version)


async def dropped_checkpoints(store: Store, scope: Scope, conversation: str) -> list[Checkpoint]:
    """Return the dropped checkpoints (summaries that no context shows any more) of a conversation, oldest first."""
    found = await all_documents(store, scope, conversation, DROPPED_CHECKPOINT)
    return sorted(map(read_dropped, found), key=lambda each: (each.created, each.upto))


def read_dropped(document: Document) -> Checkpoint:
    """Read a dropped checkpoint (summary) from its document; raises `InvalidRecord` if the document is damaged."""
    try:
        return msgspec.json.decode(document.body, type=Checkpoint)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        path = f"{document.kind}/{document.key}"
        raise InvalidRecord(
            f"the stored dropped checkpoint is damaged: {error}",
            path=path,
            remedy="Restore the store from a backup",
        ) from None

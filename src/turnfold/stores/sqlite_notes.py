"""Notes in one go: the account of a call is written with every call, so what it costs is what a call costs.

Whoever notes something has seen where the conversation stands; where that is what the writer remembers too, two
statements do. A note is not waited for at the disk: the log is, and with it every note before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from turnfold.records import Document
from turnfold.stores import sqlite_rows as sql
from turnfold.stores.checksums import document_checksum
from turnfold.stores.ledger import check_state, check_version, next_version
from turnfold.stores.protocol import State
from turnfold.stores.sqlite_beside import insert_documents
from turnfold.stores.sqlite_engine import Connection
from turnfold.stores.sqlite_jobs import TryAlone
from turnfold.stores.sqlite_remembered import Remembered

__all__ = ("Note", "Notes")


class Note(NamedTuple):
    """A new document, and the state its writer saw."""

    tenant: str
    conversation: str
    document: Document
    state: State


class Notes:
    """The notes of a store."""

    lasting = False

    def __init__(self, remembered: Remembered, *, clock: Callable[[], int]) -> None:
        self._remembered, self._clock = remembered, clock

    def together(self, connection: Connection, items: Sequence[Note], /) -> list[State]:
        """Write all of them, if every one is ordinary."""
        self._remembered.begin(connection)
        now = self._clock()
        done = [self._write(connection, item, now) for item in items]
        self._remembered.end(connection)
        return done

    def alone(self, connection: Connection, item: Note, /) -> State:
        """Write one, whatever there is to be said about it."""
        tenant, name, document, state = item
        held = sql.find_conversation(connection, tenant, name, writing=True)
        check_state(state, held.head)
        present = sql.document_version(connection, held.key, document.kind, document.key)
        check_version(0, present, document.kind, document.key)
        now = self._clock()
        sql.save_head(connection, tenant, name, held, now=now)
        version = next_version(0, held.dropped)
        insert_documents(connection, held.key, [replace(document, version=version, created=now)])
        return held.head.state

    def _write(self, connection: Connection, item: Note, now: int) -> State:
        held = self._remembered.held(connection, item.tenant, item.conversation)
        if not held.key or held.head.state != item.state or item.document.text:
            raise TryAlone
        kind, key, body = item.document.kind, item.document.key, item.document.body
        version = next_version(0, held.dropped)
        checksum = document_checksum((kind, key, body, version, now, ""))
        sql.raise_generation(connection, held, now=now)
        # A document that is there already breaks the key, and the note is refused step by step.
        connection.execute(
            "INSERT INTO document (conversation, kind, key, version, created, body, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (held.key, kind, key, version, now, body, checksum),
        )
        return held.head.state

"""Where conversations stand, remembered by the writer between its jobs, so that an ordinary job need not look.

It holds only while nobody else changed anything: no other job of this writer (`total_changes`), no other connection and
no rollback (`doubts`). Jobs that keep it true call `begin` first and `end` last; all others make it forgotten by what
they change.
"""

from __future__ import annotations

from turnfold.stores import sqlite_rows as sql
from turnfold.stores.sqlite_engine import Connection, SqliteEngine

__all__ = ("Remembered",)

_MOST = 4096


class Remembered:
    """The conversations written lately."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._held: dict[tuple[str, str], sql.Held] = {}
        self._state: tuple[int, int] | None = None

    def begin(self, connection: Connection) -> None:
        """Forget everything if anything may have changed since `end`."""
        if self._state != (connection.total_changes(), self._engine.doubts):
            self._held.clear()

    def end(self, connection: Connection) -> None:
        """What is remembered now is what the file holds once this transaction is committed."""
        self._state = (connection.total_changes(), self._engine.doubts)

    def held(self, connection: Connection, tenant: str, conversation: str) -> sql.Held:
        """Where a conversation stands; an erased one refuses to be written."""
        name = (tenant, conversation)
        held = self._held.get(name)
        if held is None:
            held = sql.find_conversation(connection, tenant, conversation, writing=True)
            if len(self._held) >= _MOST:
                self._held.clear()
            self._held[name] = held
        return held

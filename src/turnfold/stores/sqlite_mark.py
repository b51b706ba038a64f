"""A mark in the file itself that something was stored, so that a copy of it without its log does not pass for new.

What is written is first in the log beside the file (-wal), and moves into the file when the log has grown or the last
one closes. Whoever copies the file alone before that copies an empty store. So the tables are moved into the file when
it is made, and before the first write ever the header's `user_version` is set to 1, in the file: where it is 1 and
there is no conversation and no log, the log is missing. A copy without its log of a file that already holds
conversations is an older state of them, and nothing shows it.
"""

from __future__ import annotations

from turnfold.errors import UnsafeStore
from turnfold.stores.sqlite_jobs import Connection
from turnfold.stores.sqlite_looking import is_marked

__all__ = ("FirstWrite",)

_HEADER = 100
_VERSION_AT = slice(60, 64)
"""Where a file's header has its `user_version`."""


class FirstWrite:
    """The first write ever to a file; `is_done` until `check` has looked."""

    def __init__(self) -> None:
        self.is_done = True
        self._begun = False

    def check(self, connection: Connection, path: str, *, had_log: bool) -> None:
        """Refuse a file whose log is missing; `had_log`: there was one beside the file before it was opened."""
        header = connection.read("main", 0, 0, _HEADER)[1]
        if not is_marked(header):  # just made: the tables are in the log alone
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.is_done = not _is_empty(connection)
        if self.is_done or not any(header[_VERSION_AT]):
            return
        if not had_log:
            raise UnsafeStore(
                f"{path!r} holds nothing, but something was stored in it: its log {path + '-wal'!r} is missing. Copy "
                "both together, or make copies with backup(); if nothing that was stored is wanted, delete the file"
            )
        _set(connection, written=False)  # whoever was about to write was killed before it did

    def begin(self, connection: Connection) -> None:
        """Note in the file that something is about to be stored; called outside a transaction until it `is_done`."""
        self._begun = True
        _set(connection, written=True)

    def end(self, connection: Connection) -> None:
        """After a write that has begun: it is done, or the note is taken back because nothing was stored."""
        if not self._begun:
            return
        if _is_empty(connection):
            _set(connection, written=False)
        else:
            self.is_done = True
        self._begun = False


def _is_empty(connection: Connection) -> bool:
    """Whether there never was a conversation; a deleted one leaves its name."""
    return connection.execute("SELECT 1 FROM conversation LIMIT 1").fetchone() is None


def _set(connection: Connection, *, written: bool) -> None:
    connection.execute("PRAGMA user_version=1" if written else "PRAGMA user_version=0")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

"""Imports in processes that die while they work. Run as a program: it forks one for every line it reads.

A line is `die FILE STORE`: the import kills itself at line `die` of its second reading, or is killed from outside after
`die` microseconds when that begins with a `~`; with 0 it lives. The answer says how it ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import IO

from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store, import_from
from turnfold.stores.sqlite import transfer as sqlite_transfer

ALICE = Scope("alice")


def _open(place: str) -> Store:
    if "=" not in place:
        return SqliteStore(place, blocking=True)
    from turnfold.stores.postgres.store import PostgresStore

    return PostgresStore(place, blocking=True)


class Deadly:
    """A file that kills who reads a certain line of it a second time."""

    def __init__(self, file: IO[bytes], line: int) -> None:
        self._file, self._line = file, line
        self._readings = self._read = 0

    def readline(self, limit: int, /) -> bytes:
        self._read += 1
        if self._readings == 2 and self._read == self._line:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._file.readline(limit)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._readings += whence == 0  # once to look for the size, once to read again
        self._read = 0
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _live(die: str, file: str, place: str) -> None:
    store = _open(place)
    with Path(file).open("rb") as source:
        line = 0 if die.startswith("~") else int(die)
        drive(import_from(store, ALICE, Deadly(source, line)))
    drive(store.close())


def _hasty() -> None:
    """Commit what was written so far with every batch."""
    insert = sqlite_transfer.sql.insert_entries

    def insert_and_commit(connection: sqlite_transfer.Connection, new: list[object]) -> None:
        insert(connection, new)  # pyright: ignore[reportArgumentType] (rows)
        connection.execute("COMMIT; BEGIN IMMEDIATE; SAVEPOINT job")

    setattr(sqlite_transfer.sql, "insert_entries", insert_and_commit)  # noqa: B010 (replaced on purpose)


def main() -> None:
    """Fork an import for each line."""
    for order in sys.stdin:
        die, file, place = order.rstrip("\n").split(" ", 2)
        child = os.fork()
        if not child:
            try:
                _live(die, file, place)
            finally:
                os._exit(0 if sys.exc_info()[0] is None else 1)
        if die.startswith("~"):
            time.sleep(int(die[1:]) / 1e6)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 (the answer)


if __name__ == "__main__":
    if sys.argv[1:] == ["hasty"]:
        _hasty()
    main()

"""The raw limit of durable appends: one bare table, one transaction per turn with one INSERT, every commit synced.

There is no order per conversation, no name of a turn, no token count and no index. Several writers queue for the one
connection, which is what SQLite makes them do.
"""

from __future__ import annotations

import threading
from pathlib import Path

import apsw

from bench.appenders import ThreadAppender
from bench.contender import Appended, Settings, Turn

__all__ = ("APPENDED",)

NEEDS = None


class _RawLog(ThreadAppender):
    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(10_000)
        for setting in ("journal_mode=WAL", "synchronous=FULL"):
            self._connection.execute(f"PRAGMA {setting}").fetchall()
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS log (id INTEGER PRIMARY KEY, talk TEXT NOT NULL, body TEXT NOT NULL)"
        )
        self._turn = threading.Lock()

    def write(self, turn: Turn) -> None:
        rows = ", ".join(["(?, ?)"] * len(turn.items))
        values = [value for item in turn.items for value in (turn.talk, item.text)]
        with self._turn:
            execute = self._connection.execute
            execute("BEGIN IMMEDIATE")
            execute(f"INSERT INTO log (talk, body) VALUES {rows}", values)  # noqa: S608 (placeholders)
            execute("COMMIT")

    def texts(self, talk: str) -> list[str]:
        rows = self._connection.execute("SELECT body FROM log WHERE talk = ? ORDER BY id", (talk,))
        return [str(body) for (body,) in rows]

    def settings(self) -> Settings:
        [[journal]] = self._connection.execute("PRAGMA journal_mode").fetchall()
        [[synchronous]] = self._connection.execute("PRAGMA synchronous").fetchall()
        return Settings(str(journal), int(str(synchronous)))

    def close(self) -> None:
        self._connection.close()


APPENDED = (
    Appended(
        name="raw SQLite",
        package="apsw",
        open=_RawLog,
        note="BEGIN IMMEDIATE, one INSERT of all rows of the turn, COMMIT; many writers queue for one connection",
        raw=True,
    ),
)

"""turnfold: durable appends, by the store itself and by sessions of a memory.

Every message is counted exactly and every turn has client ids, so that a repetition is known. Writers share commits:
those who come while one is being synced go into the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.appenders import TaskAppender, ThreadAppender
from bench.contender import Appended, Item, Settings, Turn
from turnfold import Memory, Message, Session
from turnfold.records import NewEntry
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore, Store
from turnfold.tokens import counter_for

__all__ = ("APPENDED",)

NEEDS = None

MODEL = "gpt-4o"
_SCOPE = Scope("bench")
_ALL = 1_000_000


def _message(item: Item) -> Message:
    return Message(item.role, item.text)


def _named(turn: Turn) -> list[NewEntry]:
    return [
        NewEntry(_message(item), f"{turn.name}.{number}") for number, item in enumerate(turn.items)
    ]


async def _texts(store: Store, talk: str) -> list[str]:
    entries = await store.read(_SCOPE, talk, limit=_ALL)
    return [entry.message.text for entry in entries]


def _settings(store: SqliteStore) -> Settings:
    """Of the one connection that writes."""
    writer = store._engine._writer  # noqa: SLF001 (no store tells a benchmark its settings)
    [[journal]] = writer.execute("PRAGMA journal_mode").fetchall()
    [[synchronous]] = writer.execute("PRAGMA synchronous").fetchall()
    return Settings(str(journal), int(str(synchronous)))


def _turns_per_commit(store: SqliteStore) -> float:
    engine = store._engine  # noqa: SLF001 (health() tells the same as text)
    return engine.jobs_done / engine.commits


class _InThreads(ThreadAppender):
    """Threads that block on one store."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path, blocking=True, counter=counter_for(MODEL))

    def write(self, turn: Turn) -> None:
        drive(self.store.append(_SCOPE, turn.talk, _named(turn)))

    def texts(self, talk: str) -> list[str]:
        return drive(_texts(self.store, talk))

    def settings(self) -> Settings:
        return _settings(self.store)

    def turns_per_commit(self) -> float:
        return _turns_per_commit(self.store)

    def close(self) -> None:
        drive(self.store.close())


class _InTasks(TaskAppender):
    """Tasks that wait for one store."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.store = SqliteStore(path, counter=counter_for(MODEL))

    async def write(self, turn: Turn) -> None:
        await self.store.append(_SCOPE, turn.talk, _named(turn))

    def texts(self, talk: str) -> list[str]:
        return self.run(_texts(self.store, talk))

    def settings(self) -> Settings:
        return _settings(self.store)

    def turns_per_commit(self) -> float:
        return _turns_per_commit(self.store)

    def close(self) -> None:
        self.run(self.store.close())
        super().close()


class _OnPostgres(ThreadAppender):
    """Threads that block on a store of a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        from turnfold.stores.postgres.store import PostgresStore

        self._url = url
        self._store = PostgresStore(url, blocking=True, counter=counter_for(MODEL))

    def write(self, turn: Turn) -> None:
        drive(self._store.append(_SCOPE, turn.talk, _named(turn)))

    def texts(self, talk: str) -> list[str]:
        return drive(_texts(self._store, talk))

    def settings(self) -> Settings:
        import psycopg

        with psycopg.connect(self._url) as connection:
            [[waits]] = connection.execute("SHOW synchronous_commit").fetchall()
        return Settings("server", 2 if waits == "on" else 0)

    def close(self) -> None:
        drive(self._store.close())


class _InSessions(ThreadAppender):
    """Threads that block on sessions of one memory: what a program holds."""

    def __init__(self, path: Path) -> None:
        self._memory = Memory(f"sqlite:///{path}", scope=_SCOPE, model=MODEL, fold="manual")
        self._sessions: dict[str, Session] = {}

    def write(self, turn: Turn) -> None:
        session = self._sessions.get(turn.talk)
        if session is None:
            session = self._sessions.setdefault(turn.talk, self._memory.session(turn.talk))
        session.add([_message(item) for item in turn.items], client_id=turn.name)

    def texts(self, talk: str) -> list[str]:
        return drive(_texts(self._memory.store, talk))

    def settings(self) -> Settings:
        metered: Any = self._memory.store
        return _settings(metered._inner)  # noqa: SLF001 (no memory tells a benchmark its settings)

    def close(self) -> None:
        self._memory.close()


APPENDED = (
    Appended(
        name="turnfold SqliteStore, threads",
        package="turnfold",
        open=_InThreads,
        note="append() of a turn with client ids and exact counts, on a blocking store",
        ours=True,
    ),
    Appended(
        name="turnfold SqliteStore, tasks",
        package="turnfold",
        open=_InTasks,
        note="the same awaited; one loop, and a thread that writes",
        ours=True,
    ),
    Appended(
        name="turnfold Session, threads",
        package="turnfold",
        open=_InSessions,
        note="session.add() of a turn with a client id; nothing is folded",
        ours=True,
    ),
    Appended(
        name="turnfold PostgresStore, threads",
        package="turnfold",
        open=_OnPostgres,
        note="append() of a turn with client ids and exact counts, on a blocking store",
        ours=True,
        served=True,
    ),
)

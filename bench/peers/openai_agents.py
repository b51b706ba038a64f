"""OpenAI Agents SDK: `SQLiteSession` and `SQLAlchemySession`, which a run asks for all items unless told otherwise.

They have no token budget: a window is what a user would write around them, the newest items that fit, from a user's
message on, with a memo of exact counts. Reading a guessed number of items is quick and right as long as the guess is.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

from agents.extensions.memory import AdvancedSQLiteSession, SQLAlchemySession
from agents.memory import SQLiteSession
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.appenders import TaskAppender
from bench.contender import Appended, Call, Find, Found, Item, Reopened, Settings, Stored, Turn
from bench.judge import PER_ANSWER, item_tokens

__all__ = ("APPENDED", "FOUND", "REOPENED", "STORED")

NEEDS = ("openai-agents==0.24.0", "sqlalchemy==2.1.8", "aiosqlite==0.22.1", "greenlet==3.5.6")

_GUESS = 400
"""Items a user might read, hoping that they hold as many tokens as the budget allows."""


def _items(item: Item) -> list[dict[str, object]]:
    """A message as the input items of the Responses API."""
    if item.answers:
        return [{"type": "function_call_output", "call_id": item.answers, "output": item.text}]
    calls = [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in item.calls
    ]
    said: list[dict[str, object]] = [{"role": item.role, "content": item.text}] if item.text else []
    return said + cast("list[dict[str, object]]", calls)


class _Sqlite:
    """Sessions of a file, as `SQLiteSession` has them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sessions: dict[str, SQLiteSession] = {}

    def session(self, talk: str) -> SQLiteSession:
        if talk not in self._sessions:
            self._sessions[talk] = SQLiteSession(talk, self._path)
        return self._sessions[talk]

    async def settings(self) -> Settings:
        connection = self.session("talk")._get_connection()  # noqa: SLF001 (its own settings)
        [journal] = connection.execute("PRAGMA journal_mode").fetchone()
        [synchronous] = connection.execute("PRAGMA synchronous").fetchone()
        return Settings(journal, synchronous)

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()


class _Alchemy:
    """Sessions of a file by one SQLAlchemy engine, which is how its documentation shares one."""

    def __init__(self, path: Path) -> None:
        self._engine: AsyncEngine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        self._sessions: dict[str, SQLAlchemySession] = {}

    def session(self, talk: str) -> SQLAlchemySession:
        if talk not in self._sessions:
            first = not self._sessions  # tables made by several at once are an error
            self._sessions[talk] = SQLAlchemySession(talk, engine=self._engine, create_tables=first)
        return self._sessions[talk]

    async def settings(self) -> Settings:
        async with self._engine.connect() as connection:
            journal = (await connection.execute(text("PRAGMA journal_mode"))).scalar_one()
            synchronous = (await connection.execute(text("PRAGMA synchronous"))).scalar_one()
        return Settings(journal, synchronous)

    async def close(self) -> None:
        await self._engine.dispose()


_File = type[_Sqlite] | type[_Alchemy]
_FILES: dict[str, _File] = {"SQLiteSession": _Sqlite, "SQLAlchemySession": _Alchemy}


def _seed(file: _File, path: Path, items: Sequence[Item]) -> None:
    inputs: list[Any] = [each for item in items for each in _items(item)]

    async def write() -> None:
        opened = file(path)
        for start in range(0, len(inputs), 5_000):
            await opened.session("talk").add_items(inputs[start : start + 5_000])
        await opened.close()

    asyncio.run(write())


def _reopen(file: _File, path: Path) -> tuple[int, Callable[[], object]]:
    loop = asyncio.new_event_loop()
    opened = file(path)
    found = loop.run_until_complete(opened.session("talk").get_items())

    def close() -> None:
        loop.run_until_complete(opened.close())
        loop.close()

    return len(found), close


REOPENED = tuple(
    Reopened(
        name=f"OpenAI Agents {name}",
        package="openai-agents",
        seed=partial(_seed, file),
        reopen=partial(_reopen, file),
        note="opened, get_items() as a run calls it; seeded 5,000 items an add_items()",
    )
    for name, file in _FILES.items()
)


class _Session:
    def __init__(self, file: _File, path: Path, budget: int, limit: int | None) -> None:
        self._file = file(path)
        self._session = self._file.session("talk")
        self._budget = budget
        self._limit = limit
        self._loop = asyncio.new_event_loop()
        self._system = _first(path)

    def add(self, item: Item) -> None:
        self._run(self._session.add_items(cast("Any", _items(item))))

    def window(self) -> Sequence[Item]:
        found = self._run(self._session.get_items(self._limit))
        kept: list[Item] = []
        start, left = 0, self._budget - PER_ANSWER - item_tokens(self._system)
        for one in reversed(cast("list[dict[str, Any]]", found)):
            item = _item(one)
            left -= item_tokens(item)
            if left < 0 or item.role == "system":
                break
            kept.append(item)
            start = len(kept) if item.role == "user" else start
        return [self._system, *reversed(kept[:start])]

    def close(self) -> None:
        self._run(self._file.close())
        self._loop.close()

    def _run(self, work: Any) -> Any:  # noqa: ANN401 (what the session's coroutine gives)
        return self._loop.run_until_complete(work)


def _first(path: Path) -> Item:
    """The system message: a run keeps it as its instructions."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT message_data FROM agent_messages ORDER BY id LIMIT 1")
        return _item(json.loads(rows.fetchone()[0]))


def _item(one: dict[str, Any]) -> Item:
    if one.get("type") == "function_call":
        return Item("assistant", "", (Call(one["call_id"], one["name"], one["arguments"]),))
    if one.get("type") == "function_call_output":
        return Item("tool", one["output"], answers=one["call_id"])
    return Item(one["role"], one["content"])


def _merged(items: Sequence[Item]) -> list[Item]:
    """Calls that stand one after another were made in one message; the judge wants them so."""
    merged: list[Item] = []
    for item in items:
        if item.calls and merged and merged[-1].calls:
            merged[-1] = merged[-1]._replace(calls=(*merged[-1].calls, *item.calls))
        else:
            merged.append(item)
    return merged


def _stored(kind: str, name: str, limit: int | None, *, note: str) -> Stored:
    file = _FILES[kind]
    return Stored(
        name=f"OpenAI Agents {kind}, {name}",
        package="openai-agents",
        seed=partial(_seed, file),
        open=lambda path, budget: _Session(file, path, budget, limit),
        read=_merged,
        note=note,
        budgeted=limit is None,
        largest=100_000,
    )


_ALL_NOTE = "get_items(), as a run calls it"

STORED = (
    _stored("SQLiteSession", "all items + a user's trim", None, note=_ALL_NOTE),
    _stored(
        "SQLiteSession",
        f"{_GUESS} items + a user's trim",
        _GUESS,
        note=f"get_items({_GUESS}): a number that happens to hold the budget in this conversation",
    ),
    _stored("SQLAlchemySession", "all items + a user's trim", None, note=_ALL_NOTE),
)


class _Appender(TaskAppender):
    """Tasks of one loop; each writer has a session object for its conversation."""

    def __init__(self, file: _File, path: Path) -> None:
        super().__init__()
        self._file = file(path)
        self.run(self._file.session("talk").get_items())

    async def write(self, turn: Turn) -> None:
        inputs: Any = [each for item in turn.items for each in _items(item)]
        await self._file.session(turn.talk).add_items(inputs)

    def texts(self, talk: str) -> list[str]:
        found = self.run(self._file.session(talk).get_items())
        return [_item(one).text for one in cast("list[dict[str, Any]]", found)]

    def settings(self) -> Settings:
        return self.run(self._file.settings())

    def close(self) -> None:
        self.run(self._file.close())
        super().close()


_NAMELESS = "; an item has no name, so that a repetition cannot be known"

APPENDED = (
    Appended(
        name="OpenAI Agents SQLiteSession",
        package="openai-agents",
        open=partial(_Appender, _Sqlite),
        note=f"add_items() of a turn on one session object per conversation{_NAMELESS}",
    ),
    Appended(
        name="OpenAI Agents SQLAlchemySession",
        package="openai-agents",
        open=partial(_Appender, _Alchemy),
        note=f"the same on sqlite+aiosqlite, all sessions on one engine{_NAMELESS}",
    ),
)


def _finding(path: Path, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:
    """Turns of the user found by a part of their text; nothing else of a session can be searched."""
    session = AdvancedSQLiteSession(session_id="talk", db_path=path, create_tables=True)
    loop = asyncio.new_event_loop()
    inputs: list[Any] = [each for item in items for each in _items(item)]
    for start in range(0, len(inputs), 5_000):
        loop.run_until_complete(session.add_items(inputs[start : start + 5_000]))

    def find(question: str, limit: int) -> list[str]:
        found = loop.run_until_complete(session.find_turns_by_content(question))
        return [str(turn["full_content"]) for turn in found[:limit]]

    return find, session.close


FOUND = (
    Found(
        name="OpenAI Agents AdvancedSQLiteSession",
        package="openai-agents",
        open=_finding,
        note="find_turns_by_content: a part of what the user said, the oldest first; answers are not searched",
        largest=100_000,
    ),
)

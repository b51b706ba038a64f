"""Google ADK: `SqliteSessionService`, an event store that a run asks for all events unless told otherwise.

It has no token budget: a window is what a user would write around it, the newest events that fit, from a user's
message on, with a memo of exact counts. Reading a guessed number of events is quick and right as long as the guess is.
An event is stored by a commit of its own, so that a turn is not stored whole or not at all.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService, SqliteMemoryService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from bench.appenders import TaskAppender
from bench.contender import Appended, Call, Find, Found, Item, Reopened, Settings, Stored, Turn
from bench.judge import PER_ANSWER, item_tokens

__all__ = ("APPENDED", "FOUND", "REOPENED", "STORED")

NEEDS = ("google-adk==2.13.0",)

_APP, _USER = "bench", "somebody"
_GUESS = 300
"""Events a user might read, hoping that they hold as many tokens as the budget allows."""


def _event(item: Item, name: str = "") -> Event:
    """A message as an event; the system message is the agent's instruction and never one."""
    parts = [Part(text=item.text)] if item.text and not item.answers else []
    parts += [
        Part(function_call=FunctionCall(id=call.id, name=call.name, args=_object(call.arguments)))
        for call in item.calls
    ]
    if item.answers:
        answer = FunctionResponse(id=item.answers, name="tool", response={"result": item.text})
        parts.append(Part(function_response=answer))
    author = "user" if item.role in ("user", "system") else "assistant"
    role = "model" if author == "assistant" and not item.answers else "user"
    event = Event(author=author, invocation_id="run", content=Content(role=role, parts=parts))
    if name:
        event.id = name
    return event


def _object(arguments: str) -> dict[str, Any]:
    value = json.loads(arguments)
    return value if isinstance(value, dict) else {"value": value}


def _item(event: Event) -> Item:
    parts = (event.content.parts if event.content else None) or []
    answers = [part.function_response for part in parts if part.function_response]
    if answers:
        return Item("tool", (answers[0].response or {})["result"], answers=answers[0].id or "")
    calls = tuple(
        Call(call.id or "", call.name or "", json.dumps(call.args, ensure_ascii=False))
        for part in parts
        if (call := part.function_call)
    )
    said = "".join(part.text or "" for part in parts)
    return Item("user" if event.author == "user" else "assistant", said, calls)


async def _opened(service: SqliteSessionService, talk: str, newest: int | None) -> Session:
    """The conversation with its newest events; makes one that is not there."""
    config = GetSessionConfig(num_recent_events=newest)
    found = await service.get_session(app_name=_APP, user_id=_USER, session_id=talk, config=config)
    return found or await service.create_session(app_name=_APP, user_id=_USER, session_id=talk)


def _seed(path: Path, items: Sequence[Item]) -> None:
    """Put straight into its table: an event at a time would take an hour."""
    path.with_suffix(".system").write_text(items[0].text, encoding="utf-8")
    begin = time.time() - len(items)

    async def write() -> None:
        service = SqliteSessionService(str(path))
        await _opened(service, "talk", 0)
        async with service._get_db_connection() as connection:  # noqa: SLF001 (not timed)
            await connection.executemany(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_row(item, begin + number) for number, item in enumerate(items[1:])),
            )
            await connection.commit()

    asyncio.run(write())


def _row(item: Item, moment: float) -> tuple[object, ...]:
    event = _event(item)
    event.timestamp = moment
    content = event.model_dump_json(exclude_none=True)
    return (event.id, _APP, _USER, "talk", event.invocation_id, moment, content)


def _reopen(path: Path) -> tuple[int, Callable[[], object]]:
    loop = asyncio.new_event_loop()
    session = loop.run_until_complete(_opened(SqliteSessionService(str(path)), "talk", None))
    return len(session.events), loop.close


REOPENED = (
    Reopened(
        name="Google ADK SqliteSessionService",
        package="google-adk",
        seed=_seed,
        reopen=_reopen,
        note="get_session() as a run calls it; seeded by INSERTs into its table",
    ),
)


class _Session:
    """The session is read for every call, as a runner does for every run."""

    def __init__(self, path: Path, budget: int, newest: int | None) -> None:
        self._service = SqliteSessionService(str(path))
        self._newest = newest
        self._loop = asyncio.new_event_loop()
        self._system = Item("system", path.with_suffix(".system").read_text(encoding="utf-8"))
        self._room = budget - PER_ANSWER - item_tokens(self._system)
        self._session = self._read(0)

    def add(self, item: Item) -> None:
        self._loop.run_until_complete(self._service.append_event(self._session, _event(item)))

    def window(self) -> Sequence[Item]:
        self._session = self._read(self._newest)
        kept: list[Item] = []
        start, left = 0, self._room
        for event in reversed(self._session.events):
            item = _item(event)
            left -= item_tokens(item)
            if left < 0:
                break
            kept.append(item)
            start = len(kept) if item.role == "user" else start
        return [self._system, *reversed(kept[:start])]

    def close(self) -> None:
        self._loop.close()

    def _read(self, newest: int | None) -> Session:
        return self._loop.run_until_complete(_opened(self._service, "talk", newest))


def _stored(name: str, newest: int | None, note: str) -> Stored:
    return Stored(
        name=f"Google ADK SqliteSessionService, {name}",
        package="google-adk",
        seed=_seed,
        open=lambda path, budget: _Session(path, budget, newest),
        note=note,
        budgeted=newest is None,
        largest=100_000,
    )


STORED = (
    _stored("all events + a user's trim", None, "append_event() and get_session(), as a run does"),
    _stored(
        f"{_GUESS} events + a user's trim",
        _GUESS,
        f"num_recent_events={_GUESS}: a number that happens to hold the budget in this conversation",
    ),
)


class _Appender(TaskAppender):
    """Tasks of one loop; those that share a conversation share its session object and a lock."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._service = SqliteSessionService(str(path))
        self._sessions: dict[str, Session] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def write(self, turn: Turn) -> None:
        async with self._locks.setdefault(turn.talk, asyncio.Lock()):
            if turn.talk not in self._sessions:
                self._sessions[turn.talk] = await _opened(self._service, turn.talk, 0)
            session = self._sessions[turn.talk]
            for number, item in enumerate(turn.items):
                try:
                    await self._service.append_event(session, _event(item, f"{turn.name}.{number}"))
                except sqlite3.IntegrityError:
                    continue  # it refuses an id that is there, which tells a repetition
            session.events.clear()

    def texts(self, talk: str) -> list[str]:
        session = self.run(_opened(self._service, talk, None))
        return [_item(event).text for event in session.events]

    def settings(self) -> Settings:
        async def ask() -> Settings:
            async with self._service._get_db_connection() as connection:  # noqa: SLF001 (its own settings)
                [[journal]] = await connection.execute_fetchall("PRAGMA journal_mode")
                [[synchronous]] = await connection.execute_fetchall("PRAGMA synchronous")
                return Settings(journal, synchronous)

        return self.run(ask())


APPENDED = (
    Appended(
        name="Google ADK SqliteSessionService",
        package="google-adk",
        open=_Appender,
        note=(
            "append_event() for each message, which commits each; a user's lock per conversation, because a session "
            "object that is behind is refused, and a user's rule that an id that is refused was stored before"
        ),
    ),
)


def _finding(service: Any, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:  # noqa: ANN401 (either memory service)
    """The events of one session handed to a memory service, which is what its agents search."""
    loop = asyncio.new_event_loop()
    events = [_event(item) for item in items[1:]]
    loop.run_until_complete(
        service.add_events_to_memory(app_name=_APP, user_id=_USER, events=events, session_id="talk")
    )

    def find(question: str, limit: int) -> list[str]:
        asked = service.search_memory(app_name=_APP, user_id=_USER, query=question)
        found = loop.run_until_complete(asked).memories
        texts = ["".join(part.text or "" for part in each.content.parts or ()) for each in found]
        return texts[:limit]

    return find, loop.close


FOUND = (
    Found(
        name="Google ADK InMemoryMemoryService",
        package="google-adk",
        open=lambda _, items: _finding(InMemoryMemoryService(), items),
        note="search_memory over the events of one session, held in memory",
        largest=100_000,
    ),
    Found(
        name="Google ADK SqliteMemoryService",
        package="google-adk",
        open=lambda path, items: _finding(SqliteMemoryService(path, max_results=5), items),
        note="search_memory over the events of one session in a SQLite file (FTS5, unicode61), max_results=5",
        largest=100_000,
    ),
)

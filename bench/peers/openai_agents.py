"""OpenAI Agents SDK: `SQLiteSession`, which a run asks for all items of the conversation unless told otherwise.

It has no token budget: a window is what a user would write around it, the newest items that fit, from a user's message
on, with a memo of exact counts. Reading a guessed number of items is quick and right as long as the guess is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from agents.memory import SQLiteSession

from bench.contender import Call, Item, Reopened, Stored
from bench.judge import PER_ANSWER, item_tokens

__all__ = ("REOPENED", "STORED")

NEEDS = ("openai-agents==0.24.0",)

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


def _seed(path: Path, items: Sequence[Item]) -> None:
    session = SQLiteSession("talk", path)
    inputs: list[Any] = [each for item in items for each in _items(item)]
    asyncio.run(session.add_items(inputs))
    session.close()


def _reopen(path: Path) -> tuple[int, Callable[[], object]]:
    session = SQLiteSession("talk", path)
    found = asyncio.run(session.get_items())
    return len(found), session.close


REOPENED = (
    Reopened(
        name="OpenAI Agents SQLiteSession",
        package="openai-agents",
        seed=_seed,
        reopen=_reopen,
        note="opened, get_items() as a run calls it; seeded with one add_items()",
    ),
)


class _Session:
    def __init__(self, path: Path, budget: int, limit: int | None) -> None:
        self._session = SQLiteSession("talk", path)
        self._budget = budget
        self._limit = limit
        self._loop = asyncio.new_event_loop()
        self._system = self._first()

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
        self._session.close()
        self._loop.close()

    def _first(self) -> Item:
        """The system message: a run keeps it as its instructions."""
        rows = self._session._get_connection().execute(  # noqa: SLF001 (once, and not timed)
            "SELECT message_data FROM agent_messages ORDER BY id LIMIT 1"
        )
        return _item(json.loads(rows.fetchone()[0]))

    def _run(self, work: Any) -> Any:  # noqa: ANN401 (what the session's coroutine gives)
        return self._loop.run_until_complete(work)


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


def _stored(name: str, limit: int | None, *, note: str) -> Stored:
    return Stored(
        name=f"OpenAI Agents SQLiteSession, {name}",
        package="openai-agents",
        seed=_seed,
        open=lambda path, budget: _Session(path, budget, limit),
        read=_merged,
        note=note,
        budgeted=limit is None,
        largest=100_000,
    )


STORED = (
    _stored("all items + a user's trim", None, note="get_items(), as a run calls it"),
    _stored(
        f"{_GUESS} items + a user's trim",
        _GUESS,
        note=f"get_items({_GUESS}): a number that happens to hold the budget in this conversation",
    ),
)

"""pytest plugin for the own tests of the OpenAI Agents SDK: their sessions are turnfold's, and runs use `turnfold_run`.

`SQLiteSession` and the list session of the tests become a `TurnfoldSession`. A run with such a session gets turnfold's
filter and hooks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import agents
import agents.memory
import pytest
from agents.memory.session_settings import coerce_session_settings
from agents.run import AgentRunner

from turnfold import Budget, Memory
from turnfold.adapters.openai_agents import TurnfoldSession, turnfold_run
from turnfold.adapters.openai_agents.items import records_of
from turnfold.runtime import drive

LARGE = Budget(max_tokens=500_000)
_files: dict[tuple[str, ...], Memory] = {}
"""Memories that stand for database files, by path and tables."""


def _memory(*place: str) -> Memory:
    if place[0] == ":memory:":
        return Memory("sqlite://", budget=LARGE)
    return _files.setdefault(place, Memory("sqlite://", budget=LARGE))


class SQLiteSession(TurnfoldSession):
    """A `TurnfoldSession` with the constructor of the SDK's `SQLiteSession`."""

    def __init__(
        self,
        session_id: str,
        db_path: object = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        given = coerce_session_settings(session_settings) if session_settings else None
        self.held = _memory(str(db_path), sessions_table, messages_table)
        super().__init__(self.held, session_id, session_settings=given)

    def close(self) -> None:
        """Leave the memory open: another session of the test may use the same file."""


class SimpleListSession(TurnfoldSession):
    """A `TurnfoldSession` with the constructor of the list session in the SDK's tests."""

    def __init__(self, session_id: str = "test", history: list[Any] | None = None) -> None:
        self.held = Memory("sqlite://", budget=LARGE)
        super().__init__(self.held, session_id)
        self._ignore_ids_for_matching = False
        if history:
            drive(self.awaiting.add(records_of(history)))

    @property
    def saved_items(self) -> list[Any]:
        """The items, as the tests look at them."""
        return list(drive(self._newest(None)))

    _items = saved_items


class CountingSession(SimpleListSession):
    """Counts how often an item is popped."""

    def __init__(self, session_id: str = "test", history: list[Any] | None = None) -> None:
        super().__init__(session_id, history)
        self.pop_calls = 0

    async def pop_item(self) -> Any:
        self.pop_calls += 1
        return await super().pop_item()


class IdStrippingSession(CountingSession):
    """Adds items without their ids."""

    def __init__(self, session_id: str = "test", history: list[Any] | None = None) -> None:
        super().__init__(session_id, history)
        self._ignore_ids_for_matching = True

    async def add_items(self, items: list[Any]) -> None:
        without: list[Any] = [{k: v for k, v in item.items() if k != "id"} for item in items]
        await super().add_items(without)


def _with_turnfold(given: dict[str, Any]) -> dict[str, Any]:
    session = given.get("session")
    if not isinstance(session, TurnfoldSession):
        return given
    made = turnfold_run(
        session.awaiting, run_config=given.get("run_config"), hooks=given.get("hooks")
    )
    # The test keeps its own session object, which may count or change what it is given.
    view: Any = made["run_config"].call_model_input_filter
    view.session = session
    vars(made["hooks"])["_step"] = type(vars(made["hooks"])["_step"])(session, ())
    return {**given, "run_config": made["run_config"], "hooks": made["hooks"]}


def _swapped(name: str) -> Callable[..., Any]:
    run = getattr(AgentRunner, name)
    if name == "run":

        async def awaited(self: AgentRunner, *args: Any, **given: Any) -> Any:
            return await run(self, *args, **_with_turnfold(given))

        return awaited

    def called(self: AgentRunner, *args: Any, **given: Any) -> Any:
        return run(self, *args, **_with_turnfold(given))

    return called


def pytest_configure(config: pytest.Config) -> None:
    """Swap the sessions before any test is imported."""
    del config
    for module in (agents, agents.memory):
        vars(module)["SQLiteSession"] = SQLiteSession
    lists = importlib.import_module("tests.utils.simple_session")
    for kind in (SimpleListSession, CountingSession, IdStrippingSession):
        vars(lists)[kind.__name__] = kind
    for name in ("run", "run_sync", "run_streamed"):
        setattr(AgentRunner, name, _swapped(name))

"""pytest plugin for the own tests of the Claude Agent SDK: `InMemorySessionStore` becomes a `TurnfoldSessionStore`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from turnfold import AsyncMemory
from turnfold.adapters.claude_agent_sdk import TurnfoldSessionStore
from turnfold.runtime import drive
from turnfold.stores import MemoryStore


class InMemorySessionStore(TurnfoldSessionStore):
    """A `TurnfoldSessionStore` with the constructor and the test helpers of the SDK's own store.

    The tests run under asyncio and trio and count turns of the loop, so nothing here may wait for a thread.
    """

    def __init__(self) -> None:
        super().__init__(AsyncMemory(MemoryStore()))

    def get_entries(self, key: Any) -> list[Any]:
        """Return the lines of a transcript, without await."""
        return drive(self._load(key)) or []

    @property
    def size(self) -> int:
        """The number of stored main transcripts."""
        places = [place for index in self._indexes() for place in self._stored(index)]
        return sum(not place.subpath for place in places)

    def clear(self) -> None:
        """Erase everything."""
        for index in self._indexes():
            for place in self._stored(index):
                drive(self._store.delete(self._scope, place.home))
            drive(self._store.delete(self._scope, index))

    def _indexes(self) -> list[str]:
        found = drive(self._store.conversations(self._scope))
        return [one.conversation for one in found if self._names.index in one.conversation]

    def _stored(self, index: str) -> list[Any]:
        documents = drive(self._store.documents(self._scope, index, self._names.kind))
        return [self._place(document) for document in documents]


def pytest_load_initial_conftests() -> None:
    """Swap the store before any test is imported."""
    for module in ("claude_agent_sdk", "claude_agent_sdk._internal.session_store"):
        vars(import_module(module))["InMemorySessionStore"] = InMemorySessionStore

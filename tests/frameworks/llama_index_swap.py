"""pytest plugin for the own tests of LlamaIndex: their memories and agents are turnfold's.

`ChatMemoryBuffer` and `Memory` become a `turnfold_memory`, `FunctionAgent` and `ReActAgent` the two agents of turnfold.
A memory with blocks, or over a database that a test names, stays LlamaIndex's own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any
from uuid import uuid4

from llama_index.core.agent import workflow
from llama_index.core.llms import ChatMessage

import turnfold
from turnfold.adapters.llama_index import (
    TurnfoldFunctionAgent,
    TurnfoldMemory,
    TurnfoldReActAgent,
    turnfold_memory,
)

LIMIT = 30_000
"""What `Memory` of LlamaIndex takes if it is given no limit."""
OWN = ("memory_blocks", "async_database_uri", "async_engine", "chat_store")
"""Options of a memory of LlamaIndex that name its parts or its storage."""


class _Swapped(TurnfoldMemory):
    """A `turnfold_memory` with the constructors of LlamaIndex's memories."""

    token_limit: int = LIMIT

    def __init__(self, **given: Any) -> None:
        if given.get("conversation"):  # LlamaIndex restores a memory from its fields
            super().__init__(**given)
            return
        limit = given.get("token_limit") or LIMIT
        opened = turnfold.Memory("sqlite://", budget=turnfold.Budget(max_tokens=limit))
        made = turnfold_memory(opened, given.get("session_id") or uuid4().hex)
        super().__init__(**{**made.model_dump(), "token_limit": limit})
        self._opened = made._opened
        self.put_messages(given.get("chat_history") or [])

    @classmethod
    def from_defaults(cls, *, llm: Any = None, **given: Any) -> Any:
        """Make a memory that has the room of the model."""
        window = llm.metadata.context_window if llm is not None else 0
        return cls(**{"token_limit": int(window * 0.75), **given})

    def get_all(self, status: Any = None) -> list[ChatMessage]:
        """Return all messages; LlamaIndex's memory is told which."""
        del status
        return super().get_all()

    async def aget_all(self, status: Any = None) -> list[ChatMessage]:
        """Return all messages; LlamaIndex's memory is told which."""
        del status
        return await super().aget_all()

    async def areset(self, status: Any = None) -> None:
        """Start over; LlamaIndex's memory is told which messages to forget."""
        del status
        await super().areset()


class ChatMemoryBuffer(_Swapped):
    """Stands for LlamaIndex's memory of this name, which ignores what it is asked for."""

    def get(self, input: Any = None, **given: Any) -> list[ChatMessage]:  # noqa: A002 (its name)
        """Return the session's context; a test gives a number instead of a question."""
        return super().get(input if isinstance(input, str) else None, **given)


class Memory(_Swapped):
    """Stands for LlamaIndex's memory of this name."""

    def __new__(cls, **given: Any) -> Any:
        """Make LlamaIndex's own memory if its parts or its storage are given."""
        own = any(given.get(name) for name in OWN)
        return PEER(**given) if own else super().__new__(cls)


peers: Any = import_module("llama_index.core.memory")
PEER = peers.Memory


def pytest_load_initial_conftests() -> None:
    """Swap the memories and agents in every module that has imported them, before any test is imported."""
    swapped: dict[Any, Any] = {
        peers.ChatMemoryBuffer: ChatMemoryBuffer,
        peers.Memory: Memory,
        workflow.FunctionAgent: TurnfoldFunctionAgent,
        workflow.ReActAgent: TurnfoldReActAgent,
    }
    for name, module in list(sys.modules.items()):
        if not name.startswith("llama_index."):
            continue
        for peer, kind in swapped.items():
            if vars(module).get(peer.__name__) is peer:
                vars(module)[peer.__name__] = kind

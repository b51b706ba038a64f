"""pytest plugin for the own tests of PydanticAI: every run has a `turnfold_capability`.

A run without a `conversation_id` is a conversation of its own, as PydanticAI has it. The capability offers no tool and
no instructions here, because the tests compare requests to the letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_ai import Agent

from turnfold import AsyncMemory, Budget
from turnfold.adapters.pydantic_ai.capability import TurnfoldCapability
from turnfold.stores import MemoryStore

LARGE = Budget(max_tokens=500_000)
_memories: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncMemory] = WeakKeyDictionary()
"""The memory of each event loop: one for each test."""


class Swapped(TurnfoldCapability):
    """A capability that takes the conversation id that PydanticAI makes up for a run without one."""

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return None: PydanticAI makes up an id."""
        del run_id


def _capability() -> Swapped:
    loop = asyncio.get_running_loop()
    memory = _memories.setdefault(loop, AsyncMemory(MemoryStore(), budget=LARGE))
    return Swapped(memory, recall=False)


def pytest_load_initial_conftests() -> None:
    """Give every run the capability."""
    unchanged: Any = Agent.iter

    @asynccontextmanager
    async def iterate(self: Any, *args: Any, **given: Any) -> AsyncGenerator[Any]:
        capabilities = [*(given.pop("capabilities", None) or ()), _capability()]
        async with unchanged(self, *args, capabilities=capabilities, **given) as run:
            yield run

    Agent.iter = iterate

"""The three clients, made the same way: one table for every test that must hold for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from tests.models.strict_server import StrictServer
from turnfold.models import Anthropic, OpenAIChat, OpenAIResponses

T = TypeVar("T")
Client = OpenAIChat | OpenAIResponses | Anthropic

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at a place.",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}},
                "required": ["place"],
            },
        },
    }
]


async def no_wait(seconds: float) -> None:
    """A pause of a retry that takes no time."""
    assert seconds > 0


@dataclass(frozen=True)
class Provider:
    """One interface and the client that speaks it."""

    name: str
    make: Callable[..., Client]
    path: str

    def client(self, server: StrictServer, **options: Any) -> Client:
        """The official client behind ours, pointed at the server."""
        url = f"{server.url}{self.path}"
        return self.make("model-1", base_url=url, api_key="k", **{"sleep": no_wait, **options})

    def run(self, server: StrictServer, use: Callable[[Client], Awaitable[T]], **options: Any) -> T:
        """What `use` makes of the client, in a loop of its own."""

        async def inside() -> T:
            async with self.client(server, **options) as client:
                return await use(client)

        return asyncio.run(inside())


PROVIDERS = [
    Provider("openai_chat", OpenAIChat, "/v1"),
    Provider("openai_responses", OpenAIResponses, "/v1"),
    Provider("anthropic", Anthropic, ""),
]
every_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda one: one.name)

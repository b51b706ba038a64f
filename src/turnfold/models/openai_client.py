"""OpenAI's SDK, imported here and nowhere else: calls go in as arguments and come out as JSON.

Both of OpenAI's interfaces, and every server that speaks one of them, are reached through the same client.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit

from turnfold.errors import MissingExtra
from turnfold.models.client import Sdk
from turnfold.wire import JsonObject

__all__ = (
    "AsyncOpenAI",
    "OpenAISdk",
)


try:
    from openai import AsyncOpenAI
except ImportError as missing:
    raise MissingExtra(
        package="openai", extra="openai", purpose="OpenAIChat and OpenAIResponses"
    ) from missing


_OPENAI = "https://api.openai.com/v1"
_OWN_HOSTS = (".openai.com", ".openai.azure.com")
_NO_KEY = "none"
"""Sent to a server of one's own where no key is set: the SDK requires one, such servers ignore it."""


class OpenAISdk(Sdk[AsyncOpenAI]):
    """OpenAI's client with its own retries switched off, because turnfold has one retry policy for all clients."""

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        client: AsyncOpenAI | None,
        timeout: float,
    ) -> None:
        if base_url is not None and api_key is None and not os.environ.get("OPENAI_API_KEY"):
            api_key = _NO_KEY
        usual = base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
        host = urlsplit(usual if client is None else str(client.base_url)).hostname or ""
        self.at_openai = host.endswith(_OWN_HOSTS)
        """True if the models are OpenAI's own, and not those of a compatible server."""
        super().__init__(
            lambda: AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0),
            client and client.with_options(max_retries=0, timeout=timeout),
        )

    async def chat(self, arguments: JsonObject) -> JsonObject:
        """Return a completion."""
        return await self._send(lambda client: client.chat.completions.create, arguments)

    async def chat_stream(
        self, arguments: JsonObject, on_event: Callable[[JsonObject], None]
    ) -> None:
        """Request a completion as a stream, and pass each of its chunks on."""
        await self._stream(lambda client: client.chat.completions.create, arguments, on_event)

    async def respond(self, arguments: JsonObject) -> JsonObject:
        """Return a response."""
        return await self._send(lambda client: client.responses.create, arguments)

    async def respond_stream(
        self, arguments: JsonObject, on_event: Callable[[JsonObject], None]
    ) -> None:
        """Request a response as a stream, and pass each of its events on."""
        await self._stream(lambda client: client.responses.create, arguments, on_event)

    async def count(self, arguments: JsonObject) -> JsonObject:
        """Count the tokens of the input of a response."""
        return await self._send(lambda client: client.responses.input_tokens.count, arguments)

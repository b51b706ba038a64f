"""Anthropic's SDK, imported here and nowhere else: calls go in as arguments and come out as JSON."""

from __future__ import annotations

from collections.abc import Callable

from turnfold.errors import MissingExtra
from turnfold.models.client import Sdk
from turnfold.wire import JsonObject

__all__ = (
    "AnthropicSdk",
    "AsyncAnthropic",
)


try:
    from anthropic import AsyncAnthropic
except ImportError as missing:
    raise MissingExtra(package="anthropic", extra="anthropic", purpose="Anthropic") from missing


class AnthropicSdk(Sdk[AsyncAnthropic]):
    """Anthropic's client with its own retries switched off, because turnfold has one retry policy for all clients."""

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        client: AsyncAnthropic | None,
        timeout: float,
    ) -> None:
        super().__init__(
            lambda: AsyncAnthropic(
                base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0
            ),
            client and client.with_options(max_retries=0, timeout=timeout),
        )

    async def message(self, arguments: JsonObject) -> JsonObject:
        """Return a message."""
        return await self._send(lambda client: client.messages.create, arguments)

    async def message_stream(
        self, arguments: JsonObject, on_event: Callable[[JsonObject], None]
    ) -> None:
        """Request a message as a stream, and pass each of its events to `on_event`."""
        await self._stream(lambda client: client.messages.create, arguments, on_event)

    async def count(self, arguments: JsonObject) -> JsonObject:
        """Count the tokens of a prompt."""
        return await self._send(lambda client: client.messages.count_tokens, arguments)

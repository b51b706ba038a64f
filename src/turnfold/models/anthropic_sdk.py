"""The one place that imports Anthropic's SDK: calls go in as arguments and come out as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from turnfold.errors import MissingExtra
from turnfold.models.calling import plain_answer, read_stream
from turnfold.models.loop_clients import LoopClients
from turnfold.models.plain_json import Json

try:
    from anthropic import AsyncAnthropic
except ImportError as missing:
    raise MissingExtra(package="anthropic", extra="anthropic", purpose="Anthropic") from missing

__all__ = ("AnthropicSdk", "AsyncAnthropic")


class AnthropicSdk:
    """Anthropic's client, with its own retries switched off: there is one policy, and it is ours."""

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        client: AsyncAnthropic | None,
        timeout: float,
    ) -> None:
        self._given = client and client.with_options(max_retries=0, timeout=timeout)
        self._clients = LoopClients(
            lambda: AsyncAnthropic(
                base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0
            )
        )

    async def message(self, arguments: Json) -> Json:
        """A message."""
        return await plain_answer(self._message(arguments))

    async def message_stream(self, arguments: Json, on_event: Callable[[Json], None]) -> None:
        """A message in events."""
        await read_stream(self._message({**arguments, "stream": True}), on_event)

    async def count(self, arguments: Json) -> Json:
        """What a prompt would cost."""
        return await plain_answer(self._count(arguments))

    async def close(self) -> None:
        """Close the connections this loop opened; a client that was given stays as it is."""
        await self._clients.close()

    async def _client(self) -> AsyncAnthropic:
        return self._given or await self._clients.here()

    async def _message(self, arguments: Json) -> object:
        create = cast("_Call", (await self._client()).messages.create)
        return await create(**arguments)

    async def _count(self, arguments: Json) -> object:
        count = cast("_Call", (await self._client()).messages.count_tokens)
        return await count(**arguments)


_Call = Callable[..., Awaitable[object]]
"""The SDK's calls have dozens of parameters each; the wire has written them by name."""

"""The one place that imports OpenAI's SDK: calls go in as arguments and come out as JSON.

Both of OpenAI's interfaces, and every server that speaks one of them, are reached through the same client.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import urlsplit

from turnfold.errors import MissingExtra
from turnfold.models.calling import plain_answer, read_stream
from turnfold.models.loop_clients import LoopClients
from turnfold.models.plain_json import Json

try:
    from openai import AsyncOpenAI
except ImportError as missing:
    raise MissingExtra(
        package="openai", extra="openai", purpose="OpenAIChat and OpenAIResponses"
    ) from missing

__all__ = ("AsyncOpenAI", "OpenAISdk")

_OPENAI = "https://api.openai.com/v1"
_OWN_HOSTS = (".openai.com", ".openai.azure.com")
_NO_KEY = "none"
"""Sent to a server of one's own where no key is set: the SDK insists on one, such servers ignore it."""


class OpenAISdk:
    """OpenAI's client, with its own retries switched off: there is one policy, and it is ours."""

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
        """Whether the models are OpenAI's own, and not those of a server that speaks its interface."""
        self._given = client and client.with_options(max_retries=0, timeout=timeout)
        self._clients = LoopClients(
            lambda: AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0)
        )

    async def chat(self, arguments: Json) -> Json:
        """A completion."""
        return await plain_answer(self._completion(arguments))

    async def chat_stream(self, arguments: Json, on_event: Callable[[Json], None]) -> None:
        """A completion in chunks."""
        await read_stream(self._completion({**arguments, "stream": True}), on_event)

    async def respond(self, arguments: Json) -> Json:
        """A response."""
        return await plain_answer(self._response(arguments))

    async def respond_stream(self, arguments: Json, on_event: Callable[[Json], None]) -> None:
        """A response in events."""
        await read_stream(self._response({**arguments, "stream": True}), on_event)

    async def count(self, arguments: Json) -> Json:
        """What the input of a response would cost."""
        return await plain_answer(self._input_tokens(arguments))

    async def close(self) -> None:
        """Close the connections this loop opened; a client that was given stays as it is."""
        await self._clients.close()

    async def _client(self) -> AsyncOpenAI:
        return self._given or await self._clients.here()

    async def _completion(self, arguments: Json) -> object:
        create = cast("_Call", (await self._client()).chat.completions.create)
        return await create(**arguments)

    async def _response(self, arguments: Json) -> object:
        create = cast("_Call", (await self._client()).responses.create)
        return await create(**arguments)

    async def _input_tokens(self, arguments: Json) -> object:
        count = cast("_Call", (await self._client()).responses.input_tokens.count)
        return await count(**arguments)


_Call = Callable[..., Awaitable[object]]
"""The SDK's calls have a hundred parameters each; the wire has written them by name."""

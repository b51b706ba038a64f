"""Claude models through Anthropic's Messages interface. Only this module imports Anthropic's SDK.

`turnfold.wire` sets the cache breakpoints. In a stream, blocks come one after another, each begun empty and filled by
deltas; tool arguments arrive as pieces of JSON text. Signatures and encrypted thinking must be kept byte for byte,
because the provider checks them when they are sent back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from turnfold import wire
from turnfold._argument_hints import hinted
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.models.base_client import (
    Interface,
    ModelCall,
    Sdk,
    SdkModel,
    checked_options,
)
from turnfold.models.failures import Sleep
from turnfold.models.protocol import Prompt, ToolSchemas
from turnfold.models.streams import MessageStream, normalized_message
from turnfold.wire import (
    JsonObject,
    Request,
    object_at,
    text_at,
)

__all__ = (
    "Anthropic",
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
        """Send a request to Anthropic's Messages API and return the response."""
        return await self._send(lambda client: client.messages.create, arguments)

    async def message_stream(
        self, arguments: JsonObject, on_event: Callable[[JsonObject], None]
    ) -> None:
        """Send a Messages request, and pass each event of the streamed response to `on_event`."""
        await self._stream(lambda client: client.messages.create, arguments, on_event)

    async def count(self, arguments: JsonObject) -> JsonObject:
        """Send a request to Anthropic's API for counting the tokens of a prompt, and return the response."""
        return await self._send(lambda client: client.messages.count_tokens, arguments)


_OWNED = frozenset({"max_tokens", "messages", "model", "stream", "system", "tools"})
"""Arguments of the SDK's call that the client sets itself, so that they are refused in `options`."""
_COUNTED = frozenset(
    "extra_body extra_headers messages model system thinking tool_choice tools".split()
)
"""Arguments of a model call that the API call for counting tokens accepts as well."""


class Anthropic(SdkModel):
    """Client for one Claude model, at Anthropic or at `base_url`."""

    @hinted("Anthropic")
    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncAnthropic | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        max_output: int = 8192,
        options: Mapping[str, object] | None = None,
        cache: bool = True,
        context_edits: Sequence[str | Mapping[str, object]] = (),
        sleep: Sleep | None = None,
    ) -> None:
        """Configure the client; without `api_key`, the SDK finds the key itself.

        `client` is used in place of a new SDK client.

        `timeout` is how many seconds the provider may send nothing. `max_output` is required by the interface; an
        answer that reaches it stops with `max_tokens`. `options` are further arguments of the SDK's call (thinking,
        tool_choice, ...). `cache=False` sets no cache breakpoints. `context_edits` asks the provider to clear old tool
        results or thinking from long prompts before the model reads them: `("clear_tool_uses", "clear_thinking")`, or
        objects of its interface with a trigger and what to keep. They stay in the log, and what was cleared is stored
        with the answer. `sleep` is called to wait before a retry.
        """
        if max_output < 1:
            raise InvalidOption(f"max_output={max_output} must be at least 1 token")
        self._sdk = AnthropicSdk(base_url=base_url, api_key=api_key, client=client, timeout=timeout)
        interface = Interface(
            send=self._sdk.message,
            send_stream=self._sdk.message_stream,
            new_stream=MessageStream,
            normalize=normalized_message,
            accept=wire.anthropic.accept,
            stop=lambda response: text_at(response, "stop_reason"),
        )
        extra_options = {**checked_options(options, _OWNED), "max_tokens": max_output}
        super().__init__(
            ModelCall(model, retries=retries, sleep=sleep), self._sdk, interface, extra_options
        )
        self._cache = cache
        self._edits = wire.context_edits(context_edits)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """Return the number of tokens as Anthropic counts them; None if the server cannot count tokens."""
        return await self._count_tokens(prompt, tools, _COUNTED, self._count)

    async def _count(self, arguments: JsonObject) -> JsonObject:
        """Count the tokens of a prompt; with context edits, as it is before the provider clears anything."""
        counted = await self._sdk.count(arguments)
        before = object_at(counted, "context_management").get("original_input_tokens")
        return {**counted, "input_tokens": before} if self._edits and before else counted

    def _arguments(self, prompt: Prompt, tools: ToolSchemas) -> tuple[Request, JsonObject]:
        request, arguments = super()._arguments(prompt, tools)
        if not self._refused or "thinking" not in arguments:
            return request, arguments
        # With thinking switched on, Anthropic refuses a tool loop whose thinking blocks were left out.
        payload, changes = wire.repair(arguments, wire.anthropic.PROVIDER)
        fixed = replace(request, changes=(*request.changes, *changes))
        return fixed, cast("JsonObject", payload)

    def _request(self, prompt: Prompt, tools: ToolSchemas) -> Request:
        return wire.anthropic.request(
            prompt,
            model=self.name,
            tools=tools,
            cache=self._cache,
            max_bytes=0,
            refused=self._refused,
            edits=self._edits,
        )

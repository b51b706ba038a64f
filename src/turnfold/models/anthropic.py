"""Claude behind Anthropic's Messages interface.

The wire marks where the prompt is worth caching; thoughts come back with their signatures, byte for byte, whether the
answer came whole or in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from turnfold.errors import InvalidOption
from turnfold.models.anthropic_stream import MessageStream, settled_message
from turnfold.models.calling import Calling, Interface, SdkModel, checked_options
from turnfold.models.plain_json import word_at
from turnfold.models.protocol import Prompt, ToolSchemas
from turnfold.models.retrying import Sleep
from turnfold.wire import Request
from turnfold.wire import anthropic as wire

if TYPE_CHECKING:
    from turnfold.models.anthropic_sdk import AsyncAnthropic

__all__ = ("Anthropic",)

_OWNED = frozenset({"max_tokens", "messages", "model", "stream", "system", "tools"})
_COUNTED = frozenset("messages model system thinking tool_choice tools".split())
"""Arguments that the counting call knows too."""


class Anthropic(SdkModel):
    """A Claude model by name, at Anthropic or at `base_url`."""

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
        sleep: Sleep | None = None,
    ) -> None:
        """Without `api_key` the SDK looks where it always looks; `client` is used instead of one of our own.

        `timeout` is how many seconds the provider may be silent. `max_output` is required by the interface; an answer
        that reaches it stops with `max_tokens`. `options` are further arguments of the SDK's call (thinking,
        tool_choice, ...). `cache=False` sets no cache breakpoints. `sleep` is how a retry waits.
        """
        from turnfold.models.anthropic_sdk import AnthropicSdk

        if max_output < 1:
            raise InvalidOption(f"max_output={max_output} must be at least 1")
        self._sdk = AnthropicSdk(base_url=base_url, api_key=api_key, client=client, timeout=timeout)
        interface = Interface(
            send=self._sdk.message,
            send_stream=self._sdk.message_stream,
            assembler=MessageStream,
            settle=settled_message,
            accept=wire.accept,
            stop=lambda response: word_at(response, "stop_reason"),
        )
        further = {**checked_options(options, _OWNED), "max_tokens": max_output}
        super().__init__(
            Calling(model, retries=retries, sleep=sleep), self._sdk, interface, further
        )
        self._cache = cache

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """What Anthropic counts; None where the server has no call for it."""
        _, arguments = self._written(prompt, tools)
        return await self._counted(arguments, _COUNTED, self._sdk.count)

    def _request(self, prompt: Prompt, tools: ToolSchemas) -> Request:
        return wire.request(prompt, model=self.name, tools=tools, cache=self._cache, max_bytes=0)

"""Claude behind Anthropic's Messages interface.

The wire marks where the prompt is worth caching; thoughts come back with their signatures, byte for byte, whether the
answer came whole or in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from turnfold.errors import InvalidOption
from turnfold.models.anthropic_stream import MessageStream, settled_message
from turnfold.models.calling import Calling, SdkModel, answer_of, checked_options, counted
from turnfold.models.plain_json import Json, word_at
from turnfold.models.protocol import Answer, Prompt, ToolSchemas
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
        super().__init__(Calling(model, retries=retries, sleep=sleep), self._sdk)
        self._options = {**checked_options(options, _OWNED), "max_tokens": max_output}
        self._cache = cache

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        """The answer to a context."""
        request, arguments = self._written(prompt, tools)

        async def send() -> Json:
            return settled_message(await self._sdk.message(arguments))

        return _answer(await self._calling.whole(send), request)

    async def stream(
        self, prompt: Prompt, *, tools: ToolSchemas = (), on_text: Callable[[str], None]
    ) -> Answer:
        """The same, with every piece of text given to `on_text` as it comes."""
        request, arguments = self._written(prompt, tools)
        response = await self._calling.streamed(
            lambda on_event: self._sdk.message_stream(arguments, on_event),
            MessageStream,
            settle=settled_message,
            on_text=on_text,
        )
        return _answer(response, request)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """What Anthropic counts; None where the server has no call for it."""
        _, arguments = self._written(prompt, tools)
        asked = {key: value for key, value in arguments.items() if key in _COUNTED}
        return await counted(self._calling, lambda: self._sdk.count(asked))

    def _written(self, prompt: Prompt, tools: ToolSchemas) -> tuple[Request, Json]:
        request = wire.request(prompt, model=self.name, tools=tools, cache=self._cache)
        return request, {**request.kwargs, **self._options}


def _answer(response: Json, request: Request) -> Answer:
    return answer_of(response, request, wire.accept, stop=word_at(response, "stop_reason"))

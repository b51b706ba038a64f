"""Models behind OpenAI's Responses interface, used without state on the server: each call sends its whole context.

Reasoning goes back to the model that wrote it, which is what makes this interface worth having beside Chat. With
`options={"store": False, "include": ["reasoning.encrypted_content"]}` OpenAI keeps nothing and the reasoning travels
encrypted; models that do not reason refuse that `include`, so it is not the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from turnfold.models.calling import Calling, SdkModel, answer_of, checked_options, counted
from turnfold.models.plain_json import Json, object_at, word_at
from turnfold.models.protocol import Answer, Prompt, ToolSchemas
from turnfold.models.responses_stream import ResponsesStream, settled_response
from turnfold.models.retrying import Sleep
from turnfold.wire import Request
from turnfold.wire import openai_responses as wire

if TYPE_CHECKING:
    from turnfold.models.openai_sdk import AsyncOpenAI

__all__ = ("OpenAIResponses",)

_OWNED = frozenset("background conversation input model previous_response_id stream tools".split())
_COUNTED = frozenset(
    "input instructions model parallel_tool_calls reasoning text tool_choice tools".split()
)
"""Arguments that the counting call knows too."""


class OpenAIResponses(SdkModel):
    """A model by name, at OpenAI or at `base_url`."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: AsyncOpenAI | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        max_output: int | None = None,
        options: Mapping[str, object] | None = None,
        sleep: Sleep | None = None,
    ) -> None:
        """Without `api_key` the SDK looks where it always looks; `client` is used instead of one of our own.

        `timeout` is how many seconds the provider may be silent. `options` are further arguments of the SDK's call
        (store, include, reasoning, ...). `sleep` is how a retry waits.
        """
        from turnfold.models.openai_sdk import OpenAISdk

        self._sdk = OpenAISdk(base_url=base_url, api_key=api_key, client=client, timeout=timeout)
        super().__init__(Calling(model, retries=retries, sleep=sleep), self._sdk)
        self._options = checked_options(options, _OWNED)
        if max_output is not None:
            self._options.setdefault("max_output_tokens", max_output)

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        """The answer to a context."""
        request, arguments = self._written(prompt, tools)

        async def send() -> Json:
            return settled_response(await self._sdk.respond(arguments))

        return _answer(await self._calling.whole(send), request)

    async def stream(
        self, prompt: Prompt, *, tools: ToolSchemas = (), on_text: Callable[[str], None]
    ) -> Answer:
        """The same, with every piece of text given to `on_text` as it comes."""
        request, arguments = self._written(prompt, tools)
        response = await self._calling.streamed(
            lambda on_event: self._sdk.respond_stream(arguments, on_event),
            ResponsesStream,
            settle=settled_response,
            on_text=on_text,
        )
        return _answer(response, request)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """What OpenAI counts; None where the server has no call for it."""
        _, arguments = self._written(prompt, tools)
        asked = {key: value for key, value in arguments.items() if key in _COUNTED}
        return await counted(self._calling, lambda: self._sdk.count(asked))

    def _written(self, prompt: Prompt, tools: ToolSchemas) -> tuple[Request, Json]:
        request = wire.request(prompt, model=self.name, tools=tools)
        return request, {**request.kwargs, **self._options}


def _answer(response: Json, request: Request) -> Answer:
    reason = word_at(object_at(response, "incomplete_details"), "reason")
    return answer_of(response, request, wire.accept, stop=reason or word_at(response, "status"))

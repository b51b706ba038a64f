"""Models behind OpenAI's Responses interface, used without state on the server: each call sends its whole context.

Reasoning goes back to the model that wrote it, which is what makes this interface worth having beside Chat. With
`options={"store": False, "include": ["reasoning.encrypted_content"]}` OpenAI keeps nothing and the reasoning travels
encrypted; models that do not reason refuse that `include`, so it is not the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from turnfold.models.calling import Calling, Interface, SdkModel, checked_options
from turnfold.models.plain_json import Json, object_at, word_at
from turnfold.models.protocol import Prompt, ToolSchemas
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
        interface = Interface(
            send=self._sdk.respond,
            send_stream=self._sdk.respond_stream,
            assembler=ResponsesStream,
            settle=settled_response,
            accept=wire.accept,
            stop=_stop,
        )
        further = checked_options(options, _OWNED)
        if max_output is not None:
            further.setdefault("max_output_tokens", max_output)
        super().__init__(
            Calling(model, retries=retries, sleep=sleep), self._sdk, interface, further
        )

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """What OpenAI counts; None where the server has no call for it."""
        _, arguments = self._written(prompt, tools)
        return await self._counted(arguments, _COUNTED, self._sdk.count)

    def _request(self, prompt: Prompt, tools: ToolSchemas) -> Request:
        return wire.request(prompt, model=self.name, tools=tools, max_bytes=0)


def _stop(response: Json) -> str:
    reason = word_at(object_at(response, "incomplete_details"), "reason")
    return reason or word_at(response, "status")

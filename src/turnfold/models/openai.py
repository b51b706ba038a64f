"""Models through OpenAI's Chat Completions and Responses interfaces, at OpenAI or any compatible server.

The clients are thin: `turnfold.wire` writes the request and reads the answer, the SDK sends it, one policy decides
about retries. An answer is the same message with and without streaming.

A chunk of a Chat stream holds fragments of the message under the keys of the message. Most are text to append; names
(an id, a role, a type) come once or are repeated, depending on the server. Unknown keys are treated the same way, so
the reasoning of DeepSeek or the signatures of Gemini are the same as without streaming.

The last event of a Responses stream holds the whole answer. The client delivers the text as it comes, detects an answer
that failed half way, and assembles the items for servers that leave them out of the last event. The server keeps no
state: each call sends its whole context, and reasoning is sent back to the model that wrote it. With
`options={"store": False, "include": ["reasoning.encrypted_content"]}` OpenAI stores nothing and the reasoning is
encrypted; models that do not reason refuse that `include`, so it is not the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from turnfold import wire
from turnfold._argument_hints import hinted
from turnfold.errors import MissingExtra
from turnfold.models.base_client import (
    Interface,
    ModelCall,
    Sdk,
    SdkModel,
    checked_options,
)
from turnfold.models.failures import Sleep
from turnfold.models.protocol import Prompt, ToolSchemas
from turnfold.models.streams import ChatStream, ResponsesStream, checked_response, normalized_chat
from turnfold.wire import JsonObject, Request, object_at, objects_of, text_at

__all__ = (
    "AsyncOpenAI",
    "OpenAIChat",
    "OpenAIResponses",
    "OpenAISdk",
)


try:
    from openai import AsyncOpenAI
except ImportError as missing:
    raise MissingExtra(
        package="openai",
        extra="openai",
        purpose="a client for OpenAI (OpenAIChat, OpenAIResponses)",
    ) from missing


_OPENAI = "https://api.openai.com/v1"
_OWN_HOSTS = (".openai.com", ".openai.azure.com")
_NO_KEY = "none"
"""Key sent to a self-hosted server if none is set: the SDK requires a key, such servers ignore it."""


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
        """True if OpenAI itself serves the models, False for a compatible server."""
        super().__init__(
            lambda: AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0),
            client and client.with_options(max_retries=0, timeout=timeout),
        )

    async def chat(self, arguments: JsonObject) -> JsonObject:
        """Send a Chat Completions request and return the response."""
        return await self._send(lambda client: client.chat.completions.create, arguments)

    async def chat_stream(
        self, arguments: JsonObject, on_event: Callable[[JsonObject], None]
    ) -> None:
        """Send a Chat Completions request, and pass each chunk of the streamed response to `on_event`."""
        await self._stream(lambda client: client.chat.completions.create, arguments, on_event)

    async def respond(self, arguments: JsonObject) -> JsonObject:
        """Send a Responses request and return the response."""
        return await self._send(lambda client: client.responses.create, arguments)

    async def respond_stream(
        self, arguments: JsonObject, on_event: Callable[[JsonObject], None]
    ) -> None:
        """Send a Responses request, and pass each event of the streamed response to `on_event`."""
        await self._stream(lambda client: client.responses.create, arguments, on_event)

    async def count(self, arguments: JsonObject) -> JsonObject:
        """Count the input tokens of a Responses request, by a call of the server."""
        return await self._send(lambda client: client.responses.input_tokens.count, arguments)


_CHAT_OWNED = frozenset({"messages", "model", "n", "stream", "stream_options", "tools"})
"""Arguments of a Chat Completions call that the client sets itself, so that they are refused in `options`."""


class OpenAIChat(SdkModel):
    """Client for one model, through the Chat Completions interface of OpenAI or of a server at `base_url`."""

    @hinted("OpenAIChat")
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
        stream_usage: bool = True,
        sleep: Sleep | None = None,
    ) -> None:
        """Configure the client; without `api_key`, the SDK finds the key itself.

        `client` is used in place of a new SDK client.

        `timeout` is how many seconds the provider may send nothing. `options` are further arguments of the SDK's call
        (temperature, reasoning_effort, ...). `stream_usage=False` is for servers that refuse `stream_options`.
        `sleep` is called to wait before a retry.
        """
        sdk = OpenAISdk(base_url=base_url, api_key=api_key, client=client, timeout=timeout)
        interface = Interface(
            send=sdk.chat,
            send_stream=sdk.chat_stream,
            new_stream=ChatStream,
            normalize=normalized_chat,
            accept=wire.openai_chat.accept,
            stop=lambda response: text_at(objects_of(response.get("choices"))[0], "finish_reason"),
            streaming={"stream_options": {"include_usage": True}} if stream_usage else {},
        )
        extra_options = checked_options(options, _CHAT_OWNED)
        if max_output is not None:
            # OpenAI's newer models refuse `max_tokens`; compatible servers often know no other name.
            name = "max_completion_tokens" if sdk.at_openai else "max_tokens"
            extra_options.setdefault(name, max_output)
        super().__init__(
            ModelCall(model, retries=retries, sleep=sleep), sdk, interface, extra_options
        )

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:  # noqa: ARG002 (no such call)
        """Return None: the Chat Completions API has no call for counting tokens."""
        return None

    def _request(self, prompt: Prompt, tools: ToolSchemas) -> Request:
        return wire.openai_chat.request(
            prompt, model=self.name, tools=tools, max_bytes=0, refused=self._refused
        )


_RESPONSES_OWNED = frozenset(
    "background conversation input model previous_response_id stream tools".split()
)
"""Arguments of a Responses call that the client sets itself, so that they are refused in `options`."""
_COUNTED = frozenset(
    "input instructions model parallel_tool_calls reasoning text tool_choice tools".split()
)
"""Arguments of a model call that the API call for counting tokens accepts as well."""


class OpenAIResponses(SdkModel):
    """Client for one model, through the Responses interface of OpenAI or of a server at `base_url`."""

    @hinted("OpenAIResponses")
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
        """Configure the client; without `api_key`, the SDK finds the key itself.

        `client` is used in place of a new SDK client.

        `timeout` is how many seconds the provider may send nothing. `options` are further arguments of the SDK's call
        (store, include, reasoning, ...). `sleep` is called to wait before a retry.
        """
        self._sdk = OpenAISdk(base_url=base_url, api_key=api_key, client=client, timeout=timeout)
        interface = Interface(
            send=self._sdk.respond,
            send_stream=self._sdk.respond_stream,
            new_stream=ResponsesStream,
            normalize=checked_response,
            accept=wire.openai_responses.accept,
            stop=_stop,
        )
        extra_options = checked_options(options, _RESPONSES_OWNED)
        if max_output is not None:
            extra_options.setdefault("max_output_tokens", max_output)
        super().__init__(
            ModelCall(model, retries=retries, sleep=sleep), self._sdk, interface, extra_options
        )

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """Return the number of tokens as OpenAI counts them; None if the server cannot count tokens."""
        return await self._count_tokens(prompt, tools, _COUNTED, self._sdk.count)

    def _request(self, prompt: Prompt, tools: ToolSchemas) -> Request:
        return wire.openai_responses.request(
            prompt, model=self.name, tools=tools, max_bytes=0, refused=self._refused
        )


def _stop(response: JsonObject) -> str:
    reason = text_at(object_at(response, "incomplete_details"), "reason")
    return reason or text_at(response, "status")

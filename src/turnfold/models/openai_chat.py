"""Models behind OpenAI's Chat Completions: OpenAI's own, and every server that speaks the same.

Thin on purpose: the wire writes the request and reads the answer, the SDK sends it, the policy of all clients decides
about retries. A streamed answer is the same message as one that came whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from turnfold.models.calling import Calling, Interface, SdkModel, checked_options
from turnfold.models.chat_stream import ChatStream, settled_chat
from turnfold.models.plain_json import items_at, word_at
from turnfold.models.protocol import Prompt, ToolSchemas
from turnfold.models.retrying import Sleep
from turnfold.wire import Request
from turnfold.wire import openai_chat as wire

if TYPE_CHECKING:
    from turnfold.models.openai_sdk import AsyncOpenAI

__all__ = ("OpenAIChat",)

_OWNED = frozenset({"messages", "model", "n", "stream", "stream_options", "tools"})


class OpenAIChat(SdkModel):
    """A chat model by name, at OpenAI or at `base_url`."""

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
        """Without `api_key` the SDK looks where it always looks; `client` is used instead of one of our own.

        `timeout` is how many seconds the provider may be silent. `options` are further arguments of the SDK's call
        (temperature, reasoning_effort, ...). `stream_usage=False` is for servers that refuse `stream_options`.
        `sleep` is how a retry waits.
        """
        from turnfold.models.openai_sdk import OpenAISdk

        sdk = OpenAISdk(base_url=base_url, api_key=api_key, client=client, timeout=timeout)
        interface = Interface(
            send=sdk.chat,
            send_stream=sdk.chat_stream,
            assembler=ChatStream,
            settle=settled_chat,
            accept=wire.accept,
            stop=lambda response: word_at(items_at(response, "choices")[0], "finish_reason"),
            streaming={"stream_options": {"include_usage": True}} if stream_usage else {},
        )
        further = checked_options(options, _OWNED)
        if max_output is not None:
            # OpenAI's newer models refuse the old name; servers that speak its interface often know only that.
            name = "max_completion_tokens" if sdk.at_openai else "max_tokens"
            further.setdefault(name, max_output)
        super().__init__(Calling(model, retries=retries, sleep=sleep), sdk, interface, further)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:  # noqa: ARG002 (no such call)
        """None: this interface has no call for it."""
        return None

    def _request(self, prompt: Prompt, tools: ToolSchemas) -> Request:
        return wire.request(prompt, model=self.name, tools=tools, max_bytes=0)

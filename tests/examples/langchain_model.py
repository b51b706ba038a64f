"""A LangChain chat model over OpenAI's SDK: what langchain-openai does, which the tests do not install."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai import OpenAI


class OpenAIModel(BaseChatModel):
    """Asks the server at `url`."""

    url: str

    @property
    def _llm_type(self) -> str:
        return "openai"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager
        with OpenAI(base_url=self.url, api_key="k", max_retries=0) as client:
            written: Any = convert_to_openai_messages(messages)
            for one in written:
                one["content"] = one["content"] or None  # as langchain-openai does
            done: Any = client.chat.completions.create(
                model="gpt-4o", messages=written, tools=kwargs.get("tools", [])
            )
        said = done.choices[0].message
        calls: list[Any] = [
            {
                "id": call.id,
                "name": call.function.name,
                "args": json.loads(call.function.arguments),
                "type": "tool_call",
            }
            for call in said.tool_calls or ()
        ]
        answer = AIMessage(said.content or "", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])

"""A LlamaIndex model that answers by script and keeps what it was sent; for agents and for chat engines."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from llama_index.core.llms import ChatMessage

_types: Any = import_module("llama_index.core.base.llms.types")
_llm: Any = import_module("llama_index.core.llms.function_calling")
_pydantic: Any = import_module("llama_index.core.bridge.pydantic")
ToolSelection: Any = import_module("llama_index.core.llms.llm").ToolSelection


def said(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def called(name: str, number: int, **arguments: Any) -> ChatMessage:
    block = _types.ToolCallBlock(
        tool_call_id=f"call_{number}", tool_name=name, tool_kwargs=arguments
    )
    return ChatMessage(role="assistant", blocks=[_types.TextBlock(text="I look."), block])


class ScriptedLLM(_llm.FunctionCallingLLM):
    """Answers with the messages of a script, one after the other."""

    script: list[Any] = _pydantic.Field(default_factory=list)
    prompts: list[Any] = _pydantic.Field(default_factory=list)
    name: str = "unknown"

    @property
    def metadata(self) -> Any:
        return _types.LLMMetadata(
            is_chat_model=True, is_function_calling_model=True, model_name=self.name
        )

    def _answer(self, messages: Sequence[ChatMessage]) -> Any:
        self.prompts.append(list(messages))
        return _types.ChatResponse(message=self.script[len(self.prompts) - 1])

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return self._answer(messages)

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        return self._answer(messages)

    async def achat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> Any:
        del tools, user_msg
        return self._answer(chat_history)

    async def astream_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> Any:
        del tools, user_msg

        async def pieces() -> Any:
            yield self._answer(chat_history)

        return pieces()

    def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[Any]:
        blocks = [one for one in response.message.blocks if one.block_type == "tool_call"]
        return [
            ToolSelection(
                tool_id=one.tool_call_id, tool_name=one.tool_name, tool_kwargs=one.tool_kwargs
            )
            for one in blocks
        ]

    def _prepare_chat_with_tools(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def stream_chat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def astream_chat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def acomplete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

"""The tool `recall_context` for LlamaIndex's agents: the model asks for what was folded, word for word."""

from __future__ import annotations

from llama_index.core.tools import FunctionTool

from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.memory.chosen_session import chosen_session
from turnfold.memory.off_loop import OffLoop
from turnfold.memory.recall_tool import RECALL_CONTEXT, RecallTool

__all__ = ("recall_tool",)


def recall_tool(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    conversation: str = "",
    *,
    max_tokens: int = 2000,
) -> FunctionTool:
    """The tool over a session, for `FunctionAgent(tools=[recall_tool(session)])`: at most `max_tokens` an answer."""
    off_loop = OffLoop(memory)
    tool = RecallTool(chosen_session(memory, conversation), max_tokens=max_tokens)

    async def recall_context(
        query: str | None = None,
        turn_numbers: list[int] | None = None,
        first_seq: int | None = None,
        last_seq: int | None = None,
    ) -> str:
        asked = {
            "query": query,
            "turn_numbers": turn_numbers,
            "first_seq": first_seq,
            "last_seq": last_seq,
        }
        return await off_loop(tool.call(asked))

    return FunctionTool.from_defaults(
        async_fn=recall_context, name=RECALL_CONTEXT, description=tool.description
    )

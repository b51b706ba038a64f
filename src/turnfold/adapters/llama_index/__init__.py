"""Adapter for LlamaIndex: memory for its agents and chat engines in one line.

await agent.run("...", memory=turnfold_memory(memory.session("s1")))
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import llama_index.core as _llama_index
except ImportError as missing:
    raise MissingExtra(
        package="llama-index-core", extra="llama-index", purpose="the LlamaIndex adapter"
    ) from missing

from turnfold.adapters.llama_index.agent import TurnfoldFunctionAgent, TurnfoldReActAgent
from turnfold.adapters.llama_index.memory import TurnfoldMemory, recall_tool, turnfold_memory
from turnfold.adapters.llama_index.messages import chat_messages, record_of

__all__ = (
    "TurnfoldFunctionAgent",
    "TurnfoldMemory",
    "TurnfoldReActAgent",
    "chat_messages",
    "recall_tool",
    "record_of",
    "turnfold_memory",
)

del _llama_index

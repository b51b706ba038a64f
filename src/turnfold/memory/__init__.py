"""WHAT YOU HOLD: the documented memories. Each is thin; the decisions live in the pure layers below."""

from __future__ import annotations

from turnfold.memory.message_memory import MessageMemory, MessageMemoryConfig, TruncateStrategy
from turnfold.memory.summary_token_memory import CompletionModel, SummaryTokenMemory
from turnfold.memory.token_memory import TokenMemory

__all__ = (
    "CompletionModel",
    "MessageMemory",
    "MessageMemoryConfig",
    "SummaryTokenMemory",
    "TokenMemory",
    "TruncateStrategy",
)

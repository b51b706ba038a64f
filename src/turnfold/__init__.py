"""turnfold: the context memory of LLM agents.

Everything said, called and seen is kept; for every model call turnfold assembles the best context that fits the token
budget: counted exactly, valid for the provider, stable for its prompt cache. Nothing is imported until it is used, so
`import turnfold` costs a millisecond and `from turnfold import Message` does not load a tokenizer.
"""

from __future__ import annotations

from turnfold.late_names import late_names

TYPE_CHECKING = (
    False  # checkers know the name; importing it from typing would cost more than all the rest
)
if TYPE_CHECKING:
    from turnfold.budget import Budget, Shares, WaterMarks
    from turnfold.client import AsyncRemoteMemory, RemoteMemory
    from turnfold.errors import (
        BudgetTooSmall,
        InvalidBudget,
        InvalidOption,
        InvalidRecord,
        MissingExtra,
        SummaryFailed,
        TurnfoldError,
        UnknownModel,
    )
    from turnfold.memory import (
        MEMORY_MODE_FULL_HISTORY,
        MEMORY_MODE_SUMMARY_N,
        AgentMemory,
        AgentMemoryConfig,
        AsyncMemory,
        AsyncMemoryModule,
        AsyncSession,
        AsyncShortMemory,
        ContentChunk,
        ContextMemoryStore,
        ContextSnapshot,
        FindingRule,
        FlowContext,
        GlobalState,
        Memory,
        MemoryContext,
        MemoryMode,
        MemoryModule,
        MemorySummary,
        MemoryWriteResult,
        MessageContext,
        MessageMemory,
        MessageMemoryConfig,
        MetaInfo,
        ModelWriter,
        PendingAction,
        Session,
        SessionValue,
        SharedEntities,
        ShortMemory,
        Snapshot,
        SummaryTokenMemory,
        TokenMemory,
        TruncateStrategy,
        UserProfile,
    )
    from turnfold.memory.simulating import Simulation, simulate
    from turnfold.models import Anthropic, LocalEmbedder, OpenAIChat, OpenAIResponses
    from turnfold.records import (
        Finding,
        Message,
        as_message,
        as_messages,
        assistant,
        system,
        tool,
        user,
    )
    from turnfold.stores import Scope, Within, open_store
    from turnfold.tokens import TokenCounter, counter_for, register_model, shutdown_token_executor
    from turnfold.window import Context, Receipt, Transcript, assemble, check

__all__ = (
    "MEMORY_MODE_FULL_HISTORY",
    "MEMORY_MODE_SUMMARY_N",
    "AgentMemory",
    "AgentMemoryConfig",
    "Anthropic",
    "AsyncMemory",
    "AsyncMemoryModule",
    "AsyncRemoteMemory",
    "AsyncSession",
    "AsyncShortMemory",
    "Budget",
    "BudgetTooSmall",
    "ContentChunk",
    "Context",
    "ContextMemoryStore",
    "ContextSnapshot",
    "Finding",
    "FindingRule",
    "FlowContext",
    "GlobalState",
    "InvalidBudget",
    "InvalidOption",
    "InvalidRecord",
    "LocalEmbedder",
    "Memory",
    "MemoryContext",
    "MemoryMode",
    "MemoryModule",
    "MemorySummary",
    "MemoryWriteResult",
    "Message",
    "MessageContext",
    "MessageMemory",
    "MessageMemoryConfig",
    "MetaInfo",
    "MissingExtra",
    "ModelWriter",
    "OpenAIChat",
    "OpenAIResponses",
    "PendingAction",
    "Receipt",
    "RemoteMemory",
    "Scope",
    "Session",
    "SessionValue",
    "SharedEntities",
    "Shares",
    "ShortMemory",
    "Simulation",
    "Snapshot",
    "SummaryFailed",
    "SummaryTokenMemory",
    "TokenCounter",
    "TokenMemory",
    "Transcript",
    "TruncateStrategy",
    "TurnfoldError",
    "UnknownModel",
    "UserProfile",
    "WaterMarks",
    "Within",
    "as_message",
    "as_messages",
    "assemble",
    "assistant",
    "check",
    "counter_for",
    "open_store",
    "register_model",
    "shutdown_token_executor",
    "simulate",
    "system",
    "tool",
    "user",
)

__version__ = "0.1.0"

_HOMES = {
    "turnfold.budget": "Budget Shares WaterMarks",
    "turnfold.client": "AsyncRemoteMemory RemoteMemory",
    "turnfold.errors": "BudgetTooSmall InvalidBudget InvalidOption InvalidRecord MissingExtra SummaryFailed "
    "TurnfoldError UnknownModel",
    "turnfold.memory": "MEMORY_MODE_FULL_HISTORY MEMORY_MODE_SUMMARY_N AgentMemory AgentMemoryConfig AsyncMemory "
    "AsyncMemoryModule AsyncSession AsyncShortMemory ContentChunk ContextMemoryStore ContextSnapshot "
    "FindingRule FlowContext GlobalState Memory MemoryContext MemoryMode MemoryModule MemorySummary "
    "MemoryWriteResult MessageContext MessageMemory MessageMemoryConfig MetaInfo ModelWriter PendingAction "
    "Session SessionValue SharedEntities ShortMemory Snapshot SummaryTokenMemory TokenMemory "
    "TruncateStrategy UserProfile",
    "turnfold.memory.simulating": "Simulation simulate",
    "turnfold.models": "Anthropic LocalEmbedder OpenAIChat OpenAIResponses",
    "turnfold.records": "Finding Message as_message as_messages assistant system tool user",
    "turnfold.stores": "Scope Within open_store",
    "turnfold.tokens": "TokenCounter counter_for register_model shutdown_token_executor",
    "turnfold.window": "Context Receipt Transcript assemble check",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

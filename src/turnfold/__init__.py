"""turnfold: the context memory of LLM agents.

Everything said, called and seen is kept; for every model call turnfold assembles the best context that fits the token
budget: counted exactly, valid for the provider, stable for its prompt cache. Nothing is imported until it is used, so
`import turnfold` costs a millisecond and `from turnfold import Message` does not load a tokenizer.
"""

from __future__ import annotations

from turnfold._late_names import late_names

TYPE_CHECKING = (
    False  # checkers know the name; importing it from typing would cost more than all the rest
)
if TYPE_CHECKING:
    from turnfold.agent import Agent, AsyncAgent
    from turnfold.budget import Budget
    from turnfold.client import AsyncRemoteMemory, RemoteMemory
    from turnfold.errors import (
        BudgetTooSmall,
        Conflict,
        ConversationDeleted,
        InvalidOption,
        InvalidRecord,
        MissingExtra,
        ModelFailed,
        NotFound,
        StoreUnavailable,
        SummaryFailed,
        TurnfoldError,
        UnknownModel,
    )
    from turnfold.findings import FindingRule
    from turnfold.inspect import simulate
    from turnfold.memories import (
        AgentMemory,
        ContentChunk,
        MemoryModule,
        MessageMemory,
        MessageMemoryConfig,
        ShortMemory,
        SummaryTokenMemory,
        TokenMemory,
        TruncateStrategy,
    )
    from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
    from turnfold.models import Anthropic, LocalEmbedder, OpenAIChat, OpenAIResponses
    from turnfold.records import (
        Checkpoint,
        Entry,
        Finding,
        Message,
        Snapshot,
        assistant,
        system,
        tool,
        user,
    )
    from turnfold.stores import Scope, open_store
    from turnfold.tokens import counter_for, shutdown_token_executor
    from turnfold.window import Context, Receipt

__all__ = (
    "Agent",
    "AgentMemory",
    "Anthropic",
    "AsyncAgent",
    "AsyncMemory",
    "AsyncRemoteMemory",
    "AsyncSession",
    "Budget",
    "BudgetTooSmall",
    "Checkpoint",
    "Conflict",
    "ContentChunk",
    "Context",
    "ConversationDeleted",
    "Entry",
    "Finding",
    "FindingRule",
    "InvalidOption",
    "InvalidRecord",
    "LocalEmbedder",
    "Memory",
    "MemoryModule",
    "Message",
    "MessageMemory",
    "MessageMemoryConfig",
    "MissingExtra",
    "ModelFailed",
    "NotFound",
    "OpenAIChat",
    "OpenAIResponses",
    "Receipt",
    "RemoteMemory",
    "Scope",
    "Session",
    "ShortMemory",
    "Snapshot",
    "StoreUnavailable",
    "SummaryFailed",
    "SummaryTokenMemory",
    "TokenMemory",
    "TruncateStrategy",
    "TurnfoldError",
    "UnknownModel",
    "assistant",
    "counter_for",
    "open_store",
    "shutdown_token_executor",
    "simulate",
    "system",
    "tool",
    "user",
)

__version__ = "0.1.0"

_HOMES = {
    "turnfold.agent": "Agent AsyncAgent",
    "turnfold.budget": "Budget",
    "turnfold.client": "AsyncRemoteMemory RemoteMemory",
    "turnfold.errors": "BudgetTooSmall Conflict ConversationDeleted InvalidOption InvalidRecord MissingExtra "
    "ModelFailed NotFound StoreUnavailable SummaryFailed TurnfoldError UnknownModel",
    "turnfold.findings": "FindingRule",
    "turnfold.inspect": "simulate",
    "turnfold.memories": "AgentMemory ContentChunk MemoryModule MessageMemory MessageMemoryConfig ShortMemory "
    "SummaryTokenMemory TokenMemory TruncateStrategy",
    "turnfold.memory": "AsyncMemory AsyncSession Memory Session",
    "turnfold.models": "Anthropic LocalEmbedder OpenAIChat OpenAIResponses",
    "turnfold.records": "Checkpoint Entry Finding Message Snapshot assistant system tool user",
    "turnfold.stores": "Scope open_store",
    "turnfold.tokens": "counter_for shutdown_token_executor",
    "turnfold.window": "Context Receipt",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

"""turnfold: the context memory of LLM agents.

Every message, tool call and tool result is kept in a log. For every model call turnfold assembles the best context that
fits the token budget: counted exactly, valid for the provider, stable for its prompt cache. Packages are imported when
they are first used, so `import turnfold` costs a millisecond and `from turnfold import Message` loads no tokenizer.

This module exports the classes that most programs create and the errors they catch. All other names are reached through
their package, which needs no import of its own: `turnfold.window.Context`, `turnfold.stores.Scope`,
`turnfold.tokens.counter_for`, `turnfold.wire.openai_chat`.

`from turnfold import *` leaves out the clients that need an optional package (`Anthropic`, `OpenAIChat`,
`OpenAIResponses`, `RemoteMemory`, `AsyncRemoteMemory`), so that it works on every installation: import these by name.
"""

from __future__ import annotations

from turnfold._lazy_loading import late_names

# Type checkers take this name for True. Importing `typing` would take longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold import adapters as adapters
    from turnfold import agent as agent
    from turnfold import api as api
    from turnfold import budget as budget
    from turnfold import client as client
    from turnfold import errors as errors
    from turnfold import evaluation as evaluation
    from turnfold import findings as findings
    from turnfold import fold as fold
    from turnfold import importers as importers
    from turnfold import inspect as inspect
    from turnfold import memories as memories
    from turnfold import memory as memory
    from turnfold import models as models
    from turnfold import proxy as proxy
    from turnfold import records as records
    from turnfold import rules as rules
    from turnfold import search as search
    from turnfold import service as service
    from turnfold import stores as stores
    from turnfold import telemetry as telemetry
    from turnfold import testing as testing
    from turnfold import text as text
    from turnfold import tokens as tokens
    from turnfold import window as window
    from turnfold import wire as wire
    from turnfold import workspace_snapshots as workspace_snapshots
    from turnfold.agent import Agent, AsyncAgent
    from turnfold.budget import Budget
    from turnfold.client import AsyncRemoteMemory as AsyncRemoteMemory
    from turnfold.client import RemoteMemory as RemoteMemory
    from turnfold.errors import (
        BudgetTooSmall,
        Conflict,
        ConversationDeleted,
        IdReused,
        InvalidOption,
        InvalidRecord,
        ModelFailed,
        NotFound,
        SessionBusy,
        StepsExhausted,
        StoreUnavailable,
        SummaryFailed,
        TurnfoldError,
    )
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
    from turnfold.models import Anthropic as Anthropic
    from turnfold.models import OpenAIChat as OpenAIChat
    from turnfold.models import OpenAIResponses as OpenAIResponses
    from turnfold.records import (
        Checkpoint,
        Entry,
        Message,
        assistant,
        system,
        tool,
        user,
    )
    from turnfold.tokens import shutdown_token_executor

__all__ = (
    "Agent",
    "AgentMemory",
    "AsyncAgent",
    "AsyncMemory",
    "AsyncSession",
    "Budget",
    "BudgetTooSmall",
    "Checkpoint",
    "Conflict",
    "ContentChunk",
    "ConversationDeleted",
    "Entry",
    "IdReused",
    "InvalidOption",
    "InvalidRecord",
    "Memory",
    "MemoryModule",
    "Message",
    "MessageMemory",
    "MessageMemoryConfig",
    "ModelFailed",
    "NotFound",
    "Session",
    "SessionBusy",
    "ShortMemory",
    "StepsExhausted",
    "StoreUnavailable",
    "SummaryFailed",
    "SummaryTokenMemory",
    "TokenMemory",
    "TruncateStrategy",
    "TurnfoldError",
    "assistant",
    "shutdown_token_executor",
    "system",
    "tool",
    "user",
)

__version__ = "0.1.0"

_HOMES = {
    "turnfold.agent": "Agent AsyncAgent",
    "turnfold.budget": "Budget",
    "turnfold.client": "AsyncRemoteMemory RemoteMemory",
    "turnfold.errors": "BudgetTooSmall Conflict ConversationDeleted IdReused InvalidOption InvalidRecord ModelFailed "
    "NotFound SessionBusy StepsExhausted StoreUnavailable SummaryFailed TurnfoldError",
    "turnfold.memories": "AgentMemory ContentChunk MemoryModule MessageMemory MessageMemoryConfig ShortMemory "
    "SummaryTokenMemory TokenMemory TruncateStrategy",
    "turnfold.memory": "AsyncMemory AsyncSession Memory Session",
    "turnfold.models": "Anthropic OpenAIChat OpenAIResponses",
    "turnfold.records": "Checkpoint Entry Message assistant system tool user",
    "turnfold.tokens": "shutdown_token_executor",
}

_LANGCHAIN = "use turnfold.adapters.langchain"
_ADVICE = {
    **dict.fromkeys(("OpenAI", "AsyncOpenAI", "ChatOpenAI"), "use turnfold.OpenAIChat"),
    **dict.fromkeys(("langchain", "langgraph"), _LANGCHAIN),
}
"""What to use in place of names that other libraries have, by name."""

if not TYPE_CHECKING:  # hidden from type checkers, so that they report a misspelt name
    __getattr__, __dir__ = late_names(__name__, _HOMES, _ADVICE)

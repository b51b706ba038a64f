"""Memory classes of the five design documents, each with the names of its document (`docs/en/documents`).

`MessageMemory` (000), `TokenMemory` and `SummaryTokenMemory` (001), `MemoryModule` (002), `ShortMemory` (003) and
`AgentMemory` (004).
"""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.memories.agent_memory import (
        AgentMemory,
        AgentMemoryConfig,
        ContentChunk,
        check_chunk,
        chunks_of,
        with_chunk,
    )
    from turnfold.memories.memory_module._sync import ContextMemoryStore, MemoryModule
    from turnfold.memories.memory_module.context_store import AsyncContextMemoryStore
    from turnfold.memories.memory_module.module import AsyncMemoryModule
    from turnfold.memories.memory_module.values import (
        ContextSnapshot,
        MemorySummary,
        ThinkingResult,
    )
    from turnfold.memories.message_memory import (
        MessageMemory,
        MessageMemoryConfig,
        TruncateStrategy,
    )
    from turnfold.memories.short_memory._sync import ShortMemory
    from turnfold.memories.short_memory.ai_message_rows import AIMessage, ImportedMessages
    from turnfold.memories.short_memory.changed_fields import as_read
    from turnfold.memories.short_memory.memory import AsyncShortMemory
    from turnfold.memories.short_memory.values import (
        MEMORY_MODE_FULL_HISTORY,
        MEMORY_MODE_SUMMARY_N,
        AgentRequest,
        AsRead,
        FlowContext,
        GlobalState,
        MemoryContext,
        MemoryQueryRequest,
        MemoryWriteRequest,
        MemoryWriteResult,
        MessageContext,
        MetaInfo,
        PendingAction,
        SessionValue,
        SharedEntities,
        UserProfile,
        request_options,
    )
    from turnfold.memories.summary_token_memory import SummaryTokenMemory
    from turnfold.memories.token_memory import TokenMemory

__all__ = (
    "MEMORY_MODE_FULL_HISTORY",
    "MEMORY_MODE_SUMMARY_N",
    "AIMessage",
    "AgentMemory",
    "AgentMemoryConfig",
    "AgentRequest",
    "AsRead",
    "AsyncContextMemoryStore",
    "AsyncMemoryModule",
    "AsyncShortMemory",
    "ContentChunk",
    "ContextMemoryStore",
    "ContextSnapshot",
    "FlowContext",
    "GlobalState",
    "ImportedMessages",
    "MemoryContext",
    "MemoryModule",
    "MemoryQueryRequest",
    "MemorySummary",
    "MemoryWriteRequest",
    "MemoryWriteResult",
    "MessageContext",
    "MessageMemory",
    "MessageMemoryConfig",
    "MetaInfo",
    "PendingAction",
    "SessionValue",
    "SharedEntities",
    "ShortMemory",
    "SummaryTokenMemory",
    "ThinkingResult",
    "TokenMemory",
    "TruncateStrategy",
    "UserProfile",
    "as_read",
    "check_chunk",
    "chunks_of",
    "request_options",
    "with_chunk",
)

_HOMES = {
    "turnfold.memories.agent_memory": "AgentMemory AgentMemoryConfig ContentChunk check_chunk chunks_of with_chunk",
    "turnfold.memories.memory_module._sync": "ContextMemoryStore MemoryModule",
    "turnfold.memories.memory_module.context_store": "AsyncContextMemoryStore",
    "turnfold.memories.memory_module.module": "AsyncMemoryModule",
    "turnfold.memories.memory_module.values": "ContextSnapshot MemorySummary ThinkingResult",
    "turnfold.memories.message_memory": "MessageMemory MessageMemoryConfig TruncateStrategy",
    "turnfold.memories.short_memory._sync": "ShortMemory",
    "turnfold.memories.short_memory.memory": "AsyncShortMemory",
    "turnfold.memories.short_memory.ai_message_rows": "AIMessage ImportedMessages",
    "turnfold.memories.short_memory.changed_fields": "as_read",
    "turnfold.memories.short_memory.values": "AgentRequest AsRead FlowContext GlobalState MEMORY_MODE_FULL_HISTORY "
    "MEMORY_MODE_SUMMARY_N "
    "MemoryContext MemoryQueryRequest MemoryWriteRequest MemoryWriteResult MessageContext MetaInfo PendingAction "
    "SessionValue SharedEntities UserProfile request_options",
    "turnfold.memories.summary_token_memory": "SummaryTokenMemory",
    "turnfold.memories.token_memory": "TokenMemory",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

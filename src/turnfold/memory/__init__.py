"""`Memory` and `Session`: store the log of each conversation, and build contexts from it."""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.memories import SummaryTokenMemory, TokenMemory
    from turnfold.memory._sync import Memory, Session, State
    from turnfold.memory.cached_conversation import ConversationCache
    from turnfold.memory.call_log import (
        LAST_CALL,
        Difference,
        Explanation,
        Manifest,
        budget_of,
        call_key,
        compare,
        numbered_call,
        same_tools,
    )
    from turnfold.memory.config import (
        CompactionMode,
        FoldMode,
        MemoryConfig,
        MemoryMode,
        RecallMode,
    )
    from turnfold.memory.embedding_index import Meanings, MeaningStatus
    from turnfold.memory.erasure import ErasedConversation, ErasureCheck, ErasureReceipt
    from turnfold.memory.folding import FoldCall, Folder, FoldRange
    from turnfold.memory.leases import RunLease
    from turnfold.memory.live_window import omitted_rules
    from turnfold.memory.memory import AsyncMemory, SessionCache, make_config
    from turnfold.memory.pins_and_state import AsyncState
    from turnfold.memory.prompt_tail import pins_text, recalled_text
    from turnfold.memory.recall import Recaller, ScoreParts, SearchResult
    from turnfold.memory.recall_tool import RECALL_CONTEXT, RecallTool, recall_parameters
    from turnfold.memory.session import (
        AsyncSession,
        SessionStatus,
        list_client_ids,
        own_head,
        read_ahead,
        use_model,
    )
    from turnfold.memory.summary_writers import (
        ChatWriter,
        ExtractiveWriter,
        ModelWriter,
        SentPrompt,
        Summaries,
        SummaryRequest,
        SummaryTask,
        SummaryWriter,
        writer_for,
    )
    from turnfold.tokens import shutdown_token_executor

__all__ = (
    "LAST_CALL",
    "RECALL_CONTEXT",
    "AsyncMemory",
    "AsyncSession",
    "AsyncState",
    "ChatWriter",
    "CompactionMode",
    "ConversationCache",
    "Difference",
    "ErasedConversation",
    "ErasureCheck",
    "ErasureReceipt",
    "Explanation",
    "ExtractiveWriter",
    "FoldCall",
    "FoldMode",
    "FoldRange",
    "Folder",
    "Manifest",
    "MeaningStatus",
    "Meanings",
    "Memory",
    "MemoryConfig",
    "MemoryMode",
    "ModelWriter",
    "RecallMode",
    "RecallTool",
    "Recaller",
    "RunLease",
    "ScoreParts",
    "SearchResult",
    "SentPrompt",
    "Session",
    "SessionCache",
    "SessionStatus",
    "State",
    "Summaries",
    "SummaryRequest",
    "SummaryTask",
    "SummaryTokenMemory",
    "SummaryWriter",
    "TokenMemory",
    "budget_of",
    "call_key",
    "compare",
    "list_client_ids",
    "make_config",
    "numbered_call",
    "omitted_rules",
    "own_head",
    "pins_text",
    "read_ahead",
    "recall_parameters",
    "recalled_text",
    "same_tools",
    "shutdown_token_executor",
    "use_model",
    "writer_for",
)

_HOMES = {
    "turnfold.memory._sync": "Memory Session State",
    "turnfold.memory.call_log": "LAST_CALL Difference Explanation Manifest budget_of call_key compare same_tools "
    "numbered_call",
    "turnfold.memory.config": "CompactionMode FoldMode MemoryConfig MemoryMode RecallMode",
    "turnfold.memory.cached_conversation": "ConversationCache",
    "turnfold.memory.erasure": "ErasedConversation ErasureCheck ErasureReceipt",
    "turnfold.memory.folding": "FoldCall FoldRange Folder",
    "turnfold.memory.embedding_index": "MeaningStatus Meanings",
    "turnfold.memory.leases": "RunLease",
    "turnfold.memory.live_window": "omitted_rules",
    "turnfold.memory.memory": "AsyncMemory SessionCache make_config",
    "turnfold.memory.recall": "Recaller ScoreParts SearchResult",
    "turnfold.memory.recall_tool": "RECALL_CONTEXT RecallTool recall_parameters",
    "turnfold.memory.pins_and_state": "AsyncState",
    "turnfold.memory.session": "AsyncSession SessionStatus list_client_ids own_head read_ahead "
    "use_model",
    "turnfold.memory.summary_writers": "ChatWriter ExtractiveWriter ModelWriter SentPrompt Summaries "
    "SummaryRequest SummaryTask SummaryWriter writer_for",
    "turnfold.memory.prompt_tail": "pins_text recalled_text",
    "turnfold.memories": "SummaryTokenMemory TokenMemory",
    "turnfold.tokens": "shutdown_token_executor",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

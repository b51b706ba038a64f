"""WHAT YOU HOLD: memories and their sessions. Each is thin; the decisions live in the pure layers below.

Each is loaded when it is named: who uses a `MessageMemory` in the process loads neither sessions nor stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnfold.late_names import late_names

if TYPE_CHECKING:
    from turnfold.memory.agent_memory import AgentMemory, AgentMemoryConfig, ContentChunk
    from turnfold.memory.blocking import (
        Memory,
        Session,
        State,
    )
    from turnfold.memory.findings import AsyncFindings
    from turnfold.memory.findings_blocking import Findings
    from turnfold.memory.fold_keeper import FoldMode, MemoryMode
    from turnfold.memory.front_door import AsyncMemory
    from turnfold.memory.in_process.message_memory import (
        MessageMemory,
        MessageMemoryConfig,
        TruncateStrategy,
    )
    from turnfold.memory.in_process.summary_token_memory import SummaryTokenMemory
    from turnfold.memory.in_process.token_memory import TokenMemory
    from turnfold.memory.manifests import (
        Difference,
        Explanation,
        Manifest,
    )
    from turnfold.memory.metrics.meter import Distribution, Meter
    from turnfold.memory.searching import Found
    from turnfold.memory.session import AsyncSession, SessionStatus
    from turnfold.memory.setting import RecallMode
    from turnfold.memory.short_term.blocking import ShortMemory
    from turnfold.memory.short_term.short_memory import AsyncShortMemory
    from turnfold.memory.short_term.values import (
        MEMORY_MODE_FULL_HISTORY,
        MEMORY_MODE_SUMMARY_N,
        FlowContext,
        GlobalState,
        MemoryContext,
        MemoryWriteResult,
        MessageContext,
        MetaInfo,
        PendingAction,
        SessionValue,
        SharedEntities,
        UserProfile,
    )
    from turnfold.memory.snapshots.blocking import Snapshots
    from turnfold.memory.snapshots.history import AsyncSnapshots, TakenSnapshot
    from turnfold.memory.snapshots.recalling import RecalledContext
    from turnfold.memory.state import AsyncState
    from turnfold.memory.tail import Recalled
    from turnfold.memory.workspace.blocking import ContextMemoryStore, MemoryModule
    from turnfold.memory.workspace.context_memory_store import AsyncContextMemoryStore
    from turnfold.memory.workspace.memory_module import AsyncMemoryModule
    from turnfold.memory.workspace.values import ContextSnapshot, MemorySummary, ThinkingResult
    from turnfold.memory.writers import (
        ExtractiveWriter,
        ModelWriter,
        SummaryTask,
        SummaryWriter,
    )
    from turnfold.recall.findings import FindingRule
    from turnfold.records import Finding, Usage
    from turnfold.records.snapshots import Snapshot

__all__ = (
    "MEMORY_MODE_FULL_HISTORY",
    "MEMORY_MODE_SUMMARY_N",
    "AgentMemory",
    "AgentMemoryConfig",
    "AsyncContextMemoryStore",
    "AsyncFindings",
    "AsyncMemory",
    "AsyncMemoryModule",
    "AsyncSession",
    "AsyncShortMemory",
    "AsyncSnapshots",
    "AsyncState",
    "ContentChunk",
    "ContextMemoryStore",
    "ContextSnapshot",
    "Difference",
    "Distribution",
    "Explanation",
    "ExtractiveWriter",
    "Finding",
    "FindingRule",
    "Findings",
    "FlowContext",
    "FoldMode",
    "Found",
    "GlobalState",
    "Manifest",
    "Memory",
    "MemoryContext",
    "MemoryMode",
    "MemoryModule",
    "MemorySummary",
    "MemoryWriteResult",
    "MessageContext",
    "MessageMemory",
    "MessageMemoryConfig",
    "MetaInfo",
    "Meter",
    "ModelWriter",
    "PendingAction",
    "RecallMode",
    "Recalled",
    "RecalledContext",
    "Session",
    "SessionStatus",
    "SessionValue",
    "SharedEntities",
    "ShortMemory",
    "Snapshot",
    "Snapshots",
    "State",
    "SummaryTask",
    "SummaryTokenMemory",
    "SummaryWriter",
    "TakenSnapshot",
    "ThinkingResult",
    "TokenMemory",
    "TruncateStrategy",
    "Usage",
    "UserProfile",
)

_HOMES = {
    "turnfold.memory.agent_memory": "AgentMemory AgentMemoryConfig ContentChunk",
    "turnfold.memory.findings": "AsyncFindings",
    "turnfold.memory.findings_blocking": "Findings",
    "turnfold.memory.blocking": "Memory Session State",
    "turnfold.memory.fold_keeper": "FoldMode MemoryMode",
    "turnfold.memory.front_door": "AsyncMemory",
    "turnfold.memory.manifests": "Difference Explanation Manifest",
    "turnfold.memory.in_process.message_memory": "MessageMemory MessageMemoryConfig TruncateStrategy",
    "turnfold.memory.metrics.meter": "Distribution Meter",
    "turnfold.memory.session": "AsyncSession SessionStatus",
    "turnfold.memory.short_term.blocking": "ShortMemory",
    "turnfold.memory.short_term.short_memory": "AsyncShortMemory",
    "turnfold.memory.short_term.values": "FlowContext GlobalState MEMORY_MODE_FULL_HISTORY MEMORY_MODE_SUMMARY_N "
    "MemoryContext MemoryWriteResult MessageContext MetaInfo PendingAction SessionValue SharedEntities UserProfile",
    "turnfold.memory.setting": "RecallMode",
    "turnfold.memory.searching": "Found",
    "turnfold.memory.state": "AsyncState",
    "turnfold.memory.in_process.summary_token_memory": "SummaryTokenMemory",
    "turnfold.memory.tail": "Recalled",
    "turnfold.memory.in_process.token_memory": "TokenMemory",
    "turnfold.memory.workspace.blocking": "ContextMemoryStore MemoryModule",
    "turnfold.memory.snapshots.blocking": "Snapshots",
    "turnfold.memory.workspace.context_memory_store": "AsyncContextMemoryStore",
    "turnfold.memory.workspace.memory_module": "AsyncMemoryModule",
    "turnfold.memory.snapshots.recalling": "RecalledContext",
    "turnfold.memory.snapshots.history": "AsyncSnapshots TakenSnapshot",
    "turnfold.memory.workspace.values": "ContextSnapshot MemorySummary ThinkingResult",
    "turnfold.records.snapshots": "Snapshot",
    "turnfold.memory.writers": "ExtractiveWriter ModelWriter SummaryTask SummaryWriter",
    "turnfold.recall.findings": "FindingRule",
    "turnfold.records": "Finding Usage",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

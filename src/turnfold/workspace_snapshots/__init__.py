"""Workspace snapshots (context, files and state of an agent at each turn): storage, comparison and recall."""

from __future__ import annotations

from turnfold.workspace_snapshots._sync import Snapshots
from turnfold.workspace_snapshots.diff import (
    ItemChange,
    SnapshotDiff,
    compare_contents,
    state_changes,
)
from turnfold.workspace_snapshots.history import AsyncSnapshots, TakenSnapshot, check_snapshot_page
from turnfold.workspace_snapshots.recall import (
    MAX_REQUESTED,
    MIN_TOKENS,
    RecalledContext,
    RecallRequest,
    SnapshotHit,
    SnapshotPart,
    WorkspaceRecall,
    best_line,
    parse_request,
    show_changes,
    show_parts,
)
from turnfold.workspace_snapshots.storage import (
    SNAPSHOT,
    SNAPSHOT_SUMMARY,
    ChunkRef,
    ListedItem,
    SnapshotHead,
    SnapshotStorage,
    StoredSnapshot,
    pack,
    read_listing,
    rebuild_snapshot,
    split_chunks,
    turn_key,
    turn_of,
    unpack,
)

__all__ = (
    "MAX_REQUESTED",
    "MIN_TOKENS",
    "SNAPSHOT",
    "SNAPSHOT_SUMMARY",
    "AsyncSnapshots",
    "ChunkRef",
    "ItemChange",
    "ListedItem",
    "RecallRequest",
    "RecalledContext",
    "SnapshotDiff",
    "SnapshotHead",
    "SnapshotHit",
    "SnapshotPart",
    "SnapshotStorage",
    "Snapshots",
    "StoredSnapshot",
    "TakenSnapshot",
    "WorkspaceRecall",
    "best_line",
    "check_snapshot_page",
    "compare_contents",
    "pack",
    "parse_request",
    "read_listing",
    "rebuild_snapshot",
    "show_changes",
    "show_parts",
    "split_chunks",
    "state_changes",
    "turn_key",
    "turn_of",
    "unpack",
)

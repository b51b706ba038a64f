"""Workspaces kept turn by turn: cut into pieces that are stored once, compared, and shown within a number of tokens."""

from __future__ import annotations

from turnfold.recall.snapshots.chunking import chunks_of
from turnfold.recall.snapshots.diffing import (
    ItemChange,
    SnapshotDiff,
    compare_contents,
    state_changes,
)
from turnfold.recall.snapshots.listing import ListedItem, Ref, read_listing
from turnfold.recall.snapshots.packing import Packed, SnapshotHead, StoredSnapshot, pack, unpack
from turnfold.recall.snapshots.rebuilding import KeptItem, rebuilt
from turnfold.recall.snapshots.rendering import (
    FEWEST_TOKENS,
    Part,
    focused,
    show_changes,
    show_parts,
)
from turnfold.recall.snapshots.request import MOST_ASKED, RecallRequest, as_request

__all__ = (
    "FEWEST_TOKENS",
    "MOST_ASKED",
    "ItemChange",
    "KeptItem",
    "ListedItem",
    "Packed",
    "Part",
    "RecallRequest",
    "Ref",
    "SnapshotDiff",
    "SnapshotHead",
    "StoredSnapshot",
    "as_request",
    "chunks_of",
    "compare_contents",
    "focused",
    "pack",
    "read_listing",
    "rebuilt",
    "show_changes",
    "show_parts",
    "state_changes",
    "unpack",
)

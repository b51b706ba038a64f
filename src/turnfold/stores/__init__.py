"""WHERE IT LIVES: the append-only log behind one small protocol; in memory, SQLite, PostgreSQL, behind Redis."""

from __future__ import annotations

from turnfold.stores.memory_store import MemoryStore
from turnfold.stores.opening import open_store
from turnfold.stores.protocol import (
    Ability,
    Appended,
    Captured,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Hit,
    Opening,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    Written,
)
from turnfold.stores.transfer import Progress, Transferred, digest, export_to, import_from
from turnfold.stores.within import ALL_ENTRIES, CHECKPOINT, ENTRY, Within

__all__ = (
    "ALL_ENTRIES",
    "CHECKPOINT",
    "ENTRY",
    "Ability",
    "Appended",
    "Captured",
    "ConversationInfo",
    "Erasure",
    "Head",
    "Health",
    "Hit",
    "MemoryStore",
    "Opening",
    "Piece",
    "Progress",
    "Restored",
    "Scope",
    "State",
    "Store",
    "Transferred",
    "Within",
    "Written",
    "digest",
    "export_to",
    "import_from",
    "open_store",
)

"""WHERE IT LIVES: the append-only log behind one small protocol; in memory, SQLite, PostgreSQL, behind Redis."""

from __future__ import annotations

from turnfold.stores.memory_store import MemoryStore
from turnfold.stores.opening import open_store
from turnfold.stores.protocol import (
    Ability,
    Appended,
    ConversationInfo,
    Erasure,
    Head,
    Health,
    Hit,
    Scope,
    Store,
)

__all__ = (
    "Ability",
    "Appended",
    "ConversationInfo",
    "Erasure",
    "Head",
    "Health",
    "Hit",
    "MemoryStore",
    "Scope",
    "Store",
    "open_store",
)

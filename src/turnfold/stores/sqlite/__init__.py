"""The SQLite backend: the store itself is `turnfold.stores.SqliteStore`, and nothing here is imported from outside."""

from __future__ import annotations

__all__ = ()

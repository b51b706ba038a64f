"""The SQLite backend. Other packages use it as `turnfold.stores.SqliteStore` and import nothing from here."""

from __future__ import annotations

__all__ = ()

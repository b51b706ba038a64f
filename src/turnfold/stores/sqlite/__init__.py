"""The SQLite store. Other packages use `turnfold.stores.SqliteStore` and import nothing from the modules here."""

from __future__ import annotations

__all__ = ()

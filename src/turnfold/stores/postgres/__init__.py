"""The PostgreSQL backend; opened by `turnfold.stores.open_store`, which imports the driver only then."""

from __future__ import annotations

__all__ = ()

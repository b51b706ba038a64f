"""The Redis cache in front of another store; added by `turnfold.stores.with_cache`, which imports the driver."""

from __future__ import annotations

__all__ = ()

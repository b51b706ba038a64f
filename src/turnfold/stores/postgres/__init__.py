"""The PostgreSQL store. `turnfold.stores.open_store` imports it, and with it the driver, only when it is used."""

from __future__ import annotations

__all__ = ()

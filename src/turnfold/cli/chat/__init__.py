"""`turnfold chat`: a conversation in the terminal that survives it, with the budget under every answer."""

from __future__ import annotations

__all__ = ()

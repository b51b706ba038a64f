"""`turnfold demo`: replays a long bilingual conversation call by call with a small budget."""

from __future__ import annotations

__all__ = ()

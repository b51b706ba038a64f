"""`turnfold demo`: a long bilingual conversation replayed call by call under a small budget."""

from __future__ import annotations

__all__ = ()

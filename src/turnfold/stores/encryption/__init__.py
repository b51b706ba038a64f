"""A store in front of another one that encrypts everything it writes, with a key for each conversation."""

from __future__ import annotations

__all__ = ()

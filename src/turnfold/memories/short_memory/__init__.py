"""`ShortMemory` of design document 003: short-term memory with a summary and the newest turns, Redis in front."""

from __future__ import annotations

__all__ = ()

"""`MemoryModule` of design document 002: stores an agent's workspace per turn, thinks about it, summarises, recalls."""

from __future__ import annotations

__all__ = ()

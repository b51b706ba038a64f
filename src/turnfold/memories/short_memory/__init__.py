"""Short-term memory with a summary and the newest turns, cached in Redis (`ShortMemory`).

It is the memory of design document 003.
"""

from __future__ import annotations

__all__ = ()

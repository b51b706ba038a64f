"""Memory of an agent's workspace per turn (`MemoryModule`): stores, thinks, summarises, recalls.

It is the memory of design document 002. The workspace is the text, files and state that the agents of a task share.
"""

from __future__ import annotations

__all__ = ()

"""The workspace of a conversation, turn by turn: where snapshots lie, how they are taken, compared and brought back.

What they are and how they are packed and shown is decided by pure code (`turnfold.recall.snapshots`); this reads and
writes them. `session.snapshots` is the way in.
"""

from __future__ import annotations

__all__ = ()

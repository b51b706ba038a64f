"""The workspace beside the conversation: snapshots turn by turn, and document 002's memory module over them.

A second layer that is there only for who asks for it. It lives in documents of the same conversation, so it is shared
between processes, exported and erased with it. `turnfold.memory` exports what a program needs.
"""

from __future__ import annotations

__all__ = ()

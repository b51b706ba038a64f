"""Memories that live in one process: documents 000 and 001, for programs that need a budget but no log.

They hold their messages themselves and may be saved to a file or a store. `turnfold.memory` exports what a program
needs.
"""

from __future__ import annotations

__all__ = ()

"""Document 003's short-term memory: turns, a session value and checkpoints under its own names.

A thin face over the same log, folds and stores as a session; its names and defaults are the document's, so that a
program written against it moves over line by line. `turnfold.memory` exports what a program needs.
"""

from __future__ import annotations

__all__ = ()

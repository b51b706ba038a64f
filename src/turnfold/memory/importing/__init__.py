"""Conversations from other programs: providers' histories, ChatGPT exports, Claude Code transcripts."""

from __future__ import annotations

from turnfold.memory.importing.detecting import FORMATS, detect, read_histories
from turnfold.memory.importing.landing import Imported, import_file
from turnfold.memory.importing.matching import Completed
from turnfold.memory.importing.pieces import Bad, Begin, Ignored, Said

__all__ = (
    "FORMATS",
    "Bad",
    "Begin",
    "Completed",
    "Ignored",
    "Imported",
    "Said",
    "detect",
    "import_file",
    "read_histories",
)

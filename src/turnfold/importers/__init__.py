"""Import of conversations that other programs wrote: ChatGPT, Claude Code, provider and framework histories."""

from __future__ import annotations

from turnfold.importers.file_import import Completed, Imported, import_file
from turnfold.importers.formats import FORMATS, TURNFOLD, detect, read_histories
from turnfold.importers.histories import PROVIDERS
from turnfold.importers.reader_events import (
    ConversationStart,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
)

__all__ = (
    "FORMATS",
    "PROVIDERS",
    "TURNFOLD",
    "Completed",
    "ConversationStart",
    "IgnoredItem",
    "Imported",
    "ImportedMessage",
    "UnreadableItem",
    "detect",
    "import_file",
    "read_histories",
)

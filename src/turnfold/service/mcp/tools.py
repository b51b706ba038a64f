"""The six tools, by name: what a client is offered is this table, and nothing that is not in it can be called."""

from __future__ import annotations

from typing import Final

from turnfold.service.mcp.reading import (
    context_status,
    list_sessions,
    recall_context,
    search_memory,
)
from turnfold.service.mcp.writing import checkpoint, remember

__all__ = ("TOOLS",)

TOOLS: Final = {
    each.name: each
    for each in (
        recall_context,
        search_memory,
        remember,
        list_sessions,
        context_status,
        checkpoint,
    )
}

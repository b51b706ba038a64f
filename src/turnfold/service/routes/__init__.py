"""Functions that run the operations of the API, one module per topic, and the table of all of them."""

from __future__ import annotations

from turnfold.service.operation_table import OperationTable
from turnfold.service.routes import (
    context,
    findings,
    messages,
    observability,
    session_changes,
    session_reads,
    short_memory,
    tenant,
    workspace_snapshots,
)

__all__ = ("TABLE",)

_FAMILIES = (
    messages,
    context,
    session_changes,
    session_reads,
    findings,
    workspace_snapshots,
    tenant,
    short_memory,
    observability,
)
TABLE = OperationTable(item for family in _FAMILIES for item in family.TABLE.items())

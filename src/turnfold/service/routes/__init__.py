"""Functions that run the operations of the API, one module per topic, and the table of all of them."""

from __future__ import annotations

from turnfold.service.operation_table import OperationTable
from turnfold.service.routes import (
    conversations_of_tenant,
    findings,
    observability,
    sessions,
    short_memory,
    workspace_snapshots,
)

__all__ = ("TABLE",)

_FAMILIES = (
    sessions,
    findings,
    workspace_snapshots,
    conversations_of_tenant,
    short_memory,
    observability,
)
TABLE = OperationTable(item for family in _FAMILIES for item in family.TABLE.items())

"""The functions behind the operations of the API, one module per family, and the table of all of them."""

from __future__ import annotations

from turnfold.service.operations import OperationTable
from turnfold.service.routes import (
    findings,
    history,
    live,
    messages,
    session_data,
    short_memory,
    snapshots,
    tenant,
)

__all__ = ("TABLE",)

_FAMILIES = (messages, session_data, history, findings, snapshots, tenant, short_memory, live)
TABLE = OperationTable(item for family in _FAMILIES for item in family.TABLE.items())

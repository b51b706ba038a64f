"""The operations of the service by family, and the one table of all of them."""

from __future__ import annotations

from turnfold.service.operations import Operation
from turnfold.service.routes import (
    finding,
    keeping,
    reading,
    saying,
    short_term,
    snapshots,
    watching,
    whole,
)

__all__ = ("TABLE",)

TABLE: tuple[Operation, ...] = (
    *saying.OPERATIONS,
    *keeping.OPERATIONS,
    *reading.OPERATIONS,
    *finding.OPERATIONS,
    *snapshots.OPERATIONS,
    *whole.OPERATIONS,
    *short_term.OPERATIONS,
    *watching.OPERATIONS,
)

"""A snapshot from its items, wherever they were kept: in a store or in an export.

Both are bytes that came from outside. What is not text where text is said to be, not JSON, nested without end or there
twice is refused here, so that no way in is less careful than the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from turnfold.errors import InvalidRecord
from turnfold.recall.snapshots.listing import ItemKind
from turnfold.records.snapshots import Snapshot

__all__ = ("KeptItem", "rebuilt")


class KeptItem(NamedTuple):
    """One item of a snapshot with its content."""

    kind: ItemKind
    path: str
    text: bool
    data: bytes


def rebuilt(
    items: Iterable[KeptItem],
    *,
    turn: int,
    summary: str,
    insights: tuple[str, ...],
    links: tuple[str, ...],
    created: int,
    where: str,
) -> Snapshot:
    """The snapshot these items are of; `where` names them in an error."""
    held: dict[tuple[str, str], KeptItem] = {}
    for item in items:
        if held.setdefault((item.kind, item.path), item) is not item:
            raise InvalidRecord(f"{item.kind} {item.path!r} is there twice", path=where)
    context, state = held.get(("context", "")), held.get(("state", ""))
    try:
        return Snapshot(
            turn=turn,
            context=context.data.decode() if context else "",
            files={
                item.path: item.data.decode() if item.text else item.data
                for item in held.values()
                if item.kind == "file"
            },
            state=cast("Mapping[str, object]", json.loads(state.data)) if state else {},
            summary=summary,
            insights=insights,
            links=links,
            created=created,
        )
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"not a snapshot: {error}", path=where) from None

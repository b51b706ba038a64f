"""What a stored snapshot holds, and where the pieces of it lie.

A snapshot is one document. It carries the pieces no earlier one has, and a listing that names every piece by the
digest of its content and the turn whose document holds it. The listing is itself cut into pieces like any content:
where three files of a thousand changed, most of it is that of the turn before and is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.snapshots import LATEST_TURN, ItemKind

__all__ = ("ListedItem", "Ref", "check_ref", "read_listing", "write_listing")

_DIGEST = 20


class Ref(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A piece, by its content and by who holds it."""

    digest: bytes
    turn: int
    """The snapshot whose document has the bytes."""


class ListedItem(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One item of a snapshot and its pieces, in order."""

    kind: ItemKind
    path: str
    text: bool
    size: int
    digest: bytes
    """Of the whole content."""
    pieces: tuple[Ref, ...]

    @property
    def place(self) -> tuple[ItemKind, str]:
        """What tells it from the other items of its snapshot."""
        return self.kind, self.path


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ListedItem)


def write_listing(items: Iterable[ListedItem]) -> bytes:
    """The listing as bytes: a line per item, so that an edit of one leaves the others' bytes alone."""
    return _encoder.encode_lines(items)


def read_listing(data: bytes, *, turn: int) -> tuple[ListedItem, ...]:
    """The items of a listing of this turn; anything else is refused."""
    try:
        items = tuple(_decoder.decode_lines(data))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not the listing of a snapshot: {error}") from None
    places = [item.place for item in items]
    if len(set(places)) != len(places):
        raise InvalidRecord("the listing names an item twice")
    for item in items:
        _check(item, turn)
    return items


def _check(item: ListedItem, turn: int) -> None:
    where = f"{item.kind} {item.path}".rstrip()
    if (item.kind == "file") != bool(item.path) or item.size < 0 or len(item.digest) != _DIGEST:
        raise InvalidRecord("not an item of a snapshot", path=where)
    for ref in item.pieces:
        check_ref(ref, turn, where)


def check_ref(ref: Ref, turn: int, where: str) -> None:
    """Refuse a piece that no snapshot up to `turn` can hold."""
    if len(ref.digest) != _DIGEST or not 0 < ref.turn <= min(turn, LATEST_TURN):
        raise InvalidRecord(
            f"a piece held by turn {ref.turn:,}, which turn {turn:,} cannot know", path=where
        )

"""`Snapshot`: the workspace of an agent at a turn, as an immutable value.

The workspace (the rendered context, files, state) is in no message and is lost with the next turn unless it is stored.
A snapshot's id is derived from its content, so two snapshots are equal exactly if their ids are equal, and a stored
snapshot can be verified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records.frozen_json import check_text, freeze, plain_text

__all__ = (
    "LARGEST_SNAPSHOT",
    "LATEST_TIME",
    "LATEST_TURN",
    "ItemKind",
    "Snapshot",
    "SnapshotItem",
    "content_digest",
    "snapshot_id",
)


LARGEST_SNAPSHOT: Final = 256 << 20
"""Most bytes of a whole snapshot; every store can hold more than this in one row."""
LATEST_TURN: Final = 10**12 - 1
LATEST_TIME: Final = (1 << 62) - 1
_LONGEST_PATH: Final = 4096
_DIGEST: Final = 20

ItemKind: TypeAlias = Literal["context", "file", "state"]


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """One item of a workspace snapshot (the context, a file or the state), as bytes."""

    kind: ItemKind
    path: str
    """Path of a file; empty for the context and the state."""
    text: bool
    """True if the bytes are UTF-8 text and were given as text, not as bytes."""
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The workspace at a turn: a rendered context, files, or both, with a summary and insights."""

    turn: int = 0
    """Turn of the conversation that the snapshot shows; 0 for the turn after that of the newest snapshot."""
    context: str = ""
    """The workspace as it was rendered for the model."""
    files: Mapping[str, str | bytes] = field(default_factory=dict[str, str | bytes])
    """Path of a file -> its content."""
    state: Mapping[str, object] = field(default_factory=dict[str, object])
    """Name of a state value -> JSON value."""
    summary: str = ""
    insights: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Ids of related objects: other snapshots, documents, tickets."""
    created: int = 0
    """Time of the snapshot in microseconds since 1970; 0 to set it when the snapshot is stored. For display, never for
    ordering."""

    def __post_init__(self) -> None:
        turn = cast("object", self.turn)
        if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn <= LATEST_TURN:
            raise InvalidRecord(
                f"{turn!r} is not a turn: give a whole number from 0 to {LATEST_TURN:,}",
                path="turn",
            )
        if (
            not isinstance(cast("object", self.created), int)
            or not 0 <= self.created <= LATEST_TIME
        ):
            raise InvalidRecord(
                f"{self.created!r} is not a time: give microseconds since 1970, or 0",
                path="created",
            )
        _checked_text(self.context, "context")
        _checked_text(self.summary, "summary")
        object.__setattr__(self, "insights", _texts(self.insights, "insights"))
        object.__setattr__(self, "links", _texts(self.links, "links"))
        object.__setattr__(self, "files", MappingProxyType(_files(self.files)))
        object.__setattr__(self, "state", MappingProxyType(_state(self.state)))
        size = sum(len(item.data) for item in self.items())
        if size > LARGEST_SNAPSHOT:
            raise InvalidRecord(
                f"the snapshot has {size:,} bytes; it may have at most {LARGEST_SNAPSHOT:,}",
                path="files",
                remedy="Leave out files that can be made again: builds, caches, dependencies",
            )

    @property
    def id(self) -> str:
        """Id of the snapshot, `ctx_<turn>_<digest of its content>`; it does not depend on the time."""
        items = [
            (item.kind, item.path, item.text, content_digest(item.data)) for item in self.items()
        ]
        return snapshot_id(self.turn, items, (self.summary, self.insights, self.links))

    def items(self) -> Iterator[SnapshotItem]:
        """Yield the snapshot's items in a fixed order: context, files by path, state."""
        if self.context:
            yield SnapshotItem("context", "", text=True, data=self.context.encode())
        for path, content in self.files.items():
            text = isinstance(content, str)
            yield SnapshotItem(
                "file", path, text=text, data=content.encode() if text else bytes(content)
            )
        if self.state:
            written = json.dumps(dict(self.state), ensure_ascii=False, sort_keys=True)
            yield SnapshotItem("state", "", text=True, data=written.encode())


def content_digest(data: bytes) -> bytes:
    """Return the cryptographic digest of the bytes of a snapshot's item."""
    return blake2b(data, digest_size=_DIGEST).digest()


def snapshot_id(
    turn: int,
    items: Iterable[tuple[str, str, bool, bytes]],
    notes: tuple[str, tuple[str, ...], tuple[str, ...]],
) -> str:
    """Return the id of a snapshot of these items (kind, path, text, digest) and notes (summary, insights, links)."""
    rows = [[kind, path, text, digest.hex()] for kind, path, text, digest in items]
    named = json.dumps([turn, rows, *notes], ensure_ascii=True, separators=(",", ":"))
    return f"ctx_{turn}_{blake2b(named.encode(), digest_size=6).hexdigest()}"


def _checked_text(value: object, path: str) -> str:
    return check_text(plain_text(value, path=path), path=path)


def _texts(value: object, name: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise InvalidRecord(
            f"must be a list or tuple of texts, not {type(value).__name__}", path=name
        )
    texts = cast("tuple[object, ...]", value)
    return tuple(_checked_text(text, f"{name}[{at}]") for at, text in enumerate(texts))


def _files(value: object) -> dict[str, str | bytes]:
    if not isinstance(value, Mapping):
        raise InvalidRecord(
            f"must be a mapping of paths to contents, not {type(value).__name__}", path="files"
        )
    files = cast("Mapping[object, object]", value)
    found: dict[str, str | bytes] = {}
    for path, content in files.items():
        name = _checked_text(path, "files")
        if not name or len(name) > _LONGEST_PATH:
            raise InvalidRecord(
                f"the path {name[:40]!r} has {len(name):,} characters; it must have 1 to {_LONGEST_PATH:,}",
                path="files",
            )
        if "\x00" in name:
            raise InvalidRecord(
                f"the path {name[:40]!r} has a NUL at character {name.index(chr(0))}: remove it",
                path="files",
            )
        is_bytes = isinstance(content, bytes | bytearray)
        found[name] = bytes(content) if is_bytes else _checked_text(content, f"files[{name!r}]")
    return {path: found[path] for path in sorted(found)}


def _state(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidRecord(
            f"must be a mapping of names to values, not {type(value).__name__}", path="state"
        )
    values = cast("Mapping[object, object]", value)
    return cast("dict[str, object]", json.loads(freeze(values, path="state")))

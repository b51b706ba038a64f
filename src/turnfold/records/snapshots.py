"""The workspace as it was at a turn: a value that is the same wherever it is kept.

A conversation says what was said; what the agent was looking at (the rendered context, files, state) is in no message
and is gone with the next turn unless somebody keeps it. A snapshot's id is made of what it holds, so that two of them
are equal exactly if their ids are, and a stored one can be proved to be what was taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from turnfold.errors import InvalidRecord
from turnfold.records.json_text import check_text, freeze, plain_text

__all__ = (
    "LARGEST_SNAPSHOT",
    "LATEST_TIME",
    "LATEST_TURN",
    "Item",
    "ItemKind",
    "Snapshot",
    "content_digest",
    "snapshot_id",
)

LARGEST_SNAPSHOT: Final = 256 << 20
"""Bytes all of a snapshot may have: what one row of every backend can hold, with room to spare."""
LATEST_TURN: Final = 10**12 - 1
LATEST_TIME: Final = (1 << 62) - 1
_LONGEST_PATH: Final = 4096
_DIGEST: Final = 20

ItemKind: TypeAlias = Literal["context", "file", "state"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing a snapshot holds, as bytes."""

    kind: ItemKind
    path: str
    """Of a file; empty for the context and the state, of which there is one."""
    text: bool
    """Whether the bytes are UTF-8 text and were given as text."""
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The workspace at a turn: a rendered context, files, or both, with what was made of it."""

    turn: int = 0
    """Which turn of the conversation; 0 for the one after the newest snapshot."""
    context: str = ""
    """The workspace as it was rendered for the model."""
    files: Mapping[str, str | bytes] = field(default_factory=dict[str, str | bytes])
    """Content by path."""
    state: Mapping[str, object] = field(default_factory=dict[str, object])
    """JSON values by name."""
    summary: str = ""
    insights: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Ids of what it refers to: other snapshots, documents, tickets."""
    created: int = 0
    """Microseconds since 1970; 0 for the moment it is stored. For people, never for order."""

    def __post_init__(self) -> None:
        whole = cast("object", self.turn)
        if not isinstance(whole, int) or isinstance(whole, bool) or not 0 <= whole <= LATEST_TURN:
            raise InvalidRecord(f"{whole!r} is no turn: 0 to {LATEST_TURN:,}", path="turn")
        if (
            not isinstance(cast("object", self.created), int)
            or not 0 <= self.created <= LATEST_TIME
        ):
            raise InvalidRecord(f"{self.created!r} is no time in microseconds", path="created")
        check_text(plain_text(self.context, path="context"), path="context")
        check_text(plain_text(self.summary, path="summary"), path="summary")
        object.__setattr__(self, "insights", _texts(self.insights, "insights"))
        object.__setattr__(self, "links", _texts(self.links, "links"))
        object.__setattr__(self, "files", MappingProxyType(_files(self.files)))
        object.__setattr__(self, "state", MappingProxyType(_state(self.state)))
        size = sum(len(item.data) for item in self.items())
        if size > LARGEST_SNAPSHOT:
            raise InvalidRecord(
                f"{size:,} bytes in all; a snapshot holds at most {LARGEST_SNAPSHOT:,}",
                path="files",
                remedy="Leave out what can be made again: builds, caches, dependencies",
            )

    @property
    def id(self) -> str:
        """`ctx_<turn>_<digest of what it holds>`; the time is no part of it."""
        held = [
            (item.kind, item.path, item.text, content_digest(item.data)) for item in self.items()
        ]
        return snapshot_id(self.turn, held, (self.summary, self.insights, self.links))

    def items(self) -> Iterator[Item]:
        """What it holds, in one order: context, files by path, state."""
        if self.context:
            yield Item("context", "", text=True, data=self.context.encode())
        for path, content in self.files.items():
            text = isinstance(content, str)
            yield Item("file", path, text=text, data=content.encode() if text else bytes(content))
        if self.state:
            written = json.dumps(dict(self.state), ensure_ascii=False, sort_keys=True)
            yield Item("state", "", text=True, data=written.encode())


def content_digest(data: bytes) -> bytes:
    """What names a content: equal bytes have it in common, and nobody can make others that have it."""
    return blake2b(data, digest_size=_DIGEST).digest()


def snapshot_id(
    turn: int,
    held: Iterable[tuple[str, str, bool, bytes]],
    said: tuple[str, tuple[str, ...], tuple[str, ...]],
) -> str:
    """The id of a snapshot that holds these (kind, path, text, digest) and says this (summary, insights, links)."""
    rows = [[kind, path, text, digest.hex()] for kind, path, text, digest in held]
    named = json.dumps([turn, rows, *said], ensure_ascii=True, separators=(",", ":"))
    return f"ctx_{turn}_{blake2b(named.encode(), digest_size=6).hexdigest()}"


def _texts(given: object, name: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, tuple | list):
        raise InvalidRecord(f"{type(given).__name__}, not a tuple of texts", path=name)
    texts = cast("tuple[object, ...]", given)
    return tuple(
        check_text(plain_text(text, path=f"{name}[{at}]"), path=f"{name}[{at}]")
        for at, text in enumerate(texts)
    )


def _files(given: object) -> dict[str, str | bytes]:
    if not isinstance(given, Mapping):
        raise InvalidRecord(f"{type(given).__name__}, not content by path", path="files")
    files = cast("Mapping[object, object]", given)
    found: dict[str, str | bytes] = {}
    for path, content in files.items():
        name = check_text(plain_text(path, path="files"), path="files")
        if not name or len(name) > _LONGEST_PATH or "\x00" in name:
            raise InvalidRecord(
                f"a path of {len(name):,} characters; it needs 1 to {_LONGEST_PATH:,} without NUL",
                path="files",
            )
        where = f"files[{name!r}]"
        if isinstance(content, bytes | bytearray):
            found[name] = bytes(content)
        else:
            found[name] = check_text(plain_text(content, path=where), path=where)
    return {path: found[path] for path in sorted(found)}


def _state(given: object) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise InvalidRecord(f"{type(given).__name__}, not values by name", path="state")
    values = cast("Mapping[object, object]", given)
    return cast("dict[str, object]", json.loads(freeze(values, path="state")))

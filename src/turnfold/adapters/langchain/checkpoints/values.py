"""The values of channels, each kept once and the next version as its difference.

A version is written against an earlier one of the same channel: mostly the one before, each eighth against the one
eight before, each sixty-fourth against the one sixty-four before, and so on. Reading any of n versions then takes at
most 8 * log8(n) steps, and a list that grew to n items costs about n * log8(n) items to keep instead of n * n / 2.
Nothing read is trusted: a value must stand on an earlier one, may not grow beyond what was agreed, and its digest is
checked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Generic, TypeAlias, TypeVar

from turnfold.adapters.langchain.checkpoints.byte_delta import (
    applied_size,
    apply_delta,
    delta_size,
    make_delta,
)
from turnfold.adapters.langchain.checkpoints.documents import Held, Kept, Ref, Script, Typed
from turnfold.adapters.langchain.checkpoints.size_limits import Allowance
from turnfold.errors import InvalidRecord

__all__ = ("Recent", "Values", "Version")

Version: TypeAlias = int | float | str | None
_SMALL = 256
"""Bytes below which a value is kept whole."""
_STRIDE = 8
_WORTH = 0.75
"""A difference larger than this share of the value is not worth following."""
_Name = TypeVar("_Name")
_Thing = TypeVar("_Thing")


class Recent(Generic[_Name, _Thing]):
    """What was used last, up to so many bytes; safe to share between threads."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._held: OrderedDict[_Name, tuple[_Thing, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, name: _Name) -> _Thing | None:
        """What is kept under this name."""
        with self._lock:
            found = self._held.get(name)
            if found is None:
                return None
            self._held.move_to_end(name)
            return found[0]

    def put(self, name: _Name, thing: _Thing, *, size: int) -> None:
        """Keep it, and let go of what was not used for longest."""
        with self._lock:
            self._size += size - self._held.pop(name, (None, 0))[1]
            self._held[name] = (thing, size)
            while self._size > self._most:
                self._size -= self._held.popitem(last=False)[1][1]

    def drop(self, name: _Name) -> None:
        """Forget it."""
        with self._lock:
            self._size -= self._held.pop(name, (None, 0))[1]


class Values:
    """The values of one namespace of a thread."""

    def __init__(
        self,
        load: Callable[[Ref], Awaitable[Script | None]],
        recent: Recent[bytes, bytes],
        *,
        max_bytes: int,
    ) -> None:
        self._load = load
        """Gives what is kept at a place."""
        self._recent = recent
        """Values by digest: what has the same digest is the same, wherever it is kept."""
        self._max_bytes = max_bytes
        """Of all values of a checkpoint together."""

    async def read(self, kept: Kept) -> dict[str, Typed]:
        """Every value of a checkpoint."""
        self._check_sizes(kept.values)
        found: dict[str, Typed] = {}
        allowance = Allowance(self._max_bytes)
        for channel, held in kept.values.items():
            data = await self._bytes(held.ref.at(kept.id), kept)
            allowance.take_size(len(data), f"checkpoint {kept.id}, channel {channel!r}")
            found[channel] = (held.kind, data)
        return found

    def _check_sizes(self, values: Mapping[str, Held]) -> None:
        size = sum(held.size for held in values.values())
        if size > self._max_bytes:
            raise InvalidRecord(
                f"the values of a checkpoint have {size:,} bytes; they may have {self._max_bytes:,}",
                remedy="Keep large data elsewhere, or raise max_checkpoint_bytes",
            )

    async def write(
        self,
        new: Mapping[str, tuple[Version, Typed]],
        *,
        inherited: Mapping[str, Held],
        before: Kept | None,
    ) -> tuple[dict[str, Held], list[Script]]:
        """How a checkpoint keeps its values: what each channel holds, and the bytes that are not kept yet.

        `before` is the checkpoint whose versions the new ones go on from.
        """
        values = dict(inherited)
        scripts: dict[bytes, Script] = {}
        for channel, (version, (kind, data)) in new.items():
            digest = _digest(data)
            self._recent.put(digest, data, size=len(data))
            held = before.values.get(channel) if before is not None else None
            last = held.ref.at(before.id) if held is not None and before is not None else None
            if last is not None and last.digest == digest:
                values[channel] = Held(version, kind, last, len(data))
                continue
            values[channel] = Held(version, kind, Ref(digest), len(data))
            if digest not in scripts:
                scripts[digest] = await self._script(digest, data, last)
        self._check_sizes(values)
        return values, list(scripts.values())

    async def _script(self, digest: bytes, data: bytes, last: Ref | None) -> Script:
        whole = Script(digest, 0, None, [data])
        if last is None or len(data) < _SMALL:
            return whole
        script = await self._find(last)
        index = script.index + 1
        at: Ref = last
        while script.index != _base_of(index):
            if script.base is None:
                return whole
            at = script.base
            script = self._earlier(await self._find(at), script)
        pieces = make_delta(await self._bytes(at), data)
        if delta_size(pieces) > _WORTH * len(data):
            return whole
        return Script(digest, index, at, pieces)

    async def _bytes(self, ref: Ref, known: Kept | None = None) -> bytes:
        steps: list[Script] = []
        at: Ref | None = ref
        data = b""
        while at is not None:
            recent = self._recent.get(at.digest)
            if recent is not None:
                data = recent
                break
            script = await self._find(at, known)
            if steps:
                self._earlier(script, steps[-1])
            steps.append(script)
            at = script.base
        for script in reversed(steps):
            size = applied_size(len(data), script.pieces)
            if not 0 <= size <= self._max_bytes:
                made = "pieces that are not there" if size < 0 else f"{size:,} bytes"
                raise InvalidRecord(
                    f"a value kept with checkpoint {ref.holder} is made of {made}",
                    remedy=f"Raise max_checkpoint_bytes={self._max_bytes:,} if your program wrote it",
                )
            data = apply_delta(data, script.pieces)
        if steps:
            if _digest(data) != ref.digest:
                raise InvalidRecord(
                    f"the value kept with checkpoint {ref.holder} is not what was stored: {len(data):,} bytes with "
                    "another digest",
                    remedy="Restore the store from a backup",
                )
            self._recent.put(ref.digest, data, size=len(data))
        return data

    @staticmethod
    def _earlier(script: Script, later: Script) -> Script:
        """The script, if it is an earlier version than the one that is made of it: else they would go in a circle."""
        if script.index >= later.index:
            raise InvalidRecord(
                f"a stored value, version {later.index:,} of its kind, is made from version {script.index:,}",
                remedy="Restore the store from a backup",
            )
        return script

    async def _find(self, ref: Ref, known: Kept | None = None) -> Script:
        script = known.script(ref.digest) if known is not None and known.id == ref.holder else None
        script = script or await self._load(ref)
        if script is None:
            raise InvalidRecord(
                f"checkpoint {ref.holder}, which holds a value of another one, does not have it any more",
                remedy="Restore the store from a backup",
            )
        return script


def _base_of(index: int) -> int:
    """The version that a version is written against; it is always among those the one before it is made of."""
    step = 1
    while index % (step * _STRIDE) == 0:
        step *= _STRIDE
    return index - step


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()

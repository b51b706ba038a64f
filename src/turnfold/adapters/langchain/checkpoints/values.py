"""Values of channels, each stored once and the next version as its difference.

A version is written against an earlier one of the same channel: mostly the one before, each eighth against the one
eight before, each sixty-fourth against the one sixty-four before, and so on. Reading any of n versions then takes at
most 8 * log8(n) steps, and a list that grew to n items costs about n * log8(n) items to keep instead of n * n / 2.
Nothing read is trusted: a value must be made from an earlier one, may not outgrow the limit, and its digest is checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import TypeAlias

from turnfold.adapters._common import SizedCache
from turnfold.adapters.langchain.checkpoints.documents import (
    ChannelValue,
    DeltaScript,
    SizeLimit,
    StoredCheckpoint,
    Typed,
    ValueRef,
    applied_size,
    apply_delta,
    delta_size,
    make_delta,
)
from turnfold.errors import InvalidRecord

__all__ = ("ChannelValues", "Version")


Version: TypeAlias = int | float | str | None
_SMALL = 256
"""Bytes below which a value is stored whole."""
_STRIDE = 8
_MAX_SHARE = 0.75
"""A difference larger than this share of the value is stored whole instead."""


class ChannelValues:
    """Reads and writes the channel values of one namespace of a thread."""

    def __init__(
        self,
        load: Callable[[ValueRef], Awaitable[DeltaScript | None]],
        cache: SizedCache[bytes, bytes],
        *,
        max_bytes: int,
    ) -> None:
        self._load = load
        self._cache = cache
        """Values by digest: equal digests mean equal values, wherever they are stored."""
        self._max_bytes = max_bytes
        """Limit for all values of a checkpoint together."""

    async def read(self, stored: StoredCheckpoint) -> dict[str, Typed]:
        """Return every value of a checkpoint."""
        self._check_sizes(stored.values)
        found: dict[str, Typed] = {}
        limit = SizeLimit(self._max_bytes)
        for channel, value in stored.values.items():
            data = await self._bytes(value.ref.at(stored.id), stored)
            limit.add_size(len(data), f"checkpoint {stored.id}, channel {channel!r}")
            found[channel] = (value.kind, data)
        return found

    def _check_sizes(self, values: Mapping[str, ChannelValue]) -> None:
        size = sum(value.size for value in values.values())
        if size > self._max_bytes:
            raise InvalidRecord(
                f"the values of a checkpoint have {size:,} bytes; they may have {self._max_bytes:,}",
                remedy="Keep large data elsewhere, or raise max_checkpoint_bytes",
            )

    async def write(
        self,
        new: Mapping[str, tuple[Version, Typed]],
        *,
        inherited: Mapping[str, ChannelValue],
        before: StoredCheckpoint | None,
    ) -> tuple[dict[str, ChannelValue], list[DeltaScript]]:
        """Return what each channel of a checkpoint holds, and the bytes that are not stored yet.

        `before` is the checkpoint whose versions the new ones go on from.
        """
        values = dict(inherited)
        scripts: dict[bytes, DeltaScript] = {}
        for channel, (version, (kind, data)) in new.items():
            digest = _digest(data)
            self._cache.put(digest, data, size=len(data))
            value = before.values.get(channel) if before is not None else None
            last = value.ref.at(before.id) if value is not None and before is not None else None
            if last is not None and last.digest == digest:
                values[channel] = ChannelValue(version, kind, last, len(data))
                continue
            values[channel] = ChannelValue(version, kind, ValueRef(digest), len(data))
            if digest not in scripts:
                scripts[digest] = await self._make_script(digest, data, last)
        self._check_sizes(values)
        return values, list(scripts.values())

    async def _make_script(self, digest: bytes, data: bytes, last: ValueRef | None) -> DeltaScript:
        whole = DeltaScript(digest, 0, None, [data])
        if last is None or len(data) < _SMALL:
            return whole
        script = await self._load_script(last)
        index = script.index + 1
        at: ValueRef = last
        while script.index != _base_of(index):
            if script.base is None:
                return whole
            at = script.base
            script = self._checked_earlier(await self._load_script(at), script)
        pieces = make_delta(await self._bytes(at), data)
        if delta_size(pieces) > _MAX_SHARE * len(data):
            return whole
        return DeltaScript(digest, index, at, pieces)

    async def _bytes(self, ref: ValueRef, known: StoredCheckpoint | None = None) -> bytes:
        steps: list[DeltaScript] = []
        at: ValueRef | None = ref
        data = b""
        while at is not None:
            cached = self._cache.get(at.digest)
            if cached is not None:
                data = cached
                break
            script = await self._load_script(at, known)
            if steps:
                self._checked_earlier(script, steps[-1])
            steps.append(script)
            at = script.base
        for script in reversed(steps):
            size = applied_size(len(data), script.pieces)
            if not 0 <= size <= self._max_bytes:
                made = "pieces that are not there" if size < 0 else f"{size:,} bytes"
                raise InvalidRecord(
                    f"a value stored with checkpoint {ref.holder} is made of {made}",
                    remedy=f"Raise max_checkpoint_bytes={self._max_bytes:,} if your program wrote it",
                )
            data = apply_delta(data, script.pieces)
        if steps:
            if _digest(data) != ref.digest:
                raise InvalidRecord(
                    f"a value stored with checkpoint {ref.holder} is damaged: {len(data):,} bytes with another digest",
                    remedy="Restore the store from a backup",
                )
            self._cache.put(ref.digest, data, size=len(data))
        return data

    @staticmethod
    def _checked_earlier(script: DeltaScript, later: DeltaScript) -> DeltaScript:
        """Return the script if it is an earlier version than the one made from it: else they would form a cycle."""
        if script.index >= later.index:
            raise InvalidRecord(
                f"version {later.index:,} of a stored value is made from a later one, version {script.index:,}",
                remedy="Restore the store from a backup",
            )
        return script

    async def _load_script(
        self, ref: ValueRef, known: StoredCheckpoint | None = None
    ) -> DeltaScript:
        script = known.script(ref.digest) if known is not None and known.id == ref.holder else None
        script = script or await self._load(ref)
        if script is None:
            raise InvalidRecord(
                f"checkpoint {ref.holder} no longer has a value that another checkpoint refers to",
                remedy="Restore the store from a backup",
            )
        return script


def _base_of(index: int) -> int:
    """Return the version that a version is written against; it is always among those the one before it is made of."""
    step = 1
    while index % (step * _STRIDE) == 0:
        step *= _STRIDE
    return index - step


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()

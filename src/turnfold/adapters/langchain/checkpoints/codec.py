"""What LangGraph hands over, as the saver stores it, and back: serialised, measured, and of the shape it must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langgraph.checkpoint.base import Checkpoint, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from turnfold.adapters.langchain.checkpoints.documents import Kept, Typed, Writes
from turnfold.adapters.langchain.checkpoints.size_limits import Allowance
from turnfold.errors import InvalidRecord

__all__ = ("Codec", "mapping_of")

_REMEDY = "Restore the store from a backup, or delete the thread"


@dataclass(frozen=True, slots=True)
class Codec:
    """Serialises with a serializer, up to so many bytes at a time."""

    serde: SerializerProtocol
    max_bytes: int

    def dumped(self, value: object, path: str, allowance: Allowance | None = None) -> Typed:
        """A value as it is stored; `allowance` is shared by values that belong together."""
        try:
            kind, data = self.serde.dumps_typed(value)
        except InvalidRecord as fault:
            raise fault.within(path) from None
        self._measure(kind, data, path, allowance)
        return kind, data

    def loaded(self, typed: Typed, path: str, allowance: Allowance | None = None) -> object:
        """A stored value."""
        self._measure(*typed, path, allowance)
        try:
            return self.serde.loads_typed(typed)
        except InvalidRecord as fault:
            raise fault.within(path) from None

    def values(self, typed: Mapping[str, Typed]) -> dict[str, object]:
        """The values of a checkpoint by channel."""
        allowance = Allowance(self.max_bytes)
        return {
            channel: self.loaded(one, f"channel {channel!r}", allowance)
            for channel, one in typed.items()
        }

    def bare(self, kept: Kept) -> Checkpoint:
        """A checkpoint without its values."""
        path = f"checkpoint {kept.id}"
        bare = mapping_of(self.loaded(kept.checkpoint, path), path)
        if bare.get("id") != kept.id:
            raise InvalidRecord(
                f"it holds checkpoint {str(bare.get('id'))[:100]!r}", path=path, remedy=_REMEDY
            )
        for name in ("channel_versions", "versions_seen"):
            mapping_of(bare.get(name, {}), f"{path}, {name}")
        return cast("Checkpoint", bare)

    def metadata(self, kept: Kept) -> dict[str, Any]:
        """The metadata of a checkpoint."""
        path = f"metadata of checkpoint {kept.id}"
        return mapping_of(self.loaded(kept.metadata, path), path)

    def pending(self, tasks: Sequence[Writes]) -> list[PendingWrite]:
        """What tasks wrote, in LangGraph's order."""
        writes = [(each.task, write) for each in tasks for write in each.writes]
        writes.sort(key=lambda one: writes_sort_key(one[1].path, one[0], one[1].index))
        allowances = {each.task: Allowance(self.max_bytes) for each in tasks}
        return [
            (task, one.channel, self.loaded(one.value, f"write of task {task}", allowances[task]))
            for task, one in writes
        ]

    def _measure(self, kind: str, data: bytes, path: str, allowance: Allowance | None) -> None:
        counted = allowance or Allowance(self.max_bytes)
        if kind == "msgpack":
            counted.take(data, path)
        else:
            counted.take_size(len(data), path)


def mapping_of(value: object, path: str) -> dict[str, Any]:
    """A stored value that must be a mapping from names."""
    fields = cast("dict[object, object]", value) if isinstance(value, dict) else {None: None}
    if not all(isinstance(key, str) for key in fields):
        raise InvalidRecord(
            f"{type(cast('object', value)).__name__}, not fields with names",
            path=path,
            remedy=_REMEDY,
        )
    return cast("dict[str, Any]", fields)

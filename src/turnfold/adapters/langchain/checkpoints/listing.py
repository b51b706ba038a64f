"""Checkpoints as they are listed: newest first, page by page, and none read that is not asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from turnfold.adapters.langchain.checkpoints.documents import (
    Kept,
    checkpoint_key,
    namespace_prefix,
)
from turnfold.adapters.langchain.checkpoints.shelf import Shelf
from turnfold.adapters.langchain.checkpoints.threads import Place, Threads

__all__ = ("Listed", "Listing", "Wanted")


class Listed(NamedTuple):
    """A checkpoint and where it is."""

    thread: str
    home: str
    kept: Kept


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which checkpoints are asked for."""

    thread: str | None = None
    """None: of every thread."""
    namespace: str | None = None
    """None: of every namespace."""
    checkpoint: str | None = None
    before: str | None = None
    metadata: Mapping[str, object] | None = None
    limit: int | None = None

    def takes(self, kept: Kept, said: Callable[[Kept], Mapping[str, object]]) -> bool:
        """Whether a checkpoint is among them; `said` gives its metadata."""
        if self.namespace is not None and kept.namespace != self.namespace:
            return False
        if self.checkpoint is not None and kept.id != self.checkpoint:
            return False
        if self.before is not None and kept.id >= self.before:
            return False
        if not self.metadata:
            return True
        metadata = said(kept)
        return all(metadata.get(key) == value for key, value in self.metadata.items())


class Listing:
    """A listing under way."""

    def __init__(
        self,
        shelf: Shelf,
        threads: Threads,
        wanted: Wanted,
        said: Callable[[Kept], Mapping[str, object]],
    ) -> None:
        self._shelf, self._threads = shelf, threads
        self._wanted, self._said = wanted, said
        self._left = wanted.limit
        self._home: str | None = None
        self._after: str | None = ""

    async def more(self) -> list[Listed]:
        """The next ones; empty when there are none."""
        while self._after is not None and (self._left is None or self._left > 0):
            found = [one for one in await self._page() if self._wanted.takes(one.kept, self._said)]
            if self._left is not None:
                found = found[: self._left]
                self._left -= len(found)
            if found:
                return found
        return []

    async def _page(self) -> list[Listed]:
        wanted = self._wanted
        if wanted.thread is None or wanted.namespace is None:
            return await self._everything()
        if self._home is None:
            place, _ = await self._threads.find(wanted.thread)
            if place is None:
                self._after = None
                return []
            self._home, self._after = place.home, namespace_prefix(wanted.namespace)
        page = await self._shelf.page(self._home, after=self._after or "")
        own = [kept for kept in page if kept.namespace == wanted.namespace]
        ended = not page or len(own) < len(page)
        self._after = None if ended else checkpoint_key(wanted.namespace, page[-1].id)
        return [Listed(wanted.thread, self._home, kept) for kept in own]

    async def _everything(self) -> list[Listed]:
        """All namespaces together are in the order of their ids only once all have been read."""
        self._after = None
        places = await self._places()
        found = [
            Listed(place.thread, place.home, kept)
            for place in places
            for kept in await self._shelf.all(place.home)
        ]
        return sorted(found, key=lambda one: one.kept.id, reverse=True)

    async def _places(self) -> list[Place]:
        if self._wanted.thread is None:
            return await self._threads.all()
        place, _ = await self._threads.find(self._wanted.thread)
        return [place] if place is not None else []

"""Where each thread is kept: a home of its own, and one small document that says which.

A home only ever grows. Leaving something out (pruning, deleting runs) means moving what stays to a new home and erasing
the old one, byte by byte where the store can. Whoever writes to a home looks afterwards whether the thread still lives
there, and writes again where it went; whoever moves looks once more at the old home after the move. So between them
nothing is lost, without a lock. A thread's name may also come back after it was deleted, which the name of a
conversation never does.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final
from uuid import uuid4

import msgspec

from turnfold.adapters.langchain.checkpoints.documents import short_name
from turnfold.errors import Conflict, InvalidRecord
from turnfold.records import Document
from turnfold.stores.protocol import Scope, Store

__all__ = ("Place", "Threads")

_THREAD: Final = "langgraph-thread"
_PAGE = 500
_MOST_KNOWN = 4096
_TRIES = 16
"""Contests with other writers that one change may lose."""
_UNIQUE = re.compile("[0-9a-f]{32}")
_REMEDY: Final = "Restore the store from a backup, or delete the thread"


class Place(msgspec.Struct, frozen=True):
    """Where a thread is kept."""

    thread: str
    home: str
    left: tuple[str, ...] = ()
    """Homes that nobody lives in: of a move that is under way, or that was broken off. To be erased."""


class Threads:
    """The threads of a store."""

    def __init__(self, store: Store, scope: Scope, *, name: str) -> None:
        self._store, self._scope = store, scope
        self._name = name
        self._shelf = f"{name}:threads"
        self._homes: OrderedDict[str, str] = OrderedDict()
        """Thread -> home, as last seen."""

    def known(self, thread: str) -> str:
        """Where the thread was last seen; empty where it was not."""
        return self._homes.get(thread, "")

    async def find(self, thread: str) -> tuple[Place | None, int]:
        """Where the thread is kept now, and the version of what says so."""
        document = await self._store.get_document(
            self._scope, self._shelf, _THREAD, short_name(thread)
        )
        if document is None:
            self._homes.pop(thread, None)
            return None, 0
        place = self._place(document)
        self._see(place)
        return place, document.version

    async def home(self, thread: str) -> str:
        """Where the thread is kept now; a new thread is given a home."""
        for _ in range(_TRIES):
            place, _ = await self.find(thread)
            if place is not None:
                return place.home
            try:
                await self.put(Place(thread, self.new_home(thread)), expect=0)
            except Conflict:
                continue  # another writer gave it one
        raise Conflict(f"thread {thread!r}: deleted {_TRIES} times while it was begun; try again")

    async def all(self) -> list[Place]:
        """Every thread."""
        found: list[Place] = []
        after = ""
        while page := await self._store.documents(
            self._scope, self._shelf, _THREAD, after=after, limit=_PAGE
        ):
            found += [self._place(document) for document in page]
            after = page[-1].key
        return found

    async def put(self, place: Place, *, expect: int) -> int:
        """Say where a thread is kept, if what was said before has this version; the new version."""
        body = msgspec.json.encode(place)
        document = Document(_THREAD, short_name(place.thread), body, 0)
        stored = await self._store.put_document(self._scope, self._shelf, document, expect=expect)
        self._see(place)
        return stored.document.version

    async def delete(self, thread: str) -> None:
        """Erase a thread and every byte of it."""
        for _ in range(_TRIES):
            try:
                place, version = await self.find(thread)
            except InvalidRecord:
                # What says where it is kept cannot be believed: whatever bears its name goes.
                place, version = Place(thread, "", await self._homes_of(thread)), None
            if place is None:
                return
            # What was said goes first: a process that dies in between leaves a place that can be deleted again.
            await self.erase(*filter(None, (place.home, *place.left)))
            try:
                await self._store.drop_document(
                    self._scope, self._shelf, _THREAD, short_name(thread), expect=version
                )
            except Conflict:
                continue  # it moved meanwhile
            self._homes.pop(thread, None)
            return
        raise Conflict(f"thread {thread!r}: moved {_TRIES} times while it was deleted; try again")

    async def erase(self, *homes: str) -> None:
        """Erase homes."""
        for home in homes:
            await self._store.delete(self._scope, home)

    def new_home(self, thread: str) -> str:
        """A place that never was another thread's, even one of the same name."""
        return f"{self._home_prefix(thread)}{uuid4().hex}"

    def _home_prefix(self, thread: str) -> str:
        return f"{self._name}:{short_name(thread)}:"

    def _is_home(self, name: str, thread: str) -> bool:
        prefix = self._home_prefix(thread)
        return name.startswith(prefix) and bool(_UNIQUE.fullmatch(name, len(prefix)))

    async def _homes_of(self, thread: str) -> tuple[str, ...]:
        """Every conversation of the store that has the name of a home of this thread."""
        found: list[str] = []
        after = prefix = self._home_prefix(thread)
        while page := await self._store.conversations(self._scope, after=after, limit=_PAGE):
            names = [info.conversation for info in page]
            found += [name for name in names if self._is_home(name, thread)]
            after = names[-1]
            if not after.startswith(prefix):
                break
        return tuple(found)

    def _place(self, document: Document) -> Place:
        """What a document says, if it speaks of homes of its own thread: they are erased on its word."""
        try:
            place = msgspec.json.decode(document.body, type=Place)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(
                f"where thread {document.key!r} is kept cannot be read: {error}", remedy=_REMEDY
            ) from None
        homes = (place.home, *place.left)
        if short_name(place.thread) != document.key or not all(
            self._is_home(home, place.thread) for home in homes
        ):
            raise InvalidRecord(
                f"thread {document.key!r} is said to be kept in {place.home[:200]!r}, which is no home of it",
                remedy=_REMEDY,
            )
        return place

    def _see(self, place: Place) -> None:
        self._homes[place.thread] = place.home
        self._homes.move_to_end(place.thread)
        while len(self._homes) > _MOST_KNOWN:
            self._homes.popitem(last=False)

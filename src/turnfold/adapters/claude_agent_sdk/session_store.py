"""The Claude Agent SDK's `SessionStore` on any turnfold store: transcripts that can be resumed from it alone.

A transcript is a log of its own: its lines are entries, a line's `uuid` is its client id, so that a batch sent again
is stored once and lines keep the order they were written in. One small document per transcript says where that log is
and carries the SDK's running summary with the place up to which it was made; both change by compare-and-swap. Lines
are never looked into.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, cast
from uuid import uuid4

import msgspec
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.records import Document, Message, NewEntry, OpaquePart
from turnfold.records.json_text import freeze, thaw_object

__all__ = ("TurnfoldSessionStore",)

_TRANSCRIPT: Final = "claude-transcript"
_PROVIDER: Final = "claude_agent_sdk"
_PAGE = 500
_UNIQUE = re.compile("[0-9a-f]{32}")
_TRIES = 16
"""Contests with other writers that one append may lose."""
_LONGEST = 200
"""Characters of a name that are used as they are; a longer one is named by its digest."""


class _Place(msgspec.Struct, frozen=True):
    """Where a transcript is kept, and what is known of it without reading it."""

    session_id: str
    home: str
    subpath: str = ""
    modified: int = 0
    """Milliseconds since 1970 when a line was stored last."""
    upto: int = 0
    """The last line that `summary` speaks of."""
    summary: dict[str, object] | None = None


class TurnfoldSessionStore(SessionStore):
    """Transcripts of the Claude Agent SDK in the store of a memory. `delete` erases every byte of them."""

    def __init__(self, memory: AsyncMemory | Memory, *, name: str = "claude-agent-sdk") -> None:
        awaiting = memory.awaiting if isinstance(memory, Memory) else memory
        self._store, self._scope = awaiting.store, awaiting.scope
        self._name = name

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store lines in order, all of them or none; a line with a known uuid is not stored again."""
        if not entries:
            return
        for _ in range(_TRIES):
            place, _ = await self._find(key)
            if place is None:
                await self._register(key)
                continue
            try:
                await self._write(place.home, entries)
                await self._summarise(key)
            except (Conflict, IdReused, ConversationDeleted):
                continue  # another writer was first, or the transcript was just deleted: look again
            return
        raise Conflict(
            f"session {key['session_id']!r}: {_TRIES} other writers were first; append again"
        )

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every line of a transcript, in order; None for one that was never written."""
        place, _ = await self._find(key)
        return (await self._lines(place.home, after=0) or None) if place else None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project and when each was written last."""
        return [
            {"session_id": place.session_id, "mtime": place.modified}
            for place in await self._places(project_key)
            if not place.subpath and place.upto
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's own running summary of each session of a project."""
        return [
            {**cast("SessionSummaryEntry", place.summary), "mtime": place.modified}
            for place in await self._places(project_key)
            if not place.subpath and place.summary is not None
        ]

    async def delete(self, key: SessionKey) -> None:
        """Erase a transcript; with it those of its subagents, unless one of them is named."""
        subpath = key.get("subpath")
        project = key["project_key"]
        for place in await self._places(project):
            if place.session_id == key["session_id"] and subpath in (None, place.subpath):
                # The lines go first: a process that dies in between leaves a place that can be deleted again.
                await self._store.delete(self._scope, place.home)
                await self._store.drop_document(
                    self._scope,
                    self._shelf(project),
                    _TRANSCRIPT,
                    _name_of(place.session_id, place.subpath),
                )

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths under a session."""
        return [
            place.subpath
            for place in await self._places(key["project_key"])
            if place.session_id == key["session_id"] and place.subpath
        ]

    async def _write(self, home: str, entries: Sequence[SessionStoreEntry]) -> None:
        """Append the lines that are not there yet."""
        new: dict[str, NewEntry] = {}
        for entry in entries:
            uuid = entry.get("uuid")
            # A line without a uuid is never a repetition; it needs a name all the same, as the others have one.
            client_id = f"uuid:{_short(uuid)}" if uuid else f"line:{uuid4().hex}"
            new.setdefault(client_id, NewEntry(_record(entry), client_id))
        found = await self._store.find(self._scope, home, list(new))
        known = {entry.client_id for entry in found}
        unknown = [entry for entry in new.values() if entry.client_id not in known]
        if unknown:
            await self._store.append(self._scope, home, unknown)

    async def _summarise(self, key: SessionKey) -> None:
        """Carry the summary on over the lines it does not speak of yet."""
        for _ in range(_TRIES):
            place, version = await self._find(key)
            if place is None:
                return  # deleted meanwhile, with what was just written
            head = await self._store.head(self._scope, place.home)
            if head.seq <= place.upto:
                return
            summary = place.summary
            if not place.subpath:
                lines = await self._lines(place.home, after=place.upto)
                previous = cast("SessionSummaryEntry | None", summary)
                summary = cast("dict[str, object]", fold_session_summary(previous, key, lines))
            modified = max(time.time_ns() // 1_000_000, place.modified + 1)
            told = msgspec.structs.replace(place, summary=summary, upto=head.seq, modified=modified)
            try:
                await self._put(key["project_key"], told, expect=version)
            except Conflict:
                continue
            return

    async def _register(self, key: SessionKey) -> None:
        """Give a transcript a place that never was another's, even one of the same name that was deleted."""
        home = f"{self._home_prefix(key['session_id'])}{uuid4().hex}"
        subpath = key.get("subpath", "")
        if "subpath" in key and not subpath:
            raise InvalidOption("subpath='' names nothing: leave it out for the main transcript")
        place = _Place(session_id=key["session_id"], home=home, subpath=subpath)
        try:
            await self._put(key["project_key"], place, expect=0)
        except Conflict:
            return  # another writer gave it one

    async def _find(self, key: SessionKey) -> tuple[_Place | None, int]:
        document = await self._store.get_document(
            self._scope,
            self._shelf(key["project_key"]),
            _TRANSCRIPT,
            _name_of(key["session_id"], key.get("subpath", "")),
        )
        if document is None:
            return None, 0
        return self._place(document), document.version

    async def _places(self, project_key: str) -> list[_Place]:
        found: list[_Place] = []
        after = ""
        while page := await self._store.documents(
            self._scope, self._shelf(project_key), _TRANSCRIPT, after=after, limit=_PAGE
        ):
            found += [self._place(document) for document in page]
            after = page[-1].key
        return found

    def _place(self, document: Document) -> _Place:
        """What a document says, if it speaks of a home of its own session: that is erased on its word."""
        try:
            place = msgspec.json.decode(document.body, type=_Place)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(f"not a stored transcript: {error}", path=document.key) from None
        home = self._home_prefix(place.session_id)
        if _name_of(place.session_id, place.subpath) != document.key or not (
            place.home.startswith(home) and _UNIQUE.fullmatch(place.home, len(home))
        ):
            raise InvalidRecord(
                f"it is said to be kept in {place.home[:200]!r}, which is no home of this session",
                path=document.key,
                remedy="Restore the store from a backup, or erase the document",
            )
        return place

    def _home_prefix(self, session_id: str) -> str:
        return f"{self._name}:{_short(session_id)}:"

    async def _put(self, project_key: str, place: _Place, *, expect: int) -> None:
        name = _name_of(place.session_id, place.subpath)
        document = Document(_TRANSCRIPT, name, msgspec.json.encode(place), 0)
        await self._store.put_document(
            self._scope, self._shelf(project_key), document, expect=expect
        )

    async def _lines(self, home: str, *, after: int) -> list[SessionStoreEntry]:
        found: list[SessionStoreEntry] = []
        while page := await self._store.read(self._scope, home, after=after, limit=_PAGE):
            found += [_line(entry.message) for entry in page]
            after = page[-1].seq
        return found

    def _shelf(self, project_key: str) -> str:
        return f"{self._name}:project:{_short(project_key)}"


def _name_of(session_id: str, subpath: str) -> str:
    return f"{_short(session_id)}\x1f{_short(subpath)}" if subpath else _short(session_id)


def _short(name: str) -> str:
    if len(name) <= _LONGEST and name.isprintable():
        return name
    return f"digest:{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


def _record(entry: SessionStoreEntry) -> Message:
    """A line as it is kept: as JSON; where turnfold's JSON could not carry it (a lone surrogate), as its text."""
    try:
        text = freeze({"line": entry}, path="entry")
    except InvalidRecord:
        text = freeze({"text": json.dumps(entry)}, path="entry")
    return Message.of("user", (OpaquePart(text, _PROVIDER),))


def _line(record: Message) -> SessionStoreEntry:
    part = record.parts[0]
    if not isinstance(part, OpaquePart) or part.provider != _PROVIDER:
        raise InvalidRecord(f"a {type(part).__name__} where a line of a transcript should be")
    kept = thaw_object(part.json)
    try:
        line = kept["line"] if "line" in kept else json.loads(str(kept["text"]))
    except (ValueError, LookupError, RecursionError) as error:
        raise InvalidRecord(f"not a stored line of a transcript: {error}") from None
    if not isinstance(line, dict):
        raise InvalidRecord(f"a line of a transcript that is a {type(line).__name__}")
    return cast("SessionStoreEntry", line)

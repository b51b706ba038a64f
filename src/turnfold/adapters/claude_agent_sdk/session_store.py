"""The Claude Agent SDK's `SessionStore` on any turnfold store, from which SDK sessions can be resumed.

Each transcript is a log: its lines are entries, and a line's `uuid` is the client id, so that a batch sent twice is
stored once and lines keep their order. One small document per transcript names that log and holds the SDK's running
summary, with the last line it covers; the document is changed by compare-and-swap. The content of lines is never
interpreted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
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

from turnfold.adapters._common import ThreadBridge, is_home, new_home, short_name
from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.records import Document, Message, NewEntry, OpaquePart, freeze, thaw_object
from turnfold.stores import CLAUDE_HOMES, all_documents, all_entries, refuse_erased

__all__ = ("TurnfoldSessionStore",)


_TRANSCRIPT: Final = CLAUDE_HOMES.kind
_PROVIDER: Final = "claude_agent_sdk"

_TRIES = 16
"""Attempts to make one append; an attempt fails if another writer was first."""


class _TranscriptPlace(msgspec.Struct, frozen=True):
    """The index document of a transcript: which conversation holds its lines, the SDK's summary, the last change."""

    session_id: str
    home: str
    subpath: str = ""
    modified: int = 0
    """Time at which the last line of the transcript was stored, in milliseconds since 1970."""
    upto: int = 0
    """Seq (log position) of the newest transcript line that the SDK's summary of the transcript covers."""
    summary: dict[str, object] | None = None


class TurnfoldSessionStore(SessionStore):
    """Stores the transcripts of the Claude Agent SDK in the store of a memory. `delete` erases every byte of them."""

    def __init__(self, memory: AsyncMemory | Memory, *, name: str = CLAUDE_HOMES.name) -> None:
        awaiting = memory.awaiting if isinstance(memory, Memory) else memory
        self._store, self._scope = awaiting.store, awaiting.scope
        self._names = replace(CLAUDE_HOMES, name=name)
        self._off_loop = ThreadBridge(memory)
        self._last_modified = 0
        """The newest time of a change that this store object recorded: sessions written in the same millisecond keep
        their order."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store lines in order, all or none; a line whose uuid is stored already is not stored again."""
        if entries:
            await self._off_loop(self._append(key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all lines of a transcript, in order; None if it was never written."""
        return await self._off_loop(self._load(key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project and when each was last written."""
        return [
            {"session_id": place.session_id, "mtime": place.modified}
            for place in await self._off_loop(self._places(project_key))
            if not place.subpath and place.upto
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return, for each session of a project, the summary that the SDK itself makes of it."""
        return [
            {**cast("SessionSummaryEntry", place.summary), "mtime": place.modified}
            for place in await self._off_loop(self._places(project_key))
            if not place.subpath and place.summary is not None
        ]

    async def delete(self, key: SessionKey) -> None:
        """Erase a transcript and those of its subagents.

        If `key` has a subpath, only the transcript of that subagent is erased.
        """
        await self._off_loop(self._delete(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's transcripts, one for each subagent."""
        return [
            place.subpath
            for place in await self._off_loop(self._places(key["project_key"]))
            if place.session_id == key["session_id"] and place.subpath
        ]

    async def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        for _ in range(_TRIES):
            place, _ = await self._find(key)
            if place is None:
                await self._register(key)
                continue
            try:
                await self._write(place.home, entries)
                await self._update_summary(key)
            except (Conflict, IdReused, ConversationDeleted):
                continue  # another writer was first, or the transcript was just deleted: try again
            return
        raise Conflict(
            f"the lines of session {key['session_id']!r} were not all stored: other writers changed the transcript "
            f"first, {_TRIES} times in a row; append them again"
        )

    async def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        place, _ = await self._find(key)
        return (await self._lines(place.home, after=0) or None) if place else None

    async def _delete(self, key: SessionKey) -> None:
        subpath = key.get("subpath")
        project = key["project_key"]
        for place in await self._places(project):
            if place.session_id == key["session_id"] and subpath in (None, place.subpath):
                # The lines go first: a process that dies in between leaves a place that can be deleted again.
                await self._store.delete(self._scope, place.home)
                await self._store.drop_document(
                    self._scope,
                    self._index(project),
                    _TRANSCRIPT,
                    _transcript_key(place.session_id, place.subpath),
                )

    async def _write(self, home: str, entries: Sequence[SessionStoreEntry]) -> None:
        """Append the transcript lines that the conversation does not have yet."""
        new: dict[str, NewEntry] = {}
        for entry in entries:
            uuid = entry.get("uuid")
            # A line without a uuid is never a repetition; it needs an id all the same, as the others have one.
            client_id = f"uuid:{short_name(uuid)}" if uuid else f"line:{uuid4().hex}"
            new.setdefault(client_id, NewEntry(_record(entry), client_id))
        found = await self._store.find(self._scope, home, list(new))
        known = {entry.client_id for entry in found}
        unknown = [entry for entry in new.values() if entry.client_id not in known]
        if unknown:
            await self._store.append(self._scope, home, unknown)

    async def _update_summary(self, key: SessionKey) -> None:
        """Extend the SDK's summary of a transcript by the lines that it does not cover yet."""
        for _ in range(_TRIES):
            place, version = await self._find(key)
            if place is None:
                return  # deleted meanwhile, with the lines that were just written
            head = await self._store.head(self._scope, place.home)
            if head.seq <= place.upto:
                return
            summary = place.summary
            if not place.subpath:
                lines = await self._lines(place.home, after=place.upto)
                previous = cast("SessionSummaryEntry | None", summary)
                summary = cast("dict[str, object]", fold_session_summary(previous, key, lines))
            now = time.time_ns() // 1_000_000
            modified = max(now, place.modified + 1, self._last_modified + 1)
            self._last_modified = modified
            updated = msgspec.structs.replace(
                place, summary=summary, upto=head.seq, modified=modified
            )
            try:
                await self._put(key["project_key"], updated, expect=version)
            except Conflict:
                continue
            return

    async def _register(self, key: SessionKey) -> None:
        """Create the index document of a new transcript, with a new conversation for its lines.

        Raises `ConversationDeleted` if the session of the same id was erased.
        """
        session = key["session_id"]
        await refuse_erased(self._store, self._scope, session)
        home = new_home(self._home_prefix(session))
        subpath = key.get("subpath", "")
        if "subpath" in key and not subpath:
            raise InvalidOption("subpath='' is empty: leave it out for the main transcript")
        place = _TranscriptPlace(session_id=session, home=home, subpath=subpath)
        try:
            await self._put(key["project_key"], place, expect=0)
        except Conflict:
            return  # another writer registered it
        try:
            await refuse_erased(self._store, self._scope, session)
        except ConversationDeleted:
            await self._delete(key)
            raise

    async def _find(self, key: SessionKey) -> tuple[_TranscriptPlace | None, int]:
        document = await self._store.get_document(
            self._scope,
            self._index(key["project_key"]),
            _TRANSCRIPT,
            _transcript_key(key["session_id"], key.get("subpath", "")),
        )
        if document is None:
            return None, 0
        return self._place(document), document.version

    async def _places(self, project_key: str) -> list[_TranscriptPlace]:
        index = self._index(project_key)
        documents = await all_documents(self._store, self._scope, index, _TRANSCRIPT)
        return [self._place(document) for document in documents]

    def _place(self, document: Document) -> _TranscriptPlace:
        """Decode the index document of a transcript; raise `InvalidRecord` if its conversation is not the session's."""
        try:
            place = msgspec.json.decode(document.body, type=_TranscriptPlace)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(
                f"the document that names a transcript's conversation cannot be decoded: {error}",
                path=document.key,
                remedy="Restore the store from a backup, or erase the document",
            ) from None
        if _transcript_key(place.session_id, place.subpath) != document.key or not is_home(
            place.home, self._home_prefix(place.session_id)
        ):
            raise InvalidRecord(
                f"the document of this transcript names conversation {place.home[:200]!r}, which does not "
                "belong to this session",
                path=document.key,
                remedy="Restore the store from a backup, or erase the document",
            )
        return place

    def _home_prefix(self, session_id: str) -> str:
        return self._names.prefix(session_id)

    async def _put(self, project_key: str, place: _TranscriptPlace, *, expect: int) -> None:
        name = _transcript_key(place.session_id, place.subpath)
        document = Document(_TRANSCRIPT, name, msgspec.json.encode(place), 0)
        await self._store.put_document(
            self._scope, self._index(project_key), document, expect=expect
        )

    async def _lines(self, home: str, *, after: int) -> list[SessionStoreEntry]:
        entries = all_entries(self._store, self._scope, home, after=after)
        return [_line(entry.message) async for entry in entries]

    def _index(self, project_key: str) -> str:
        return f"{self._names.name}:{CLAUDE_HOMES.index}{short_name(project_key)}"


def _transcript_key(session_id: str, subpath: str) -> str:
    return (
        f"{short_name(session_id)}\x1f{short_name(subpath)}" if subpath else short_name(session_id)
    )


def _record(entry: SessionStoreEntry) -> Message:
    """Return a transcript line as a stored message: as JSON, or as escaped JSON text if it has a lone surrogate."""
    try:
        text = freeze({"line": entry}, path="entry")
    except InvalidRecord:
        text = freeze({"text": json.dumps(entry)}, path="entry")
    return Message.of("user", (OpaquePart(text, _PROVIDER),))


def _line(record: Message) -> SessionStoreEntry:
    part = record.parts[0]
    if not isinstance(part, OpaquePart) or part.provider != _PROVIDER:
        raise InvalidRecord(
            f"an entry of the transcript's conversation holds a {type(part).__name__}, not a transcript line: another "
            "program wrote to the conversation, or it is damaged",
            remedy="Restore the store from a backup, or delete the session",
        )
    kept = thaw_object(part.json)
    try:
        line = kept["line"] if "line" in kept else json.loads(str(kept["text"]))
    except (ValueError, LookupError, RecursionError) as error:
        raise InvalidRecord(
            f"a stored transcript line cannot be decoded: {error}",
            remedy="Restore the store from a backup, or delete the session",
        ) from None
    if not isinstance(line, dict):
        raise InvalidRecord(
            f"a stored transcript line must be a JSON object, got {type(line).__name__}",
            remedy="Restore the store from a backup, or delete the session",
        )
    return cast("SessionStoreEntry", line)

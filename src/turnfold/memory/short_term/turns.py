"""Writes turns, each once.

The document's write has no id, so whoever repeats one that was acknowledged to nobody stores it twice. Here a turn is
named by its `client_id` or, where there is none, by the query it answers: the log knows the name and answers the retry
with what it has. A query is used by one write, wherever it was asked: before it is used under a client id, that is
noted with it; otherwise it gives the turn its name, which nobody can use again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from turnfold.errors import IdReused, InvalidOption
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.short_term.standing import ShortNotes, TurnNote
from turnfold.records import Entry, Message, NewEntry
from turnfold.stores.protocol import Head, Scope, Store

__all__ = ("TurnWriter", "Written", "asked_note")


def asked_note(note: TurnNote, query: str) -> dict[str, object]:
    """What changes in a note when a query is made; the same one again is the same one."""
    if not query or (note.query == query and not note.taken):
        return {}
    return {"ask": secrets.token_hex(8), "query": query, "taken": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    query: str
    answer: str
    labels: Mapping[str, str]
    client_id: str
    ask: str
    """The query it answers; empty for none."""

    def entries(self) -> list[NewEntry]:
        """What to append, under a name that a retry is recognised by where there is one."""
        named = self.client_id or self.ask
        labels = {name: value for name, value in self.labels.items() if value}
        said: list[NewEntry] = []
        for role, text in (("user", self.query), ("assistant", self.answer)):
            if text:
                message = Message(role, text, metadata=labels)
                said.append(NewEntry(message, f"{named}.{role}" if named else ""))
        return said


@dataclass(frozen=True, slots=True)
class Written:
    """A turn that is in the log."""

    created: int
    """Microseconds since 1970."""
    head: Head | None = None
    """Where the log stood when it was appended; None for one that was there already."""


@dataclass(frozen=True, slots=True)
class TurnWriter:
    """Appends turns to logs."""

    store: Store
    scope: Scope
    notes: ShortNotes
    meter: Meter

    async def write(
        self,
        conversation: str,
        *,
        query: str,
        answer: str,
        labels: Mapping[str, str],
        client_id: str,
    ) -> Written:
        """Append a turn, or find it where it is a repeated one."""
        if client_id:
            known = await self._known(conversation, client_id, query, answer)
            if known is not None:
                await self._finish(conversation, client_id)
                return Written(known)
        note = await self._claim(conversation, query, client_id)
        waits = bool(note.query) and note.taken == client_id and query in ("", note.query)
        if not waits and not client_id:
            repeated = await self._repeated(conversation, note, query, answer)
            if repeated is not None:
                return Written(repeated)
        turn = _Turn(
            query=query or (note.query if waits else ""),
            answer=answer,
            labels=labels,
            client_id=client_id,
            ask=note.ask if waits else "",
        )
        written = await self._append(conversation, turn, given=query)
        if turn.ask:
            await self._finish(conversation, client_id, turn.ask)
        return written

    async def _append(self, conversation: str, turn: _Turn, *, given: str) -> Written:
        entries = turn.entries()
        if not entries:
            raise InvalidOption(
                "nothing to write: give user_query or agent_response; no query waits for an answer"
            )
        try:
            done = await self.store.append(self.scope, conversation, entries)
        except IdReused:
            if turn.client_id or not turn.ask:
                raise
            # The query was answered before, by a writer who did not live to say so: this is another turn.
            rest = replace(turn, query=given, ask="")
            return await self._append(conversation, rest, given=given)
        self.meter.add("entries", 0 if done.repeated else len(entries))
        [last] = await self.store.read(
            self.scope, conversation, after=done.last - 1, upto=done.last, limit=1
        )
        return Written(last.created, done.head)

    async def _claim(self, conversation: str, query: str, client_id: str) -> TurnNote:
        """The note; with a client id, after noting that the query that waits is used under it."""

        def claim(note: TurnNote) -> TurnNote:
            free = note.query and not note.taken and query in ("", note.query)
            return note.with_changes({"taken": client_id}) if free and client_id else note

        return await self.notes.change_turn(conversation, claim)

    async def _finish(self, conversation: str, client_id: str, ask: str = "") -> None:
        """No query waits any more, if it is the one this write used."""

        def finish(note: TurnNote) -> TurnNote:
            mine = note.ask == ask if ask else bool(note.query) and note.taken == client_id
            if not mine or not note.query:
                return note
            return note.with_changes({"query": "", "taken": "", "used": note.ask})

        await self.notes.change_turn(conversation, finish)

    async def _known(
        self, conversation: str, client_id: str, query: str, answer: str
    ) -> int | None:
        """When the turn of this client id was written, if it was; another text under its id is refused."""
        found = await self._find(conversation, client_id)
        if not found:
            return None
        said = {entry.message.role: entry.message.text for entry in found}
        if said.get("assistant", "") != answer or (query and said.get("user", "") != query):
            raise IdReused(
                f"client id {client_id!r} already names another turn (entry {found[-1].seq}): use a new id"
            )
        return found[-1].created

    async def _repeated(
        self, conversation: str, note: TurnNote, query: str, answer: str
    ) -> int | None:
        """When this very turn answered the last query, if nothing was asked or said since."""
        if not note.used or note.query:
            return None
        found = await self._find(conversation, note.used)
        head = await self.store.head(self.scope, conversation)
        said = {entry.message.role: entry.message.text for entry in found}
        same = said.get("assistant", "") == answer and query in ("", said.get("user", ""))
        return found[-1].created if found and same and found[-1].seq == head.seq else None

    async def _find(self, conversation: str, name: str) -> list[Entry]:
        names = [f"{name}.user", f"{name}.assistant"]
        return await self.store.find(self.scope, conversation, names)

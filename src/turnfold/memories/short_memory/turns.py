"""Read the end of a log for a query, and write turns, each once.

Reading goes backwards from the newest entry until the model's window is full, so that a conversation of a million turns
costs what its window costs. A summariser reads forwards from the first entry that no summary covers: everything if it
fits the window, else as much as fits. The text says how far it got, so that no summary covers a turn it has not seen.

The document's write has no id, so a retry would store a turn twice. Here a turn is named by its `client_id` or else by
the query it answers, and the log recognises the name. A query is answered by one write, whichever process it was made
in: a write with a client id records that it uses the query; otherwise the query gives the turn its name.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from turnfold.errors import IdReused, InvalidOption
from turnfold.memories.short_memory.render import (
    TurnText,
    fit_history,
    group_turns,
    oldest_that_fit,
    remove_label,
    render_history,
)
from turnfold.memories.short_memory.stored_state import ConversationView, ShortNotes, TurnNote
from turnfold.memory import MemoryMode
from turnfold.records import Entry, Message, NewEntry
from turnfold.stores import Head, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import TokenCounter

__all__ = (
    "LogEnd",
    "TurnWriter",
    "WrittenTurn",
    "read_history",
    "with_query",
)


_PAGE: Final = 64
_LINE_ENDS: Final = 2
"""Tokens between the rules and the history."""


@dataclass(slots=True)
class LogEnd:
    """The newest entries of a log, read backwards page by page."""

    store: Store
    scope: Scope
    view: ConversationView
    entries: list[Entry] = field(default_factory=list[Entry])
    page: int = _PAGE

    @property
    def first(self) -> int:
        """Seq of the oldest entry that was read; one past the newest if none was."""
        return self.entries[0].seq if self.entries else self.view.head.seq + 1

    async def open(self, tokens: int) -> None:
        """Read about as many of the newest entries as have `tokens`, which a cache can serve."""
        if self.view.head.seq > self.view.cleared:
            newest = await self.store.tail(
                self.scope, self.view.conversation, tokens=max(tokens, 1)
            )
            head, cleared = self.view.head.seq, self.view.cleared
            # Entries written after the head was read belong to the next query.
            self.entries = [entry for entry in newest if cleared < entry.seq <= head]
            if not self.entries or self.entries[-1].seq != head:
                self.entries = []
                await self.older()

    async def older(self) -> bool:
        """Read one more page; return False if nothing older is left since the last restart."""
        upto = self.first - 1
        after = max(upto - self.page, self.view.cleared)
        if after >= upto:
            return False
        page = await self.store.read(
            self.scope, self.view.conversation, after=after, upto=upto, limit=self.page
        )
        self.entries[:0] = page
        return bool(page)

    async def first_of_newest(self, turns: int) -> int:
        """Return the seq of the first entry of the newest `turns` turns since the last restart."""
        if turns <= 0:
            return self.view.head.seq + 1
        while True:
            starts = [entry.seq for entry in self.entries if entry.message.role == "user"]
            if len(starts) >= turns:
                return starts[-turns]
            if not await self.older():
                return self.first

    async def last_answer(self) -> str:
        """Return the newest assistant text since the last restart."""
        at = len(self.entries)
        while True:
            while at:
                at -= 1
                message = self.entries[at].message
                if message.role == "assistant" and message.text:
                    return message.text
            before = len(self.entries)
            if not await self.older():
                return ""
            at = len(self.entries) - before

    async def turns_before(self) -> int:
        """Return the number of turns before the last restart."""
        seq = self.view.cleared
        if seq < 1:
            return 0
        found = await self.store.read(
            self.scope, self.view.conversation, after=seq - 1, upto=seq, limit=1
        )
        return found[0].turn if found else 0

    async def window(self, turns: int) -> list[Message]:
        """Return the user and assistant messages of the newest turns."""
        first = await self.first_of_newest(turns)
        return [
            Message(entry.message.role, entry.message.text)
            for entry in self.entries
            if entry.seq >= first and entry.message.role in ("user", "assistant")
            if entry.message.text
        ]


@dataclass(frozen=True, slots=True)
class _History:
    """The text for a query, and the text for a summariser."""

    text: str
    full: str
    tokens: int
    """Tokens of `text` and of the turns that did not fit into it."""
    upto: int
    """The newest entry of `full`."""


async def read_history(
    log: LogEnd, *, counter: TokenCounter, window: int, query: str, rules: str = ""
) -> _History:
    """Read the history of a conversation for a model with a window of `window` tokens; `rules` stand before it."""
    view, count = log.view, counter.count_text
    full_mode = view.mode is MemoryMode.FULL_HISTORY
    summary = remove_label(view.live.text) if view.live else ""
    room = max(window - count(query) - (count(rules) + _LINE_ENDS if rules else 0), 0)
    after = view.cleared if full_mode else view.covered
    turns = await _load_turns(log, after, room, counter)
    unread = await _unread_turns(log, turns)

    def hidden(shown: int) -> int:
        return unread + sum(turn.last > view.covered for turn in turns[: len(turns) - shown])

    text, shown = "", turns
    if full_mode and log.first <= after + 1:
        # The summary is left out only if everything it covers is shown.
        whole = render_history(summary="", turns=turns, hidden=0)
        text = whole if count(whole) <= room else ""
    if not text and (turns or summary):
        text, shown = fit_history(
            summary=summary, turns=turns, hidden=hidden, room=room, count=count
        )
    if rules and (summary or not full_mode):
        text = f"{rules}\n\n{text}" if text else rules
    first = shown[0].first if shown else view.head.seq + 1
    tokens = count(text) + (
        await _tokens_between(log, after, first - 1) if first > after + 1 else 0
    )
    full, upto = await _text_to_summarise(log, summary, room=window, counter=counter)
    return _History(text, full, tokens, upto)


async def _unread_turns(log: LogEnd, turns: list[TurnText]) -> int:
    """Return the number of turns before these that no summary covers."""
    covered = log.view.covered
    if not turns or turns[0].first <= covered + 1:
        return 0
    entry = await _entry(log, covered)
    return max(turns[0].number - 1 - (entry.turn if entry else 0), 1)


async def _load_turns(log: LogEnd, after: int, room: int, counter: TokenCounter) -> list[TurnText]:
    """Return the turns after a seq, oldest first, or as many of the newest as surely fill the room."""
    while True:
        since = [entry for entry in log.entries if entry.seq > after]
        turns = group_turns(since)
        if log.first <= after + 1:
            return turns
        cost = sum(counter.count_text(turn.text) + 1 for turn in turns[1:])
        if cost > room:
            return turns[1:]  # the first may be incomplete
        if not await log.older():
            return turns


async def _text_to_summarise(
    log: LogEnd, summary: str, *, room: int, counter: TokenCounter
) -> tuple[str, int]:
    view = log.view
    covered, head = view.covered, view.head.seq
    if head <= covered:
        return render_history(summary=summary, turns=(), hidden=0), covered
    if log.first <= covered + 1:
        entries = [entry for entry in log.entries if entry.seq > covered]
        complete = True
    else:
        entries, complete = await _read_oldest(log, covered, room, counter)
    turns = group_turns(entries)
    read = oldest_that_fit(summary=summary, turns=turns, room=room, count=counter.count_text)
    if not complete and len(read) == len(turns) > 1:
        read = read[:-1]  # the last may be incomplete
    return render_history(summary=summary, turns=read, hidden=0), read[-1].last


async def _read_oldest(
    log: LogEnd, after: int, room: int, counter: TokenCounter
) -> tuple[list[Entry], bool]:
    """Read the oldest entries after a seq until they surely fill the room; return them and True if they are all."""
    entries: list[Entry] = []
    head, used = log.view.head.seq, 0
    while used <= room or len({entry.turn for entry in entries}) < 2:
        page = await log.store.read(
            log.scope, log.view.conversation, after=after, upto=head, limit=_PAGE
        )
        if not page:
            return entries, True
        entries += page
        after = page[-1].seq
        used += sum(counter.count_text(entry.message.text) for entry in page)
    return entries, after >= head


async def _tokens_between(log: LogEnd, after: int, upto: int) -> int:
    """Return the tokens of the entries after one and up to another, from their running sums."""
    last, before = await _entry(log, upto), await _entry(log, after)
    return (last.running if last else 0) - (before.running if before else 0)


async def _entry(log: LogEnd, seq: int) -> Entry | None:
    if seq < 1:
        return None
    if log.entries and log.first <= seq:
        return log.entries[seq - log.first]
    found = await log.store.read(log.scope, log.view.conversation, after=seq - 1, upto=seq, limit=1)
    return found[0] if found else None


def with_query(note: TurnNote, query: str) -> dict[str, object]:
    """Return the changes of a note for a new query; none if the same query waits already."""
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
    """Id of the query it answers; empty for none."""

    def entries(self) -> list[NewEntry]:
        """Return the entries to append, with client ids by which a retry is recognised."""
        name = self.client_id or self.ask
        labels = {name: value for name, value in self.labels.items() if value}
        entries: list[NewEntry] = []
        for role, text in (("user", self.query), ("assistant", self.answer)):
            if text:
                message = Message(role, text, metadata=labels)
                entries.append(NewEntry(message, f"{name}.{role}" if name else ""))
        return entries


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """A stored turn."""

    created: int
    """Microseconds since 1970."""
    head: Head | None = None
    """The head after the append; None for a turn that was there already."""


@dataclass(frozen=True, slots=True)
class TurnWriter:
    """Appends turns to logs, each once."""

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
    ) -> WrittenTurn:
        """Append a turn, or find it if the call is a retry."""
        if client_id:
            known = await self._find_written(conversation, client_id, query, answer)
            if known is not None:
                await self._finish(conversation, client_id)
                return WrittenTurn(known)
        note = await self._claim(conversation, query, client_id)
        waits = bool(note.query) and note.taken == client_id and query in ("", note.query)
        if not waits and not client_id:
            repeated = await self._find_repeated(conversation, note, query, answer)
            if repeated is not None:
                return WrittenTurn(repeated)
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

    async def _append(self, conversation: str, turn: _Turn, *, given: str) -> WrittenTurn:
        entries = turn.entries()
        if not entries:
            raise InvalidOption(
                "nothing to write: user_query and agent_response are empty, and no earlier query waits for an answer; "
                "give one of them"
            )
        try:
            done = await self.store.append(self.scope, conversation, entries)
        except IdReused:
            if turn.client_id or not turn.ask:
                raise
            # Another write answered the query and died before recording it: this is another turn.
            rest = replace(turn, query=given, ask="")
            return await self._append(conversation, rest, given=given)
        self.meter.add("entries", 0 if done.repeated else len(entries))
        [last] = await self.store.read(
            self.scope, conversation, after=done.last - 1, upto=done.last, limit=1
        )
        return WrittenTurn(last.created, done.head)

    async def _claim(self, conversation: str, query: str, client_id: str) -> TurnNote:
        """Return the note; with a client id, record first that this write answers the waiting query."""

        def claim(note: TurnNote) -> TurnNote:
            free = note.query and not note.taken and query in ("", note.query)
            return note.with_changes({"taken": client_id}) if free and client_id else note

        return await self.notes.change_turn(conversation, claim)

    async def _finish(self, conversation: str, client_id: str, ask: str = "") -> None:
        """Mark the query as answered, if this write answered it."""

        def finish(note: TurnNote) -> TurnNote:
            mine = note.ask == ask if ask else bool(note.query) and note.taken == client_id
            if not mine or not note.query:
                return note
            return note.with_changes({"query": "", "taken": "", "used": note.ask})

        await self.notes.change_turn(conversation, finish)

    async def _find_written(
        self, conversation: str, client_id: str, query: str, answer: str
    ) -> int | None:
        """Return when the turn of this client id was written, or None; another text under the id is refused."""
        found = await self._find(conversation, client_id)
        if not found:
            return None
        texts = {entry.message.role: entry.message.text for entry in found}
        if texts.get("assistant", "") != answer or (query and texts.get("user", "") != query):
            raise IdReused(
                f"client id {client_id!r} already names another turn (entry {found[-1].seq}): use a new id"
            )
        return found[-1].created

    async def _find_repeated(
        self, conversation: str, note: TurnNote, query: str, answer: str
    ) -> int | None:
        """Return when this turn was written as the answer to the last query, if nothing was added since."""
        if not note.used or note.query:
            return None
        found = await self._find(conversation, note.used)
        head = await self.store.head(self.scope, conversation)
        texts = {entry.message.role: entry.message.text for entry in found}
        same = texts.get("assistant", "") == answer and query in ("", texts.get("user", ""))
        return found[-1].created if found and same and found[-1].seq == head.seq else None

    async def _find(self, conversation: str, name: str) -> list[Entry]:
        names = [f"{name}.user", f"{name}.assistant"]
        return await self.store.find(self.scope, conversation, names)

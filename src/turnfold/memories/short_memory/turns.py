"""Read the newest turns of a log for a query, and append each turn to it once.

Reading goes backwards from the newest entry until the model's window is full, so the length of the conversation does
not matter. The text for a summariser goes forwards from the first entry that no summary covers, as far as the window
allows; the seq of its last entry is returned with it, so that a summary never covers a turn that it was not made from.

The document's write has no id, so a retry would store a turn twice. Here the entries of a turn have client ids made of
the caller's `client_id`, or else of the id of the query they answer, and the store recognises a repeated client id. A
query is answered by one write, from whatever process: a write with a client id first records in the turn note that it
answers the query.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

from turnfold.errors import IdReused, InvalidOption
from turnfold.fold import MemoizedCounter
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

__all__ = (
    "LogEnd",
    "TurnWriter",
    "WrittenTurn",
    "cached_count",
    "read_history",
    "with_query",
)


_PAGE: Final = 64
_SHORT_TEXT: Final = 4_000
"""Most characters of a text whose token count is cached; a longer text is counted each time."""
_MAX_COUNTS: Final = 4_096
"""Most texts whose token counts are cached; the least recently used are dropped."""
_MAX_NEW: Final = 64
"""If more entries than this were added since the newest entries were cached in Redis, the cached ones are not used."""
Count: TypeAlias = Callable[[str], int]
_LINE_ENDS: Final = 2
"""Tokens counted for the line breaks between the rules and the history in the prompt."""


@dataclass(slots=True)
class LogEnd:
    """The newest entries of a conversation's log; older entries are read page by page when they are needed."""

    store: Store
    scope: Scope
    view: ConversationView
    entries: list[Entry] = field(default_factory=list[Entry])
    page: int = _PAGE
    added: int = 0
    """Number of entries that were read from the store and not from a cache."""
    _turns: tuple[int, int, list[TurnText]] = (0, 0, [])
    """Cache of `turns_after`: first entry that was read, entry after which the turns begin, and the rendered turns."""

    @property
    def first(self) -> int:
        """Seq of the oldest entry that was read; the newest seq plus 1 if no entry was read."""
        return self.entries[0].seq if self.entries else self.view.head.seq + 1

    @property
    def shown_after(self) -> int:
        """Seq of the last entry that is not shown: covered by the summary, or before a restart."""
        view = self.view
        return view.cleared if view.mode is MemoryMode.FULL_HISTORY else view.covered

    async def open(self, tokens: int) -> None:
        """Read the newest entries since the last restart, up to about `tokens` tokens."""
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
            self.added = len(self.entries)

    async def extend(self, known: Sequence[Entry]) -> bool:
        """Use cached entries and read those added since; return False if the cached ones may be out of date.

        A change of an entry gives it and all later entries a new epoch (random number of the write), so comparing the
        newest entry is enough.
        """
        head, cleared = self.view.head.seq, self.view.cleared
        newest = known[-1] if known else None
        if newest is None or not newest.epoch or not 0 <= head - newest.seq <= _MAX_NEW:
            return False
        newer = await self.store.read(
            self.scope, self.view.conversation, after=newest.seq - 1, upto=head
        )
        same = bool(newer) and (newer[0], newer[0].epoch) == (newest, newest.epoch)
        if not same or newer[-1].seq != head:
            return False
        self.entries = [entry for entry in (*known, *newer[1:]) if entry.seq > cleared]
        self.added = len(newer) - 1
        return True

    def turns_after(self, seq: int) -> list[TurnText]:
        """Return the turns after entry `seq` rendered as text, oldest first, as far as their entries were read."""
        if self._turns[:2] != (self.first, seq):
            turns = group_turns(entry for entry in self.entries if entry.seq > seq)
            self._turns = (self.first, seq, turns)
        return self._turns[2]

    def newest_within(self, tokens: int, turns: int) -> list[Entry]:
        """Return the entries, of those read so far, that a query with this token limit and these recent turns needs."""
        total = self.view.head.tokens
        after = self.shown_after
        starts = [entry.seq for entry in self.entries if entry.message.role == "user"]
        recent = starts[-min(turns, len(starts))] if starts and turns else self.view.head.seq + 1
        return [
            entry
            for entry in self.entries
            if entry.seq >= recent
            or (entry.seq > after and total - entry.running + entry.tokens <= tokens)
        ]

    async def older(self) -> bool:
        """Read one more page of older entries; return False if there are no older ones since the last restart."""
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
        """Return the seq at which the newest `turns` turns since the last restart begin; may read older pages."""
        if turns <= 0:
            return self.view.head.seq + 1
        while True:
            starts = [entry.seq for entry in self.entries if entry.message.role == "user"]
            if len(starts) >= turns:
                return starts[-turns]
            if not await self.older():
                return self.first

    async def last_answer(self) -> str:
        """Return the newest assistant text since the last restart; empty if there is none."""
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
        """Return the number of turns in the log before the conversation was last restarted."""
        seq = self.view.cleared
        if seq < 1:
            return 0
        found = await self.store.read(
            self.scope, self.view.conversation, after=seq - 1, upto=seq, limit=1
        )
        return found[0].turn if found else 0

    async def window(self, turns: int) -> list[Message]:
        """Return the user and assistant messages of the newest `turns` turns, as plain text."""
        first = await self.first_of_newest(turns)
        return [
            Message(entry.message.role, entry.message.text)
            for entry in self.entries
            if entry.seq >= first and entry.message.role in ("user", "assistant")
            if entry.message.text
        ]


@dataclass(frozen=True, slots=True)
class _History:
    """The history of a conversation, as text for a prompt (`text`) and as text for a summariser (`full`)."""

    text: str
    full: str
    tokens: int
    """Tokens of `text` and of the turns that did not fit into it."""
    upto: int
    """Seq (log position) of the newest entry in `full`."""


def cached_count(count: Count) -> Count:
    """Return a function like `count` that caches the counts of short texts, as queries count the same turns."""
    counts = lru_cache(_MAX_COUNTS)(count)
    return lambda text: counts(text) if len(text) <= _SHORT_TEXT else count(text)


async def read_history(
    log: LogEnd, *, count: Count, window: int, query: str, rules: str = ""
) -> _History:
    """Read the history of a conversation for a model with a window of `window` tokens; `rules` are shown before it."""
    view, count = log.view, MemoizedCounter(count)
    full_mode = view.mode is MemoryMode.FULL_HISTORY
    summary = remove_label(view.live.text) if view.live else ""
    room = max(window - count(query) - (count(rules) + _LINE_ENDS if rules else 0), 0)
    after = log.shown_after
    turns = await _load_turns(log, after, room, count)
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
    full, upto = await _text_to_summarise(log, summary, room=window, count=count)
    return _History(text, full, tokens, upto)


async def _unread_turns(log: LogEnd, turns: list[TurnText]) -> int:
    """Return how many turns that no summary covers come before the oldest turn in `turns`."""
    covered = log.view.covered
    if not turns or turns[0].first <= covered + 1:
        return 0
    entry = await _entry(log, covered)
    return max(turns[0].number - 1 - (entry.turn if entry else 0), 1)


async def _load_turns(log: LogEnd, after: int, room: int, count: Count) -> list[TurnText]:
    """Return the turns after a seq as text, oldest first; of many, only the newest that fill `room` tokens."""
    while True:
        turns = log.turns_after(after)
        if log.first <= after + 1:
            return turns
        cost = sum(count(turn.text) + 1 for turn in turns[1:])
        if cost > room:
            return turns[1:]  # the first may be incomplete
        if not await log.older():
            return turns


async def _text_to_summarise(
    log: LogEnd, summary: str, *, room: int, count: Count
) -> tuple[str, int]:
    view = log.view
    covered, head = view.covered, view.head.seq
    if head <= covered:
        return render_history(summary=summary, turns=(), hidden=0), covered
    if log.first <= covered + 1:
        turns, complete = log.turns_after(covered), True
    else:
        entries, complete = await _read_oldest(log, covered, room, count)
        turns = group_turns(entries)
    read = oldest_that_fit(summary=summary, turns=turns, room=room, count=count)
    if not complete and len(read) == len(turns) > 1:
        read = read[:-1]  # the last may be incomplete
    return render_history(summary=summary, turns=read, hidden=0), read[-1].last


async def _read_oldest(
    log: LogEnd, after: int, room: int, count: Count
) -> tuple[list[Entry], bool]:
    """Read the oldest entries after a seq until they exceed `room` tokens.

    Also returns True if all entries were read.
    """
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
        used += sum(count(entry.message.text) for entry in page)
    return entries, after >= head


async def _tokens_between(log: LogEnd, after: int, upto: int) -> int:
    """Return the tokens of the entries from `after` + 1 to `upto`, from the stored running sums."""
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
    """Return the changes of the turn note that store a new query; empty if it has this query already."""
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
    """Id of the stored query that the turn answers; empty if there is none."""

    def entries(self) -> list[NewEntry]:
        """Return the entries of the turn to append, with client ids by which a retry is recognised."""
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
    """A turn that is stored: the time, and the head (newest seq, version) after it."""

    created: int
    """Time at which the turn was stored, in microseconds since 1970."""
    head: Head | None = None
    """Version of the log after the append; None if the turn was stored already."""


@dataclass(frozen=True, slots=True)
class TurnWriter:
    """Appends turns (question and answer) to logs.

    A retry of the call that appended a turn appends nothing.
    """

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
        """Append a turn to the log; if the call is a retry, append nothing and return the stored turn."""
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
                "nothing to write: user_query and agent_response are empty, and no earlier query waits for an "
                "answer; pass a query or an answer"
            )
        try:
            done = await self.store.append(self.scope, conversation, entries)
        except IdReused:
            if turn.client_id or not turn.ask:
                raise
            # Another write answered the query and died before it recorded that: this one is a turn of its own.
            rest = replace(turn, query=given, ask="")
            return await self._append(conversation, rest, given=given)
        self.meter.add("entries", 0 if done.repeated else len(entries))
        [last] = await self.store.read(
            self.scope, conversation, after=done.last - 1, upto=done.last, limit=1
        )
        return WrittenTurn(last.created, done.head)

    async def _claim(self, conversation: str, query: str, client_id: str) -> TurnNote:
        """Reserve the stored query for a write with a client id, so that no other write answers the query."""

        def claim(note: TurnNote) -> TurnNote:
            free = note.query and not note.taken and query in ("", note.query)
            return note.with_changes({"taken": client_id}) if free and client_id else note

        return await self.notes.change_turn(conversation, claim)

    async def _finish(self, conversation: str, client_id: str, ask: str = "") -> None:
        """Mark the stored query as answered, if the turn that was just written answers it."""

        def finish(note: TurnNote) -> TurnNote:
            mine = note.ask == ask if ask else bool(note.query) and note.taken == client_id
            if not mine or not note.query:
                return note
            return note.with_changes({"query": "", "taken": "", "used": note.ask})

        await self.notes.change_turn(conversation, finish)

    async def _find_written(
        self, conversation: str, client_id: str, query: str, answer: str
    ) -> int | None:
        """Return the time when the turn with this client id was stored, None if it was not.

        Raises `IdReused` if its texts differ.
        """
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
        """Return the time when this turn was stored if it is the last turn of the log, else None.

        The call then repeats the one that stored the turn. A turn with the same texts counts as the same one, unless a
        new query has been stored since.
        """
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

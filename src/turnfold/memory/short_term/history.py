"""Reads of a log what a query shows of it, and no more.

From the newest entry backwards until the model's window is full: a conversation of a million turns costs what its
window costs. What a summariser is to read goes the other way, from the first entry that no summary covers: all of it
where it fits the window, else as much as fits, and it says how far it got, so that no turn is ever behind a summary
that has not seen it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from turnfold.memory.fold_keeper import MemoryMode
from turnfold.memory.short_term.rendering import (
    TurnText,
    fitted,
    from_the_oldest,
    rendered,
    turns_of,
    unlabelled,
)
from turnfold.memory.short_term.standing import Standing
from turnfold.records import Entry, Message
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter

__all__ = ("History", "LogEnd", "read_history")

_PAGE: Final = 64


@dataclass(slots=True)
class LogEnd:
    """The newest entries of a log, read backwards as far as they are wanted."""

    store: Store
    scope: Scope
    standing: Standing
    entries: list[Entry] = field(default_factory=list[Entry])

    @property
    def first(self) -> int:
        """The oldest entry that has been read; one past the newest before any was."""
        return self.entries[0].seq if self.entries else self.standing.head.seq + 1

    async def open(self, tokens: int) -> None:
        """Read about as many of the newest as cost `tokens`: what a cache has at hand."""
        if self.standing.head.seq > self.standing.cleared:
            newest = await self.store.tail(
                self.scope, self.standing.conversation, tokens=max(tokens, 1)
            )
            head, cleared = self.standing.head.seq, self.standing.cleared
            # Entries written since the head was read are of the next query.
            self.entries = [entry for entry in newest if cleared < entry.seq <= head]
            if not self.entries or self.entries[-1].seq != head:
                self.entries = []
                await self.older()

    async def older(self) -> bool:
        """Read one more page; False when nothing older is left since the last start."""
        upto = self.first - 1
        after = max(upto - _PAGE, self.standing.cleared)
        if after >= upto:
            return False
        page = await self.store.read(
            self.scope, self.standing.conversation, after=after, upto=upto, limit=_PAGE
        )
        self.entries[:0] = page
        return bool(page)

    async def back_to(self, seq: int) -> None:
        """Read until `seq` is among what has been read."""
        while self.first > max(seq, self.standing.cleared + 1) and await self.older():
            pass

    async def turns_back(self, turns: int) -> int:
        """The first entry of the newest `turns` turns since the last start."""
        if turns <= 0:
            return self.standing.head.seq + 1
        while True:
            starts = [entry.seq for entry in self.entries if entry.message.role == "user"]
            if len(starts) >= turns:
                return starts[-turns]
            if not await self.older():
                return self.first

    async def last_answer(self) -> str:
        """The newest text of the assistant since the last start."""
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
        """How many turns had begun at the last start."""
        seq = self.standing.cleared
        if seq < 1:
            return 0
        found = await self.store.read(
            self.scope, self.standing.conversation, after=seq - 1, upto=seq, limit=1
        )
        return found[0].turn if found else 0

    async def window(self, turns: int) -> list[Message]:
        """What user and assistant said in the newest turns."""
        first = await self.turns_back(turns)
        return [
            entry.message
            for entry in self.entries
            if entry.seq >= first and entry.message.role in ("user", "assistant")
            if entry.message.text
        ]


@dataclass(frozen=True, slots=True)
class History:
    """What a query shows, and what a summariser is to read."""

    text: str
    full: str
    tokens: int
    """Cost of the text, and of the turns that found no room in it."""
    upto: int
    """The newest entry of `full`."""


async def read_history(log: LogEnd, *, counter: TokenCounter, window: int, query: str) -> History:
    """The history of a conversation for a model that reads `window` tokens."""
    standing, count = log.standing, counter.count_text
    full_mode = standing.mode is MemoryMode.FULL_HISTORY
    summary = unlabelled(standing.live.text) if standing.live else ""
    room = max(window - count(query), 0)
    after = standing.cleared if full_mode else standing.covered
    turns = await _loaded(log, after, room, counter)
    unread = await _unread(log, turns)

    def hidden(shown: int) -> int:
        return unread + sum(turn.last > standing.covered for turn in turns[: len(turns) - shown])

    text, shown = "", turns
    if full_mode and log.first <= after + 1:
        # Only where everything it stands for is shown is a summary left out.
        whole = rendered(summary="", turns=turns, hidden=0)
        text = whole if count(whole) <= room else ""
    if not text and (turns or summary):
        text, shown = fitted(summary=summary, turns=turns, hidden=hidden, room=room, count=count)
    first = shown[0].first if shown else standing.head.seq + 1
    tokens = count(text) + (await _cost(log, after, first - 1) if first > after + 1 else 0)
    full, upto = await _to_summarise(log, summary, room=window, counter=counter)
    return History(text, full, tokens, upto)


async def _unread(log: LogEnd, turns: list[TurnText]) -> int:
    """How many turns that no summary covers lie before these."""
    covered = log.standing.covered
    if not turns or turns[0].first <= covered + 1:
        return 0
    entry = await _entry(log, covered)
    return max(turns[0].number - 1 - (entry.turn if entry else 0), 1)


async def _loaded(log: LogEnd, after: int, room: int, counter: TokenCounter) -> list[TurnText]:
    """The turns after a seq, oldest first, or as many of the newest as are sure to fill the room."""
    while True:
        since = [entry for entry in log.entries if entry.seq > after]
        turns = turns_of(since)
        if log.first <= after + 1:
            return turns
        cost = sum(counter.count_text(turn.text) + 1 for turn in turns[1:])
        if cost > room:
            return turns[1:]  # the first may be a part of one
        if not await log.older():
            return turns


async def _to_summarise(
    log: LogEnd, summary: str, *, room: int, counter: TokenCounter
) -> tuple[str, int]:
    standing = log.standing
    covered, head = standing.covered, standing.head.seq
    if head <= covered:
        return rendered(summary=summary, turns=(), hidden=0), covered
    if log.first <= covered + 1:
        entries = [entry for entry in log.entries if entry.seq > covered]
        complete = True
    else:
        entries, complete = await _oldest(log, covered, room, counter)
    turns = turns_of(entries)
    read = from_the_oldest(summary=summary, turns=turns, room=room, count=counter.count_text)
    if not complete and len(read) == len(turns) > 1:
        read = read[:-1]  # the last may be a part of one
    return rendered(summary=summary, turns=read, hidden=0), read[-1].last


async def _oldest(
    log: LogEnd, after: int, room: int, counter: TokenCounter
) -> tuple[list[Entry], bool]:
    """Entries after a seq, from the oldest on, until they are sure to fill the room; whether these are all."""
    entries: list[Entry] = []
    head, used = log.standing.head.seq, 0
    while used <= room or len({entry.turn for entry in entries}) < 2:
        page = await log.store.read(
            log.scope, log.standing.conversation, after=after, upto=head, limit=_PAGE
        )
        if not page:
            return entries, True
        entries += page
        after = page[-1].seq
        used += sum(counter.count_text(entry.message.text) for entry in page)
    return entries, after >= head


async def _cost(log: LogEnd, after: int, upto: int) -> int:
    """What the entries after one and up to another cost, by the sums kept with them."""
    last, before = await _entry(log, upto), await _entry(log, after)
    return (last.running if last else 0) - (before.running if before else 0)


async def _entry(log: LogEnd, seq: int) -> Entry | None:
    if seq < 1:
        return None
    if log.entries and log.first <= seq:
        return log.entries[seq - log.first]
    found = await log.store.read(
        log.scope, log.standing.conversation, after=seq - 1, upto=seq, limit=1
    )
    return found[0] if found else None

"""What one process knows of a conversation, kept level with the store.

Every change in a store raises the conversation's generation, so one look at the head tells whether anything must be
read again; a session that is alone with its conversation reads nothing twice. What is read is bounded by the budget:
the notes, the live checkpoint, and the entries from the anchor on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnfold.budget import Budget
from turnfold.errors import Conflict, ConversationDeleted
from turnfold.memory.known_findings import KnownFindings
from turnfold.memory.live_window import LiveWindow, Numbered
from turnfold.memory.notes import (
    CLEARED,
    FINDING,
    FINDINGS,
    PIN,
    SESSION,
    STATE,
    SYSTEM,
    WINDOW,
    ClearedNote,
    PinNote,
    StateNote,
    SystemNote,
    WindowNote,
    read_note,
    window_key,
    write_note,
)
from turnfold.records import Checkpoint, Document, Entry, Message
from turnfold.stores.ledger import row_entry, rows_of
from turnfold.stores.protocol import Appended, Head, Scope, Store, Written
from turnfold.tokens import TokenCounter

__all__ = ("Follower",)

_PAGE = 512
_LEADING = 8
"""Entries at the beginning of a log that are looked at for system messages nobody has noted."""
_MOST_WINDOWS = 8
"""Budgets of one conversation whose windows are kept at hand."""
_FOLDED = "everything before it was folded or cleared"
_FAR_BEHIND = 2
"""Budgets of unread entries beyond which only the end of the log is read."""
_MOST_TOLD = 256
"""Own appends that wait to be taken in; who appends more than that between two contexts reads them again."""


@dataclass(slots=True)
class _Opened:
    window: LiveWindow
    stored: WindowNote
    version: int
    covered: int
    """What was covered when it was opened."""
    seen: int
    """The newest seq when it was last asked whether too much lies behind its anchor."""
    before: tuple[int, int] = (1, 0)
    """An anchor, and what everything before it costs."""


def _inbox() -> deque[tuple[Appended, Sequence[Message]]]:
    return deque(maxlen=_MOST_TOLD)


@dataclass(slots=True)
class Follower:
    """The state of one conversation as last seen."""

    store: Store
    scope: Scope
    conversation: str
    counter: TokenCounter
    head: Head = field(default_factory=Head)
    system: tuple[Numbered, ...] = ()
    pins: tuple[tuple[str, PinNote], ...] = ()
    state: StateNote = field(default_factory=StateNote)
    findings: KnownFindings = field(default_factory=KnownFindings)
    cleared: int = 0
    checkpoint: Checkpoint | None = None
    looked: bool = False
    """Whether the store was looked at since something was assumed."""
    _generation: int = -1
    """The generation everything here was read under, own writes counted."""
    _epoch: int = 0
    """The epoch of that generation."""
    _newest: tuple[int, int] = (0, 0)
    """Seq and epoch of the newest entry that was read or appended here."""
    _opened: dict[str, _Opened] = field(default_factory=dict[str, _Opened])
    _key: tuple[Budget | None, str] = (None, "")
    """The budget asked for last, and what its window is called."""
    _told: deque[tuple[Appended, Sequence[Message]]] = field(default_factory=_inbox)
    """What this process appended and nobody has looked at yet."""

    @property
    def shown_checkpoint(self) -> Checkpoint | None:
        """The live checkpoint, unless everything it covers was cleared."""
        live = self.checkpoint
        return live if live is not None and live.upto > self.cleared else None

    @property
    def covered(self) -> int:
        """The last seq that needs no place in a window."""
        return max(self.cleared, self.checkpoint.upto if self.checkpoint else 0)

    async def refresh(self) -> None:
        """Look whether anything changed; read what did."""
        self._take_in()
        head = await self.store.head(self.scope, self.conversation)
        self.looked = True
        if head.state == (self._generation, self._epoch):
            self.head = head
            return
        if head.counter != self.head.counter or not await self._has_newest(head):
            self._opened.clear()
            self.system = ()
            self._newest = (0, 0)
        self._generation = -1  # a read that fails half way is made again
        # Another history may have given the same id to another summary.
        self.checkpoint = (
            await self.store.live_checkpoint(self.scope, self.conversation)
            if head.checkpoint
            else None
        )
        self.head = head
        await self._read_notes()
        self._generation, self._epoch = head.state

    async def _has_newest(self, head: Head) -> bool:
        """Whether the newest entry known here is in the log, so that all before it are: a store may have lost some."""
        seq, epoch = self._newest
        if not epoch or head.seq < seq:
            return False
        found = await rows_of(self.store).read_rows(
            self.scope, self.conversation, after=seq - 1, upto=seq, limit=1
        )
        return [row.epoch for row in found] == [epoch]

    async def assume(self) -> None:
        """Take what is known for what the store holds, until `confirm` is asked; read it if nothing is known."""
        self.looked = False
        if not self._take_in() or self._generation < 0:
            await self.refresh()

    async def confirm(self) -> None:
        """A `Conflict` if what was assumed is not so: asked before something is decided for everybody."""
        if self.looked:
            return
        head = await self.store.head(self.scope, self.conversation)
        if head.state != (self._generation, self._epoch):
            raise Conflict(
                f"the conversation is at generation {head.generation} ({head.epoch}), not {self._generation} "
                f"({self._epoch}): read it again"
            )
        self.looked = True

    async def note(self, document: Document) -> bool:
        """Write a new document; whether it was written, or what was assumed is not so, or there is one already."""
        where = (self.scope, self.conversation, document)
        try:
            if self.looked:
                self.wrote(await self.store.put_document(*where, expect=0))
            else:
                known = (self._generation, self._epoch)
                self._generation, self._epoch = await self.store.note(*where, state=known)
        except Conflict:
            return False
        return True

    def wrote(self, written: Written | None) -> None:
        """This process changed a document: nothing is read again if nothing else happened; None reads everything."""
        if written is not None and written.before == (self._generation, self._epoch):
            self._generation, self._epoch = written.after
        else:
            self._generation = -1

    def appended(self, done: Appended, messages: Sequence[Message]) -> None:
        """Entries were appended by this process; said by any thread, at any time, also while a context is made."""
        if not done.repeated:
            self._told.append((done, messages if self._opened else ()))

    def _take_in(self) -> bool:
        """Follow what this process appended; False when something else happened as well and must be read."""
        told = [self._told.popleft() for _ in range(len(self._told))]
        # Those who share a commit tell of it in any order.
        told.sort(key=lambda one: one[0].head.generation)
        return all(self._follow(*one) for one in told)

    def _follow(self, done: Appended, messages: Sequence[Message]) -> bool:
        """Take in one append, which need not be read again if nothing else happened."""
        if done.head.generation <= self._generation:
            return True  # it was read meanwhile
        alone = (
            done.before == (self._generation, self._epoch)
            and done.first == self.head.seq + 1
            and self.head.counter in ("", done.head.counter)
        )
        if not alone:
            return False
        added = done.head.tokens - self.head.tokens
        self._generation, self._epoch = done.head.state
        self.head, self._newest = done.head, (done.last, done.head.epoch)
        level = [each.window for each in self._opened.values() if each.window.seq == done.first - 1]
        if not level:
            return True
        # The store has counted it already, and counting is most of what an append costs.
        if len(messages) == 1 and done.head.counter == self.counter.name:
            costs = [added]
        else:
            costs = [self.counter.count_message(message) for message in messages]
        fresh = [
            Numbered(seq, message, cost)
            for seq, (message, cost) in enumerate(zip(messages, costs, strict=True), done.first)
        ]
        for window in level:
            window.extend(fresh)
        return True

    def _named(self, budget: Budget) -> str:
        if self._key[0] is not budget:
            self._key = (budget, window_key(budget, self.counter.name))
        return self._key[1]

    async def window(self, budget: Budget) -> LiveWindow:
        """The window of a budget, level with the log."""
        key = self._named(budget)
        opened = self._opened.get(key)
        # What another process would find in the store decides, never what this one happens to hold.
        if (
            opened is None
            or opened.covered != self.covered
            or (opened.seen != self.head.seq and await self._outrun(opened, budget))
        ):
            await self.refresh()  # what is read now must belong together
            opened = self._opened[key] = await self._open(key, budget)
            while len(self._opened) > _MOST_WINDOWS:
                del self._opened[next(iter(self._opened))]
        if opened.window.seq < self.head.seq:
            await self._extend(opened.window)
        return opened.window

    async def _outrun(self, opened: _Opened, budget: Budget) -> bool:
        """Whether so much was written since the anchor that another process would begin anew."""
        opened.seen = self.head.seq
        anchor = opened.window.anchor
        if opened.before[0] != anchor:
            opened.before = (anchor, self.head.tokens - await self._tokens_after(anchor - 1))
        return self.head.tokens - opened.before[1] > _FAR_BEHIND * budget.tokens

    def forget(self, budget: Budget) -> None:
        """Another process moved the window of this budget: read it again."""
        self._opened.pop(self._named(budget), None)

    def frozen(self, budget: Budget, turn: int) -> WindowNote | None:
        """The note with the tail made at the beginning of this turn; None when none was."""
        opened = self._opened[self._named(budget)]
        return opened.stored if turn and opened.stored.turn == turn else None

    async def keep(self, budget: Budget, note: WindowNote) -> None:
        """Store where the window begins, if that is not already known; a `Conflict` when another was faster."""
        key = self._named(budget)
        opened = self._opened[key]
        follows = note.anchor == self.covered + 1 and not note.caps and not note.tail
        if note == opened.stored or (follows and not opened.stored.caps and not opened.stored.tail):
            return
        await self.confirm()
        written = await self.store.put_document(
            self.scope,
            self.conversation,
            write_note(WINDOW, key, note),
            expect=opened.version,
        )
        self.wrote(written)
        opened.stored, opened.version = note, written.document.version

    async def _read_notes(self) -> None:
        notes = {note.key: note for note in await self._documents(SESSION)}
        self.cleared = read_note(notes.get(CLEARED), ClearedNote).upto
        self.state = read_note(notes.get(STATE), StateNote)
        found = notes.get(FINDINGS)
        self.findings = KnownFindings.of(found, await self._documents(FINDING) if found else ())
        noted = notes.get(SYSTEM)
        await self._read_system(read_note(noted, SystemNote).seqs if noted else None)
        named = [(pin.key, read_note(pin, PinNote)) for pin in await self._documents(PIN)]
        self.pins = tuple(sorted(named, key=lambda pair: (pair[1].order, pair[0])))
        for key, opened in list(self._opened.items()):
            stored = await self.store.get_document(self.scope, self.conversation, WINDOW, key)
            version = stored.version if stored else 0
            if version != opened.version or read_note(stored, WindowNote) != opened.stored:
                del self._opened[key]

    async def _documents(self, kind: str) -> list[Document]:
        found: list[Document] = []
        while page := await self.store.documents(
            self.scope, self.conversation, kind, after=found[-1].key if found else "", limit=_PAGE
        ):
            found.extend(page)
            if len(page) < _PAGE:
                break
        return found

    async def _read_system(self, seqs: tuple[int, ...] | None) -> None:
        if seqs is None:
            leading = await self._read(0, min(self.head.seq, _LEADING))
            ends = next(
                (at for at, entry in enumerate(leading) if entry.message.role != "system"),
                len(leading),
            )
            self.system = tuple(leading[:ends])
        elif seqs != tuple(entry.seq for entry in self.system):
            found = [entry for seq in seqs for entry in await self._read(seq - 1, seq)]
            self.system = tuple(found)

    async def _open(self, key: str, budget: Budget) -> _Opened:
        while True:
            document = await self.store.get_document(self.scope, self.conversation, WINDOW, key)
            stored = read_note(document, WindowNote)
            if max(stored.anchor - 1, *(seq for seq, _ in stored.caps), 0) <= self.head.seq:
                break
            await self.refresh()  # it speaks of entries that came since the head was read
        first = max(stored.anchor, self.covered + 1)
        version = document.version if document else 0
        if await self._tokens_after(first - 1) > _FAR_BEHIND * budget.tokens:
            window = await self._from_the_end(budget)
            return _Opened(window, stored, version, self.covered, self.head.seq)
        head = stored.head if first == stored.anchor else await self._opener(first)
        caps = tuple((seq, cap) for seq, cap in stored.caps if seq >= first or seq == head)
        reason = stored.reason if first == stored.anchor else _FOLDED
        note = WindowNote(anchor=first, head=head, caps=caps, reason=reason)
        return _Opened(await self._begin(note), stored, version, self.covered, self.head.seq)

    async def _begin(self, note: WindowNote) -> LiveWindow:
        head = self._numbered(await self._at(note.head)) if note.head else None
        window = LiveWindow(self.counter, note, head=head)
        await self._extend(window)
        return window

    async def _extend(self, window: LiveWindow) -> None:
        while window.seq < self.head.seq:
            entries = await self._read(window.seq, self.head.seq)
            if not entries:
                raise self._erased()
            window.extend(entries)

    async def _from_the_end(self, budget: Budget) -> LiveWindow:
        """A window over no more of the log than the budget could show, from a whole span on."""
        newest = await self.store.tail(self.scope, self.conversation, tokens=budget.tokens)
        first = newest[0].seq if newest else self.head.seq
        while first > self.covered + 1:
            entry = await self._at(first)
            if entry.message.role != "tool":
                break
            first -= 1
        first = max(first, self.covered + 1)
        reason = f"older than a budget of {budget.tokens:,} tokens holds"
        note = WindowNote(anchor=first, head=await self._opener(first), reason=reason)
        return await self._begin(note)

    async def _opener(self, seq: int) -> int:
        """Seq of the user message whose turn `seq` lies inside of; 0 when it opens one, or none was opened."""
        following = await self.store.read(
            self.scope, self.conversation, after=seq - 1, limit=_LEADING
        )
        at = [entry for entry in following if entry.message.role != "system"]
        if not at or at[0].turn == 0 or at[0].message.role == "user":
            return 0
        low, high = 1, at[0].seq
        while low < high:  # turn numbers only grow: the first entry of this turn, by bisection
            middle = (low + high) // 2
            entry = await self._at(middle)
            low, high = (low, middle) if entry.turn == at[0].turn else (middle + 1, high)
        return low

    async def _tokens_after(self, seq: int) -> int:
        if seq <= 0 or seq >= self.head.seq:
            return self.head.tokens if seq <= 0 else 0
        return self.head.tokens - (await self._at(seq)).running

    async def _at(self, seq: int) -> Entry:
        found = await self.store.read(
            self.scope, self.conversation, after=seq - 1, upto=seq, limit=1
        )
        if not found:
            raise self._erased()
        return found[0]

    def _erased(self) -> ConversationDeleted:
        # A log only grows: an entry that is gone was erased with its conversation since the head was read.
        return ConversationDeleted(
            f"conversation {self.conversation!r} has been erased; use another id"
        )

    async def _read(self, after: int, upto: int) -> list[Numbered]:
        if after >= upto:
            return []
        rows = await rows_of(self.store).read_rows(
            self.scope, self.conversation, after=after, upto=upto, limit=_PAGE
        )
        if rows and rows[-1].seq > self._newest[0]:
            self._newest = (rows[-1].seq, rows[-1].epoch)
        return [self._numbered(row_entry(row)) for row in rows]

    def _numbered(self, entry: Entry) -> Numbered:
        known = self.head.counter == self.counter.name
        tokens = entry.tokens if known else self.counter.count_message(entry.message)
        return Numbered(entry.seq, entry.message, tokens)

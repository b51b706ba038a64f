"""What one process knows of a conversation, kept level with the store.

Every change in a store raises the conversation's generation and draws an epoch, so one look at the head tells whether
anything must be read again; a session that is alone with its conversation reads nothing twice. What is read is bounded
by the budget: the notes, the live checkpoint, and the entries from the anchor on.

Entries that are held are believed only while they are of the store's own history. After a failover that lost commits,
or a restored backup, other entries may stand at the same seqs: where others wrote, the newest entry that is held must
have the epoch of the one the store has, or everything is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.errors import Conflict, ConversationDeleted, TurnfoldError
from turnfold.memory.known_findings import KnownFindings
from turnfold.memory.live_window import LiveWindow, Numbered
from turnfold.memory.notes import (
    CLEARED,
    FINDING,
    FINDINGS,
    PIN,
    SESSION,
    STAND_IN,
    STATE,
    SYSTEM,
    WINDOW,
    ClearedNote,
    PinNote,
    StandIn,
    StandInNote,
    StateNote,
    SystemNote,
    WindowNote,
    read_note,
    write_note,
)
from turnfold.records import Checkpoint, Document, Entry, Message
from turnfold.stores.protocol import Appended, Head, Scope, State, Store, Written
from turnfold.tokens import TokenCounter

__all__ = ("Follower", "StateLock")

_PAGE = 512
_TRIES = 4
"""Times everything is read again because the store's history changed meanwhile."""
_LEADING = 8
"""Entries at the beginning of a log that are looked at for system messages nobody has noted."""
_MOST_WINDOWS = 8
"""Budgets of one conversation whose windows are kept at hand."""
_FOLDED = "everything before it was folded or cleared"
_FAR_BEHIND = 2
"""Budgets of unread entries beyond which only the end of the log is read."""
_LARGEST_PART = 8
"""An entry counts for at most this part of the budget when it is decided how much of the log to read: a window shows it
shortened, and one huge tool result must not push everything else out."""
_BACKWARDS = 64
"""Entries read at a time from the end of the log backwards."""
_UNKNOWN: State = (-1, 0)
_MOST_TOLD = 256
"""Own writes that wait to be taken in; who writes more than that between two contexts reads them again."""


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


class StateLock:
    """The lock around what a session knows; what is known is forgotten if its last holder was interrupted.

    A signal handler may raise at any line and a task may be cancelled at any await. A holder that ends with anything
    but success or an error of this library may have left what it was changing half changed, so the next one reads it
    all again.
    """

    def __init__(self, lock: AbstractAsyncContextManager[None], forget: Callable[[], None]) -> None:
        self._lock, self._forget = lock, forget
        self._changing = False

    async def __aenter__(self) -> None:
        await self._lock.__aenter__()
        if self._changing:
            self._forget()
        self._changing = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, TurnfoldError):
            self._changing = False
        await self._lock.__aexit__(kind, error, trace)


class _HistoryChanged(Conflict):
    """Entries that were read before are gone: the store is in another history."""


class _Write(NamedTuple):
    """A write of this process."""

    done: Appended | Written
    messages: Sequence[Message] = ()

    @property
    def after(self) -> State:
        """The state it led to."""
        return self.done.head.state if isinstance(self.done, Appended) else self.done.after


def _inbox() -> deque[_Write]:
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
    stand_in: StandIn | None = None
    """The extract shown while the fold of what it covers has not landed; None where a checkpoint covers as much."""
    looked: bool = False
    """Whether the store was looked at since something was assumed."""
    _state: State = _UNKNOWN
    """Generation and epoch everything here was read under, own writes counted."""
    newest: tuple[int, int] = (0, 0)
    """Seq and epoch of the newest entry that is known; (0, 0) where nothing is."""
    _opened: dict[str, _Opened] = field(default_factory=dict[str, _Opened])
    _key: tuple[Budget | None, str] = (None, "")
    """The budget asked for last, and what its window is called."""
    _told: deque[_Write] = field(default_factory=_inbox)
    """What this process wrote outside the session's lock, and nobody has taken in yet."""

    @property
    def shown_checkpoint(self) -> Checkpoint | None:
        """The live checkpoint, unless everything it covers was cleared."""
        live = self.checkpoint
        return live if live is not None and live.upto > self.cleared else None

    @property
    def folded(self) -> int:
        """The last seq that is behind a checkpoint, or cleared."""
        return max(self.cleared, self.checkpoint.upto if self.checkpoint else 0)

    @property
    def covered(self) -> int:
        """The last seq that needs no place in a window: folded, stood in for, or cleared."""
        return max(self.folded, self.stand_in.upto if self.stand_in else 0)

    def forget_all(self) -> None:
        """Know nothing: the next look reads everything."""
        self._state, self.newest = _UNKNOWN, (0, 0)
        self._opened.clear()
        self._key = (None, "")
        self.head, self.checkpoint, self.stand_in, self.cleared = Head(), None, None, 0
        self.system, self.pins = (), ()
        self.state, self.findings = StateNote(), KnownFindings()

    @property
    def held_bytes(self) -> int:
        """Bytes of memory its windows take, about."""
        held = 0
        for opened in list(self._opened.values()):  # a copy: another thread may open one meanwhile
            held += opened.window.held_bytes
        return held

    async def refresh(self) -> None:
        """Look whether anything changed; read what did."""
        for _ in range(_TRIES - 1):
            with suppress(_HistoryChanged):
                return await self._refresh()
            self.forget_all()
        return await self._refresh()

    async def _refresh(self) -> None:
        self._take_in()
        head = await self.store.head(self.scope, self.conversation)
        self.looked = True
        if head.state == self._state:
            self.head = head
            return
        self._state = _UNKNOWN  # a read that fails half way is made again
        if not await self._is_continued(head) or head.counter != self.head.counter:
            self._opened.clear()
            self.system, self.checkpoint = (
                (),
                None,
            )  # another history may give the same id to another summary
        if (self.checkpoint.id if self.checkpoint else "") != head.checkpoint:
            self.checkpoint = await self.store.live_checkpoint(self.scope, self.conversation)
        self.head = head
        await self._read_notes()
        self._state = head.state

    async def _is_continued(self, head: Head) -> bool:
        """Whether the entries that are known are still those of the store; notes the newest of it as known."""
        seq, epoch = self.newest
        first = seq if 0 < seq <= head.seq < seq + _PAGE else head.seq
        found = await self.store.read(
            self.scope, self.conversation, after=max(first - 1, 0), upto=head.seq, limit=_PAGE
        )
        self.newest = (found[-1].seq, found[-1].epoch) if found else (0, 0)
        return bool(found and epoch) and (found[0].seq, found[0].epoch) == (seq, epoch)

    async def assume(self) -> None:
        """Take what is known for what the store holds, until `confirm` is asked; read it if nothing is known."""
        self.looked = False
        if not self._take_in() or self._state == _UNKNOWN:
            await self.refresh()

    async def confirm(self) -> None:
        """A `Conflict` if what was assumed is not so: asked before something is decided for everybody."""
        if self.looked:
            return
        head = await self.store.head(self.scope, self.conversation)
        if head.state != self._state:
            raise Conflict(
                f"the conversation is at generation {head.generation}, epoch {head.epoch}, and was read at "
                f"{self._state}: read it again"
            )
        self.looked = True

    async def note(self, document: Document, *, fenced: bool) -> bool:
        """Write a new document; whether it was written, or what was assumed is not so, or there is one already.

        What was looked at may change before the document is written: with `fenced` that is refused as well, without it
        only if the store's history is another.
        """
        where = (self.scope, self.conversation, document)
        try:
            if self.looked:
                state, seen = (self._state, None) if fenced else (None, self.newest)
                self.wrote(await self.store.put_document(*where, expect=0, state=state, seen=seen))
            else:
                self._state = await self.store.note(*where, state=self._state)
        except Conflict:
            return False
        return True

    def wrote(self, written: Written | None) -> None:
        """This process changed a document under the session's lock; None where it is not known what that led to."""
        known = written is not None and written.before == self._state
        self._state = written.after if written is not None and known else _UNKNOWN

    def told(self, written: Written) -> None:
        """This process changed a document that is not held here; said at any time, without the session's lock."""
        self._told.append(_Write(written))

    def appended(self, done: Appended, messages: Sequence[Message]) -> None:
        """Entries were appended by this process; said by any thread, at any time, also while a context is made."""
        if not done.repeated:
            self._told.append(_Write(done, messages if self._opened else ()))

    def _take_in(self) -> bool:
        """Follow what this process wrote; False when something else happened as well and must be read."""
        told = [self._told.popleft() for _ in range(len(self._told))]
        # Those who share a commit tell of it in any order.
        told.sort(key=lambda write: write.after[0])
        return all(self._follow(write) for write in told)

    def _follow(self, write: _Write) -> bool:
        """Take in one write, which need not be read again if nothing else happened."""
        if write.after[0] <= self._state[0]:
            return True  # it was read meanwhile
        if write.done.before != self._state:
            return False
        if isinstance(write.done, Appended):
            return self._follow_append(write.done, write.messages)
        self._state = write.after
        return True

    def _follow_append(self, done: Appended, messages: Sequence[Message]) -> bool:
        if done.first != self.head.seq + 1 or self.head.counter not in ("", done.head.counter):
            return False
        added = done.head.tokens - self.head.tokens
        self._state, self.head = done.head.state, done.head
        self.newest = (done.head.seq, done.head.epoch)
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
            self._key = (budget, _window_key(budget, self.counter.name))
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
        anchor, most = opened.window.anchor, _FAR_BEHIND * budget.tokens
        if opened.before[0] != anchor:
            opened.before = (anchor, self.head.tokens - await self._tokens_after(anchor - 1))
        if self.head.tokens - opened.before[1] <= most:
            return False
        await self._extend(opened.window)
        return opened.window.tokens(largest=_largest(budget)) > most

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
            seen=self.newest,
        )
        self.wrote(written)
        opened.stored, opened.version = note, written.document.version

    async def _read_notes(self) -> None:
        notes = {note.key: note for note in await self._documents(SESSION)}
        self.cleared = read_note(notes.get(CLEARED), ClearedNote).upto
        self.state = read_note(notes.get(STATE), StateNote)
        await self._read_stand_in(read_note(notes.get(STAND_IN), StandInNote))
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

    async def _read_stand_in(self, note: StandInNote) -> None:
        if note.upto <= self.folded:
            self.stand_in = None
        elif self.stand_in is None or self.stand_in.key != note.key:
            place = (self.scope, self.conversation, STAND_IN, note.key)
            document = await self.store.get_document(*place)
            self.stand_in = StandIn.read(document) if document else None

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
        for _ in range(_TRIES):
            document = await self.store.get_document(self.scope, self.conversation, WINDOW, key)
            stored = read_note(document, WindowNote)
            if max(stored.anchor - 1, *(seq for seq, _ in stored.caps), 0) <= self.head.seq:
                break
            await self.refresh()  # it speaks of entries that came since the head was read
        else:  # or of entries that a restored store has lost
            document = await self.store.get_document(self.scope, self.conversation, WINDOW, key)
            stored = WindowNote()
        first = max(stored.anchor, self.covered + 1)
        version = document.version if document else 0
        if await self._tokens_after(first - 1) > _FAR_BEHIND * budget.tokens:
            window = await self._from_the_end(budget, first)
            if window is not None:
                return _Opened(window, stored, version, self.covered, self.head.seq)
        head = stored.head if first == stored.anchor else await self._opener(first)
        head = head if head > self.cleared else 0
        caps = tuple((seq, cap) for seq, cap in stored.caps if seq >= first or seq == head)
        reason = stored.reason if first == stored.anchor else _FOLDED
        note = WindowNote(anchor=first, head=head, caps=caps, reason=reason)
        return _Opened(await self._begin(note), stored, version, self.covered, self.head.seq)

    async def _begin(self, note: WindowNote) -> LiveWindow:
        head = self.numbered(await self._at(note.head)) if note.head else None
        window = LiveWindow(self.counter, note, head=head)
        await self._extend(window)
        return window

    async def _extend(self, window: LiveWindow) -> None:
        while window.seq < self.head.seq:
            entries = await self._read(window.seq, self.head.seq)
            if not entries:
                raise await self._missing()
            window.extend(entries)

    async def _from_the_end(self, budget: Budget, first: int) -> LiveWindow | None:
        """A window over no more of the log than the budget could show; None where that reaches back to `first`.

        Huge entries count as much as a window would show of them, so they are read like all others.
        """
        largest, used, start, seq = _largest(budget), 0, 0, self.head.seq
        while seq >= first:
            after = max(seq - _BACKWARDS, first - 1)
            page = await self._read(after, seq)
            if len(page) != seq - after:
                raise await self._missing()
            for entry in reversed(page):
                used += min(entry.tokens, largest)
                if used <= budget.tokens:
                    start = entry.seq
                elif used > _FAR_BEHIND * budget.tokens:
                    return await self._begin_at(max(start, first), budget)
            seq = after
        return None

    async def _begin_at(self, first: int, budget: Budget) -> LiveWindow:
        """A window that begins at `first`, or before it where that is inside a span."""
        while first > self.covered + 1:
            entry = await self._at(first)
            if entry.message.role != "tool":
                break
            first -= 1
        reason = f"older than a budget of {budget.tokens:,} tokens holds"
        return await self._begin(
            WindowNote(anchor=first, head=await self._opener(first), reason=reason)
        )

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
        return low if low > self.cleared else 0

    async def _tokens_after(self, seq: int) -> int:
        if seq <= 0 or seq >= self.head.seq:
            return self.head.tokens if seq <= 0 else 0
        return self.head.tokens - (await self._at(seq)).running

    async def _at(self, seq: int) -> Entry:
        found = await self.store.read(
            self.scope, self.conversation, after=seq - 1, upto=seq, limit=1
        )
        if not found:
            raise await self._missing()
        return found[0]

    async def _missing(self) -> TurnfoldError:
        """Why an entry that was there is not: erased with its conversation, or of a history that the store lost."""
        head = await self.store.head(self.scope, self.conversation)
        if head.seq:
            return _HistoryChanged(
                f"conversation {self.conversation!r} lost entries that were read before: its store was restored or "
                "failed over. Read it again"
            )
        return ConversationDeleted(
            f"conversation {self.conversation!r} has been erased; use another id"
        )

    async def _read(self, after: int, upto: int) -> list[Numbered]:
        if after >= upto:
            return []
        entries = await self.store.read(
            self.scope, self.conversation, after=after, upto=upto, limit=_PAGE
        )
        return [self.numbered(entry) for entry in entries]

    def numbered(self, entry: Entry) -> Numbered:
        """A stored entry with its cost: the stored one, if it was counted by this session's counter."""
        known = self.head.counter == self.counter.name
        tokens = entry.tokens if known else self.counter.count_message(entry.message)
        return Numbered(entry.seq, entry.message, tokens)


def _largest(budget: Budget) -> int:
    return max(budget.tokens // _LARGEST_PART, 1)


def _window_key(budget: Budget, counter: str) -> str:
    """What tells the window of one budget from that of another."""
    marks = budget.marks
    limits = (
        f"{budget.tokens}t-{budget.max_messages}m-{budget.max_bytes}b-{marks.low:g}-{marks.snap:g}"
    )
    return f"{limits}-{counter}"[:512]

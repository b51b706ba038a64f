"""The cached state of one conversation in one process, kept in step with the store.

Every change in a store raises the conversation's generation and sets a new epoch (random number), so comparing the head
(generation and epoch) is enough to know if anything must be read again; a session that is the only writer reads nothing
twice. The amount read is bounded by the budget: the session's notes, the live checkpoint (summary), and the entries
from the window's anchor (first entry) on.

Cached entries are trusted only while they belong to the store's history. After a failover that lost commits, or a
restored backup, other entries may have the same seqs. So after writes by others, the newest cached entry must have the
epoch of the stored one; otherwise everything is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from types import TracebackType
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.errors import Conflict, ConversationDeleted, TurnfoldError
from turnfold.findings import FindingCache
from turnfold.memory.cleared_entries import last_cleared
from turnfold.memory.live_window import LiveWindow, StoredMessage
from turnfold.records import (
    CALIBRATION,
    CLEARED,
    FINDING,
    FINDINGS,
    PIN,
    RULES,
    SESSION,
    STAND_IN,
    STATE,
    SYSTEM,
    WINDOW,
    CalibrationNote,
    Checkpoint,
    ClearedNote,
    Document,
    Entry,
    Message,
    PinNote,
    StandIn,
    StandInNote,
    StateNote,
    SystemNote,
    WindowNote,
    read_note,
    write_note,
)
from turnfold.stores import Appended, Head, Scope, State, Store, Written
from turnfold.tokens import TokenCounter

__all__ = (
    "ConversationCache",
    "StateLock",
    "erased",
)


_PAGE = 512
_MAX_TRIES = 4
"""Attempts to read a conversation whole; an attempt fails if the store's history changes during the read."""
_LEADING_ENTRIES = 8
"""Number of first entries of a log that are searched for system messages, if no stored note lists the system
messages."""
_MAX_WINDOWS = 8
"""Most windows (one per budget) that are cached for one conversation; the one opened first is dropped first."""
_FOLDED = "everything before it was folded or cleared"
"""Reason shown in receipts (context reports) for a window that begins after the entries that a summary covers."""
_MAX_UNREAD_BUDGETS = 2
"""If the unread entries have more tokens than this many budgets, only the end of the log is read."""
_ENTRY_SHARE = 8
"""One entry counts for at most 1/8 of the budget when deciding how much of the log to read: a window shows it
shortened, and one huge tool result must not push everything else out."""
_BACKWARD_PAGE = 64
"""Entries read at a time from the end of the log backwards."""
_VIEWED = (FINDING, PIN, SESSION, WINDOW)
"""Kinds of the documents that are read together with the conversation's head (generation, epoch, newest seq)."""
_UNKNOWN: State = (-1, 0)
"""Value of `_state` if nothing is cached, so that everything must be read from the store."""
_MAX_PENDING = 256
"""Most writes of this process that wait to be applied to the cache; if there are more, the conversation is read again
from the store."""


@dataclass(slots=True)
class _OpenWindow:
    """A cached window (entries shown verbatim), and the stored note that says at which entry the window begins."""

    window: LiveWindow
    stored: WindowNote
    version: int
    """Version of the document that stores where the window begins; 0 if there is none."""
    covered: int
    """Value of `ConversationCache.covered` (last compacted or cleared seq) when the window was opened."""
    checked: int
    """Seq (log position) of the newest entry when `_is_outrun` was last evaluated for this window."""
    tokens_before: tuple[int, int] = (1, 0)
    """Cached count: the seq of an anchor (first entry of a window), and the tokens of everything before it."""


class StateLock:
    """The lock around a session's cached state; resets that state if the last holder was interrupted.

    A signal handler may raise at any line and a task may be cancelled at any await. A holder that ends with anything
    but success or an error of this library may have left the state half changed, so the next holder reads it again.
    """

    def __init__(self, lock: AbstractAsyncContextManager[None], reset: Callable[[], None]) -> None:
        self._lock, self._reset = lock, reset
        self._changing = False

    async def __aenter__(self) -> None:
        await self._lock.__aenter__()
        if self._changing:
            self._reset()
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
    """Raised if cached entries are gone from the store, because a backup was restored or a failover lost them."""


class _Write(NamedTuple):
    """A write of this process to the conversation, not yet applied to the cache."""

    done: Appended | Written
    messages: Sequence[Message] = ()

    @property
    def after(self) -> State:
        """Generation and epoch (random number of the write) of the conversation after the write."""
        return self.done.head.state if isinstance(self.done, Appended) else self.done.after


@dataclass(slots=True)
class ConversationCache:
    """Cache of one conversation as last read from the store: head (version), session notes, checkpoint and windows."""

    store: Store
    scope: Scope
    conversation: str
    counter: TokenCounter
    head: Head = field(default_factory=Head)
    system: tuple[StoredMessage, ...] = ()
    pins: tuple[tuple[str, PinNote], ...] = ()
    state: StateNote = field(default_factory=StateNote)
    calibration: CalibrationNote = field(default_factory=CalibrationNote)
    findings: FindingCache = field(default_factory=FindingCache)
    rules_document: Document | None = None
    """The stored document with the rules that the user stated."""
    cleared: int = 0
    """The last seq hidden by `clear()` or replaced by later entries; 0 for none."""
    _replacing: bool = False
    """True if the next append may replace everything before it, so that the notes must be read again."""
    checkpoint: Checkpoint | None = None
    """The newest checkpoint (stored summary of a fold), which contexts show; None before the first."""
    stand_in: StandIn | None = None
    """The extract shown until the same entries are folded (compacted); None once a checkpoint covers them."""
    history: int = 0
    """Counter that is incremented when the cached entries are no longer those of the store, which then has another
    history."""
    confirmed: bool = False
    """True if the store was asked since the last `assume()`, so that the cached state is known to be current."""
    _state: State = _UNKNOWN
    """Generation and epoch of the cached state, this process's own writes included."""
    newest: tuple[int, int] = (0, 0)
    """Seq and epoch of the newest known entry; (0, 0) if none is known."""
    _windows: dict[str, _OpenWindow] = field(default_factory=dict[str, _OpenWindow])
    _window_notes: dict[str, Document] = field(default_factory=dict[str, Document])
    """Window key (made from the budget) -> stored document that says where this window begins."""
    _key: tuple[Budget | None, str] = (None, "")
    """The budget used last, and the key of its window (the verbatim entries of a call)."""
    _pending: deque[_Write] = field(default_factory=lambda: deque[_Write](maxlen=_MAX_PENDING))
    """Writes made by this process outside the session's lock and not yet applied here."""

    @property
    def shown_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, whose summary contexts show.

        It is None if there is none, or if `clear()` hid all entries it covers.
        """
        live = self.checkpoint
        return live if live is not None and live.upto > self.cleared else None

    @property
    def folded(self) -> int:
        """Last log position that a checkpoint's summary covers or `clear()` hid; 0 if there is none."""
        return max(self.cleared, self.checkpoint.upto if self.checkpoint else 0)

    @property
    def covered(self) -> int:
        """Last log position that need not be shown word for word, because it is summarised, in an extract, or cleared.

        It is 0 if there is none.
        """
        return max(self.folded, self.stand_in.upto if self.stand_in else 0)

    def reset(self) -> None:
        """Drop all cached state; the next `refresh()` reads everything."""
        self._state, self.newest = _UNKNOWN, (0, 0)
        self.history += 1
        self._windows.clear()
        self._window_notes, self._key = {}, (None, "")
        self.head, self.checkpoint, self.stand_in, self.cleared = Head(), None, None, 0
        self.system, self.pins, self.rules_document = (), (), None
        self.state, self.findings = StateNote(), FindingCache()
        self.calibration = CalibrationNote()

    @property
    def held_bytes(self) -> int:
        """Approximate memory of the cached windows, in bytes."""
        # Iterate over a copy: another thread may open a window meanwhile.
        return sum(opened.window.held_bytes for opened in list(self._windows.values()))

    async def refresh(self) -> None:
        """Ask the store if the conversation changed, and read the changes into the cache."""
        for _ in range(_MAX_TRIES - 1):
            with suppress(_HistoryChanged):
                return await self._refresh()
            self.reset()
        return await self._refresh()

    async def _refresh(self) -> None:
        self._apply_own_writes()
        if self._state != _UNKNOWN:
            head = await self.store.head(self.scope, self.conversation)
            if head.state == self._state:
                self.confirmed, self.head = True, head
                return
            self._state = _UNKNOWN  # if a read below fails, the next refresh reads everything again
        # Head and notes are read at one moment: after a failover, notes of a lost state do not belong to the new head.
        view = await self.store.view(self.scope, self.conversation, _VIEWED)
        self.confirmed = True
        if not await self._is_same_history(view.head) or view.head.counter != self.head.counter:
            self.history += 1
            self._windows.clear()
            self.system, self.stand_in = (), None
        self.head, self.checkpoint = view.head, view.checkpoint
        await self._apply_notes(view.documents)
        self._state = view.head.state

    async def _is_same_history(self, head: Head) -> bool:
        """Return True if the cached entries are still in the store; sets `newest` to the store's newest entry."""
        seq, epoch = self.newest
        first = seq if 0 < seq <= head.seq < seq + _PAGE else head.seq
        found = await self.store.read(
            self.scope, self.conversation, after=max(first - 1, 0), upto=head.seq, limit=_PAGE
        )
        self.newest = (found[-1].seq, found[-1].epoch) if found else (0, 0)
        return bool(found and epoch) and (found[0].seq, found[0].epoch) == (seq, epoch)

    async def assume(self) -> None:
        """Use the cached state without asking the store, until `confirm()` is called.

        Reads the state if nothing is cached.
        """
        self.confirmed = False
        if not self._apply_own_writes() or self._state == _UNKNOWN:
            await self.refresh()

    async def own_head(self) -> Head | None:
        """Return the store's head (version), if only this process has written since the state was read.

        Returns None if others wrote too.
        """
        if not self._apply_own_writes():
            self._state = _UNKNOWN
        if self._state == _UNKNOWN:
            return None
        head = await self.store.head(self.scope, self.conversation)
        return head if head.state == self._state else None

    async def confirm(self) -> None:
        """Ask the store whether the cached state is current, unless it was asked since `assume()`.

        Raises `Conflict` if the state is not current.
        """
        if self.confirmed:
            return
        head = await self.store.head(self.scope, self.conversation)
        if head.state != self._state:
            raise Conflict(
                f"the conversation changed: it is at generation {head.generation}, epoch {head.epoch}, but was read at "
                f"generation {self._state[0]}, epoch {self._state[1]}. Read it again"
            )
        self.confirmed = True

    async def add_document(self, document: Document, *, fenced: bool) -> bool:
        """Store a new document of the conversation.

        Returns False if the cached state is out of date or the document's key is in use.

        With `fenced`, any change since the state was confirmed makes the write fail; without it, only a change of the
        history.
        """
        place = (self.scope, self.conversation, document)
        try:
            if self.confirmed:
                state, seen = (self._state, None) if fenced else (None, self.newest)
                self.wrote(await self.store.put_document(*place, expect=0, state=state, seen=seen))
            else:
                self._state = await self.store.note(*place, state=self._state)
        except Conflict:
            return False
        return True

    def wrote(self, written: Written | None) -> None:
        """Update the cached state after a document was written under the session's lock.

        If `written` is None, or others wrote meanwhile, the state is marked as out of date.
        """
        known = written is not None and written.before == self._state
        self._state = written.after if written is not None and known else _UNKNOWN

    def queue_write(self, written: Written) -> None:
        """Queue a document write of this process, so that the write does not make the cache out of date.

        Needs no lock.
        """
        self._pending.append(_Write(written))

    def queue_append(self, done: Appended, messages: Sequence[Message]) -> None:
        """Queue an append of this process, to be added to the cache.

        Callable from any thread, also while a context is built.
        """
        if not done.repeated:
            self._pending.append(_Write(done, messages if self._windows else ()))

    def _apply_own_writes(self) -> bool:
        """Apply this process's queued writes to the cache.

        Returns False if others wrote too, so that the cache must be read again.
        """
        writes = [self._pending.popleft() for _ in range(len(self._pending))]
        # Writers whose commits were grouped queue their writes in any order.
        writes.sort(key=lambda write: write.after[0])
        return all(self._apply(write) for write in writes)

    def _apply(self, write: _Write) -> bool:
        """Apply one queued write to the cache.

        Returns False if other writes came between the cached state and this write.
        """
        if write.after[0] <= self._state[0]:
            return True  # already read from the store
        if write.done.before != self._state:
            return False
        if isinstance(write.done, Appended):
            return self._apply_append(write.done, write.messages)
        self._state = write.after
        return True

    def _apply_append(self, done: Appended, messages: Sequence[Message]) -> bool:
        if (
            self._replacing
            or done.first != self.head.seq + 1
            or self.head.counter not in ("", done.head.counter)
        ):
            return False
        added = done.head.tokens - self.head.tokens
        self._state, self.head = done.head.state, done.head
        self.newest = (done.head.seq, done.head.epoch)
        current = [
            opened.window
            for opened in self._windows.values()
            if opened.window.seq == done.first - 1
        ]
        if not current:
            return True
        # Use the store's count of a single message: counting is most of the cost of an append.
        if len(messages) == 1 and done.head.counter == self.counter.name:
            costs = [added]
        else:
            costs = [self.counter.count_message(message) for message in messages]
        new = [
            StoredMessage(seq, message, cost)
            for seq, (message, cost) in enumerate(zip(messages, costs, strict=True), done.first)
        ]
        for window in current:
            window.extend(new)
        return True

    def _window_key(self, budget: Budget) -> str:
        """Return the key of the document that stores where the window of a budget begins."""
        if self._key[0] is not budget:
            marks = budget.marks
            limits = f"{budget.tokens}t-{budget.max_messages}m-{budget.max_bytes}b"
            key = f"{limits}-{marks.low:g}-{marks.snap:g}-{self.counter.name}"
            self._key = (budget, key[:512])
        return self._key[1]

    def use_counter(self, counter: TokenCounter) -> None:
        """Count tokens with another counter from now on.

        Drops the cached windows, whose counts are from the old counter.
        """
        self.counter = counter
        self._windows.clear()
        self._key = (None, "")

    async def window(self, budget: Budget) -> LiveWindow:
        """Return the window for a budget: the entries shown word for word, up to the newest one in the log."""
        key = self._window_key(budget)
        opened = self._windows.get(key)
        # The window depends on stored data only, so that every process opens the same one.
        if (
            opened is None
            or opened.covered != self.covered
            or (opened.checked != self.head.seq and await self._is_outrun(opened, budget))
        ):
            await self.refresh()  # the reads below must see one state
            opened = self._windows[key] = await self._open_window(key, budget)
            while len(self._windows) > _MAX_WINDOWS:
                del self._windows[next(iter(self._windows))]
        if opened.window.seq < self.head.seq:
            await self._extend(opened.window)
        return opened.window

    def open_window(self, budget: Budget) -> LiveWindow | None:
        """Return the cached window of a budget as it is; None if there is none."""
        opened = self._windows.get(self._window_key(budget))
        return opened.window if opened is not None else None

    async def _is_outrun(self, opened: _OpenWindow, budget: Budget) -> bool:
        """Return True if a window has more tokens than `_MAX_UNREAD_BUDGETS` budgets, because much was appended.

        The window is then loaded again, and begins at a later entry.
        """
        opened.checked = self.head.seq
        anchor, most = opened.window.anchor, _MAX_UNREAD_BUDGETS * budget.tokens
        if opened.tokens_before[0] != anchor:
            opened.tokens_before = (anchor, self.head.tokens - await self._tokens_after(anchor - 1))
        if self.head.tokens - opened.tokens_before[1] <= most:
            return False
        await self._extend(opened.window)
        return opened.window.tokens(largest=_largest(budget)) > most

    def drop_window(self, budget: Budget) -> None:
        """Drop the cached window of a budget, so that it is read again: another process may have moved it."""
        self._windows.pop(self._window_key(budget), None)

    def frozen_tail(self, budget: Budget, turn: int) -> WindowNote | None:
        """Return the stored tail (pins, rules, recalled passages) that was made when this turn began.

        Returns None if none was stored.
        """
        stored = self._windows[self._window_key(budget)].stored
        return stored if turn and stored.turn == turn else None

    async def save_window(self, budget: Budget, note: WindowNote) -> bool:
        """Store at which entry the window of a budget begins; return False if another writer was first.

        Nothing is written if the same is stored already, or if the window begins where it does by default: after the
        entries that are folded (compacted) or cleared.
        """
        key = self._window_key(budget)
        opened = self._windows[key]
        follows = note.anchor == self.covered + 1 and not note.caps and not note.tail
        if note == opened.stored or (follows and not opened.stored.caps and not opened.stored.tail):
            return True
        await self.confirm()
        try:
            written = await self.store.put_document(
                self.scope,
                self.conversation,
                write_note(WINDOW, key, note),
                expect=opened.version,
                seen=self.newest,
            )
        except Conflict:
            return False
        self.wrote(written)
        opened.stored, opened.version = note, written.document.version
        self._window_notes[key] = written.document
        return True

    async def _apply_notes(self, documents: Sequence[Document]) -> None:
        by_kind: dict[str, dict[str, Document]] = {kind: {} for kind in _VIEWED}
        for document in documents:
            by_kind[document.kind][document.key] = document
        notes = by_kind[SESSION]
        cleared = read_note(notes.get(CLEARED), ClearedNote)
        place = self.store, self.scope, self.conversation
        self.cleared = await last_cleared(cleared, *place, head=self.head.seq)
        self._replacing = any(seq >= self.head.seq for seq, _ in cleared.replacing)
        self.state = read_note(notes.get(STATE), StateNote)
        self.calibration = read_note(notes.get(CALIBRATION), CalibrationNote)
        await self._read_stand_in(read_note(notes.get(STAND_IN), StandInNote))
        found = notes.get(FINDINGS)
        self.findings = FindingCache.of(found, by_kind[FINDING].values() if found else ())
        self.rules_document = notes.get(RULES)
        noted = notes.get(SYSTEM)
        await self._read_system(read_note(noted, SystemNote).seqs if noted else None)
        pins = [(pin.key, read_note(pin, PinNote)) for pin in by_kind[PIN].values()]
        self.pins = tuple(sorted(pins, key=lambda pair: (pair[1].order, pair[0])))
        self._window_notes = by_kind[WINDOW]
        for key, opened in list(self._windows.items()):
            if self._stored_window(key) != (opened.stored, opened.version):
                del self._windows[key]

    def _stored_window(self, key: str) -> tuple[WindowNote, int]:
        """Return the stored note that says where a budget's window begins, and the note's version."""
        document = self._window_notes.get(key)
        return read_note(document, WindowNote), document.version if document else 0

    async def _read_stand_in(self, note: StandInNote) -> None:
        # Read again even if its text is cached: a failover may have lost the text and kept the note that names it.
        named = note.upto > self.folded
        document = await self.document(STAND_IN, note.key) if named else None
        self.stand_in = StandIn.read(document) if document else None

    async def document(self, kind: str, key: str) -> Document | None:
        """Read one document of the conversation from the store; return None if it does not exist."""
        return await self.store.get_document(self.scope, self.conversation, kind, key)

    async def _read_system(self, seqs: tuple[int, ...] | None) -> None:
        if seqs is None:
            leading = await self._messages(0, min(self.head.seq, _LEADING_ENTRIES))
            self.system = tuple(takewhile(lambda entry: entry.message.role == "system", leading))
        elif seqs != tuple(entry.seq for entry in self.system):
            self.system = tuple([self.stored_message(await self._entry(seq)) for seq in seqs])

    async def _open_window(self, key: str, budget: Budget) -> _OpenWindow:
        stored, version = self._stored_window(key)
        if max(stored.anchor - 1, *(seq for seq, _ in stored.caps), 0) > self.head.seq:
            stored = WindowNote()  # it refers to entries that a restored store has lost
        first = max(stored.anchor, self.covered + 1)
        if await self._tokens_after(first - 1) > _MAX_UNREAD_BUDGETS * budget.tokens:
            window = await self._newest_window(budget, first)
            if window is not None:
                return _OpenWindow(window, stored, version, self.covered, self.head.seq)
        head = stored.head if first == stored.anchor else await self._turn_start(first)
        head = head if head > self.cleared else 0
        caps = tuple((seq, cap) for seq, cap in stored.caps if seq >= first or seq == head)
        reason = stored.reason if first == stored.anchor else _FOLDED
        note = WindowNote(anchor=first, head=head, caps=caps, reason=reason)
        window = await self._load_window(note)
        return _OpenWindow(window, stored, version, self.covered, self.head.seq)

    async def _load_window(self, note: WindowNote) -> LiveWindow:
        opener = self.stored_message(await self._entry(note.head)) if note.head else None
        window = LiveWindow(self.counter, note, opener=opener)
        await self._extend(window)
        return window

    async def _extend(self, window: LiveWindow) -> None:
        while window.seq < self.head.seq:
            entries = await self._messages(window.seq, self.head.seq)
            if not entries:
                raise await self._missing_error()
            window.extend(entries)

    async def _newest_window(self, budget: Budget, first: int) -> LiveWindow | None:
        """Load a window of the newest entries that the budget can show.

        Returns None if the window would begin at `first` anyway. Entries too large for the budget are counted as if
        shortened.
        """
        largest, used, start, seq = _largest(budget), 0, 0, self.head.seq
        while seq >= first:
            after = max(seq - _BACKWARD_PAGE, first - 1)
            page = await self._messages(after, seq)
            if len(page) != seq - after:
                raise await self._missing_error()
            for entry in reversed(page):
                used += min(entry.tokens, largest)
                if used <= budget.tokens:
                    start = entry.seq
                elif used > _MAX_UNREAD_BUDGETS * budget.tokens:
                    return await self._load_from(max(start, first), budget)
            seq = after
        return None

    async def _load_from(self, first: int, budget: Budget) -> LiveWindow:
        """Load a window that begins at `first`, or earlier if `first` is inside a span (a call with its results)."""
        while first > self.covered + 1 and (await self._entry(first)).message.role == "tool":
            first -= 1
        reason = f"older than a budget of {budget.tokens:,} tokens holds"
        head = await self._turn_start(first)
        return await self._load_window(WindowNote(anchor=first, head=head, reason=reason))

    async def _turn_start(self, seq: int) -> int:
        """Return the log position of the user message that opened the turn of entry `seq`.

        Returns 0 if the entry opens the turn itself or belongs to none, and if the turn began before the log was
        cleared.
        """
        following = await self.store.read(
            self.scope, self.conversation, after=seq - 1, limit=_LEADING_ENTRIES
        )
        at = next((entry for entry in following if entry.message.role != "system"), None)
        if at is None or at.turn == 0 or at.message.role == "user":
            return 0
        low, high = 1, at.seq
        while low < high:  # turn numbers only grow: the first entry of this turn, by bisection
            middle = (low + high) // 2
            entry = await self._entry(middle)
            low, high = (low, middle) if entry.turn == at.turn else (middle + 1, high)
        return low if low > self.cleared else 0

    async def _tokens_after(self, seq: int) -> int:
        if seq <= 0 or seq >= self.head.seq:
            return self.head.tokens if seq <= 0 else 0
        return self.head.tokens - (await self._entry(seq)).running

    async def _entry(self, seq: int) -> Entry:
        found = await self.store.read(
            self.scope, self.conversation, after=seq - 1, upto=seq, limit=1
        )
        if not found:
            raise await self._missing_error()
        return found[0]

    async def _missing_error(self) -> TurnfoldError:
        """Return the error for a missing entry: its conversation was erased, or the store lost entries."""
        head = await self.store.head(self.scope, self.conversation)
        # An erased conversation keeps its generation; without one, a failover lost its beginning too.
        if head.seq or not head.generation:
            return _HistoryChanged(
                f"conversation {self.conversation!r} lost entries that were read before: its store was restored or "
                "failed over. Read it again"
            )
        return erased(self.conversation)

    async def _messages(self, after: int, upto: int) -> list[StoredMessage]:
        if after >= upto:
            return []
        entries = await self.store.read(
            self.scope, self.conversation, after=after, upto=upto, limit=_PAGE
        )
        return [self.stored_message(entry) for entry in entries]

    def stored_message(self, entry: Entry, counter: TokenCounter | None = None) -> StoredMessage:
        """Return an entry's message with its token count: the stored one if from `counter`, otherwise a new one."""
        counter = counter or self.counter
        known = self.head.counter == counter.name
        tokens = entry.tokens if known else counter.count_message(entry.message)
        return StoredMessage(entry.seq, entry.message, tokens)


def erased(conversation: str) -> ConversationDeleted:
    """Return the error for a conversation that was erased while it was in use."""
    return ConversationDeleted(f"conversation {conversation!r} has been erased; use another id")


def _largest(budget: Budget) -> int:
    return max(budget.tokens // _ENTRY_SHARE, 1)

"""Leases: session notes with an owner and an expiry time, so that one process at a time does some work.

`StoredLease` is the base of the lease of a fold (compaction) and of that of an agent's run. `AgentRuns` makes the runs
of agents on one session wait for each other, and `RunLease` is the lease of one run.

- **Compare-and-swap.** A lease is taken, renewed and released by a write that succeeds only if the note still has the
  version that was read: of two processes that find it free, one gets it. While a run is alive, its lease is renewed
  three times in its length, so a process that was killed blocks the session for at most one length.
- **Order.** Runs of one session object wait in a queue, in the order in which they began. Between session objects and
  processes, whichever looks first after a run ended is next.
- **Inside a run.** A run that is started by a tool of a run on the same session would wait for itself for ever. A
  context variable has the owners of all runs that the current code is called by, so it gets `SessionBusy` at once.
- **Lost leases.** A process that was suspended for longer than its lease may find that another run took over. Its own
  run stops before its next model call or tool. A tool that runs at that moment cannot be stopped.
- **Clocks.** Leases are stored in wall-clock time, because several machines read them. A wall clock can jump, so a
  lease also counts as over if it ends later than its full length from now, or if this process has seen it unchanged for
  its full length by its monotonic clock.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar

from turnfold.errors import Conflict, ConversationDeleted, SessionBusy, StoreError, StoreUnavailable
from turnfold.memory.cached_conversation import ConversationCache
from turnfold.records import RUN, SESSION, LeaseNote, RunNote, read_note, write_note
from turnfold.runtime import Runtime
from turnfold.stores import Scope, Store, Written, log_mark

__all__ = (
    "AgentRuns",
    "RunLease",
    "StoredLease",
    "new_owner",
)


_log = logging.getLogger(__name__)
_MICRO = 1_000_000
_MAX_SEEN = 8
"""Most leases and pauses for which this process remembers when it first saw them; the oldest are forgotten first."""
_FIRST_LOOK, _LAST_LOOK = 0.01, 0.25
"""Seconds between two checks of a lease that another run holds: shortest and longest interval."""
_TRIES = 8
"""Most attempts to write a lease that this run holds; an attempt fails if another writer was first."""
_Note = TypeVar("_Note", bound=LeaseNote)

_inside: ContextVar[tuple[str, ...]] = ContextVar("turnfold_runs", default=())
"""Owners of the leases held by the agent runs that this code runs inside, outermost run first."""


def new_owner() -> str:
    """Return a new id for the holder of a lease."""
    return f"{os.getpid()}-{secrets.token_hex(6)}"


@dataclass(slots=True)
class StoredLease(Generic[_Note]):
    """A session note with an owner and an expiry time; taken, renewed and given back by compare-and-swap."""

    store: Store
    scope: Scope
    conversation: str
    key: str
    form: type[_Note]
    clock: Callable[[], int]
    """Function that returns microseconds since 1970."""
    monotonic: Callable[[], float] = time.monotonic
    _seen: dict[int, float] = field(default_factory=dict[int, float], init=False)
    """End time of a lease or pause -> when this process first saw it, by the monotonic clock."""

    async def read(self) -> tuple[_Note, int]:
        """Return the note and its version; the version of a note that does not exist is 0."""
        document = await self.store.get_document(self.scope, self.conversation, SESSION, self.key)
        return read_note(document, self.form), document.version if document else 0

    async def write(self, note: _Note, version: int) -> Written | None:
        """Write the note if its version is still `version`; return None if another process was first."""
        document = write_note(SESSION, self.key, note)
        try:
            return await self.store.put_document(
                self.scope, self.conversation, document, expect=version
            )
        except Conflict:
            return None

    def end(self, length: float) -> int:
        """Return when a lease or pause of `length` seconds that begins now ends, in microseconds since 1970."""
        return self.clock() + int(length * _MICRO)

    def is_taken(self, note: _Note, owner: str, length: float) -> bool:
        """Return True if another owner than `owner` holds the lease of `length` seconds, and it still runs."""
        return note.owner not in ("", owner) and self.is_active(note.until, length)

    def is_active(self, end: int, length: float) -> bool:
        """Return True if a lease or pause of `length` seconds that ends at `end` is still running.

        "Clocks" in the docstring of this module says how that is decided.
        """
        left = (end - self.clock()) / _MICRO
        if not 0 < left <= length:
            return False
        return self.monotonic() - self._seen_at(end) < length

    def _seen_at(self, end: int) -> float:
        """Return when this process first saw a lease or pause with this end time, by the monotonic clock."""
        seen = self._seen.setdefault(end, self.monotonic())
        while len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return seen


class AgentRuns:
    """The runs of agents on one session, for one session object: one at a time, in the order in which they began."""

    def __init__(
        self, cache: ConversationCache, clock: Callable[[], int], runtime: Runtime
    ) -> None:
        self.cache = cache
        self.runtime = runtime
        self.note = StoredLease(cache.store, cache.scope, cache.conversation, RUN, RunNote, clock)
        self.queue: deque[object] = deque()
        """The runs of this session object that wait, first come first."""

    def lease(
        self, *, seconds: float, wait: float, answered: Callable[[], Awaitable[bool]]
    ) -> RunLease:
        """Return the lease of a new run: `async with` waits until the session is free, takes it, and releases it.

        `seconds` is the length of the lease. After waiting for `wait` seconds, `SessionBusy` is raised. A run that
        waits calls `answered()` now and then: if it returns True, the run has its answer already and enters the block
        without a lease.
        """
        return RunLease(self, seconds=seconds, wait=wait, answered=answered)


class RunLease:
    """The lease of one run on a session, as an async context manager; it is renewed while the run is alive."""

    def __init__(
        self,
        runs: AgentRuns,
        *,
        seconds: float,
        wait: float,
        answered: Callable[[], Awaitable[bool]],
    ) -> None:
        self._runs, self._note = runs, runs.note
        self._seconds, self._wait, self._answered = seconds, wait, answered
        self._owner = new_owner()
        self._taken_over = False
        self._renewed = 0.0
        """When the lease was last renewed, by the monotonic clock."""
        self._renewal: AbstractAsyncContextManager[None] | None = None
        self._outer: Token[tuple[str, ...]] | None = None

    async def __aenter__(self) -> Self:
        if await self._take():
            try:
                renewal = self._runs.runtime.repeat(self._renew_quietly, seconds=self._seconds / 3)
                await renewal.__aenter__()
            except BaseException as error:
                await self._give_back(error)
                raise
            self._renewal = renewal
            self._outer = _inside.set((*_inside.get(), self._owner))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._renewal is None:
            return
        if self._outer is not None:
            with suppress(ValueError):  # a coroutine that is closed elsewhere than it began
                _inside.reset(self._outer)
        try:
            await self._renewal.__aexit__(kind, error, trace)
        finally:
            await self._give_back(error)

    async def confirm(self) -> None:
        """Raise `Conflict` if another run took the session over because this process was suspended for too long."""
        if self._renewal is None:
            return
        if not self._taken_over and self._note.monotonic() - self._renewed > self._seconds / 2:
            await self._renew()
        if self._taken_over:
            raise Conflict(
                f"another run took session {self._conversation!r} over, because this run had not renewed its lease for "
                f"{self._seconds:g} s, so it was stopped. Run it again with the same client_id, or raise lease_seconds "
                "if the event loop or the machine stands still for that long"
            )

    @property
    def _conversation(self) -> str:
        return self._note.conversation

    async def _take(self) -> bool:
        """Wait until the session is free, and take the lease; return False if the run's answer was stored meanwhile."""
        runs, ticket, pause = self._runs, object(), _FIRST_LOOK
        began = self._note.monotonic()
        try:
            runs.queue.append(ticket)
            while True:
                note, version = await self._note.read()
                self._refuse_inside(note)
                if (
                    runs.queue[0] is ticket
                    and not self._is_taken(note)
                    and await self._claim(note, version)
                ):
                    return True
                if await self._answered():
                    return False
                left = self._wait - (self._note.monotonic() - began)
                if left <= 0:
                    raise SessionBusy(
                        f"another run has session {self._conversation!r} for more than {self._wait:g} s: send the "
                        "same message with the same client_id again later (an answer that was stored is returned, no "
                        "tool runs twice), or raise wait_seconds"
                    )
                if await runs.runtime.pause(min(pause, left)):
                    raise StoreUnavailable(
                        f"the memory was closed while a run waited for session {self._conversation!r}: run it again"
                    )
                pause = min(pause * 1.5, _LAST_LOOK)
        finally:
            with suppress(ValueError):
                runs.queue.remove(ticket)

    def _refuse_inside(self, note: RunNote) -> None:
        """Raise `SessionBusy` if a tool of the run that holds the lease started this run: it would wait for itself."""
        if note.owner and note.owner in _inside.get():
            raise SessionBusy(
                f"a tool of a run on session {self._conversation!r} runs an agent on the same session, and would wait "
                f"for itself: give the inner run a session of its own, such as {self._conversation + '/helper'!r}"
            )

    def _is_taken(self, note: RunNote) -> bool:
        return self._note.is_taken(note, self._owner, note.seconds)

    async def _claim(self, note: RunNote, version: int) -> bool:
        """Take the lease that was free in this version; return False if another run was first."""

        async def claim() -> bool:
            claimed = RunNote(
                owner=self._owner, until=self._note.end(self._seconds), seconds=self._seconds
            )
            self._renewed = self._note.monotonic()
            written = await self._note.write(claimed, version)
            if written is not None:
                self._runs.cache.queue_write(written)
            return written is not None

        if note.owner:
            fields = {"event": "run_lease_expired", "conversation": self._log_id}
            _log.warning("a run ended without giving its lease back: taking over", extra=fields)
        try:
            return await self._runs.runtime.complete(claim)
        except ConversationDeleted:
            raise
        except BaseException as error:  # the write may be done all the same, or be done later
            await self._give_back(error, unsure=True)
            raise

    async def _renew_quietly(self) -> None:
        """Renew the lease in the background; if the store fails, the next renewal tries again."""
        try:
            await self._renew()
        except StoreError as error:
            fields = {"event": "run_lease_not_renewed", "conversation": self._log_id}
            _log.warning("cannot renew the lease of a run: %s", type(error).__name__, extra=fields)

    async def _renew(self) -> None:
        for _ in range(_TRIES):
            note, version = await self._note.read()
            if note.owner not in ("", self._owner):  # a store that was restored has none
                self._taken_over = True
                return
            now = self._note.monotonic()
            renewed = RunNote(
                owner=self._owner, until=self._note.end(self._seconds), seconds=self._seconds
            )
            try:
                written = await self._note.write(renewed, version)
            except ConversationDeleted:
                return  # the run's next write says so
            if written is not None:
                self._runs.cache.queue_write(written)
                self._renewed = now
                return

    async def _give_back(self, error: BaseException | None, *, unsure: bool = False) -> None:
        """Release the lease, even if the task is cancelled meanwhile; if the store fails, the lease expires by itself.

        With `unsure` the note is written even if nobody holds the lease: that changes its version, so that a claim of
        this run that is still on its way to the store is refused.
        """
        if isinstance(error, GeneratorExit):
            return  # nothing can be awaited while a coroutine is closed

        async def release() -> None:
            for _ in range(_TRIES):
                note, version = await self._note.read()
                if note.owner != self._owner and (not unsure or self._is_taken(note)):
                    return
                written = await self._note.write(RunNote(), version)
                if written is not None:
                    self._runs.cache.queue_write(written)
                    return

        try:
            await self._runs.runtime.complete(release)
        except StoreError as failed:
            if not isinstance(failed, ConversationDeleted):
                fields = {"event": "run_lease_not_released", "conversation": self._log_id}
                text = "cannot give the lease of a run back (%s): other runs wait up to %g s"
                _log.warning(text, type(failed).__name__, self._seconds, extra=fields)

    @property
    def _log_id(self) -> str:
        return log_mark(self._note.scope.tenant, self._conversation)

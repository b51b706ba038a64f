"""Server-sent events for new calls, of one session or of a whole tenant.

Other processes may use the same store, so a stream polls the store once a second. A call made through this process
wakes the stream of its session at once. The stream of a tenant reads more, so after each poll it rests 20 times as long
as the poll took, at most ten seconds. Of an unchanged conversation only the head (newest seq, version) is read.

A client resumes with the id of the last event it got (`Last-Event-ID`). A session's stream continues after that call. A
tenant's stream has no total order, so it continues from a moment before that event and may repeat some events, with the
same ids. A stream remembers a bounded number of conversations: those unchanged for longest are dropped, and read again
when they change.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from turnfold.api import CallEvent
from turnfold.errors import ConversationDeleted, InvalidOption, LimitExceeded
from turnfold.memory import Manifest, call_key
from turnfold.service.auth import Caller
from turnfold.service.state import ServiceState
from turnfold.stores import Head, Scope, State, log_mark

__all__ = (
    "session_events",
    "tenant_events",
)


_POLL: Final = 1.0
"""Longest time in seconds between two checks of the store for new calls."""
_SHARE: Final = 20
"""A tenant's stream pauses this many times as long as its last poll took, so that it polls 5 % of the time at most."""
_LONGEST_REST: Final = 10.0
_KEEP_ALIVE: Final = 15.0
"""After this many seconds without an event, a stream sends a comment, so that proxies do not close the connection."""
_PAGE: Final = 200
_CALLS: Final = 16
"""Number of calls that are read at once; one call may have a quarter of a megabyte."""
_SENT: Final = 10_000
_MARGIN: Final = 2_000_000
"""Microseconds by which the clocks of processes may differ without a stream missing a call."""
_FOLLOWED: Final = 10_000
"""Number of conversations that one stream remembers; exceeded only while more of them change within seconds."""
_LONGEST_CALL: Final = 600_000_000
"""Longest time, in microseconds, that may pass between the start of a call and its storage; a call stored later may be
missed by event streams."""


@dataclass(slots=True)
class _Followed:
    """The calls of one conversation that an event stream has read so far."""

    state: State = (-1, 0)
    seq: int = 0
    updated: int = 0
    since: int = 0
    """Time before which calls are not sent, in microseconds since 1970."""


@dataclass(slots=True)
class _Stream:
    """State of one open event stream: what was sent, and which conversations it knows."""

    state: ServiceState
    caller: Caller
    floor: str = ""
    """Id of a call: this call and earlier ones are not sent."""
    since: int = 0
    """Time before which calls are not sent, in microseconds since 1970."""
    quiet: int = 0
    """Time of change before which a conversation that is not in `followed` cannot have new calls."""
    followed: dict[str, _Followed] = field(default_factory=dict[str, _Followed])
    sent: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])

    @property
    def is_open(self) -> bool:
        """True until the service shuts down, or the token of the caller is revoked or expires."""
        return not self.state.stopping and self.state.gate.admits(self.caller)

    def is_quiet(self, conversation: str, updated: int) -> bool:
        """Return True if a conversation cannot have calls that this stream has not sent yet, so it is not read."""
        return updated < max(self.since, self.quiet) and conversation not in self.followed

    def forget_quiet(self, polled: int) -> None:
        """After a poll that began at `polled`, drop the state of the conversations that have not changed for longest.

        Later changes have a timestamp of at least `polled` minus the clock margin, so none of them is missed.
        """
        if len(self.followed) <= _FOLLOWED:
            return
        longest = sorted(self.followed.items(), key=lambda each: each[1].updated)
        for conversation, known in longest[: -_FOLLOWED // 2]:
            if known.updated >= polled - 2 * _MARGIN:
                break
            self.quiet = max(self.quiet, known.updated + 1)
            del self.followed[conversation]

    async def fresh(
        self, conversation: str, head: Head, updated: int = 0
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """Yield the calls of a conversation that this stream has not sent yet, with their event ids.

        Few are in memory at once: a stream that resumes from the first of many calls sends them as it reads them.
        """
        since = max(self.since, self.quiet - _LONGEST_CALL)
        known = self.followed.setdefault(conversation, _Followed(since=since))
        known.updated = updated
        if known.state == head.state:
            return
        # Start one entry earlier, because a call that began before others may be stored after them.
        after = max(self.floor, call_key(max(known.seq - 1, 0), 0) if known.seq > 1 else "")
        session = self.state.memory(self.caller.tenant).session(conversation)
        while True:
            page = await session.calls(after=after, limit=_CALLS)
            for each in page:
                new = each.call > self.floor and each.created >= known.since
                if new and self._is_first(f"{conversation}\0{each.call}"):
                    yield self._id(conversation, each), each
            if len(page) < _CALLS:
                break
            after = page[-1].call
        known.state, known.seq = head.state, head.seq

    def _is_first(self, name: str) -> bool:
        if name in self.sent:
            return False
        self.sent[name] = None
        if len(self.sent) > _SENT:
            self.sent.popitem(last=False)
        return True

    def _id(self, conversation: str, call: Manifest) -> str:
        if not self.since:
            return call.call
        return f"{call.created}.{log_mark(self.caller.tenant, conversation)}.{call.call}"


def session_events(
    state: ServiceState, caller: Caller, session: str, after: str
) -> StreamingResponse:
    """Stream the calls of one session after the call `after`; if `after` is empty, the calls made from now on."""
    stream = _Stream(state, caller, floor=after)
    return _CountedResponse(stream, _of_session(stream, session))


def tenant_events(state: ServiceState, caller: Caller, after: str) -> StreamingResponse:
    """Stream the calls of all sessions after the event `after`; if it is empty, the calls made from now on."""
    since = time.time_ns() // 1000
    if after:
        made = after.partition(".")[0]
        if not (made.isascii() and made.isdecimal() and len(made) < 18):
            raise InvalidOption(
                f"{after!r} is not an event id of this stream: leave it out to start with new calls"
            )
        since = max(int(made) - _MARGIN, 1)
    stream = _Stream(state, caller, since=since)
    return _CountedResponse(stream, _of_tenant(stream))


class _CountedResponse(StreamingResponse):
    """Response with an event stream, which counts against the token's limit of open streams until it ends."""

    def __init__(self, stream: _Stream, frames: AsyncIterator[bytes]) -> None:
        self._stream = stream
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(
            _while_open(stream, frames), media_type="text/event-stream", headers=headers
        )

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Send the stream; raises `LimitExceeded` if the token has too many open streams."""
        state, name = self._stream.state, self._stream.caller.name
        # No await between the check and the count, so that two streams opened at once cannot both pass the check.
        if state.streams[name] >= state.limits.streams:
            raise LimitExceeded(
                f"this token has {state.streams[name]} open event streams, the limit is {state.limits.streams}; "
                "close one first",
                allowed=state.limits.streams,
                used=state.streams[name],
                asked=1,
            )
        state.streams[name] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            state.streams[name] -= 1
            if not state.streams[name]:
                del state.streams[name]


async def _while_open(stream: _Stream, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    async for frame in frames:
        if not stream.is_open:  # the token may have been revoked while the frame was made
            return
        yield frame


async def _of_session(stream: _Stream, session: str) -> AsyncIterator[bytes]:
    state, scope = stream.state, Scope(stream.caller.tenant)
    store, signal = state.config.store, state.signal(stream.caller.tenant)
    resumed, sent_at = bool(stream.floor), time.monotonic()
    while stream.is_open:
        head = await store.head(scope, session)
        if not resumed:  # calls made before the stream was opened are not sent
            stream.followed[session] = _Followed(seq=head.seq)
        deleted = head.seq < stream.followed.get(session, _Followed()).seq  # a log only grows
        try:
            async for name, call in stream.fresh(session, head):
                if resumed and not deleted:
                    yield _frame(name, session, call)
                    sent_at = time.monotonic()
        except ConversationDeleted:
            deleted = True
        if deleted:
            yield b"event: deleted\ndata: {}\n\n"
            return
        resumed = True
        if time.monotonic() - sent_at > _KEEP_ALIVE:
            yield b": still here\n\n"
            sent_at = time.monotonic()
        await signal.wait(_POLL)


async def _of_tenant(stream: _Stream) -> AsyncIterator[bytes]:
    state, signal = stream.state, stream.state.signal(stream.caller.tenant)
    memory, sent_at = state.memory(stream.caller.tenant), time.monotonic()
    while stream.is_open:
        began, polled, after = time.monotonic(), time.time_ns() // 1000, ""
        while not state.stopping:
            page = await memory.conversations(after=after, limit=_PAGE)
            for each in page:
                if stream.is_quiet(each.conversation, each.updated):
                    continue
                fresh = stream.fresh(each.conversation, each.head, each.updated)
                with suppress(ConversationDeleted):
                    async for name, call in fresh:
                        yield _frame(name, each.conversation, call)
                        sent_at = time.monotonic()
            if len(page) < _PAGE:
                stream.forget_quiet(polled)
                break
            after = page[-1].conversation
        if time.monotonic() - sent_at > _KEEP_ALIVE:
            yield b": still here\n\n"
            sent_at = time.monotonic()
        rest = min(_SHARE * (time.monotonic() - began), _LONGEST_REST)
        again = time.monotonic() + rest
        await signal.wait(_POLL)
        while stream.is_open and time.monotonic() < again:
            await signal.wait(min(again - time.monotonic(), _POLL))


def _frame(name: str, conversation: str, call: Manifest) -> bytes:
    """Return one server-sent event for a call; neither its JSON nor its id contains a line break."""
    data = msgspec.json.encode(CallEvent(conversation=conversation, manifest=call))
    return b"id: " + name.encode() + b"\nevent: call\ndata: " + data + b"\n\n"

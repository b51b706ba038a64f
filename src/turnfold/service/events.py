"""Calls as they are made, as server-sent events: of one session, or of a whole tenant.

A call may be made by any process on the store, so a stream asks the store; calls made through this process ring a
bell and arrive at once, the others within a second. Nothing is asked beyond the head of a conversation that did not
change. An event's id resumes the stream where it broke off (`Last-Event-ID`). A session's stream then goes on after
that call. A tenant's stream has no one order, so it goes on from a moment before that event and may repeat some: ids
tell. A stream remembers a bounded number of conversations: those that have been quiet for longest are forgotten, and
looked at anew when they change.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
from starlette.responses import StreamingResponse

from turnfold.errors import ConversationDeleted, InvalidOption, LimitExceeded
from turnfold.memory.manifests import Manifest, call_key
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller
from turnfold.stores.log_mark import log_mark
from turnfold.stores.protocol import Head, Scope, State

__all__ = ("CallEvent", "Events", "session_events", "tenant_events")

_LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at the store."""
_SHARE: Final = 20
"""A stream spends at most one part in so many of its time on looking."""
_LONGEST_REST: Final = 10.0
_BEAT: Final = 15.0
"""Seconds of silence after which a stream says that it is still there."""
_PAGE: Final = 200
_SENT: Final = 10_000
_MARGIN: Final = 2_000_000
"""Microseconds by which clocks of processes may differ without a call being missed."""
_FOLLOWED: Final = 10_000
"""Conversations that one stream remembers; more only while more than that change within seconds."""
_LONGEST_CALL: Final = 600_000_000
"""Microseconds that may lie between the beginning of a call and its being stored."""


class CallEvent(msgspec.Struct, kw_only=True):
    """A call that was made."""

    conversation: str
    manifest: Manifest


class Events:
    """Stands for a stream of `CallEvent` in the table of operations."""


@dataclass(slots=True)
class _Followed:
    """How far one conversation was looked at."""

    state: State = (-1, 0)
    seq: int = 0
    updated: int = 0
    since: int = 0
    """Calls made before it are not sent, in microseconds since 1970."""


@dataclass(slots=True)
class _Stream:
    """One stream, while somebody listens."""

    state: ServiceState
    caller: Caller
    floor: str = ""
    """Calls up to this name are not sent."""
    since: int = 0
    """Nor are calls made before it, in microseconds since 1970."""
    quiet: int = 0
    """Conversations that were last changed before it and are not followed have nothing new."""
    followed: dict[str, _Followed] = field(default_factory=dict[str, _Followed])
    sent: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])

    def is_quiet(self, conversation: str, updated: int) -> bool:
        """Whether a conversation need not be looked at: nothing was called since the stream began, or last looked."""
        return updated < max(self.since, self.quiet) and conversation not in self.followed

    def forget_quiet(self, looked: int) -> None:
        """Forget the conversations that have been quiet for longest, after all were looked at from `looked` on.

        What is stored from now on is stamped at most a margin before that moment, by whatever clock.
        """
        if len(self.followed) <= _FOLLOWED:
            return
        longest = sorted(self.followed.items(), key=lambda each: each[1].updated)
        for conversation, known in longest[: -_FOLLOWED // 2]:
            if known.updated >= looked - 2 * _MARGIN:
                break
            self.quiet = max(self.quiet, known.updated + 1)
            del self.followed[conversation]

    async def fresh(
        self, conversation: str, head: Head, updated: int = 0
    ) -> list[tuple[str, Manifest]]:
        """The calls of a conversation that were not sent yet, with their ids."""
        since = max(self.since, self.quiet - _LONGEST_CALL)
        known = self.followed.setdefault(conversation, _Followed(since=since))
        known.updated = updated
        if known.state == head.state:
            return []
        # From a little before: a call that was begun earlier may be stored later.
        after = max(self.floor, call_key(max(known.seq - 1, 0), 0) if known.seq > 1 else "")
        session = self.state.memory(self.caller.tenant).session(conversation)
        found: list[tuple[str, Manifest]] = []
        while True:
            page = await session.calls(after=after, limit=_PAGE)
            found += [
                (self._id(conversation, each), each)
                for each in page
                if each.call > self.floor and each.created >= known.since
            ]
            if len(page) < _PAGE:
                break
            after = page[-1].call
        known.state, known.seq = head.state, head.seq
        return [each for each in found if self._first(f"{conversation}\0{each[1].call}")]

    def _first(self, name: str) -> bool:
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
    """The calls of one session after the call `after`; without one, those made from now on."""
    return _answered(state, caller, _of_session(_Stream(state, caller, floor=after), session))


def tenant_events(state: ServiceState, caller: Caller, after: str) -> StreamingResponse:
    """The calls of all sessions after the event `after`; without one, those made from now on."""
    since = time.time_ns() // 1000
    if after:
        made = after.partition(".")[0]
        if not (made.isascii() and made.isdecimal() and len(made) < 18):
            raise InvalidOption(f"{after!r} is not the id of an event of this stream")
        since = max(int(made) - _MARGIN, 1)
    return _answered(state, caller, _of_tenant(_Stream(state, caller, since=since)))


def _answered(
    state: ServiceState, caller: Caller, frames: AsyncIterator[bytes]
) -> StreamingResponse:
    if state.streams[caller.name] >= state.limits.streams:
        raise LimitExceeded(
            f"{state.streams[caller.name]} event streams are open with this token, {state.limits.streams} may be",
            allowed=state.limits.streams,
            used=state.streams[caller.name],
            asked=1,
        )
    return StreamingResponse(
        _counted(state, caller.name, frames),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _counted(
    state: ServiceState, name: str, frames: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    state.streams[name] += 1
    try:
        yield b"retry: 1000\n\n"
        async for frame in frames:
            yield frame
    finally:
        state.streams[name] -= 1
        if not state.streams[name]:
            del state.streams[name]


async def _of_session(stream: _Stream, session: str) -> AsyncIterator[bytes]:
    state, scope = stream.state, Scope(stream.caller.tenant)
    store, bell = state.setting.store, state.bell(stream.caller.tenant)
    resumed, beat = bool(stream.floor), time.monotonic()
    while not state.stopping:
        head = await store.head(scope, session)
        try:
            if not resumed:  # what was called before somebody listened is not news
                stream.followed[session] = _Followed(seq=head.seq)
            seen = stream.followed.get(session, _Followed()).seq
            fresh = await stream.fresh(session, head)
        except ConversationDeleted:
            seen, fresh = head.seq + 1, []
        if head.seq < seen:  # a log only grows: it was erased
            yield b"event: deleted\ndata: {}\n\n"
            return
        for name, call in fresh if resumed else ():
            yield _frame(name, session, call)
            beat = time.monotonic()
        resumed = True
        if time.monotonic() - beat > _BEAT:
            yield b": still here\n\n"
            beat = time.monotonic()
        await bell.wait(_LOOK_AGAIN)


async def _of_tenant(stream: _Stream) -> AsyncIterator[bytes]:
    state, bell = stream.state, stream.state.bell(stream.caller.tenant)
    memory, beat = state.memory(stream.caller.tenant), time.monotonic()
    while not state.stopping:
        began, looked, after = time.monotonic(), time.time_ns() // 1000, ""
        while not state.stopping:
            page = await memory.conversations(after=after, limit=_PAGE)
            for each in page:
                if stream.is_quiet(each.conversation, each.updated):
                    continue
                try:
                    fresh = await stream.fresh(each.conversation, each.head, each.updated)
                except ConversationDeleted:
                    continue
                for name, call in fresh:
                    yield _frame(name, each.conversation, call)
                    beat = time.monotonic()
            if len(page) < _PAGE:
                stream.forget_quiet(looked)
                break
            after = page[-1].conversation
        if time.monotonic() - beat > _BEAT:
            yield b": still here\n\n"
            beat = time.monotonic()
        rest = min(_SHARE * (time.monotonic() - began), _LONGEST_REST)
        again = time.monotonic() + rest
        await bell.wait(max(_LOOK_AGAIN, rest))
        while not state.stopping and time.monotonic() < again:
            await bell.wait(again - time.monotonic())


def _frame(name: str, conversation: str, call: Manifest) -> bytes:
    """One event; JSON has no line break in it, and neither has an id."""
    data = msgspec.json.encode(CallEvent(conversation=conversation, manifest=call))
    return b"id: " + name.encode() + b"\nevent: call\ndata: " + data + b"\n\n"

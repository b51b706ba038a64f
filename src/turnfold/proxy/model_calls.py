"""Prepares a client's model call (stores its history, shortens the request to the budget) and stores the answer.

The history goes to the log, and the forwarded body holds the context that fits the budget. A history that fits is
forwarded as it came, byte for byte; if that is known beforehand, it is forwarded while the history is being stored. In
any case the history is stored before the client gets the first byte of the response, and the answer before it gets the
last. Of an answer that was cut off, the text that arrived is stored, marked in its metadata.
"""

from __future__ import annotations

import asyncio
import logging
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypedDict

import msgspec

from turnfold.budget import Budget
from turnfold.errors import (
    BudgetTooSmall,
    Conflict,
    InvalidOption,
    InvalidRecord,
    TurnfoldError,
)
from turnfold.models import CallFailed, failure_in, refuses_items
from turnfold.proxy.conversations import Conversations, PlacedHistory
from turnfold.proxy.request_bodies import (
    BodyFormat,
    ClientBody,
    GivenMessage,
    MessageKey,
    ReadMessages,
)
from turnfold.records import Message, TextPart, Usage, system
from turnfold.window import Context, Outcome, Section, may_be_shrunk_from
from turnfold.wire import JsonObject, object_at, object_of, objects_of

__all__ = ("INTERRUPTED", "AnswerPieces", "PreparedCall", "prepare_call")


_log = logging.getLogger("turnfold.proxy")
INTERRUPTED: Final = "interrupted"
"""Key in the metadata of an answer that broke off."""
_TRIES: Final = 8
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_ENOUGH_WORDS: Final = 200
"""Number of characters of a question that are searched for in advance, so that the conversation's entries are indexed
before they are needed."""
_LARGEST_ANSWER: Final = 64 << 20
"""Most bytes of a provider's answer that is stored; a larger one is passed to the client, but not stored."""


class AnswerPieces:
    """Collects the body of an answer as it arrives; drops an answer that is too large to be stored."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add bytes of the answer that have arrived; an answer that has become too large is dropped."""
        self._size += len(piece)
        if self._size > _LARGEST_ANSWER:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def content(self, encoding: str) -> bytes:
        """Return the whole answer, decompressed; raise `InvalidRecord` if it is too large or cannot be decompressed."""
        if encoding not in ("", "identity", "gzip", "deflate"):
            raise InvalidRecord(
                f"the provider's answer cannot be stored: it is compressed with {encoding!r}; only gzip and deflate "
                "can be read"
            )
        content, size = b"".join(self._pieces), self._size
        if encoding in ("gzip", "deflate"):
            inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            try:
                content = inflater.decompress(content, _LARGEST_ANSWER + 1)
            except zlib.error as error:
                raise InvalidRecord(
                    f"the provider's answer cannot be decompressed: {error}"
                ) from None
            size = max(size, len(content))
        if size > _LARGEST_ANSWER:
            raise InvalidRecord(
                f"the provider's answer has more than {_LARGEST_ANSWER:,} bytes, the most that is stored"
            )
        return content


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A model call that is ready to be forwarded: its body, and where its answer is stored."""

    conversations: Conversations
    tenant: str
    name: str
    """Id of the session in the form in which the client gives it."""
    format: BodyFormat
    placed: PlacedHistory
    call: str
    """Id of the call in the call log."""
    body: bytes
    changed: bool
    """False if the request body is as the client sent it."""
    tokens: int
    """Tokens of the context that is sent."""
    allowed: int
    """Tokens that the budget allows."""
    given: ClientBody
    context: Context
    texts: Sequence[str]
    """The texts of the system prompt as they are stored."""

    def refused(self, status: int, answer: bytes) -> bool:
        """Return True if the provider's error says that it does not accept an opaque item that a provider wrote."""
        try:
            told = object_of(msgspec.json.decode(answer)) or {}
        except msgspec.DecodeError:
            return False
        failure = failure_in(object_at(told, "error") or told)
        return refuses_items(replace(failure, status=status))

    def without_items(self) -> tuple[bytes, frozenset[str]] | None:
        """Return the body built from the log without items that only a provider can read, and the keys of the messages.

        None if there are none in it. A message that such an item stands for is sent itself, within the budget.
        """
        key = self.conversations.key
        view = _View(self.context, self.given, self.placed, self.texts, key)
        messages = [one if isinstance(one, Message) else one.record for one in view.messages()]
        keys = frozenset(key(one) for one in messages if one.role == "assistant")
        body = view.write(self.format, keys)
        if msgspec.json.decode(body) == msgspec.json.decode(self.body):
            return None
        return body, keys

    def note_refused(self, keys: Iterable[str]) -> None:
        """Remember that the provider refuses the opaque items of these messages, so that they are not sent again."""
        self.conversations.note_refused(self.tenant, keys)

    async def store_answer(
        self, answer: AnswerPieces, headers: Mapping[str, str], *, complete: bool
    ) -> Message | None:
        """Store a provider's answer in the log, and its token usage with the call; return the stored message.

        Returns None if no message was stored. Errors are logged, never raised.
        """
        session = self.placed.session
        try:
            content = answer.content(headers.get("content-encoding", ""))
            message, usage = await asyncio.to_thread(
                _read_answer,
                self.format,
                content,
                headers.get("content-type", ""),
                complete=complete,
            )
            if usage is not None:
                await session.record_usage(usage, call=self.call)
            if message is not None:
                await session.add(message, expect=self.placed.head)
                self.conversations.note_answer(self.tenant, self.name, self.placed, message)
                return message
        except Conflict:  # another request was first: the client's next one brings the answer along
            _log.info(
                "an answer is not stored yet, because another request changed the conversation; the client's next "
                "request brings it",
                extra={"event": "answer_not_stored_yet"},
            )
        except Exception as error:  # whatever a provider sends must not break the response
            _log.warning(
                "a provider's answer was passed on, but not stored: %s",
                type(error).__name__,
                extra={"event": "answer_not_stored", "call": self.call},
            )
        return None

    async def read_ahead(self, answer: Message | None) -> None:
        """After the `answer` was stored, do some work of the session's next request beforehand.

        If messages are left out of requests, or soon will be, the messages are read in the background for the next fold
        (compaction). An answer without tool calls ends a turn. The next one begins with a search, for which the turn's
        entries must be indexed: that is done then too.
        """
        session = self.placed.session
        with suppress(TurnfoldError):  # the next request reads it then
            await self.conversations.read_ahead(session)
        if answer is None or 2 * self.tokens < self.allowed:
            return
        asked = next(
            (m.record for m in reversed(self.given.messages) if m.record.role == "user"), answer
        )
        query = "" if answer.calls else asked.text[:_ENOUGH_WORDS]
        self.conversations.prepare_ahead(session, query=query)


async def prepare_call(
    conversations: Conversations,
    form: BodyFormat,
    content: bytes,
    body: ClientBody,
    *,
    tenant: str,
    name: str,
    budget: Budget,
    known: ReadMessages,
    begin: Callable[[], None],
) -> PreparedCall:
    """Store the history of a request, and return the call with a body that fits the budget.

    Calls `begin` before anything is stored if the body will be sent as it came.
    """
    texts = body.system_texts
    keys = [one.key for one in body.messages]
    where = tenant, name
    how = _Options(system=texts, model=body.model, budget=budget)
    whole = await conversations.whole(*where, keys, **how)
    handle = whole.handle() if whole is not None else None
    tokens = body.tokens(handle.counter, known) if handle is not None else budget.tokens
    refused = conversations.refused(tenant, keys)
    if begun := tokens < budget.tokens and not refused:
        begin()
    for _ in range(_TRIES):
        placed = await conversations.place(*where, body.messages, **how, whole=whole)
        stored = await conversations.stored_texts(placed.session, texts)
        found = await _context(placed, body, stored, budget, conversations.key, begun=begun)
        if found is not None:
            break
        whole = None
    else:
        raise Conflict(
            f"the request was not sent: other requests changed session {name!r} {_TRIES} times meanwhile; try again"
        )
    context, call, head, view = found
    placed = replace(placed, head=head)
    everything = _shows_everything(context, placed, stored)
    conversations.note_context(*where, placed, texts, whole=everything)
    sent, changed = content, False
    if view is not None:
        tokens, changed = context.tokens + view.extra, bool(refused) or not view.is_whole
        if changed:
            sent = view.write(form, refused)
    return PreparedCall(
        conversations,
        *where,
        form,
        placed,
        call,
        sent,
        changed,
        tokens,
        budget.tokens,
        body,
        context,
        stored,
    )


class _Options(TypedDict):
    """The options with which a history is stored in a conversation."""

    system: Sequence[str]
    model: str
    budget: Budget


async def _context(
    placed: PlacedHistory,
    body: ClientBody,
    texts: Sequence[str],
    budget: Budget,
    key: MessageKey,
    *,
    begun: bool,
) -> tuple[Context, str, int, _View | None] | None:
    """Return the context, the id of its call, the newest seq and the view of the context for the client.

    `texts` is the system prompt as it is stored.
    None if another request changed the log meanwhile. There is no view if the request is sent already (`begun`). The
    client's version of a message may have more tokens than the stored one; the context is then built again with a lower
    limit.
    """
    session, head = placed.session, placed.head
    async with session.system_lock:
        limit, over = 0, 1
        for _ in range(_TRIES):
            context = await session.context(tools=body.tools.schemas, max_tokens=limit)
            call = session.last_call
            if not _ends_with(context, placed):
                return None
            if not _has_system(context, texts):
                done = await session.system([{"type": "text", "text": text} for text in texts])
                head = done.head.seq if done is not None else head
                continue
            if begun:
                return context, call, head, None
            view = _View(context, body, placed, texts, key)
            over = context.tokens + view.extra - budget.tokens
            if over <= 0:
                return context, call, head, view
            limit = context.tokens - over
            if limit <= 0:
                break
    raise BudgetTooSmall(
        needed=budget.tokens + over,
        allowed=budget.tokens,
        parts={"this request": budget.tokens + over},
        remedy="raise --budget, or send fewer tools and a shorter system prompt",
    )


def _has_system(context: Context, texts: Sequence[str]) -> bool:
    """Return True if the context was built with these system texts, complete or shortened."""
    found = _texts(context.section(Section.SYSTEM))
    return not texts or (len(found) == len(texts) and all(map(may_be_shrunk_from, found, texts)))


def _shows_everything(context: Context, placed: PlacedHistory, texts: Sequence[str]) -> bool:
    """Return True if a context shows the whole history unchanged, and nothing else."""
    left_out = {Outcome.FOLDED, Outcome.SHRUNK}
    return not (
        context.section(Section.SUMMARY)
        or context.section(Section.TAIL)
        or (texts and _texts(context.section(Section.SYSTEM)) != texts)
        or context.anchor.caps
        or any(fate.outcome in left_out for fate in context.fates)
        or context.anchor.position > placed.seqs[0]
    )


def _ends_with(context: Context, placed: PlacedHistory) -> bool:
    """Return True if the context has no message that is newer than the client's history."""
    newest = max((seq for seq in context.positions if seq not in placed.hidden), default=0)
    return newest <= placed.seqs[-1]


class _View:
    """A context in which messages that were not shortened are replaced by the client's own JSON."""

    def __init__(
        self,
        context: Context,
        body: ClientBody,
        placed: PlacedHistory,
        texts: Sequence[str],
        key: MessageKey,
    ) -> None:
        self._context = context
        self._body = body
        self._key = key
        given = dict(zip(placed.seqs, body.messages, strict=True))
        changed = {
            at
            for fate in context.fates
            if fate.outcome is not Outcome.MOVED
            for at in range(fate.start, fate.stop)
        }
        self._kept: dict[int, GivenMessage] = {}
        """Index of a message in the context -> the client's version of the message."""
        self._replaced: set[int] = set()
        """Indexes in the context of answers that the client has replaced by its own messages."""
        _, begin, end, newest = context.ends
        shown = [*range(begin, end), *range(newest, len(context.messages))]
        for at, seq in zip(shown, context.positions, strict=True):
            if seq in placed.hidden:
                self._replaced.add(at)
            one = given.get(seq)
            if one is None or seq in changed:
                continue
            record = context.messages[at]
            if record is one.record or record == one.record or key(record) == one.key:
                self._kept[at] = one
        counter = context.counter
        count = counter.count_message
        # If a client stops sending a system prompt, none is forwarded, although the log still has one.
        self._shortened = bool(texts) and _texts(context.section(Section.SYSTEM)) != texts
        self.extra = sum(one.tokens(counter) - context.costs[at] for at, one in self._kept.items())
        """Tokens by which the client's versions of messages are larger than the counted ones; may be negative."""
        self.extra -= sum(context.costs[at] for at in self._replaced)
        if not self._shortened:
            logged = sum(context.costs[: context.ends[0]])
            self.extra += max(0, sum(map(count, body.system)) - logged)
        self.is_whole = _shows_everything(context, placed, texts)
        """True if the context shows the whole history and nothing else, or the client's part of it fits by itself."""
        if not self.is_whole and not placed.from_start and not self._shortened:
            own = sum(map(count, body.system)) + context.tools + counter.reply
            given_tokens = sum(one.tokens(counter) for one in body.messages)
            self.is_whole = given_tokens + own <= context.budget.tokens

    def write(self, form: BodyFormat, bare: Collection[str]) -> bytes:
        """Return the request body with this context; messages in `bare` lose what only the provider can read."""
        messages, system = self.messages(), self.system()
        return form.write(self._body, messages, system=system, bare=bare, key=self._key)

    def messages(self) -> Sequence[GivenMessage | Message]:
        """Return the messages to send after the system prompt, in the client's JSON if they were not shortened."""
        context = self._context
        return [
            self._kept.get(at, context.messages[at])
            for at in range(context.ends[0], len(context.messages))
            if at not in self._replaced
        ]

    def system(self) -> Sequence[Message] | None:
        """Return the system prompt if it had to be shortened; None if the client's own is sent."""
        if not self._shortened:
            return None
        stored = set(self._body.system_texts)
        other = [text for text in _texts(self._body.system) if text.strip() and text not in stored]
        return [*map(system, other), *self._context.section(Section.SYSTEM)]


def _texts(messages: Iterable[Message]) -> list[str]:
    parts = (part for message in messages for part in message.parts)
    return [part.text for part in parts if isinstance(part, TextPart)]


def _read_answer(
    form: BodyFormat, content: bytes, media: str, *, complete: bool
) -> tuple[Message | None, Usage | None]:
    """Return the message and the usage in a provider's answer, each None if there is none.

    If the answer was cut off, the message has the text that arrived. Of several answers none is returned, because the
    client chooses one of them.
    """
    stream = form.new_stream()
    text: list[str] = []
    try:
        found = _events(content) if "event-stream" in media else _objects(content)
        if not isinstance(found, dict):
            events = list(found)
            text.extend(map(stream.add, events))  # keeps what arrived before an error
            found = stream.result()
            if any(map(_has_further_choice, events)):
                return None, _usage(found)
        response = form.normalize(found)
    except (CallFailed, msgspec.DecodeError) as error:
        arrived = "".join(text)
        if not arrived:
            if complete:
                raise InvalidRecord("the provider's response contains no answer") from error
            return None, None
        return Message("assistant", arrived, metadata={INTERRUPTED: True}), None
    return _message(form, response), _usage(response)


def _message(form: BodyFormat, response: JsonObject) -> Message | None:
    """Return the message in a provider's response; None if it has several, because the client chooses one of them."""
    several = objects_of(response.get("choices")) or objects_of(response.get("candidates"))
    return None if len(several) > 1 else form.wire.accept(response)


def _has_further_choice(event: JsonObject) -> bool:
    choices = (*objects_of(event.get("choices")), *objects_of(event.get("candidates")))
    return any(choice.get("index") not in (0, None) for choice in choices)


def _usage(response: JsonObject) -> Usage | None:
    with suppress(InvalidOption):  # a server may report nothing
        return Usage.of(response)
    return None


def _events(content: bytes) -> Iterator[JsonObject]:
    """Yield the JSON objects of a stream of server-sent events."""
    for block in _EVENT_END.split(content):
        lines = [line[5:].strip() for line in block.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if not data or data == b"[DONE]":
            continue
        try:
            found = object_of(msgspec.json.decode(data))
        except msgspec.DecodeError:
            return  # an event that was cut off
        if found is not None:
            yield found


def _objects(content: bytes) -> JsonObject | list[JsonObject]:
    """Return a provider's response as a JSON object.

    A Gemini stream, which is one JSON list, is returned as a list of its chunks.
    """
    found: object = msgspec.json.decode(content)
    return object_of(found) or objects_of(found)

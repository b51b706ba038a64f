"""The log of model calls: writes a manifest (stored context report) for each call, and reads manifests back.

A manifest is small even for a long prompt, because it names ranges of the message log instead of copying messages. The
messages of the call can be rebuilt from the manifest and the log; a digest proves that they are the same.

The token usage that the provider reports for a call is logged too; it corrects later estimates of the conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord, NotFound
from turnfold.memory.cached_conversation import ConversationCache, erased
from turnfold.memory.config import MemoryConfig
from turnfold.memory.dropped_checkpoints import DROPPED_CHECKPOINT, read_dropped
from turnfold.memory.live_window import LiveWindow, PromptParts, StoredMessage
from turnfold.memory.prompt_tail import tail_message
from turnfold.records import (
    CALIBRATION,
    SESSION,
    STAND_IN,
    CalibrationNote,
    Checkpoint,
    Document,
    Message,
    StandIn,
    Usage,
    WindowNote,
    message_digest,
    read_note,
    write_note,
)
from turnfold.tokens import TokenCounter, can_correct, corrected_counter, correction_of
from turnfold.window import Choice, Context, Outcome, Room, SpanView, Wired, shared_messages

__all__ = (
    "CALL",
    "LAST_CALL",
    "CallLog",
    "Difference",
    "Explanation",
    "Manifest",
    "SessionCalibration",
    "budget_of",
    "call_key",
    "compare",
    "newest_call",
    "numbered_call",
    "read_manifest",
    "same_tools",
    "write_manifest",
)


@dataclass(slots=True)
class SessionCalibration:
    """Learns the correction factor of one conversation from reported usage, and stores it with the conversation."""

    config: MemoryConfig
    cache: ConversationCache
    used: float = 1.0
    """Factor by which this session multiplies estimated token counts; 1.0 corrects nothing."""

    @property
    def stored(self) -> float:
        """Stored correction factor of token counts for this conversation, model and counter; 1.0 if none is stored."""
        return self.cache.calibration.factors.get(self._key, 1.0)

    async def observe(self, manifest: Manifest, reported: int) -> None:
        """Compare turnfold's token count of a call with the provider's; store the correction factor if it changes."""
        counter, log = self.config.counter, self.config.calibrating
        same = manifest.counter == self.cache.counter.name
        factor = self.used if same else correction_of(counter, manifest.counter)
        if factor is None:
            return  # the call was counted by a counter that this memory does not have
        log.observe(counted=round(manifest.tokens / factor), reported=reported)
        if not can_correct(counter) or log.next_factor(self.stored) == self.stored:
            return
        cache = self.cache
        document = await cache.document(SESSION, CALIBRATION)
        note = read_note(document, CalibrationNote)
        current = note.factors.get(self._key, 1.0)
        factor = log.next_factor(current)
        if factor == current:
            return
        note = CalibrationNote(factors={**note.factors, self._key: factor})
        version = document.version if document else 0
        with suppress(Conflict):  # another process was faster: the next report tries again
            written = await cache.store.put_document(
                cache.scope,
                cache.conversation,
                write_note(SESSION, CALIBRATION, note),
                expect=version,
            )
            cache.calibration = note
            cache.queue_write(written)

    @property
    def _key(self) -> str:
        return f"{self.config.model} {self.config.counter.name}".strip()


LAST_CALL: Final = "@last"
"""Name that stands for the newest stored call of a conversation, whichever process made the call."""
_PAGE = 512
_SPARE_DIGESTS = 32
_DIGEST_SIZE = 16
"""Length in bytes of the digest of one message."""
_LEAST_CACHED = 1024
"""Length in tokens from which OpenAI and Anthropic cache the beginning of a prompt."""
_STABLE_SHARE = 0.5
"""If a prompt repeats at least this share of the previous one, the provider's cache is expected to serve its beginning.
"""
_MAX_TRIES: Final = 64
_CACHE_MICROSECONDS = 300_000_000
"""Shortest time for which OpenAI and Anthropic keep the beginning of a prompt cached, in microseconds."""
_NEWEST = 16
"""Number of newest entries of the log among whose calls the newest call is searched for first."""
_PAUSES = 64
"""Number of newest calls for which the time since the call before is kept; it tells if the provider's cache can still
have the prompt."""
CALL: Final = "call"
"""Kind of the documents that hold manifests, one per call."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The stored report of one model call: what was sent, left out and why, with token counts."""

    v: int = 1
    call: str
    """Id of the call within its conversation; ids sort in the order in which the calls were made."""
    seq: int
    """Seq of the newest entry when the context was built."""
    created: int
    """Time at which the context was built, in microseconds since 1970; for display only."""
    anchor: int
    """Seq (log position) of the first entry that the call sent verbatim."""
    head: int
    """Seq of a user message sent before the anchor (first message of the window), because the anchor is inside its
    turn; 0 for none."""
    caps: tuple[tuple[int, int], ...]
    """(seq, most tokens of a single part) of each entry that was shortened."""
    system: tuple[int, ...]
    """Seqs of the system messages."""
    checkpoint: str
    """Id of the checkpoint whose summary was shown; empty for none."""
    cleared: int
    """Seq (log position) of the last entry hidden by `clear()`; 0 for none."""
    tail: str
    """Text sent before the newest turn: pins, rules, state, findings (remembered tool results), recalled passages."""
    budget: dict[str, float]
    counter: str
    tools: int
    """Tokens of the tool schemas."""
    tokens: int
    allowed: int
    certainty: str
    sections: dict[str, int]
    messages: int
    fates: tuple[tuple[int, int, str, str], ...]
    """(first seq, seq after the last, outcome, reason) of each range of entries that was not sent unchanged."""
    shared: int
    """Tokens at the beginning of the prompt that the previous call sent too."""
    previous: int
    """Tokens of the previous call's messages; 0 for the first call."""
    moved: bool
    """True if the window's first entry (the anchor) was moved for this call."""
    digest: str
    """Digest of the messages that were sent; proves that messages rebuilt from the log are the same."""
    usage: Usage | None = None
    """The token usage that the provider reported; None until `record_usage()` stores a report."""
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of each entry recalled into the tail (pins, rules, recalled passages): matches of the query, and
    neighbours of the matches."""
    wired: Wired | None = None
    """How the request was written for its provider: the changes, and the size of the request body."""
    recall_room: int = 0
    """Tokens that the tail (pins, rules, recalled passages) uses for recalled entries beyond its share of the budget.
    """
    stand_in: str = ""
    """Key of the extract sent instead of the checkpoint's summary, because a fold was not finished; empty for none."""
    cache_missed: bool = False
    """True if the provider reported no cached tokens, although this prompt began as the one shortly before it."""
    model: str = ""
    """The memory's `model=` when the call was made; empty if the memory has none."""
    tools_digest: str = ""
    """Digest of the tool schemas; empty if there were none, and in reports of earlier releases."""

    def has_tools(self, tokens: int, digest: str) -> bool:
        """Return True if the call sent the tool schemas with this digest.

        A call that was stored without a digest is compared by `tokens`, the size of the schemas.
        """
        known = self.tools_digest if self.tools_digest and digest else ""
        return self.tools == tokens and known in ("", digest)

    @property
    def called_model(self) -> str:
        """The model that answered, as the response named it; the memory's `model=` if the response named none."""
        return (self.usage.model if self.usage else "") or self.model

    @property
    def prefix_share(self) -> float:
        """The share of the previous prompt that is repeated at the beginning of this prompt; 1.0 for the first call."""
        return self.shared / self.previous if self.previous else 1.0

    def count(self, *outcomes: Outcome) -> int:
        """Count the log entries that had one of these outcomes in the call, such as left out or shortened."""
        return sum(
            stop - start
            for start, stop, outcome, _ in self.fates
            if outcome in outcomes and start >= 0
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """The manifest (stored report) of a call, and the messages that the call sent, rebuilt from the log."""

    manifest: Manifest
    messages: tuple[Message, ...]
    exact: bool
    """True if the rebuilt messages have the digest in the manifest, and so are exactly the messages that were sent."""
    costs: tuple[int, ...] = ()
    """Tokens of each message of `messages`."""
    seqs: tuple[int, ...] = ()
    """Log position of each message in the window and the newest turn, in order; -1 for a placeholder message."""
    ends: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Index in `messages` after the last message of each section: system, summary, window, tail (pins, rules, recalled
    passages)."""
    tail: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens of the tail (pins, rules, recalled passages, ...) by the label of each block."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the contexts of two calls."""

    shared_messages: int
    """Number of messages at the beginning that are the same in both calls."""
    gone: tuple[Message, ...]
    """Messages sent by the first call and not by the second."""
    new: tuple[Message, ...]
    """Messages sent by the second call and not by the first."""
    sections: dict[str, int]
    """Section of the context (system, summary, window and so on) -> tokens by which the section grew; negative if it
    shrank."""
    reasons: tuple[str, ...]
    """Why the beginning of the prompt changed between the calls; empty if it did not change."""


def call_key(seq: int, number: int) -> str:
    """Return the name of a model call; `number` counts, from 0, the calls made while entry `seq` was the newest."""
    return f"{seq:012d}-{number:04d}"


class MessageDigests:
    """Computes the digest of a list of messages; caches digests of messages, because most are in the next call too.

    Only messages of the last calls stay cached, so that messages which left the window do not stay in memory.
    """

    __slots__ = ("_joined", "_known", "_last")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, bytes]] = {}
        self._last: tuple[Message, ...] = ()
        self._joined = b""

    def of(self, messages: tuple[Message, ...]) -> str:
        """Return one digest of all the messages; the digest depends on their order."""
        same = shared_messages(messages, self._last)
        self._joined = self._joined[: same * _DIGEST_SIZE] + b"".join(
            map(self._of, messages[same:])
        )
        self._last = messages
        if len(self._known) > 2 * len(messages) + _SPARE_DIGESTS:
            sent = {id(message) for message in messages}
            self._known = {key: known for key, known in self._known.items() if key in sent}
        return blake2b(self._joined, digest_size=16).hexdigest()

    def _of(self, message: Message) -> bytes:
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        digest = message_digest(message, size=_DIGEST_SIZE)
        # Keep the message too: while it lives, no other object can have its id.
        self._known[id(message)] = (message, digest)
        return digest


def _manifest_of(
    context: Context,
    prompt: PromptParts,
    *,
    call: str,
    seq: int,
    created: int,
    digest: str,
    model: str,
) -> Manifest:
    receipt = context.receipt
    budget = context.budget
    return Manifest(
        call=call,
        seq=seq,
        created=created,
        anchor=context.anchor.position,
        head=max(context.head, 0),
        caps=context.anchor.caps,
        system=tuple(entry.seq for entry in prompt.system),
        checkpoint=prompt.checkpoint.id if prompt.checkpoint else "",
        stand_in=prompt.stand_in.key if prompt.stand_in else "",
        cleared=prompt.cleared,
        tail=prompt.tail[0].text if prompt.tail else "",
        recall_room=prompt.recall_room,
        budget={
            "context_window": budget.context_window,
            "reserve_ratio": budget.reserve_ratio,
            "max_tokens": budget.max_tokens,
            "max_messages": budget.max_messages,
            "max_bytes": budget.max_bytes,
            "low": budget.marks.low,
            "snap": budget.marks.snap,
            "system": budget.shares.system,
            "summary": budget.shares.summary,
            "tail": budget.shares.tail,
        },
        counter=context.counter.name,
        tools=receipt.tools,
        tokens=receipt.tokens,
        allowed=receipt.allowed,
        certainty=str(receipt.certainty),
        sections={str(name): tokens for name, tokens in receipt.sections.items()},
        messages=receipt.messages,
        fates=tuple((f.start, f.stop, str(f.outcome), f.reason) for f in receipt.fates),
        shared=receipt.shared,
        previous=receipt.previous,
        moved=receipt.moved,
        digest=digest,
        recalled=prompt.recalled,
        wired=context.wired,
        model=model,
        tools_digest=context.tools_digest,
    )


def budget_of(manifest: Manifest) -> Budget:
    """Return the budget of a call, read from the call's manifest (stored report)."""
    numbers = manifest.budget
    held = manifest.wired.held if manifest.wired else 0
    return Budget(
        context_window=int(numbers["context_window"]),
        reserve_ratio=numbers["reserve_ratio"],
        max_tokens=int(numbers["max_tokens"]),
        max_messages=int(numbers["max_messages"]),
        max_bytes=held or int(numbers["max_bytes"]),
        shares=Shares(system=numbers["system"], summary=numbers["summary"], tail=numbers["tail"]),
        marks=WaterMarks(low=numbers["low"], snap=numbers["snap"]),
    )


def write_manifest(manifest: Manifest) -> Document:
    """Return the document that stores a manifest (report of a model call)."""
    return Document(CALL, manifest.call, msgspec.json.encode(manifest), 0)


def read_manifest(document: Document) -> Manifest:
    """Read a manifest (report of a model call) from its document; raises `InvalidRecord` if it is damaged."""
    try:
        # Read the version first: a manifest of a newer release may have other fields.
        version = msgspec.json.decode(document.body, type=_ManifestVersion).v
        if version == 1:
            return msgspec.json.decode(document.body, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(
            f"the stored manifest (context report) of a call is damaged: {error}",
            path=document.key,
            remedy="Restore the store from a backup",
        ) from None
    raise InvalidRecord(
        f"the manifest has version {version}, but this release reads version 1",
        path=document.key,
        remedy="Upgrade turnfold",
    )


class _ManifestVersion(msgspec.Struct):
    v: int = 1


async def numbered_call(
    page: Callable[[str], Awaitable[Sequence[Manifest]]], number: int, conversation: str
) -> str:
    """Return the name of the call with this number (1 is the oldest).

    `page(name)` must return the calls after the call `name`.
    """
    if number < 1:
        raise InvalidOption(
            f"call={number} must be at least 1: calls are numbered from 1, the oldest"
        )
    seen, after = 0, ""
    while found := await page(after):
        if number <= seen + len(found):
            return found[number - seen - 1].call
        seen, after = seen + len(found), found[-1].call
    known = f"calls are numbered from 1 to {seen}" if seen else "it has no calls yet"
    raise NotFound(f"no call {number} in {conversation!r}: {known}")


async def newest_call(
    page: Callable[[str], Awaitable[Sequence[Manifest]]], entries: int, conversation: str
) -> str:
    """Return the name of the newest stored call; `page` reads the calls after a name, `entries` is the log's length.

    The name of a call begins with the seq of the newest entry at that time, so the search begins near the log's end.
    """
    back = _NEWEST
    while True:
        newest, after = "", call_key(entries - back, 0) if entries > back else ""
        while found := await page(after):
            newest = after = found[-1].call
        if newest:
            return newest
        if back >= entries:
            raise NotFound(
                f"session {conversation!r} has no calls yet: session.context() makes the first one"
            )
        back *= 4


def compare(before: Explanation, after: Explanation) -> Difference:
    """Return what differs between the contexts of two calls: messages, tokens per section, and the reasons."""
    shared = shared_messages(before.messages, after.messages)
    old, new = before.messages[shared:], after.messages[shared:]
    gone = tuple(message for message in old if message not in new)
    added = tuple(message for message in new if message not in old)
    first, second = before.manifest, after.manifest
    sections = {
        name: second.sections.get(name, 0) - first.sections.get(name, 0)
        for name in (*first.sections, *second.sections)
    }
    return Difference(shared, gone, added, sections, tuple(_reasons(first, second)))


def same_tools(first: Manifest, second: Manifest) -> bool:
    """Return True if two calls sent the same tool schemas, which providers put in front of the messages."""
    return first.has_tools(second.tools, second.tools_digest)


def _reasons(first: Manifest, second: Manifest) -> Iterable[str]:
    if not same_tools(first, second):
        yield "the tool schemas changed"
    if first.system != second.system:
        yield "the system messages were replaced"
    if first.checkpoint != second.checkpoint:
        yield f"checkpoint {second.checkpoint or 'none'} is shown instead of {first.checkpoint or 'none'}"
    if first.anchor != second.anchor:
        yield f"the window begins at {second.anchor} instead of {first.anchor}"
    if first.caps != second.caps:
        yield "the set of shortened entries changed"
    if first.tail != second.tail:
        yield "the tail changed"
    if first.budget != second.budget:
        yield "the budget changed"


_call_here: ContextVar[tuple[object, str]] = ContextVar("turnfold_call", default=(None, ""))
"""The last model call of this task or thread: `_mark` of the session handle that made the call, and the id of the
call."""


@dataclass(slots=True)
class CallLog:
    """Writes and reads the manifests (stored reports) of the model calls of one conversation."""

    cache: ConversationCache
    counter: TokenCounter
    """The memory's token counter, without the correction factor that a conversation may have learned."""
    clock: Callable[[], int]
    model: str = ""
    """The memory's `model=`."""
    last: str = ""
    """Name of the last call made through this session handle."""
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    """Seq of the newest entry -> number of the next call that is made before another entry is appended."""
    _digests: MessageDigests = field(default_factory=MessageDigests)
    _made: int = 0
    """Time of the last call, in microseconds since 1970."""
    _pauses: dict[str, int] = field(default_factory=dict[str, int])
    """Microseconds between each of the newest calls of this handle and the call before it."""
    _mark: object = field(default_factory=object)
    """Identifies this session handle in `_call_here`."""

    @property
    def current(self) -> str:
        """Name of the last model call that this task or thread made.

        If it made none, this is the last call of this session object.
        """
        mark, call = _call_here.get()
        return call if mark is self._mark else self.last

    def reset(self) -> None:
        """Drop the cached call numbers and message digests; the stored ones are kept."""
        self._numbers, self._digests = {}, MessageDigests()

    async def write(self, context: Context, prompt: PromptParts, *, fenced: bool) -> bool:
        """Store the manifest (report) of a call under the next free name.

        False if its context was built from stale state.

        With `fenced`, any change since the state was read makes the write fail. Without it, only a change of the
        history (lost or restored entries) does, because other processes may write all the time.
        """
        cache = self.cache
        seq = cache.head.seq
        number = self._numbers.get(seq, 0)
        digest = self._digests.of(context.messages)
        while True:
            call = call_key(seq, number)
            manifest = _manifest_of(
                context,
                prompt,
                call=call,
                seq=seq,
                created=self.clock(),
                digest=digest,
                model=self.model,
            )
            self._numbers = {seq: number + 1}
            if await cache.add_document(write_manifest(manifest), fenced=fenced):
                self.last = call
                _call_here.set((self._mark, call))
                self._note_time(call, manifest.created)
                return True
            if not cache.confirmed or not await self._is_taken(seq, number):
                return False
            # Another process or session handle has made a call with this name.
            number = await self._next_free(seq, number)

    def _note_time(self, call: str, created: int) -> None:
        if self._made:
            self._pauses[call] = created - self._made
            if len(self._pauses) > _PAUSES:
                del self._pauses[next(iter(self._pauses))]
        self._made = created

    async def _next_free(self, seq: int, taken: int) -> int:
        """Return the first unused call number after `taken`; found by bisection, as thousands may be in use."""
        low, step = taken, 1
        while await self._is_taken(seq, low + step):
            low, step = low + step, 2 * step
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await self._is_taken(seq, middle) else (low, middle)
        return high

    async def _is_taken(self, seq: int, number: int) -> bool:
        return await self.cache.document(CALL, call_key(seq, number)) is not None

    async def page(self, *, after: str, limit: int) -> list[Manifest]:
        """Return the manifests (reports) of up to `limit` calls after the call named `after`, oldest first."""
        cache = self.cache
        found = await cache.store.documents(
            cache.scope, cache.conversation, CALL, after=after, limit=limit
        )
        return [read_manifest(document) for document in found]

    async def newest(self) -> Explanation | None:
        """Return the newest stored call, rebuilt, whoever made it; None if no call is stored for the newest entries."""
        after = call_key(max(self.cache.head.seq - _NEWEST, 0), 0)
        newest = ""
        while found := await self.page(after=after, limit=_NEWEST):
            newest = after = found[-1].call
        with suppress(NotFound, ConversationDeleted):  # erased meanwhile
            return await self.explain(newest) if newest else None
        return None

    async def _read(self, call: str) -> tuple[Manifest, int]:
        """Return the manifest of a call and the version of its document; raises `NotFound` if there is no such call."""
        document = await self.cache.document(CALL, call)
        if document is None:
            raise NotFound(
                f"no call {call!r} in {self.cache.conversation!r}: session.calls() lists the calls"
            )
        return read_manifest(document), document.version

    async def record_usage(self, call: str, usage: Usage) -> Manifest:
        """Store the usage that the provider reported for a call in the call's manifest, and return the manifest.

        Raises `NotFound` if there is no such call, `Conflict` if other writers keep changing its manifest.
        """
        cache = self.cache
        pause = self._pauses.get(call)
        # Older versions of turnfold cannot read a manifest with this field.
        usage = msgspec.structs.replace(usage, cleared=msgspec.UNSET)
        for _ in range(_MAX_TRIES):
            found, version = await self._read(call)
            missed = pause is not None and pause < _CACHE_MICROSECONDS and _has_missed(found, usage)
            manifest = msgspec.structs.replace(found, usage=usage, cache_missed=missed)
            try:
                written = await cache.store.put_document(
                    cache.scope, cache.conversation, write_manifest(manifest), expect=version
                )
            except Conflict:
                continue  # another report for the same call
            cache.queue_write(written)
            return manifest
        raise Conflict(
            f"other writers changed the record of call {call!r} {_MAX_TRIES} times in a row: try again"
        )

    async def explain(self, call: str) -> Explanation:
        """Rebuild the messages of an earlier call from its manifest (report) and the log.

        Raises `NotFound` if there is no such call.
        """
        manifest, _ = await self._read(call)
        factor = correction_of(self.counter, manifest.counter)
        # If the counter of that time is not known, messages may be shortened differently: `exact` is then False.
        counter = self.cache.counter if factor is None else corrected_counter(self.counter, factor)
        prompt = PromptParts(
            system=tuple([await self._message(seq, counter) for seq in manifest.system]),
            tail=tail_message(manifest.tail),
            recall_room=manifest.recall_room,
            checkpoint=await self._checkpoint(manifest.checkpoint),
            stand_in=await self._stand_in(manifest.stand_in),
            cleared=manifest.cleared,
        )
        opener = await self._message(manifest.head, counter) if manifest.head else None
        note = WindowNote(anchor=manifest.anchor, head=manifest.head, caps=manifest.caps)
        window = LiveWindow(counter, note, opener=opener)
        while window.seq < manifest.seq:
            window.extend(await self._messages(window.seq, manifest.seq, counter))
        context = window.build(budget_of(manifest), prompt, _keep_all)
        exact = MessageDigests().of(context.messages) == manifest.digest
        return Explanation(
            manifest,
            context.messages,
            exact,
            costs=tuple(context.costs),
            seqs=tuple(context.positions),
            ends=context.ends,
            tail=context.tail_parts(),
        )

    async def _messages(self, after: int, upto: int, counter: TokenCounter) -> list[StoredMessage]:
        cache = self.cache
        entries = await cache.store.read(
            cache.scope, cache.conversation, after=after, upto=upto, limit=_PAGE
        )
        if not entries:  # a log only grows: the conversation was erased after the manifest was read
            raise erased(cache.conversation)
        return [cache.stored_message(entry, counter) for entry in entries]

    async def _message(self, seq: int, counter: TokenCounter) -> StoredMessage:
        [message] = await self._messages(seq - 1, seq, counter)
        return message

    async def _stand_in(self, key: str) -> StandIn | None:
        document = await self.cache.document(STAND_IN, key) if key else None
        return StandIn.read(document) if document else None

    async def _checkpoint(self, name: str) -> Checkpoint | None:
        if not name:
            return None
        found = await self.cache.store.checkpoints(self.cache.scope, self.cache.conversation)
        known = next((each for each in found if each.id == name), None)
        if known is None and (dropped := await self.cache.document(DROPPED_CHECKPOINT, name)):
            return read_dropped(dropped)
        return known


def _has_missed(manifest: Manifest, usage: Usage) -> bool:
    """Return True if the provider's cache served nothing for a prompt that begins like the one before."""
    stable = manifest.shared >= _LEAST_CACHED and manifest.prefix_share >= _STABLE_SHARE
    return stable and usage.input >= _LEAST_CACHED and usage.cached == 0


def _keep_all(view: SpanView, room: Room) -> Choice:  # noqa: ARG001 (it fitted when the call was made)
    return Choice(view.start, "", view.caps, view.summary, view.covered)

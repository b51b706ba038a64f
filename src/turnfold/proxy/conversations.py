"""Makes the log of each session agree with the histories that its client sends.

A client sends its whole history with every request. Messages that continue the log are appended. A history that differs
from the log (an edited message, a second answer to the same question, a second agent with the same session id) gets a
conversation of its own: a fork of the log at the point where they differ. Both keep their summaries, and a client that
goes back and forth between them finds each as it left it. The id of a fork is computed from the point where it begins,
so that every process finds it.

A client may also write every answer down in words of its own (smolagents does), or ask the same question a hundred
times. That must not begin a fork for every answer: in a fork, the newest answer is hidden if the next history goes on
without it, or if there are many forks already. It stays in the log, and a document next to the log lists it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote
from weakref import WeakValueDictionary, ref

import msgspec

from turnfold._caches import SizedCache
from turnfold.budget import Budget
from turnfold.errors import Conflict, TurnfoldError
from turnfold.memory import AsyncSession, MemoryConfig, SessionCache, own_head, read_ahead
from turnfold.proxy.request_bodies import GivenMessage, key_function
from turnfold.records import (
    CLEARED,
    SESSION,
    TAKEN_BACK,
    ClearedNote,
    Entry,
    Message,
    TakenBackNote,
    longest_overlap,
    read_note,
    write_note,
)
from turnfold.runtime import LimitedRuntime
from turnfold.service import Quota
from turnfold.stores import Head, Scope, all_entries, log_mark, redaction_of
from turnfold.text import search_terms
from turnfold.tokens import CalibrationLog, counter_for
from turnfold.wire import JsonObject, object_of, text_at

__all__ = (
    "SESSION_HEADER",
    "Conversations",
    "PlacedHistory",
    "WholeLog",
    "session_id",
    "split_path",
)


SESSION_HEADER: Final = "x-turnfold-session"
_PREFIX: Final = re.compile(r"/s/([^/]+)(/.*)")
_HEADERS: Final = (
    "session-id",  # Codex
    "session_id",  # Codex before it changed the spelling; pi
    "x-litellm-session-id",  # OpenHands, and other programs that use LiteLLM
    "x-session-id",
    "x-session-affinity",  # opencode
)
_CLAUDE_CODE: Final = "x-claude-code-session-id"
_CLAUDE_CODE_AGENT: Final = "x-claude-code-agent-id"
_USER_ID_SESSION: Final = re.compile(r"_session_([0-9A-Za-z-]+)$")
_LONGEST: Final = 200
"""The most characters of a session id that is used unchanged; a longer id is replaced by its digest."""


def split_path(path: str) -> tuple[str, str]:
    """Split `/s/<id>/rest` into the session id and the path without it; the id is empty if there is no such prefix."""
    found = _PREFIX.fullmatch(path)
    # Bytes that are not UTF-8 are kept apart: with one replacement character for all, two ids would be the same.
    return (unquote(found[1], errors="surrogateescape"), found[2]) if found else ("", path)


def session_id(given: str, headers: Mapping[str, str], fields: Mapping[str, msgspec.Raw]) -> str:
    """Return the id of the session that a request names; `given` is the id in its path.

    The result is empty if there is none.
    """
    own = given or _header(headers, SESSION_HEADER)
    if own:
        return _name(own)
    claude = _header(headers, _CLAUDE_CODE) or _from_user_id(_field(fields, "metadata"))
    if claude:
        agent = _header(headers, _CLAUDE_CODE_AGENT)
        return _name(f"{claude}/{agent}" if agent else claude)
    named = next(filter(None, (_header(headers, name) for name in _HEADERS)), "")
    return _name(named or _in_body(fields))


def _header(headers: Mapping[str, str], name: str) -> str:
    """Return a header as UTF-8, as ids in a path and a body are; the server has decoded its bytes as Latin-1."""
    return headers.get(name, "").encode("latin-1").decode("utf-8", "surrogateescape")


def _in_body(fields: Mapping[str, msgspec.Raw]) -> str:
    found = [_text(fields, "litellm_session_id")]
    metadata = _field(fields, "metadata")
    found += [text_at(metadata, name) for name in ("litellm_session_id", "session_id")]
    found.append(_text(fields, "prompt_cache_key"))  # Codex, OpenHands
    return next(filter(None, found), "")


def _from_user_id(metadata: JsonObject) -> str:
    """Return the session id in Claude Code's `metadata.user_id`: JSON, or `user_..._session_<id>` before 2.1.78."""
    user = text_at(metadata, "user_id")
    if user.startswith("{"):
        try:
            return text_at(object_of(msgspec.json.decode(user)) or {}, "session_id")
        except msgspec.DecodeError:
            return ""
    found = _USER_ID_SESSION.search(user)
    return found[1] if found else ""


def _field(fields: Mapping[str, msgspec.Raw], name: str) -> JsonObject:
    return object_of(msgspec.json.decode(fields[name])) or {} if name in fields else {}


def _text(fields: Mapping[str, msgspec.Raw], name: str) -> str:
    found: object = msgspec.json.decode(fields[name]) if name in fields else ""
    return found if isinstance(found, str) else ""


def _name(given: str) -> str:
    """Return an id that can name a conversation: unchanged, or its digest if it is too long or not printable."""
    if len(given) <= _LONGEST and given.isprintable():
        return given
    return f"digest:{blake2b(given.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


_PAGE: Final = 500
"""Most log entries of one append; more are appended in several batches."""
_MOST_LOGS: Final = 256
"""Most conversations of which the proxy keeps the digests of their messages; the one used least recently is dropped
first."""
_MOST_MODELS: Final = 32
"""The cache of session handles has one part per tenant, model and budget. This is the most parts that are kept; the one
used least recently is dropped first."""
_MOST_BYTES: Final = 8 << 20
"""Most bytes that the cached session handles of one tenant, model and budget may take."""
_MOST_REFUSED: Final = 10_000
"""Most messages of which is remembered that a provider refused items in them; the items of a forgotten message are sent
again."""
_MOST_FORKS: Final = 200
"""Most forks in a row that are followed from the first log of a session; a request that needs more fails."""
_MANY_FORKS: Final = 20
"""After this many forks in a row, another answer to the same question starts no fork: it hides the answer before."""
_TRIES: Final = 16
_MARK: Final = "~"
"""Separates the id of a session from the digest in the id of its forks."""


@dataclass(frozen=True, slots=True)
class _KnownLog:
    """Cache of a conversation's log: digest (key) and log position (seq) of each message.

    It leaves out system messages, and messages that `clear()` or another answer to the same question hid.
    """

    head: Head = field(default_factory=Head)
    cleared: int = 0
    keys: list[str] = field(default_factory=list[str])
    seqs: list[int] = field(default_factory=list[int])
    hidden: frozenset[int] = frozenset()
    """Seqs (log positions) of answers that the client replaced."""
    is_answered: bool = False
    """True if a model wrote the newest message: a provider's answer, as long as no history continues it."""
    replaced: int = 0
    """Seq (log position) of the newest answer in `hidden` that is still to be hidden in the store; 0 if there is
    none."""

    def without_answer(self) -> _KnownLog:
        """Return the log with its newest message hidden."""
        last = self.seqs[-1]
        return replace(
            self,
            keys=self.keys[:-1],
            seqs=self.seqs[:-1],
            hidden=self.hidden | {last},
            is_answered=False,
            replaced=last,
        )


@dataclass(frozen=True, slots=True)
class PlacedHistory:
    """The positions of a client's messages in the log of their conversation."""

    session: AsyncSession
    keys: Sequence[str]
    """Key of each message of the history."""
    seqs: tuple[int, ...]
    """Seq of each message of the history."""
    head: int
    """Seq (log position) of the newest entry of the log."""
    from_start: bool
    """False if the history begins later than the log, because the client dropped older messages."""
    hidden: frozenset[int] = frozenset()
    """Seqs (log positions) of answers in the log that the client replaced, so that they are not sent."""


@dataclass(frozen=True, slots=True)
class WholeLog:
    """The whole log of a conversation as the last context showed it, and the entries this process has added since."""

    handle: ref[AsyncSession]
    """Weak reference to the session object, so that the cache that holds it can evict it."""
    system: Sequence[str]
    """The texts of the system prompt."""
    log: _KnownLog


class Conversations:
    """Finds or creates the conversation that a client's history belongs to, for all tenants and models."""

    def __init__(self, config: MemoryConfig, quota: Quota | None = None) -> None:
        self.config = config
        self._quota = quota or Quota(config.store)
        self._redaction = redaction_of(config.store)
        self.key = key_function(self._redaction)
        self._system: SizedCache[tuple[str, str], tuple[Sequence[str], Sequence[str]]]
        self._system = SizedCache(limit=_MOST_LOGS)
        """Texts of the system prompt of each conversation: as the client sends them, and as they are stored."""
        self._runtimes: WeakValueDictionary[str, LimitedRuntime] = WeakValueDictionary()
        """Runtimes by tenant; one exists while a session or a request uses it."""
        self._handles: SizedCache[tuple[str, str, Budget], tuple[MemoryConfig, SessionCache]]
        self._handles = SizedCache(limit=_MOST_MODELS)
        self._logs: SizedCache[tuple[str, str], _KnownLog] = SizedCache(limit=_MOST_LOGS)
        self._newest: SizedCache[tuple[str, str], str] = SizedCache(limit=_MOST_LOGS)
        """The conversation that each session used last, which is tried first for the next request."""
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._whole: SizedCache[tuple[str, str], WholeLog] = SizedCache(limit=_MOST_LOGS)
        """History that each session sent last, if the history is the whole log and nothing else."""
        self._to_prepare: dict[tuple[str, str], tuple[AsyncSession, str]] = {}
        """Session -> its newest answer and words to search for: the next context is prepared in advance; see
        `prepare_ahead`."""
        self._refused: SizedCache[tuple[str, str], bool] = SizedCache(limit=_MOST_REFUSED)

    def refused(self, tenant: str, keys: Iterable[str]) -> frozenset[str]:
        """Return which of these keys are of messages with an item that the provider refused."""
        if not self._refused:
            return frozenset()
        return frozenset(key for key in keys if self._refused.get((tenant, key)))

    def note_refused(self, tenant: str, keys: Iterable[str]) -> None:
        """Remember the keys of messages with an item that the provider refused, so that the item is not sent again."""
        for key in keys:
            self._refused.put((tenant, key), value=True)

    def runtime(self, tenant: str) -> LimitedRuntime:
        """Return the runtime of a tenant, which computes one thing at a time, so that no tenant takes all threads."""
        runtime = self._runtimes.get(tenant)
        if runtime is None:
            runtime = self._runtimes[tenant] = LimitedRuntime(self.config.runtime, most=1)
        return runtime

    def session(
        self, tenant: str, conversation: str, *, model: str, budget: Budget
    ) -> AsyncSession:
        """Return the session handle of a conversation, with the token counter of a model and with a budget."""
        place = tenant, model, budget
        known = self._handles.get(place)
        if known is None:
            own = replace(
                self.config,
                scope=Scope(tenant),
                model=model,
                budget=budget,
                counter=counter_for(model) if model else self.config.counter,
                calibrating=CalibrationLog(),
                runtime=self.runtime(tenant),
            )
            known = own, SessionCache(most_bytes=_MOST_BYTES)
            self._handles.put(place, known)
        return known[1].get(conversation, known[0])

    async def whole(
        self,
        tenant: str,
        name: str,
        keys: Sequence[str],
        *,
        system: Sequence[str],
        model: str,
        budget: Budget,
    ) -> WholeLog | None:
        """Return the log that a history continues, if the next context will show all of it.

        It will if the last context did, the system prompt is the same, and nobody but this process has changed the
        conversation since. Returns None in any other case, also if that is not known.
        """
        known = self._whole.get((tenant, name))
        if known is None or known.system != system or not _continues(known.log.keys, keys):
            return None
        session = known.handle()
        if session is None or session is not self.session(
            tenant, session.id, model=model, budget=budget
        ):
            return None
        head = await own_head(session)
        return known if head is not None and head.seq == known.log.head.seq else None

    def note_context(
        self, tenant: str, name: str, placed: PlacedHistory, system: Sequence[str], *, whole: bool
    ) -> None:
        """Record whether a context showed the whole log and nothing else."""
        if not whole or not placed.from_start:
            self._whole.drop((tenant, name))
            return
        log = _KnownLog(Head(seq=placed.head), 0, list(placed.keys), list(placed.seqs))
        self._whole.put((tenant, name), WholeLog(ref(placed.session), system, log))

    def note_answer(self, tenant: str, name: str, placed: PlacedHistory, answer: Message) -> None:
        """Record the answer that was stored after a history."""
        known = self._whole.get((tenant, name))
        if known is None or known.log.head.seq != placed.head:
            return
        log, seq = known.log, placed.head + 1
        keys = [*log.keys, self.key(answer)]
        log = _KnownLog(Head(seq=seq), 0, keys, [*log.seqs, seq])
        self._whole.put((tenant, name), replace(known, log=log))

    async def stored_texts(self, session: AsyncSession, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts of a system prompt as they are stored: with redaction, with labels in place of secrets."""
        if self._redaction is None:
            return texts
        scope, place = session.scope, (session.scope.tenant, session.id)
        known = self._system.get(place)
        if known is None or known[0] != texts:
            known = texts, await self._redaction.value(scope, session.id, list(texts))
            self._system.put(place, known)
        return known[1]

    async def read_ahead(self, session: AsyncSession) -> None:
        """Read what was stored last, so that the next request of the session need not read it."""
        await self._log(session.scope.tenant, session.id)

    def prepare_ahead(self, session: AsyncSession, *, query: str) -> None:
        """Read what the next fold (compaction) needs in the background, and search for `query` if it is not empty.

        Entries are indexed by the first search after they were written; what it finds is not read. If this work is
        still running for an earlier answer of the session, the same run then does it for this answer.
        """
        tenant, name = session.scope.tenant, session.id
        self._to_prepare[tenant, name] = session, query

        async def prepare() -> None:
            while (asked := self._to_prepare.pop((tenant, name), None)) is not None:
                with suppress(TurnfoldError):  # the next request does it then
                    current, words = asked
                    await read_ahead(current)
                    if words:
                        terms = search_terms(words)
                        await self.config.store.search(
                            current.scope, terms, conversation=current.id, limit=1
                        )

        self.config.runtime.begin(f"prepare {log_mark(tenant, name)}", prepare)

    async def place(
        self,
        tenant: str,
        name: str,
        given: Sequence[GivenMessage],
        *,
        system: Sequence[str],
        model: str,
        budget: Budget,
        whole: WholeLog | None = None,
    ) -> PlacedHistory:
        """Store a client's history in a conversation of its session, as the end of the log; return its position.

        `whole` is the log that the history continues, if it is known; it is not read again.
        """
        keys = [one.key for one in given]
        lock = self._locks.setdefault((tenant, name), asyncio.Lock())
        async with lock:
            for attempt in range(_TRIES):
                handle = whole.handle() if whole is not None and attempt == 0 else None
                if whole is not None and handle is not None:
                    conversation, log = handle.id, whole.log
                else:
                    conversation, log = await self._conversation(tenant, name, keys)
                session = self.session(tenant, conversation, model=model, budget=budget)
                try:
                    placed = await self._append(session, log, given, keys, system)
                except Conflict:
                    continue  # another process was faster: look again
                if placed is not None:
                    self._newest.put((tenant, name), conversation)
                    return placed
        raise Conflict(
            f"the request was not sent: other requests changed session {name!r} {_TRIES} times meanwhile; try again"
        )

    async def _append(
        self,
        session: AsyncSession,
        log: _KnownLog,
        given: Sequence[GivenMessage],
        keys: Sequence[str],
        system: Sequence[str],
    ) -> PlacedHistory | None:
        """Append the new messages of a history; None if the history does not continue the log.

        Raises `LimitExceeded` if they do not fit the quota of the tenant.
        """
        new = given[_overlap(log.keys, keys)[1] :]
        if new:
            size = sum(len(item) for one in new for item in one.items)
            await self._quota.check(session.scope.tenant, brings=size)
        if (
            system and not log.keys
        ):  # before the first message; later, the context of a call sets it
            await session.system([{"type": "text", "text": text} for text in system])
            log = await self._log(session.scope.tenant, session.id)
        start, length = _overlap(log.keys, keys)
        if start + length != len(log.keys) or not (length or not log.keys):
            return None
        if log.replaced:
            await self._hide(session, log.replaced)
        seqs, head = log.seqs[start:], log.head.seq
        for at in range(length, len(given), _PAGE):
            batch = [one.record for one in given[at : at + _PAGE]]
            done = await session.add(batch, expect=head)
            seqs += range(done.first, done.first + len(batch))
            head = done.head.seq
        return PlacedHistory(
            session, keys, tuple(seqs), head, from_start=start == 0, hidden=log.hidden
        )

    async def _hide(self, session: AsyncSession, seq: int) -> None:
        """Note that a message is hidden; raise `Conflict` if another process changed the note meanwhile."""
        store, place = self.config.store, (session.scope, session.id)
        document = await store.get_document(*place, SESSION, TAKEN_BACK)
        note = read_note(document, TakenBackNote)
        if (seq, seq) not in note.stretches:
            note = TakenBackNote(stretches=(*note.stretches, (seq, seq)), shortened=note.shortened)
            written = write_note(SESSION, TAKEN_BACK, note)
            expect = document.version if document else 0
            await store.put_document(*place, written, expect=expect)

    async def _conversation(
        self, tenant: str, name: str, keys: Sequence[str]
    ) -> tuple[str, _KnownLog]:
        """Return the conversation that a history continues; if it continues none of the session's, create a fork."""
        newest = self._newest.get((tenant, name)) or name
        if newest != name:
            continued = _continued(await self._log(tenant, newest), keys, forks=1)
            if continued is not None:
                return newest, continued
        conversation = name
        for forks in range(_MOST_FORKS):
            log = await self._log(tenant, conversation)
            continued = _continued(log, keys, forks=forks)
            if not log.keys or continued is not None:
                return conversation, continued or log
            start, length = _overlap(log.keys, keys)
            at = log.seqs[start + length - 1] if length else 0
            after = keys[length] if length < len(keys) else ""
            fork = _fork_id(name, conversation, at, after)
            if at and not (await self._head(tenant, fork)).generation:
                source = AsyncSession(conversation, replace(self.config, scope=Scope(tenant)))
                try:
                    await source.fork(at, conversation=fork)
                except Conflict:
                    if not (await self._head(tenant, fork)).generation:
                        raise
            conversation = fork
        raise Conflict(
            f"session {name!r} has {_MOST_FORKS} conversations with different histories, and this request continues "
            "none of them: use separate sessions for unrelated requests"
        )

    async def _head(self, tenant: str, conversation: str) -> Head:
        return await self.config.store.head(Scope(tenant), conversation)

    async def _log(self, tenant: str, conversation: str) -> _KnownLog:
        """Return the keys (digests) of a conversation's visible messages; reads only entries that are not cached."""
        store, scope = self.config.store, Scope(tenant)
        place = tenant, conversation
        head = await self._head(tenant, conversation)
        log = self._logs.get(place) or _KnownLog()
        if log.head.state != head.state:
            note = await store.get_document(scope, conversation, SESSION, CLEARED)
            cleared = read_note(note, ClearedNote).upto
            log = await self._reread(tenant, conversation, log, cleared)
            if _MARK in conversation:  # only a fork can have hidden messages
                note = await store.get_document(scope, conversation, SESSION, TAKEN_BACK)
                log = _without_hidden(log, read_note(note, TakenBackNote))
            log = replace(log, head=head)
        self._logs.put(place, log)
        return log

    async def _reread(
        self, tenant: str, conversation: str, log: _KnownLog, cleared: int
    ) -> _KnownLog:
        store, scope = self.config.store, Scope(tenant)
        # The last known entry is read again: after a failover the log may have another one in its place.
        after = log.seqs[-1] - 1 if log.seqs else 0
        first = await store.read(scope, conversation, after=after, limit=1) if after else []
        known = bool(first) and (await self._keys(tenant, first))[0] == log.keys[-1]
        if not known or cleared != log.cleared:
            log = _KnownLog(cleared=cleared)
        keys, seqs = list(log.keys), list(log.seqs)  # others may be reading the log meanwhile
        after, is_answered = seqs[-1] if seqs else cleared, log.is_answered
        read = all_entries(store, scope, conversation, after=after)
        entries = [entry async for entry in read if entry.message.role != "system"]
        keys += await self._keys(tenant, entries)
        seqs += [entry.seq for entry in entries]
        if entries:
            is_answered = entries[-1].message.role == "assistant"
        return replace(log, keys=keys, seqs=seqs, is_answered=is_answered)

    async def _keys(self, tenant: str, entries: Sequence[Entry]) -> list[str]:
        """Return the keys of these entries; with redaction, which reads every text, they are made in a thread."""

        def keys() -> list[str]:
            return [self.key(entry.message) for entry in entries]

        return keys() if self._redaction is None else await self.runtime(tenant).compute(keys)


def _without_hidden(log: _KnownLog, note: TakenBackNote) -> _KnownLog:
    """Return the log without messages that were taken back: they are stored, but not shown."""
    hidden = frozenset(first for first, _ in note.stretches)  # each is a single message
    if not hidden:
        return log
    is_answered = log.is_answered and log.seqs[-1] not in hidden
    kept = [(key, seq) for key, seq in zip(log.keys, log.seqs, strict=True) if seq not in hidden]
    return replace(
        log,
        keys=[key for key, _ in kept],
        seqs=[seq for _, seq in kept],
        hidden=hidden,
        is_answered=is_answered,
    )


def _continued(log: _KnownLog, given: Sequence[str], *, forks: int) -> _KnownLog | None:
    """Return the log that a history continues: this one, or in a fork also this one without its newest answer.

    None if it continues neither. `forks` is the number of forks between the session's first log and this one.
    """
    if _continues(log.keys, given):
        return log
    if not forks or not log.is_answered:
        return None
    start, length = _overlap(log.keys[:-1], given)
    goes_on = length < len(given) or forks >= _MANY_FORKS
    return (
        log.without_answer() if goes_on and length and start + length == len(log.keys) - 1 else None
    )


def _continues(log: Sequence[str], given: Sequence[str]) -> bool:
    start, length = _overlap(log, given)
    return bool(length) and start + length == len(log)


def _overlap(log: Sequence[str], given: Sequence[str]) -> tuple[int, int]:
    """Return the index in the log at which a client's history begins, and the number of its messages that are there."""
    if given[: len(log)] == log:  # by far the most common case, and fast to compare
        return 0, len(log)
    return longest_overlap(log, given)


def _fork_id(name: str, conversation: str, at: int, after: str) -> str:
    digest = blake2b(f"{conversation}\n{at}\n{after}".encode(), digest_size=8).hexdigest()
    return f"{name}{_MARK}{digest}"

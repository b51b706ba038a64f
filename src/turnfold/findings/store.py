"""Stores the findings (remembered tool results) of a conversation, and answers repeated calls from them.

Each finding is a document next to the log: shared by all processes that use the conversation, deleted with it, and
invisible to other conversations and tenants. One more document, the note, says that there are findings and when tools
ran. The newer result of a call, by its position in the log, replaces the older one. Stale and expired findings are
neither shown nor used as answers.

Every write is a compare-and-swap against the version that this process last read. After a conflict the document is read
again and the newer result is chosen again, so that two processes that store a result at the same time keep the same
one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

from turnfold.errors import Conflict, InvalidOption, InvalidRecord
from turnfold.findings.finding_rules import (
    FindingRule,
    canonical_arguments,
    findings_to_drop,
    is_valid,
    newer_finding,
    plain_tool_name,
    rank_findings,
    rank_for_question,
    rule_for,
    rules_by_tool,
)
from turnfold.findings.render import findings_text, shown_whole
from turnfold.records import (
    FINDING,
    FINDINGS,
    SESSION,
    TOC,
    Document,
    Finding,
    FindingsNote,
    Message,
    ToolCall,
    ToolResult,
    as_fields,
    assistant,
    decode_finding,
    encode_finding,
    finding_key,
    freeze,
    plain_text,
    read_note,
    thaw_object,
    user,
    write_note,
)
from turnfold.runtime import Runtime
from turnfold.stores import Head, Scope, Store, Written, redaction_of
from turnfold.tokens import TokenCounter

__all__ = (
    "AsyncFindings",
    "FindingCache",
    "TailFindings",
    "as_tool_call",
    "result_text",
)


_Result = TypeVar("_Result")
_TRIES = 64
"""Attempts to make one write; an attempt fails if another writer was first."""


class FindingOwner(Protocol):
    """The conversation that findings (remembered tool results) belong to, with its store and its cached state."""

    store: Store
    scope: Scope
    conversation: str
    counter: TokenCounter
    head: Head
    findings: FindingCache

    async def refresh(self) -> None:
        """Update the cached state of the conversation from the store."""
        ...

    def wrote(self, written: Written | None) -> None:
        """Apply this process's own write to the cached state; pass None if the resulting state is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class _FindingStorage:
    """Writes findings (remembered tool results) to the store and to the owner's cache."""

    owner: FindingOwner

    async def put(self, finding: Finding) -> Finding:
        """Store a finding (remembered tool result) unless a newer result of the same call is stored.

        Returns the finding that is stored now.
        """
        await self.mark({})
        key = finding.key
        return await _retry(lambda: self._put(key, finding), lambda: self._reload(key))

    async def mark(self, ran: Mapping[str, int]) -> None:
        """Record in the findings note at which log position (seq) tools ran, because runs can make results stale."""
        await _retry(lambda: self._put_note(ran), self._reload_note)

    async def make_room(self, *, most: int, now: int) -> None:
        """Delete expired and stale findings (remembered tool results).

        If there are more than `most`, the lowest-ranked ones are deleted too.
        """
        cache = self.owner.findings
        for finding in findings_to_drop(cache.all(), most=most, now=now, ran=cache.ran):
            await self.drop(finding.key)

    async def invalidate(self, key: str, content: str) -> None:
        """Delete the stored result of a call if it differs from `content`, a newer result that is not kept."""
        cached, _ = self.owner.findings.by_key.get(key, (None, 0))
        if cached is not None and cached.content != content:
            await self.drop(key)

    async def drop(self, key: str) -> bool:
        """Delete a finding (remembered tool result) unless another process has changed it since it was read.

        Returns True if it was deleted.
        """
        owner = self.owner
        _, version = owner.findings.by_key.pop(key)
        try:
            gone = await owner.store.drop_document(
                owner.scope, owner.conversation, FINDING, key, expect=version
            )
        except Conflict:
            return False  # another process has just stored it again; the next refresh reads it
        if gone:
            owner.wrote(None)
        return gone

    async def _put(self, key: str, finding: Finding) -> Finding:
        owner = self.owner
        cached, version = owner.findings.by_key.get(key, (None, 0))
        chosen = newer_finding(cached, finding)
        if chosen is cached:
            return chosen
        text = f"{chosen.tool} {chosen.content}"
        document = Document(FINDING, key, encode_finding(chosen), 0, text=text)
        done = await owner.store.put_document(
            owner.scope, owner.conversation, document, expect=version
        )
        owner.wrote(done)
        owner.findings.by_key[key] = (chosen, done.document.version)
        return chosen

    async def _reload(self, key: str) -> None:
        owner = self.owner
        document = await owner.store.get_document(owner.scope, owner.conversation, FINDING, key)
        owner.findings.by_key.pop(key, None)
        if document is not None:
            owner.findings.by_key[key] = _decoded(document)

    async def _put_note(self, ran: Mapping[str, int]) -> None:
        owner, cache = self.owner, self.owner.findings
        newer = {tool: seq for tool, seq in ran.items() if cache.ran.get(tool, -1) < seq}
        if cache.version and not newer:
            return
        both = {**cache.ran, **newer}
        document = write_note(SESSION, FINDINGS, FindingsNote(ran=both))
        done = await owner.store.put_document(
            owner.scope, owner.conversation, document, expect=cache.version
        )
        owner.wrote(done)
        cache.version, cache.ran = done.document.version, both

    async def _reload_note(self) -> None:
        owner = self.owner
        note = await owner.store.get_document(owner.scope, owner.conversation, SESSION, FINDINGS)
        owner.findings.load_note(note)


async def _retry(
    write: Callable[[], Awaitable[_Result]], reload: Callable[[], Awaitable[None]]
) -> _Result:
    """Call `write`, a compare-and-swap; after a conflict call `reload` and `write` again, a few times."""
    for _ in range(_TRIES - 1):
        try:
            return await write()
        except Conflict:
            await reload()
    return await write()


def _decoded(document: Document) -> tuple[Finding, int]:
    """Return the finding (remembered tool result) that a stored document contains, and the document's version."""
    return decode_finding(document.body, path=f"finding/{document.key}"), document.version


@dataclass(slots=True)
class FindingCache:
    """The findings (remembered tool results) of a conversation as this process last read or wrote them."""

    version: int = 0
    """Version of the stored note that holds `ran`; 0 if there is none."""
    ran: dict[str, int] = field(default_factory=dict[str, int])
    """Name of a tool that makes findings (remembered tool results) stale -> seq (log position) at which the tool last
    ran."""
    by_key: dict[str, tuple[Finding, int]] = field(default_factory=dict[str, tuple[Finding, int]])
    """Key of a finding (remembered tool result) -> the finding and the version of its document."""

    @classmethod
    def of(cls, note: Document | None, documents: Iterable[Document]) -> FindingCache:
        """Build the cache of findings (remembered tool results) from the documents of the store."""
        cache = cls(by_key={each.key: _decoded(each) for each in documents})
        cache.load_note(note)
        return cache

    def load_note(self, note: Document | None) -> None:
        """Set the times at which tools last ran from the stored note about findings; None if there is no note."""
        self.version = note.version if note else 0
        self.ran = dict(read_note(note, FindingsNote).ran)

    def all(self) -> list[Finding]:
        """Return all cached findings (remembered tool results), including expired and stale ones."""
        return [finding for finding, _ in self.by_key.values()]

    def valid(self, now: int) -> list[Finding]:
        """Return the cached findings (remembered tool results) that are neither expired nor stale, best first."""
        return rank_findings(each for each in self.all() if is_valid(each, now=now, ran=self.ran))

    def shown_at(
        self, turn: int, *, now: int, anchor: int, cut: Mapping[int, int]
    ) -> list[Finding]:
        """Return the findings (remembered tool results) to show in the turn that begins at seq `turn`.

        These are the ones that the window does not show.

        The prompt has log entries from `anchor` on word for word, except those in `cut`, which are shortened.
        """
        return [
            finding
            for finding in self.valid(now)
            if finding.since <= turn and (finding.seq < anchor or finding.seq in cut)
        ]


@dataclass(frozen=True, slots=True)
class TailFindings:
    """Findings for the tail of a context (the text before the newest turn), sorted by relevance to the question."""

    every: Sequence[Finding]
    matching: Sequence[Finding]
    """Findings (remembered tool results) that share a term with the user's question."""
    question: str
    count: Callable[[str], int]

    @classmethod
    def of(
        cls, found: Sequence[Finding], question: str, count: Callable[[str], int]
    ) -> TailFindings:
        """Sort findings (remembered tool results) by relevance to a question, for the tail of a context."""
        if not found:
            return cls((), (), question, count)
        every, matching = rank_for_question(found, question)
        return cls(every, matching, question, count)

    def whole(self, block: str) -> list[Finding]:
        """Return the findings (remembered tool results) whose whole content is in `block`, a text made by `text`."""
        return shown_whole(self.every, block) if block else []

    def text(self, tokens: int, measure: Callable[[str], int], *, matching: bool = False) -> str:
        """Return the findings (remembered tool results) as text fenced as data.

        Tables of contents come first, then the most relevant findings. With `matching`, only those that share a term
        with the question are returned. The text has at most `tokens`, counted by `measure`; it is empty if no finding
        fits.
        """
        shown = self.matching if matching else self.every
        if not shown:
            return ""
        return findings_text(
            shown, tokens=tokens, count=self.count, measure=measure, question=self.question
        )


_LONG = 20_000
"""Most characters of findings (remembered tool results) that are rendered on the event loop; more are rendered in a
thread."""
_MOST = 64
"""Default number of findings (remembered tool results) per conversation."""


class AsyncFindings:
    """Stores, returns and drops the findings of a conversation: tool results, by tool and arguments."""

    def __init__(
        self,
        owner: FindingOwner,
        lock: AbstractAsyncContextManager[None],
        clock: Callable[[], int],
        runtime: Runtime,
    ) -> None:
        self._owner = owner
        self._storage = _FindingStorage(owner)
        self._lock = lock
        self._clock = clock
        self._runtime = runtime
        self._rules: dict[str, FindingRule] = {}
        self._most = _MOST

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """The finding rules of this session object (which tool results are remembered), by tool name.

        Results of other tools are remembered only by `note`. A rule for `get_toc` also applies to the tool of an MCP
        server, `mcp__rules__get_toc`.
        """
        return MappingProxyType(self._rules)

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Set the finding rules (which tool results are remembered), and the most findings to store.

        Rules are code and are not stored: each process must set them.
        """
        if most is not None and most < 1:
            raise InvalidOption(f"most={most}, the number of findings to keep, must be at least 1")
        self._rules = rules_by_tool(rules)
        self._most = most or self._most

    async def note(
        self,
        call: object,
        result: object,
        *,
        score: float | None = None,
        seq: int = 0,
        asked: int | None = None,
    ) -> Finding | None:
        """Remember the result of a call; return None if it is not remembered.

        Errors are not remembered, nor results that the rule excludes (relevance, size), nor calls whose arguments are
        ambiguous (not JSON, a name twice) and cannot be compared.

        `call` is a `ToolCall` or a tool call in a provider's format. `seq` is the log entry with the result (0: none);
        while that entry is in the window, the finding is not shown again. `asked` is the newest seq when the call was
        made (default: now). The finding is shown from the next user turn on.
        """
        called, content = await self._redacted(as_tool_call(call), result_text(result))
        if isinstance(result, ToolResult) and result.is_error:
            return None
        rule = rule_for(self._rules, called.name) or FindingRule(called.name)
        arguments = _comparable_arguments(called)
        kept = rule.kept_of(thaw_object(arguments), content) if arguments is not None else None
        relevance = rule.relevance_of(kept or content, score)
        async with self._lock:
            owner = self._owner
            await owner.refresh()
            await self._note_run(called.name)
            if arguments is None:
                return None
            now, head = self._clock(), owner.head
            if kept is None or relevance < rule.min_relevance or len(kept) > rule.largest:
                await self._storage.invalidate(finding_key(called.name, arguments), content)
                return None
            finding = Finding(
                tool=called.name,
                arguments=arguments,
                content=kept,
                kind=rule.kind,
                score=relevance,
                turn=head.turns,
                seq=seq,
                since=head.seq,
                asked=head.seq if asked is None else asked,
                call=called.id,
                created=now,
                expires=now + round(rule.ttl * 1_000_000) if rule.ttl else 0,
                invalidated_by=rule.invalidated_by,
            )
            stored = await self._storage.put(finding)
            await self._storage.make_room(most=self._most, now=now)
            return stored

    async def get(
        self, tool: str, arguments: str | Mapping[str, object] | None = None
    ) -> Finding | None:
        """Return the stored result of a call with these arguments; None if there is none that is still valid."""
        written = canonical_arguments(arguments)
        if redaction_of(self._owner.store) is not None:
            called, _ = await self._redacted(ToolCall("", tool, written), "")
            written = canonical_arguments(called.arguments)
        key = finding_key(tool, written)
        return next((found for found in await self.list() if found.key == key), None)

    async def _redacted(self, call: ToolCall, content: str) -> tuple[ToolCall, str]:
        """Return a call and its result with secrets replaced, if this memory redacts what it stores."""
        owner = self._owner
        redaction = redaction_of(owner.store)
        if redaction is None:
            return call, content
        given = assistant(None, tool_calls=[call]), user(content)
        (told, said), _ = await redaction.messages(owner.scope, owner.conversation, given)
        return cast("ToolCall", told.parts[0]), said.text

    async def serve(self, call: object) -> Finding | None:
        """Return a stored result to use instead of calling the tool; None unless its rule has `serve` and it is valid.

        `turnfold.findings.served_text` renders it as a tool result that says it comes from memory.
        """
        called = as_tool_call(call)
        rule = rule_for(self._rules, called.name)
        arguments = _comparable_arguments(called)
        if rule is None or not rule.serve or rule.side_effects or arguments is None:
            return None
        return await self.get(called.name, arguments)

    async def ran(self, tool: str) -> None:
        """Mark the findings (remembered tool results) that a run of this tool makes stale.

        Call this before and after the tool runs.
        """
        async with self._lock:
            await self._owner.refresh()
            await self._note_run(tool)

    async def list(self) -> tuple[Finding, ...]:
        """Return the remembered tool results that are neither expired nor stale.

        Tables of contents come first, then the most relevant results.
        """
        async with self._lock:
            await self._owner.refresh()
            return tuple(self._owner.findings.valid(self._clock()))

    async def text(self, *, tokens: int, question: str = "") -> str:
        """Return the valid findings (remembered tool results) as fenced text (marked as data) in at most `tokens`.

        Those about `question` come first.

        For applications that build their own prompt; `context` already includes this text.
        """
        count, valid = self._owner.counter.count_text, await self.list()

        def render() -> str:
            found, _ = rank_for_question(valid, question)
            return findings_text(
                found, tokens=tokens, count=count, measure=count, question=question
            )

        long = sum(len(each.content) for each in valid) > _LONG
        return await self._runtime.compute(render) if long else render()

    async def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Delete the stored result of a call, or all results of a tool if `arguments` is None.

        Returns the number deleted.
        """
        key = "" if arguments is None else finding_key(tool, canonical_arguments(arguments))
        return await self._drop(lambda each: each.tool == tool and key in ("", each.key))

    async def clear_query(self) -> int:
        """Delete all findings (remembered tool results) except tables of contents; return the number deleted.

        Call this method when a question is answered. Tables of contents are useful for later questions too.
        """
        return await self._drop(lambda each: each.kind != TOC)

    async def clear(self) -> int:
        """Delete all findings (remembered tool results) of the conversation; return the number deleted."""
        return await self._drop(lambda _: True)

    async def _note_run(self, tool: str) -> None:
        """Record at which log position a tool ran, if a run of this tool can make remembered results stale.

        A finding rule or a finding (remembered tool result) says so.
        """
        owner = self._owner
        stale = {name for rule in self._rules.values() for name in rule.invalidated_by}
        stale.update(name for each in owner.findings.all() for name in each.invalidated_by)
        if named := stale & {tool, plain_tool_name(tool)}:
            await self._storage.mark(dict.fromkeys(named, owner.head.seq))

    async def _drop(self, chosen: Callable[[Finding], bool]) -> int:
        async with self._lock:
            await self._owner.refresh()
            every = self._owner.findings.all()
            return sum([await self._storage.drop(each.key) for each in every if chosen(each)])


def as_tool_call(call: object) -> ToolCall:
    """Return a tool call from a part, from OpenAI's format, or from a name with `arguments` or `input` (Anthropic)."""
    if isinstance(call, ToolCall):
        return call
    fields = as_fields(call, "call")
    if "function" in fields:
        return assistant(tool_calls=[fields]).calls[0]
    name, given = fields.get("name"), fields.get("arguments", fields.get("input"))
    if not isinstance(given, str | None):
        given = freeze(given, path="call.arguments")
    return ToolCall(str(fields.get("id", "")), plain_text(name, path="call.name"), given or "{}")


def _comparable_arguments(call: ToolCall) -> str | None:
    """Return the arguments of a call in canonical form, to compare calls; None if they are ambiguous."""
    try:
        return canonical_arguments(call.arguments)
    except InvalidRecord:
        return None


def result_text(result: object) -> str:
    """Return a tool result as text: a string unchanged, other values as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, Message | ToolResult):
        return result.text
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(result)

"""The session: the handle on one conversation that an application holds.

Every message is added to the log through it, and every model call gets its context from it. Everything that decides
about a context is in the store: where the window begins, what is pinned, what was folded (compacted). So any number of
handles on one conversation, in any process, build the same context, byte for byte.

`AsyncState` holds the session's JSON values, `Pins` the texts that every call shows, `SessionStatus` the numbers of its
entries, turns and tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from turnfold._argument_hints import SESSION_ADVICE, hinted_methods
from turnfold.budget import Budget
from turnfold.errors import Conflict, InvalidOption
from turnfold.findings import AsyncFindings
from turnfold.fold import passages_of, read_for_extract
from turnfold.memory.cached_conversation import ConversationCache, StateLock
from turnfold.memory.call_log import (
    LAST_CALL,
    CallLog,
    Difference,
    Explanation,
    Manifest,
    SessionCalibration,
    compare,
    newest_call,
    numbered_call,
)
from turnfold.memory.config import (
    CompactionMode,
    FoldMode,
    MemoryConfig,
    MemoryMode,
    RecallMode,
    check_budget,
    check_type,
    with_model,
)
from turnfold.memory.context import ContextBuilder, ContextRequest, Tools, brings_much
from turnfold.memory.dropped_checkpoints import drop_checkpoint, dropped_checkpoints
from turnfold.memory.embedding_index import Meanings, MeaningStatus
from turnfold.memory.entry_erasure import erase_entry
from turnfold.memory.erasure import delete_session
from turnfold.memory.folding import FoldCall, Folder, FoldManager
from turnfold.memory.fork import copy_conversation
from turnfold.memory.leases import AgentRuns
from turnfold.memory.pins_and_state import AsyncState, Pins
from turnfold.memory.recall import Recaller
from turnfold.memory.session_rules import RuleLedger, found_rules
from turnfold.records import (
    CLEARED,
    SESSION,
    SYSTEM,
    Checkpoint,
    ClearedNote,
    Entry,
    Message,
    NewEntry,
    SystemNote,
    Usage,
    assistant,
    entries_of,
    has_compaction,
    message_digest,
    system,
    tool,
    user,
    write_note,
)
from turnfold.rules import RuleKind, StandingRule
from turnfold.runtime import SyncRuntime
from turnfold.search import ALL_ENTRIES, Recalled, Within
from turnfold.stores import (
    Ability,
    Appended,
    Erasure,
    Head,
    Scope,
    Store,
    all_entries,
    check_name,
    log_mark,
    redaction_of,
)
from turnfold.telemetry import (
    RETRIEVAL,
    context_attributes,
    fold_attributes,
    model_call,
    recall_attributes,
)
from turnfold.tokens import TokenCounter, can_correct, corrected_counter
from turnfold.window import Context

__all__ = (
    "AsyncSession",
    "AsyncState",
    "Pins",
    "SessionStatus",
    "list_client_ids",
    "own_head",
    "read_ahead",
    "use_model",
)


if TYPE_CHECKING:
    from turnfold.wire import WireFormat
    from turnfold.workspace_snapshots import AsyncSnapshots


_log = logging.getLogger(__name__)
_NO_CALL = "tool result without a call"
"""Beginning of the reason in a receipt for leaving out the result of a tool that no message called."""
_CALLS = 1_000
"""Number of calls per page that is read from the store, to find a call by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """Numbers of entries, turns and tokens of a session, its live checkpoint (summary), and the state of folding."""

    conversation: str
    mode: MemoryMode
    entries: int
    turns: int
    tokens: int
    """Tokens of the whole log."""
    checkpoint: str
    """Id of the live (newest) checkpoint (summary); empty before the first."""
    covered: int
    """Seq (log position) of the last entry that is folded (compacted) or cleared."""
    fold_failures: int
    """Attempts to fold (compact) that failed since the last checkpoint."""
    fold_error: str
    """Class name of the error of the last failed attempt to fold (compact); empty if none failed. The error's message
    may quote the conversation, so it is neither stored nor logged: `session.fold()` raises it."""


def list_client_ids(given: object) -> list[str]:
    """Return one client id or several as a list without duplicates; raises `InvalidOption` if one is not a string."""
    names: Iterable[object] = (given,)
    if isinstance(given, Iterable) and not isinstance(given, str):
        names = cast("Iterable[object]", given)
    checked: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str):
            raise InvalidOption(f"a client id must be a string, got {name!r}")
        check_name(name, "client id")
        checked[name] = None
    return list(checked)


def _check_request(
    tools: object, notes: object = None, workspace: object = "", max_tokens: object = 0
) -> None:
    """Raise `InvalidOption` for an argument of `context()` that has the wrong type."""
    if tools:
        from turnfold.wire import check_tools

        check_tools(tools)
    check_type("notes", notes or {}, (Mapping,), 'notes={"name": "text"}')
    check_type("workspace", workspace, (str,), 'workspace="text"')
    check_type("max_tokens", max_tokens, (int,), "max_tokens=500")


@hinted_methods(SESSION_ADVICE)
class AsyncSession:
    """One conversation: appends messages and builds contexts, for applications with an event loop."""

    def __init__(self, conversation: str, config: MemoryConfig) -> None:
        self.id = conversation
        self.config: MemoryConfig = config
        """The options of the memory that this session belongs to."""
        self._given_config: Final = config
        """The memory's options before `use_model` named a model."""
        self._store, self._scope = config.store, config.scope
        self._redaction = redaction_of(config.store)
        self._cache = ConversationCache(self._store, self._scope, conversation, config.counter)
        self._in_order = Ability.IN_ORDER in config.store.abilities
        self._lock = StateLock(config.runtime.lock(), self._reset)
        self.system_lock: AbstractAsyncContextManager[None] = config.runtime.lock()
        """Lock for an application that sets the system message and builds a context in one step; not reentrant."""
        folder = Folder(
            self._store,
            self._scope,
            conversation,
            config.counter,
            config.policy.writer,
            config.runtime,
            config.meter,
            config.zone,
        )
        self._folds = FoldManager(folder, config.policy, config.clock, config.meter)
        self.runs: Final = AgentRuns(self._cache, config.clock, config.runtime)
        """The runs of agents on this session: one at a time, in all processes together."""
        self._calls = CallLog(self._cache, config.counter, config.clock, config.model)
        embedder = config.embedder
        self._meanings = Meanings(config, conversation, embedder) if embedder else None
        self._recaller = Recaller(config, self._cache, self._meanings)
        self._rules = RuleLedger(self._cache, config.runtime, config.rules)
        self._builder = ContextBuilder(
            config, self._cache, self._folds, self._calls, self._recaller, self._rules
        )
        self._calibration = SessionCalibration(config, self._cache)
        self._state = AsyncState(self._cache)
        self._has_loop = not isinstance(config.runtime, SyncRuntime)
        self._pins = Pins(self._cache, self._lock, config.budget, config.runtime)
        self._findings = AsyncFindings(self._cache, self._lock, config.clock, config.runtime)
        self._snapshots: AsyncSnapshots | None = None
        self._lost_results: set[int] = set()
        """Log positions of tool results without a call, for which a warning was already logged."""

    def __repr__(self) -> str:
        return (
            f"AsyncSession({self.id!r}, store={self.config.address}, scope={self._scope.tenant!r})"
        )

    @property
    def counter(self) -> TokenCounter:
        """The token counter of this session; an estimate is corrected by what the provider reported."""
        return self._cache.counter

    @property
    def budget(self) -> Budget:
        """The budget (token limits) of calls without a budget of their own."""
        return self.config.budget

    @property
    def store(self) -> Store:
        """The store of this session's memory, for applications that keep documents of their own next to the log."""
        return self._store

    @property
    def scope(self) -> Scope:
        """The scope (tenant) whose data this session may access."""
        return self._scope

    @property
    def state(self) -> AsyncState:
        """The session's state: JSON values by name, shared by all handles on this conversation."""
        return self._state

    @property
    def findings(self) -> AsyncFindings:
        """The findings (remembered tool results) of this conversation, by tool and arguments."""
        return self._findings

    @property
    def snapshots(self) -> AsyncSnapshots:
        """The workspace snapshots of this conversation: take, read back and compare them, turn by turn."""
        if self._snapshots is None:
            from turnfold.workspace_snapshots import AsyncSnapshots, SnapshotStorage

            storage = SnapshotStorage(
                self._store, self._scope, self.id, runtime=self.config.runtime
            )
            self._snapshots = AsyncSnapshots(
                storage, count=self.config.counter.count_text, clock=self.config.clock
            )
        return self._snapshots

    @property
    def held_bytes(self) -> int:
        """Approximate memory of this session object in bytes: its windows, and cached snapshots and vectors."""
        caches = (self._cache, self._snapshots, self._meanings)
        return sum(cache.held_bytes for cache in caches if cache is not None)

    @property
    def last_call(self) -> str:
        """Name of the last call that this task or thread made through this session object.

        If it made none, the last call of the session object; empty if that made none either.
        """
        return self._calls.current

    async def system(self, content: object) -> Appended | None:
        """Set the system message of later contexts, replacing the current one.

        Returns None if the current one is the same.
        """
        message = (await self._redact_messages([system(content)]))[0][0]
        digest = message_digest(message, size=8).hex()
        async with self._lock:
            while True:
                await self._cache.refresh()
                current = self._cache.system
                if [entry.message for entry in current] == [message]:
                    return None
                # The same text after the same predecessor is the same change: a retry finds it by its client id.
                after = current[-1].seq if current else 0
                done = await self._append([NewEntry(message, f"system:{after}:{digest}")], None)
                if await self._show_system(done, {done.first}):
                    return done

    async def user(
        self, content: object, *, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """Append a user message, which begins a turn.

        An empty message is stored, but not sent to providers that refuse it.
        """
        return await self.add(user(content, name=name), client_id=client_id)

    async def assistant(
        self,
        content: object = None,
        *,
        tool_calls: Iterable[object] | None = None,
        name: str | None = None,
        client_id: str = "",
    ) -> Appended:
        """Append the model's answer, with the tool calls it made."""
        message = assistant(content, tool_calls=tool_calls, name=name)
        return await self.add(message, client_id=client_id)

    async def tool(
        self, content: object, *, tool_call_id: str, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """Append the result of the tool call `tool_call_id`.

        If no assistant message before it has a call with this id, the result stays in the log and is sent to no model:
        `context()` logs a warning, and its receipt lists the result as dropped.
        """
        message = tool(content, tool_call_id=tool_call_id, name=name)
        return await self.add(message, client_id=client_id)

    async def add(
        self, messages: object, *, client_id: str = "", expect: int | None = None
    ) -> Appended:
        """Append one message, or several atomically. Durable on return.

        Takes messages in any shape, and the objects of the SDKs of OpenAI, Anthropic and Google: messages and whole
        responses. The usage of a response is recorded with the last call of this task, as by `record_usage()`.

        With `client_id`, a retry stores nothing twice. Several messages get this id with a number appended; a
        `NewEntry` has an id of its own. `expect` is the newest seq the caller has seen; raises `Conflict` if the log
        ends with another seq.
        """
        usage: Usage | None = None
        if not isinstance(messages, Message):
            from turnfold.wire import read_sdk_objects  # not needed by a program that adds messages

            read = read_sdk_objects(messages)
            messages, usage = read.messages, read.usage
        done = await self._add_entries(entries_of(messages, client_id), expect)
        if usage is not None and self._calls.current:  # after the messages, which matter more
            await self.record_usage(usage)
        return done

    async def _add_entries(self, entries: Sequence[NewEntry], expect: int | None) -> Appended:
        if any(one.message.role == "system" for one in entries):
            return await self._add_system(entries, expect)
        if self._in_order:  # without the lock, so that concurrent appends can share a commit
            return await self._append(entries, expect)
        async with self._lock:
            return await self._append(entries, expect)

    async def _add_system(self, entries: Sequence[NewEntry], expect: int | None) -> Appended:
        """Append messages that include system messages; contexts show these in addition to the current ones."""
        async with self._lock:
            while True:
                done = await self._append(entries, expect)
                await self._cache.refresh()
                seqs = {entry.seq for entry in self._cache.system}
                numbered = enumerate(entries, done.first)
                seqs.update(seq for seq, one in numbered if one.message.role == "system")
                if await self._show_system(done, seqs):
                    return done

    async def _show_system(self, done: Appended, seqs: Iterable[int]) -> bool:
        """Make these log entries the system messages of later contexts; return False if a failover lost the append."""
        if done.repeated:
            await self._cache.refresh()
            seen = self._cache.newest
        else:
            seen = (done.head.seq, done.head.epoch)
        return await self._note(SYSTEM, SystemNote(seqs=tuple(sorted(seqs))), seen)

    async def context(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Tools | None = None,
        recall: RecallMode | str | None = None,
        notes: Mapping[str, str] | None = None,
        workspace: str = "",
        to: WireFormat | None = None,
        max_tokens: int = 0,
    ) -> Context:
        """Build a valid context for the next model call, within the budget, and store its manifest (call record).

        `budget` replaces the memory's budget for this call; `tools` are the tool schemas that the call sends, which are
        counted. `query` recalls matching entries from before the window; `recall` overrides the memory's mode of
        recalling without a query. `notes` (text by name) and `workspace` are shown in this call only, fenced (marked as
        data), and are not logged. No model is called unless this memory folds (compacts) inline. The context of a
        session without messages has none, and a request written from it has a placeholder, because providers refuse a
        request without messages.

        With `to` (a module of `turnfold.wire`, or a model's client) the budget's `max_bytes` limits the request body of
        that provider, and the receipt (context report) lists the changes that the provider requires. `max_tokens` is a
        limit below the budget, for example after a provider refused a prompt as too long.
        """
        if budget is not None:
            check_budget(budget)
        if query:
            check_type("query", query, (str,), 'context("what to recall")')
        _check_request(tools, notes, workspace, max_tokens)
        if self._redaction is not None:  # the tail and its query are stored with the call
            place = self._scope, self.id
            shown = await self._redaction.value(*place, [query or "", dict(notes or {}), workspace])
            query, notes, workspace = cast("tuple[str, dict[str, str], str]", shown)
        request = ContextRequest(
            budget=budget or self.config.budget,
            query=query or "",
            tools=tools or (),
            recall=self.config.recall if recall is None else RecallMode.named(recall),
            notes=notes or {},
            workspace=workspace,
            to=to,
            max_tokens=max_tokens,
            long=self._has_loop and brings_much(notes, workspace, tools),
        )
        config = self.config
        with config.meter.span("turnfold.context", self.id, {}) as note:
            async with self._lock:
                await self._use_calibration()
                context = await self._builder.context(request)
            note(
                lambda: context_attributes(
                    context.receipt, call=self._calls.current, model=config.model
                )
            )
        self._warn_of_lost_results(context)
        return context

    def _warn_of_lost_results(self, context: Context) -> None:
        """Log a warning, once, for each tool result without a call: the result is in the log, but is not sent."""
        lost = [fate for fate in context.fates if fate.reason.startswith(_NO_CALL)]
        for seq in (seq for fate in lost for seq in range(fate.start, fate.stop)):
            if seq not in self._lost_results:
                self._lost_results.add(seq)
                mark = log_mark(self.config.scope.tenant, self.id)
                _log.warning(
                    "entry %d of conversation %s is a tool result without a call and is not sent: tool_call_id must "
                    "be the id of a tool call in an assistant message before it",
                    seq,
                    mark,
                    extra={"event": "result_without_call", "conversation": mark, "seq": seq},
                )

    async def preview(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Tools | None = None,
        to: WireFormat | None = None,
    ) -> Context:
        """Build the context that `context()` would build now, but store nothing and do not fold (compact)."""
        check_budget(budget)
        _check_request(tools)
        request = ContextRequest(
            budget=budget or self.config.budget,
            query=query or "",
            tools=tools or (),
            recall=self.config.recall,
            to=to,
            long=self._has_loop and brings_much(None, "", tools),
        )
        policy = replace(self.config.policy, mode=FoldMode.MANUAL)
        detached = AsyncSession(self.id, replace(self.config, policy=policy))
        detached._rules.read_only = True
        await detached._use_calibration()
        return await detached._builder.preview(request)

    async def fold(
        self,
        *,
        summary: str | None = None,
        keep_turns: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint | None:
        """Fold (compact) everything before the newest turns now; return None if there is nothing to fold.

        `keep_turns` is the number of newest turns to leave out, by default that of the memory. With `summary` that
        text is used unchanged, and at least the oldest turn is folded; otherwise the memory's summariser writes one,
        and its failure is raised. A long range is folded in steps, between which contexts can be built:
        `on_progress(entries folded, entries in all)` is called after each.
        """
        check_type("summary", summary, (str, type(None)), 'fold(summary="text")')
        check_type("keep_turns", keep_turns, (int, type(None)), "fold(keep_turns=2)")
        keep = self.config.policy.keep_turns if keep_turns is None else keep_turns
        if keep < 0:
            raise InvalidOption(f"keep_turns={keep} must not be negative")
        if summary is not None:
            summary = await self._redact_text(summary)
        with self.config.meter.span("turnfold.fold", self.id, {}) as note:
            checkpoint = await self._fold(keep, summary, on_progress)
            note(lambda: fold_attributes(checkpoint, given=summary is not None))
        return checkpoint

    async def _fold(
        self, keep: int, summary: str | None, on_progress: Callable[[int, int], None] | None
    ) -> Checkpoint | None:
        budget = self.config.budget
        async with self._lock:
            await self._cache.refresh()
            await self._use_calibration()
            window = await self._cache.window(budget)
            prompt = await self._builder.prompt_parts(ContextRequest(budget=budget))
            upto = window.before_turns(keep)
            if summary is not None and upto <= self._cache.folded:
                upto = window.turn_end(1)
            fold = await self._builder.fold_range(budget, upto, prompt)
            if fold is None or not window.has_messages(fold.after, fold.upto):
                return None
            if summary is not None:
                return await self._folds.fold_given(fold, summary)
        return await self._folds.fold_all(fold, on_progress)

    async def checkpoints(self, *, dropped: bool = False) -> list[Checkpoint]:
        """Return all checkpoints (fold summaries), oldest first; the last is in use.

        `dropped=True` returns the dropped ones instead.
        """
        if dropped:
            return await dropped_checkpoints(self._store, self._scope, self.id)
        return await self._store.checkpoints(self._scope, self.id)

    async def drop_checkpoint(self, checkpoint: str) -> list[Checkpoint]:
        """Drop the checkpoint (summary) with this id and all later ones; return the dropped checkpoints, oldest first.

        The conversation returns to the checkpoint before it, or to none: later contexts show the entries themselves, or
        fold them again. The commit of a running fold is refused. Dropped checkpoints are kept for audit
        (`checkpoints(dropped=True)`) and never shown or found. Raises `NotFound` if there is no such checkpoint.
        """
        async with self._lock:
            try:
                return await drop_checkpoint(self._store, self._scope, self.id, checkpoint)
            finally:
                self._reset()

    async def fold_calls(self, *, after: str = "", limit: int = 100) -> list[FoldCall]:
        """Return a page of the requests that folds (compactions) sent to a model, by checkpoint id, with usage."""
        return await self._folds.calls(after=after, limit=limit)

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tokens: int | None = None,
        within: Within = ALL_ENTRIES,
    ) -> list[Recalled]:
        """Return the entries of this conversation that match the query, best first, whether folded (compacted) or not.

        Messages hidden by `clear()` are left out; `Memory.search` finds them. With `tokens` (instead of `limit`),
        return as many as fit, in the order of the log and with their neighbours: the `recalled_text` of the result has
        at most `tokens` tokens. `within` restricts the matches (not the neighbours added to them) by role, tool, turn,
        time, or file path mentioned in the text.
        """
        check_type("query", query, (str,), 'recall("what to find")')
        with self.config.meter.span("retrieval turnfold", self.id, RETRIEVAL) as note:
            found = await self._recaller.recall(query, limit=limit, tokens=tokens, within=within)
            note(lambda: recall_attributes(len(found)))
        return found

    async def index_meaning(
        self, on_progress: Callable[[int, int], None] | None = None
    ) -> MeaningStatus:
        """Compute the embedding vectors for recall by meaning now, instead of in the background with the next recall.

        `on_progress(entries done, entries in all)` is called after each block.
        """
        if self._meanings is None:
            raise InvalidOption(
                "this memory has no embedder: create it with Memory(..., embedder=LocalEmbedder())"
            )
        self._meanings.follow(self._cache.history)
        return await self._meanings.build(on_progress)

    async def pin(self, content: str | Entry = "", *, seq: int = 0, key: str = "") -> str:
        """Show a text word for word in every call from the next user turn on; returns the key for `unpin()`.

        Given an entry or its `seq`, the words of that entry are pinned. They are shown with its number and speaker, and
        the pin is removed when the entry is erased.
        """
        if isinstance(content, Entry):
            if seq not in (0, content.seq):
                raise InvalidOption(
                    f"seq={seq} is not the seq of the given entry, {content.seq}: leave seq= out"
                )
            return await self._pins.pin_entry(content.seq, key, content.message)
        if not seq:
            return await self._pins.pin(content, key)
        if content:
            raise InvalidOption(f"give a text or seq={seq} to pin, not both")
        return await self._pins.pin_entry(seq, key)

    async def unpin(self, key: str) -> bool:
        """Stop showing a pinned text from the next user turn on; return False if nothing is pinned under the key."""
        return await self._pins.unpin(key)

    async def pins(self) -> dict[str, str]:
        """Return the texts that are pinned now, by key, oldest first."""
        return await self._pins.current()

    async def rules(self, *, ended: bool = False) -> list[StandingRule]:
        """Return the user's statements that still apply: rules, decisions, preferences, open tasks, facts.

        They are quoted from the user's messages word for word, in the order in which they were said. Text of a tool, a
        document or the model never becomes a rule. With `ended`, also return rules that were replaced, done or dropped.
        """
        async with self._lock:
            return await (self._rules.all() if ended else self._rules.active())

    async def add_rule(self, text: str, *, kind: RuleKind = "rule") -> StandingRule:
        """Add a rule that was not said in the conversation; contexts show it from now on."""
        text = await self._redact_text(text)
        async with self._lock:
            return await self._rules.add(text, kind)

    async def drop_rule(self, rule: str) -> StandingRule:
        """Drop the active rule with this id (`rule.id`); raises `NotFound` if there is none."""
        check_type("rule", rule, (str,), "drop_rule(rule.id)")
        async with self._lock:
            return await self._rules.drop(rule)

    async def history(self, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the log entries with seq above `after`, oldest first, whether folded (compacted) or not.

        Returns all of them, or at most `limit`.
        """
        if limit is not None:
            return await self._store.read(self._scope, self.id, after=after, limit=limit)
        entries = all_entries(self._store, self._scope, self.id, after=after)
        return [entry async for entry in entries]

    async def turn(self, number: int) -> list[Entry]:
        """Return the entries of one turn, whether folded (compacted) or not.

        Turn 0 is everything before the first user message.
        """
        check_type("number", number, (int,), "turn(1), the number of a turn")
        return await self._store.read_turn(self._scope, self.id, number)

    async def by_client_id(self, client_ids: str | Iterable[str]) -> list[Entry]:
        """Return the entries stored under a client id, or under any of several, in log order.

        Unknown ids are skipped, so the result may be shorter than `client_ids`, or empty. An id given twice counts
        once. Several messages that one `add()` stored under the id "a" have the ids "a.1", "a.2" and so on.
        """
        return await self._store.find(self._scope, self.id, list_client_ids(client_ids))

    async def calls(self, *, after: str = "", limit: int = 100) -> list[Manifest]:
        """Return the reports of up to `limit` model calls of this conversation after the call `after`, oldest first."""
        return await self._calls.page(after=after, limit=limit)

    async def explain(self, call: str | int | None = None) -> Explanation:
        """Return what a model call sent and why, rebuilt from the log.

        `call` is its name (`session.calls()[0].call`), or its number, from 1, as `turnfold explain` shows it. By
        default it is the last call of this session object, or the newest stored one if this object made none;
        `"@last"` is always the newest stored one. Raises `NotFound` if there is no such call.
        """
        if call is None:
            call = self.last_call or LAST_CALL
        return await self._calls.explain(await self._named(call))

    async def diff(self, before: str | int, after: str | int) -> Difference:
        """Compare the contexts of two calls: messages, tokens by section, and why they differ.

        `before` and `after` are names or numbers of calls, or `"@last"`, as for `explain`.
        """
        first, second = await self._named(before), await self._named(after)
        return compare(await self._calls.explain(first), await self._calls.explain(second))

    async def _named(self, call: str | int | None) -> str:
        """Return the name of a call that is given by its name, its number or `"@last"`."""

        def page(after: str) -> Awaitable[list[Manifest]]:
            return self.calls(after=after, limit=_CALLS)

        if call == LAST_CALL:
            return await newest_call(page, (await self.status()).entries, self.id)
        if isinstance(call, int):
            return await numbered_call(page, call, self.id)
        return self._call_name(call)

    async def record_usage(self, usage: object, *, call: str | int | None = None) -> Manifest:
        """Store the token usage that the provider reported for a call, and return the call's manifest (report).

        `usage` is an SDK's response, its usage object, or a `Usage`. `call` is the call's name, or its number, from 1
        for the oldest; by default the last call of this session object.
        """
        reported = Usage.of(usage)
        manifest = await self._calls.record_usage(await self._named(call), reported)
        sent_whole = self._sent_whole and not reported.cleared
        whole = reported.input >= manifest.tokens or sent_whole
        if whole:
            await self._calibration.observe(manifest, reported.input)
        if manifest.tokens and whole:
            self.config.meter.observe("count_ratio", reported.input / manifest.tokens)
        self.config.meter.add("cache_misses", int(manifest.cache_missed))
        self._trace_call(manifest, reported)
        return manifest

    def _trace_call(self, manifest: Manifest, usage: Usage) -> None:
        """Record a trace span of a model call, from when its context was built until its usage was reported."""
        tracer = self.config.meter.tracer
        if tracer is None:
            return
        wired = manifest.wired
        name, attributes = model_call(
            usage,
            call=manifest.call,
            model=manifest.model,
            wire_format=wired.provider if wired else "",
        )
        ended = self.config.clock()
        tracer.model_call(name, self.id, attributes, began=manifest.created, ended=ended)

    async def status(self) -> SessionStatus:
        """Return the numbers of entries, turns and tokens, the live checkpoint (summary), and the state of folding."""
        async with self._lock:
            cache = self._cache
            await cache.refresh()
            folding = await self._folds.status()
            head = cache.head
            return SessionStatus(
                conversation=self.id,
                mode=await self._folds.mode(cache.shown_checkpoint, cache.stand_in),
                entries=head.seq,
                turns=head.turns,
                tokens=head.tokens,
                checkpoint=head.checkpoint,
                covered=cache.covered,
                fold_failures=folding.failures,
                fold_error=folding.error,
            )

    async def clear(self) -> int:
        """Hide all messages so far from later contexts; return the last seq (log position) hidden.

        The messages stay in the log. Pins, state and findings (remembered tool results) are kept.
        """
        async with self._lock:
            while True:
                await self._cache.refresh()
                upto, seen = self._cache.head.seq, self._cache.newest
                if upto <= self._cache.cleared or await self._note(
                    CLEARED, ClearedNote(upto=upto), seen
                ):
                    return upto

    async def delete(self) -> Erasure:
        """Erase the conversation and everything derived from it, permanently.

        That includes the data that adapters store under its id, unless the adapter was given another `name`:
        `memory.erase_session` finds that data too. Deleting it again returns a result with `already`; `NotFound` is
        raised if nothing was ever stored.
        """
        async with self._lock:
            return await delete_session(self._store, self._scope, self.id)

    async def erase(self, seq: int, *, reason: str = "") -> Erasure:
        """Erase one message and everything that was made from it, permanently.

        A placeholder with its seq, role, client id, tool names and the `reason` stays, so that the log remains valid.
        Checkpoints that cover it are dropped; its neighbours are folded (compacted) again when a context needs it. Data
        that the application wrote itself (state, snapshots, pinned texts) stays: `mentions` of the result names what
        may contain the text. Copies made before (backups, exports, forks) are not changed. If the erasure was
        interrupted, the same call finishes it.
        """
        check_type("seq", seq, (int,), "erase(entry.seq), of an entry of history()")
        async with self._lock:
            try:
                erasure, placeholder = await erase_entry(
                    self._store, self._scope, self.id, seq, reason=reason
                )
            finally:
                self._reset()
            while placeholder.role == "system":
                await self._cache.refresh()
                shown = [entry.seq for entry in self._cache.system if entry.seq != seq]
                note = SystemNote(seqs=tuple(shown))
                if len(shown) == len(self._cache.system) or await self._note(
                    SYSTEM, note, self._cache.newest
                ):
                    break
            return erasure

    async def fork(self, at: int | None = None, *, conversation: str) -> AsyncSession:
        """Copy everything up to `at` (by default everything) into a new conversation; this one is unchanged."""
        async with self._lock:
            await self._cache.refresh()
            newest = self._cache.head.seq
            upto = newest if at is None else at
            if not newest:
                raise InvalidOption(f"cannot fork {self.id!r}: it has no messages yet")
            if not 0 < upto <= newest:
                raise InvalidOption(f"cannot fork at {upto}: the log has entries 1 to {newest}")
            await copy_conversation(self._store, self._scope, self.id, conversation, upto=upto)
        return AsyncSession(conversation, replace(self.config))

    @property
    def _sent_whole(self) -> bool:
        """True if no prompt was compacted by the provider, which reports too little usage for compacted prompts."""
        contexts = self._builder.last.values()
        if not contexts:
            return self.config.compaction is CompactionMode.TURNFOLD
        return not any(
            each.role == "assistant" and has_compaction(each)
            for context in contexts
            for each in context.messages
        )

    async def _use_calibration(self) -> None:
        """Count tokens with the correction factor of this conversation from now on; needs the session's lock."""
        await self._cache.assume()
        factor = self._calibration.stored
        if factor == self._calibration.used or not can_correct(self.config.counter):
            return
        self._calibration.used = factor
        self._count_with(corrected_counter(self.config.counter, factor))

    async def _use_config(self, config: MemoryConfig) -> None:
        """Use another model, counter and budget from now on."""
        async with self._lock:
            self.config = self._builder.config = config
            self._calls.counter, self._calls.model = config.counter, config.model
            self._calibration = SessionCalibration(config, self._cache)
            self._pins = Pins(self._cache, self._lock, config.budget, config.runtime)
            self._count_with(config.counter)

    def _count_with(self, counter: TokenCounter) -> None:
        self._cache.use_counter(counter)
        self._rules.forget_counts()
        self._folds.folder = replace(self._folds.folder, counter=counter)
        self._builder.last.clear()

    def _reset(self) -> None:
        """Drop all cached state of the conversation, so that the next use reads it from the store."""
        self._cache.reset()
        self._calls.reset()
        self._builder.last.clear()

    def _call_name(self, call: str | None) -> str:
        name = call or self._calls.current
        if not name:
            raise InvalidOption(
                "this session object has made no call yet: give call=, a name from session.calls()"
            )
        if not isinstance(cast("object", name), str):
            raise InvalidOption(
                f"call={name!r} must be the name or the number of a call: session.calls()[-1].call is the name of "
                "the newest"
            )
        return name

    async def _redact_text(self, text: str) -> str:
        if self._redaction is None:
            return text
        return await self._redaction.text(self._scope, self.id, text)

    async def _redact_messages(self, messages: Sequence[Message]) -> tuple[Sequence[Message], int]:
        if self._redaction is None:
            return messages, 0
        return await self._redaction.messages(self._scope, self.id, messages)

    async def _append(self, entries: Sequence[NewEntry], expect: int | None) -> Appended:
        redacted = 0
        if self._redaction is not None:  # before the store does, because the messages are cached
            made, redacted = await self._redact_messages([entry.message for entry in entries])
            ids = [entry.client_id for entry in entries]
            entries = [NewEntry(*each) for each in zip(made, ids, strict=True)]
        done = await self._store.append(self._scope, self.id, entries, expect=expect)
        self._cache.queue_append(done, [entry.message for entry in entries])
        self.config.meter.add("entries", 0 if done.repeated else len(entries))
        return replace(done, redacted=redacted) if redacted else done

    async def _note(self, key: str, note: SystemNote | ClearedNote, seen: tuple[int, int]) -> bool:
        """Store a note that was made from the log up to the entry `seen`, given as (seq, epoch).

        Returns False if the store lost that entry.
        """
        document = write_note(SESSION, key, note)
        try:
            await self._store.put_document(self._scope, self.id, document, seen=seen)
        except Conflict:
            return False
        return True


async def own_head(session: AsyncSession) -> Head | None:
    """Return the log's version; None if others changed the conversation since this session's last context."""
    async with session._lock:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (of this module)
        return await session._cache.own_head()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (of this module)


async def read_ahead(session: AsyncSession) -> None:
    """Read the messages that the last context added to the window for the next fold (compaction), off the event loop.

    The result is cached with the window; nothing is stored.
    """
    cache, rules = session._cache, session._rules  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (of this module)
    window = cache.open_window(session.budget)
    if window is None:
        return
    live, reading, said = cache.shown_checkpoint, window.reading, rules.unread(window)
    messages = window.unread_messages()

    def read() -> None:
        found_rules(said, reading)
        read_for_extract(passages_of(messages), live.text if live else "", reading)

    await session.config.runtime.compute(read)


async def use_model(session: AsyncSession, model: str) -> None:
    """Count tokens as `model` does from now on, if the memory was given neither a model nor a counter.

    If the memory was given no budget either, the budget becomes that of the model. An unknown model changes nothing.
    """
    if model and model != session.config.model:
        given = session._given_config  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (of this module)
        config = with_model(given, model)
        if config is not None:
            await session._use_config(config)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (of this module)

"""Sessions and memories without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from turnfold._argument_hints import MEMORY_ADVICE, SESSION_ADVICE, hinted, hinted_methods
from turnfold.budget import Budget
from turnfold.findings import Findings
from turnfold.memory.call_log import Difference, Explanation, Manifest
from turnfold.memory.config import CompactionMode, FoldMode, RecallMode
from turnfold.memory.context import Tools
from turnfold.memory.embedding_index import MeaningStatus
from turnfold.memory.erasure import ErasureCheck, ErasureReceipt
from turnfold.memory.folding import FoldCall
from turnfold.memory.memory import AsyncMemory, make_config, option_advice
from turnfold.memory.pins_and_state import AsyncState
from turnfold.memory.recall import SearchResult
from turnfold.memory.session import AsyncSession, SessionStatus
from turnfold.memory.summary_writers import Summaries
from turnfold.models import Embedder
from turnfold.records import Checkpoint, Entry
from turnfold.redaction import Detector, Redactor
from turnfold.rules import RuleKind, StandingRule
from turnfold.runtime import Runtime, SyncRuntime, drive
from turnfold.search import ALL_ENTRIES, Recalled, Within
from turnfold.stores import Appended, ConversationInfo, EncryptionKey, Erasure, Health, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import Calibration, TokenCounter
from turnfold.window import Context, Strategy, oldest_first

if TYPE_CHECKING:
    from turnfold.wire import WireFormat
    from turnfold.workspace_snapshots import Snapshots


__all__ = (
    "Memory",
    "Session",
    "State",
)


class State:
    """Session state: JSON values by name that contexts show, shared by all session objects of a conversation.

    Concurrent changes of different names are all kept.
    """

    def __init__(self, awaiting: AsyncState) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncState:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def __setitem__(self, name: str, value: object) -> NoReturn:
        """Refuse `state[name] = value`, which cannot wait for the store."""
        return self._awaiting.__setitem__(name, value)

    def __getitem__(self, name: str) -> NoReturn:
        """Refuse `state[name]`, which cannot wait for the store."""
        return self._awaiting.__getitem__(name)

    def all(self) -> dict[str, object]:
        """Return all values of the session state by name."""
        return drive(self._awaiting.all())

    def get(self, name: str, default: object = None) -> object:
        """Return the value stored under `name`, or `default` if there is none."""
        return drive(self._awaiting.get(name, default))

    def set(self, name: str, value: object) -> None:
        """Store a JSON value under a name, replacing an earlier one; contexts show it from the next user turn on."""
        drive(self._awaiting.set(name, value))

    def update(self, values: Mapping[str, object]) -> None:
        """Store several JSON values by name at once; other names keep their values.

        Raises `InvalidRecord` if a value is not JSON.
        """
        drive(self._awaiting.update(values))

    def remove(self, name: str) -> bool:
        """Remove the value stored under a name; return False if there was none."""
        return drive(self._awaiting.remove(name))


@hinted_methods(SESSION_ADVICE)
class Session:
    """One conversation: appends messages and builds contexts, for applications without an event loop."""

    def __init__(self, awaiting: AsyncSession) -> None:
        self._awaiting = awaiting

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return self._awaiting.id

    @property
    def awaiting(self) -> AsyncSession:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def __repr__(self) -> str:
        return repr(self._awaiting).removeprefix("Async")

    @property
    def counter(self) -> TokenCounter:
        """The token counter of this session; an estimate is corrected by what the provider reported."""
        return self._awaiting.counter

    @property
    def budget(self) -> Budget:
        """The budget (token limits) of calls without a budget of their own."""
        return self._awaiting.budget

    @property
    def store(self) -> Store:
        """The store of this session's memory, for applications that keep documents of their own next to the log."""
        return self._awaiting.store

    @property
    def scope(self) -> Scope:
        """The scope (tenant) whose data this session may access."""
        return self._awaiting.scope

    @property
    def state(self) -> State:
        """The session's state: JSON values by name, shared by all handles on this conversation."""
        return State(self._awaiting.state)

    @property
    def findings(self) -> Findings:
        """The findings (remembered tool results) of this conversation, by tool and arguments."""
        return Findings(self._awaiting.findings)

    @property
    def snapshots(self) -> Snapshots:
        """The workspace snapshots of this conversation: take, read back and compare them, turn by turn."""
        from turnfold.workspace_snapshots import Snapshots

        return Snapshots(self._awaiting.snapshots)

    @property
    def held_bytes(self) -> int:
        """Approximate memory of this session object in bytes: its windows, and cached snapshots and vectors."""
        return self._awaiting.held_bytes

    @property
    def last_call(self) -> str:
        """Name of the last call that this task or thread made through this session object.

        If it made none, the last call of the session object; empty if that made none either.
        """
        return self._awaiting.last_call

    def system(self, content: object) -> Appended | None:
        """Set the system message of later contexts, replacing the current one.

        Returns None if the current one is the same.
        """
        return drive(self._awaiting.system(content))

    def user(self, content: object, *, name: str | None = None, client_id: str = "") -> Appended:
        """Append a user message, which begins a turn.

        An empty message is stored, but not sent to providers that refuse it.
        """
        return drive(self._awaiting.user(content, name=name, client_id=client_id))

    def assistant(
        self,
        content: object = None,
        *,
        tool_calls: Iterable[object] | None = None,
        name: str | None = None,
        client_id: str = "",
    ) -> Appended:
        """Append the model's answer, with the tool calls it made."""
        return drive(
            self._awaiting.assistant(content, tool_calls=tool_calls, name=name, client_id=client_id)
        )

    def tool(
        self, content: object, *, tool_call_id: str, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """Append the result of the tool call `tool_call_id`.

        If no assistant message before it has a call with this id, the result stays in the log and is sent to no model:
        `context()` logs a warning, and its receipt lists the result as dropped.
        """
        return drive(
            self._awaiting.tool(content, tool_call_id=tool_call_id, name=name, client_id=client_id)
        )

    def add(self, messages: object, *, client_id: str = "", expect: int | None = None) -> Appended:
        """Append one message, or several atomically. Durable on return.

        Takes messages in any shape, and the objects of the SDKs of OpenAI, Anthropic and Google: messages and whole
        responses. The usage of a response is recorded with the last call of this task, as by `record_usage()`.

        With `client_id`, a retry stores nothing twice. Several messages get this id with a number appended; a
        `NewEntry` has an id of its own. `expect` is the newest seq the caller has seen; raises `Conflict` if the log
        ends with another seq.
        """
        return drive(self._awaiting.add(messages, client_id=client_id, expect=expect))

    def context(
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
        return drive(
            self._awaiting.context(
                query,
                budget=budget,
                tools=tools,
                recall=recall,
                notes=notes,
                workspace=workspace,
                to=to,
                max_tokens=max_tokens,
            )
        )

    def preview(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Tools | None = None,
        to: WireFormat | None = None,
    ) -> Context:
        """Build the context that `context()` would build now, but store nothing and do not fold (compact)."""
        return drive(self._awaiting.preview(query, budget=budget, tools=tools, to=to))

    def fold(
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
        return drive(
            self._awaiting.fold(summary=summary, keep_turns=keep_turns, on_progress=on_progress)
        )

    def checkpoints(self, *, dropped: bool = False) -> list[Checkpoint]:
        """Return all checkpoints (fold summaries), oldest first; the last is in use.

        `dropped=True` returns the dropped ones instead.
        """
        return drive(self._awaiting.checkpoints(dropped=dropped))

    def drop_checkpoint(self, checkpoint: str) -> list[Checkpoint]:
        """Drop the checkpoint (summary) with this id and all later ones; return the dropped checkpoints, oldest first.

        The conversation returns to the checkpoint before it, or to none: later contexts show the entries themselves, or
        fold them again. The commit of a running fold is refused. Dropped checkpoints are kept for audit
        (`checkpoints(dropped=True)`) and never shown or found. Raises `NotFound` if there is no such checkpoint.
        """
        return drive(self._awaiting.drop_checkpoint(checkpoint))

    def fold_calls(self, *, after: str = "", limit: int = 100) -> list[FoldCall]:
        """Return a page of the requests that folds (compactions) sent to a model, by checkpoint id, with usage."""
        return drive(self._awaiting.fold_calls(after=after, limit=limit))

    def recall(
        self, query: str, *, limit: int = 5, tokens: int | None = None, within: Within = ALL_ENTRIES
    ) -> list[Recalled]:
        """Return the entries of this conversation that match the query, best first, whether folded (compacted) or not.

        Messages hidden by `clear()` are left out; `Memory.search` finds them. With `tokens` (instead of `limit`),
        return as many as fit, in the order of the log and with their neighbours: the `recalled_text` of the result has
        at most `tokens` tokens. `within` restricts the matches (not the neighbours added to them) by role, tool, turn,
        time, or file path mentioned in the text.
        """
        return drive(self._awaiting.recall(query, limit=limit, tokens=tokens, within=within))

    def index_meaning(self, on_progress: Callable[[int, int], None] | None = None) -> MeaningStatus:
        """Compute the embedding vectors for recall by meaning now, instead of in the background with the next recall.

        `on_progress(entries done, entries in all)` is called after each block.
        """
        return drive(self._awaiting.index_meaning(on_progress))

    def pin(self, content: str | Entry = "", *, seq: int = 0, key: str = "") -> str:
        """Show a text word for word in every call from the next user turn on; returns the key for `unpin()`.

        Given an entry or its `seq`, the words of that entry are pinned. They are shown with its number and speaker, and
        the pin is removed when the entry is erased.
        """
        return drive(self._awaiting.pin(content, seq=seq, key=key))

    def unpin(self, key: str) -> bool:
        """Stop showing a pinned text from the next user turn on; return False if nothing is pinned under the key."""
        return drive(self._awaiting.unpin(key))

    def pins(self) -> dict[str, str]:
        """Return the texts that are pinned now, by key, oldest first."""
        return drive(self._awaiting.pins())

    def rules(self, *, ended: bool = False) -> list[StandingRule]:
        """Return the user's statements that still apply: rules, decisions, preferences, open tasks, facts.

        They are quoted from the user's messages word for word, in the order in which they were said. Text of a tool, a
        document or the model never becomes a rule. With `ended`, also return rules that were replaced, done or dropped.
        """
        return drive(self._awaiting.rules(ended=ended))

    def add_rule(self, text: str, *, kind: RuleKind = "rule") -> StandingRule:
        """Add a rule that was not said in the conversation; contexts show it from now on."""
        return drive(self._awaiting.add_rule(text, kind=kind))

    def drop_rule(self, rule: str) -> StandingRule:
        """Drop the active rule with this id (`rule.id`); raises `NotFound` if there is none."""
        return drive(self._awaiting.drop_rule(rule))

    def history(self, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the log entries with seq above `after`, oldest first, whether folded (compacted) or not.

        Returns all of them, or at most `limit`.
        """
        return drive(self._awaiting.history(after=after, limit=limit))

    def turn(self, number: int) -> list[Entry]:
        """Return the entries of one turn, whether folded (compacted) or not.

        Turn 0 is everything before the first user message.
        """
        return drive(self._awaiting.turn(number))

    def by_client_id(self, client_ids: str | Iterable[str]) -> list[Entry]:
        """Return the entries stored under a client id, or under any of several, in log order.

        Unknown ids are skipped, so the result may be shorter than `client_ids`, or empty. An id given twice counts
        once. Several messages that one `add()` stored under the id "a" have the ids "a.1", "a.2" and so on.
        """
        return drive(self._awaiting.by_client_id(client_ids))

    def calls(self, *, after: str = "", limit: int = 100) -> list[Manifest]:
        """Return the reports of up to `limit` model calls of this conversation after the call `after`, oldest first."""
        return drive(self._awaiting.calls(after=after, limit=limit))

    def explain(self, call: str | int | None = None) -> Explanation:
        """Return what a model call sent and why, rebuilt from the log.

        `call` is its name (`session.calls()[0].call`), or its number, from 1, as `turnfold explain` shows it. By
        default it is the last call of this session object, or the newest stored one if this object made none;
        `"@last"` is always the newest stored one. Raises `NotFound` if there is no such call.
        """
        return drive(self._awaiting.explain(call))

    def diff(self, before: str | int, after: str | int) -> Difference:
        """Compare the contexts of two calls: messages, tokens by section, and why they differ.

        `before` and `after` are names or numbers of calls, or `"@last"`, as for `explain`.
        """
        return drive(self._awaiting.diff(before, after))

    def record_usage(self, usage: object, *, call: str | int | None = None) -> Manifest:
        """Store the token usage that the provider reported for a call, and return the call's manifest (report).

        `usage` is an SDK's response, its usage object, or a `Usage`. `call` is the call's name, or its number, from 1
        for the oldest; by default the last call of this session object.
        """
        return drive(self._awaiting.record_usage(usage, call=call))

    def status(self) -> SessionStatus:
        """Return the numbers of entries, turns and tokens, the live checkpoint (summary), and the state of folding."""
        return drive(self._awaiting.status())

    def clear(self) -> int:
        """Hide all messages so far from later contexts; return the last seq (log position) hidden.

        The messages stay in the log. Pins, state and findings (remembered tool results) are kept.
        """
        return drive(self._awaiting.clear())

    def delete(self) -> Erasure:
        """Erase the conversation and everything derived from it, permanently.

        That includes the data that adapters store under its id, unless the adapter was given another `name`:
        `memory.erase_session` finds that data too. Deleting it again returns a result with `already`; `NotFound` is
        raised if nothing was ever stored.
        """
        return drive(self._awaiting.delete())

    def erase(self, seq: int, *, reason: str = "") -> Erasure:
        """Erase one message and everything that was made from it, permanently.

        A placeholder with its seq, role, client id, tool names and the `reason` stays, so that the log remains valid.
        Checkpoints that cover it are dropped; its neighbours are folded (compacted) again when a context needs it. Data
        that the application wrote itself (state, snapshots, pinned texts) stays: `mentions` of the result names what
        may contain the text. Copies made before (backups, exports, forks) are not changed. If the erasure was
        interrupted, the same call finishes it.
        """
        return drive(self._awaiting.erase(seq, reason=reason))

    def fork(self, at: int | None = None, *, conversation: str) -> Session:
        """Copy everything up to `at` (by default everything) into a new conversation; this one is unchanged."""
        return Session(drive(self._awaiting.fork(at, conversation=conversation)))


@hinted_methods(MEMORY_ADVICE)
class Memory:
    """Conversations in a store, for applications without an event loop.

    Where conversations are kept:

    - `store`: address of the store, `"sqlite:///chat.db"` or `"postgresql://..."`, or an open store. The default
      `"sqlite://"` keeps everything in this process only.
    - `cache`: address of a Redis or Valkey in front of the store, `"redis://..."`.
    - `scope`: the tenant; memories of different scopes share nothing.

    What a call may spend:

    - `model`: name of the model; its context window is the default budget, and its tokens are counted exactly.
    - `budget`: the `Budget` of a call; by default 75 % of the context window of `model`, or 12,000 tokens without one.
    - `counter`: counts tokens instead of the counter of `model`.
    - `strategy`: chooses what leaves a full window; `oldest_first` or another of `turnfold.window`.

    How older turns are folded (compacted into a summary):

    - `summarizer`: writes the summaries: a model's client (the agent's own is cheapest: its prompt is in the provider's
      cache), a function from prompt to text, or a `SummaryWriter`. By default important sentences are extracted,
      without a model.
    - `fold`: `"inline"` folds in `context()`, before it returns; `"background"` folds while the application continues;
      `"manual"` only when `session.fold()` is called. By default `"background"` with a summarizer, `"inline"` without.
    - `threshold`: share of the budget at which folding is due.
    - `keep_turns`: newest turns that stay as they are if the budget allows.
    - `retries`, `backoff`: further attempts of one background fold after a failure, and the seconds before the first of
      them, doubled each time. A later call at which a fold is due tries again, with its own attempts.
    - `stand_in`: show an extract of messages that have left the window until their summary is written.
    - `fold_lease`: seconds after which another process may take over a fold whose process died.
    - `compaction`: `"turnfold"` folds as described here. `"native"` asks the provider to compact (Anthropic and OpenAI
      Responses; others are refused), `"auto"` asks where provider and model are known to compact. turnfold then also
      folds the turns that the provider compacted, for other models and in case the provider refuses its own item later.

    How earlier entries are recalled:

    - `recall`: `"automatic"` shows what matches the user's last message, in room that nothing else uses; `"off"`
      recalls only with a query, `"always"` also shows weak matches.
    - `embedder`: recalls by meaning too, for example `turnfold.models.LocalEmbedder()`.
    - `rules`: extract rules, decisions, preferences, tasks and facts from users' messages, and show them once these
      messages have left the window. With `False` only rules of `add_rule()` are shown.
    - `time_zone`: IANA name of the zone in which a model is shown when something was said, `"Asia/Shanghai"`.

    How secrets are kept out of the store:

    - `redact`: replaces secrets and personal data with labels before anything is stored:
      `turnfold.redaction.find_secrets`, another function from text to the secrets in it, or a `Redactor` with a key.

    How stored data is encrypted:

    - `encryption_key`: encrypts messages, summaries and documents before they reach the store or the cache. 32 bytes,
      or their hexadecimal or base64 form; after a rotation, several: the first encrypts. Needs the extra `encryption`.

    For operation and tests:

    - `meter`: collects the metrics.
    - `clock`: returns microseconds since 1970.
    """

    @hinted("Memory", option_advice)
    def __init__(
        self,
        store: str | Store = "sqlite://",
        *,
        cache: str | None = None,
        scope: Scope | str = "default",
        model: str = "",
        budget: Budget | None = None,
        counter: TokenCounter | None = None,
        summarizer: Summaries | None = None,
        fold: FoldMode | str | None = None,
        threshold: float = 0.75,
        keep_turns: int = 8,
        retries: int = 3,
        backoff: float = 1.0,
        stand_in: bool = True,
        fold_lease: float = 120.0,
        compaction: CompactionMode | str = CompactionMode.TURNFOLD,
        recall: RecallMode | str = RecallMode.AUTOMATIC,
        rules: bool = True,
        time_zone: str = "UTC",
        embedder: Embedder | None = None,
        redact: Redactor | Detector | None = None,
        encryption_key: EncryptionKey | Sequence[EncryptionKey] | None = None,
        strategy: Strategy = oldest_first,
        meter: Meter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        config = make_config(
            store,
            SyncRuntime(),
            blocking=True,
            cache=cache,
            scope=scope,
            model=model,
            budget=budget,
            counter=counter,
            summarizer=summarizer,
            fold=fold,
            threshold=threshold,
            keep_turns=keep_turns,
            retries=retries,
            backoff=backoff,
            stand_in=stand_in,
            fold_lease=fold_lease,
            compaction=compaction,
            recall=recall,
            rules=rules,
            time_zone=time_zone,
            embedder=embedder,
            redact=redact,
            encryption_key=encryption_key,
            strategy=strategy,
            meter=meter,
            clock=clock,
        )
        self._awaiting = AsyncMemory.over(config, owns=isinstance(store, str))

    @property
    def awaiting(self) -> AsyncMemory:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def __repr__(self) -> str:
        return repr(self._awaiting).removeprefix("Async")

    @property
    def store(self) -> Store:
        """The store, for applications that keep documents of their own next to the sessions."""
        return self._awaiting.store

    @property
    def scope(self) -> Scope:
        """The scope (tenant) whose data this memory may access."""
        return self._awaiting.scope

    @property
    def meter(self) -> Meter:
        """The metrics of this memory."""
        return self._awaiting.meter

    @property
    def calibration(self) -> Calibration:
        """The measured difference between turnfold's and providers' token counts; see `turnfold.tokens.calibrated`."""
        return self._awaiting.calibration

    @property
    def runtime(self) -> Runtime:
        """The runtime, with which this memory locks, waits and runs background work; for code that extends it."""
        return self._awaiting.runtime

    @property
    def budget(self) -> Budget:
        """The budget (token limits) of a call that is given no budget of its own."""
        return self._awaiting.budget

    @property
    def recall(self) -> RecallMode:
        """The recall mode (when contexts show earlier entries) of calls that are given no mode of their own."""
        return self._awaiting.recall

    def session(self, conversation: str) -> Session:
        """Return the session object of a conversation; the conversation need not exist yet.

        An id that begins with the id of its user and a slash (`user-42/trip`) is erased by `erase_user("user-42")`.
        """
        return Session(self._awaiting.session(conversation))

    def conversations(
        self, *, after: str = "", limit: int = 100, internal: bool = False
    ) -> list[ConversationInfo]:
        """Return a page of the conversations of this scope, in id order.

        What adapters keep for themselves (threads of LangGraph, for example) is listed only with `internal`.
        """
        return drive(self._awaiting.conversations(after=after, limit=limit, internal=internal))

    def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[SearchResult]:
        """Search the messages of this scope (tenant) or of one conversation; return the best matches first.

        `within` restricts the search by role, tool, turn, time, or file path mentioned in the text.
        """
        return drive(
            self._awaiting.search(query, conversation=conversation, within=within, limit=limit)
        )

    def delete(self, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it, permanently.

        That includes the data that adapters store under its id, unless the adapter was given another `name`:
        `erase_session` finds that data too. Deleting it again returns a result with `already`; `NotFound` is raised if
        there never was such a conversation.
        """
        return drive(self._awaiting.delete(conversation))

    def erase_session(self, conversation: str) -> ErasureReceipt:
        """Erase a conversation, and return an erasure receipt that can be checked and that lists the remaining forks.

        Raises `NotFound` if there never was such a conversation.
        """
        return drive(self._awaiting.erase_session(conversation))

    def erase_user(self, user: str) -> ErasureReceipt:
        """Erase all conversations of a user and their forks; raises `NotFound` if there are none.

        A conversation is the user's if its id is the user's id or begins with it and a slash (`user-42/trip`), or if it
        has this `user_id` in the metadata of a message or as the owner of a `ShortMemory`.
        """
        return drive(self._awaiting.erase_user(user))

    def erase_tenant(self, tenant: str) -> ErasureReceipt:
        """Erase all conversations of this memory's tenant, whose name must be passed as a confirmation.

        Raises `NotFound` if there are none.
        """
        return drive(self._awaiting.erase_tenant(tenant))

    def verify_erasure(self, receipt: ErasureReceipt) -> ErasureCheck:
        """Read the store again, and check that it has none of the conversations that an erasure receipt names.

        A receipt that names no conversation is never `ok`.
        """
        return drive(self._awaiting.verify_erasure(receipt))

    def health(self) -> Health:
        """Return the health of the store: whether it can serve requests, and details."""
        return drive(self._awaiting.health())

    def drain(self) -> None:
        """Wait for the folds (compactions) that are running in the background; later contexts may start others."""
        drive(self._awaiting.drain())

    def close(self, *, cancel: bool = False) -> None:
        """Wait for running folds (compactions), or cancel them, and close the store. Closing twice is allowed.

        A fold that failed is not tried again: a later memory folds what is left.
        """
        drive(self._awaiting.close(cancel=cancel))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drive(self._awaiting.__aexit__(kind, error, trace))

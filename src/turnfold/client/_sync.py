"""A memory behind a service, for use without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import NoReturn, Self

from turnfold.api import Provider
from turnfold.budget import Budget
from turnfold.client.conversion import RemoteContext
from turnfold.client.memory import AsyncRemoteMemory
from turnfold.client.session import AsyncRemoteFindings, AsyncRemoteSession, AsyncRemoteState
from turnfold.client.transport import open_sender
from turnfold.client.workspace_snapshots import AsyncRemoteSnapshots
from turnfold.findings import FindingRule
from turnfold.memory import (
    Difference,
    ErasureCheck,
    ErasureReceipt,
    Explanation,
    Manifest,
    RecallMode,
    SearchResult,
    SessionStatus,
)
from turnfold.records import Checkpoint, Entry, Finding, Snapshot
from turnfold.rules import RuleKind, StandingRule
from turnfold.runtime import drive
from turnfold.search import ALL_ENTRIES, Recalled, Within
from turnfold.stores import Appended, ConversationInfo, Erasure, Health
from turnfold.wire import WireFormat
from turnfold.workspace_snapshots import (
    RecalledContext,
    RecallRequest,
    SnapshotDiff,
    SnapshotHead,
    SnapshotHit,
    TakenSnapshot,
)

__all__ = (
    "RemoteFindings",
    "RemoteMemory",
    "RemoteSession",
    "RemoteSnapshots",
    "RemoteState",
)


class RemoteSnapshots:
    """Workspace snapshots of one conversation, by turn."""

    def __init__(self, awaiting: AsyncRemoteSnapshots) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncRemoteSnapshots:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Store a snapshot, durable on return. Without a turn it gets the turn after the newest snapshot.

        Storing the same snapshot of a turn again changes nothing; storing a different one raises `Conflict`.
        """
        return drive(self._awaiting.take(snapshot))

    def get(self, turn: int) -> Snapshot | None:
        """Return the whole snapshot of a turn; None if the turn has no snapshot."""
        return drive(self._awaiting.get(turn))

    def before(self, turn: int) -> Snapshot | None:
        """Return the newest snapshot before a turn, with all its contents; None if there is none."""
        return drive(self._awaiting.before(turn))

    def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """List snapshots of turns after `after` without their content, oldest first."""
        return drive(self._awaiting.heads(after=after, limit=limit))

    def newest(self) -> int:
        """Return the newest turn that has a snapshot; 0 if there is none."""
        return drive(self._awaiting.newest())

    def files(self, turn: int) -> dict[str, int]:
        """Return the files of a snapshot with their sizes in bytes, without reading them."""
        return drive(self._awaiting.files(turn))

    def read(self, turn: int, path: str) -> str | bytes:
        """Read one file of a turn's snapshot; raises `InvalidOption` if there is no such snapshot or file."""
        return drive(self._awaiting.read(turn, path))

    def diff(self, before: int, after: int, *, path: str = "", tokens: int = 2000) -> SnapshotDiff:
        """Compare the workspaces of two turns, or one file if `path` names it; `text` has at most `tokens`.

        Unchanged files are not read.
        """
        return drive(self._awaiting.diff(before, after, path=path, tokens=tokens))

    def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """Find the turns whose new content or summary contains the words, best first."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """Recall snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        return drive(self._awaiting.recall(request, tokens=tokens))


class RemoteState:
    """Session state: JSON values by name, shared by all sessions of a conversation.

    Two writers that change different names do not overwrite each other.
    """

    def __init__(self, awaiting: AsyncRemoteState) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncRemoteState:
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
        """Store several JSON values by name at once; other names keep their values."""
        drive(self._awaiting.update(values))

    def remove(self, name: str) -> bool:
        """Remove the value stored under a name; return False if there was none."""
        return drive(self._awaiting.remove(name))


class RemoteFindings:
    """Findings (remembered tool results) of one conversation of a service, by tool and arguments."""

    def __init__(self, awaiting: AsyncRemoteFindings) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncRemoteFindings:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """Finding rules of this session object, by tool name: which tool results are remembered, and how long.

        Results of other tools are remembered only by calling `note`.
        """
        return self._awaiting.rules

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Use these finding rules from now on, and store at most `most` findings; each process sets its own rules."""
        self._awaiting.use(rules, most=most)

    def note(
        self,
        call: object,
        result: object,
        *,
        score: float | None = None,
        seq: int = 0,
        asked: int | None = None,
    ) -> Finding | None:
        """Remember the result of a tool call; returns None for an error, and if the tool's finding rule rejects it.

        `call` is a `ToolCall` or a tool call as a provider writes it. `seq` is the log entry with the result (0 if
        there is none); while that entry is in the window, the finding is not shown again. `asked` is the newest seq
        when the call was made (default: now). The finding is part of contexts from the next user turn on.
        """
        return drive(self._awaiting.note(call, result, score=score, seq=seq, asked=asked))

    def get(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> Finding | None:
        """Return the remembered result of a call of this tool with exactly these arguments.

        Returns None if there is no valid one.
        """
        return drive(self._awaiting.get(tool, arguments))

    def serve(self, call: object) -> Finding | None:
        """Return a remembered result to use instead of calling the tool; None if there is no valid or allowed one.

        `turnfold.findings.served_text` renders it as a tool result that names its origin.
        """
        return drive(self._awaiting.serve(call))

    def ran(self, tool: str) -> None:
        """Tell the service, before and after a run, that a tool runs.

        The findings (remembered tool results) that depend on the tool become stale.
        """
        drive(self._awaiting.ran(tool))

    def list(self) -> tuple[Finding, ...]:
        """Return the valid findings: tables of contents first, then by relevance, then newest first."""
        return drive(self._awaiting.list())

    def text(self, *, tokens: int, question: str = "") -> str:
        """Return the valid findings (remembered tool results) as fenced text (marked as data).

        The text has at most `tokens`, and is cut at line ends.

        Findings related to `question` come first. Only for applications that build their own prompt: `context()`
        includes the findings.
        """
        return drive(self._awaiting.text(tokens=tokens, question=question))

    def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Delete the stored result of a call, or all results of a tool if `arguments` is None.

        Returns the number deleted.
        """
        return drive(self._awaiting.drop(tool, arguments))

    def clear_query(self) -> int:
        """Delete all findings (remembered tool results) except tables of contents; return the number deleted.

        Call this method when a question is answered. Tables of contents are useful for later questions too.
        """
        return drive(self._awaiting.clear_query())

    def clear(self) -> int:
        """Delete all findings (remembered tool results) of the conversation; return the number deleted."""
        return drive(self._awaiting.clear())


class RemoteSession:
    """HTTP client of one conversation of a service, with the methods of `AsyncSession`."""

    def __init__(self, awaiting: AsyncRemoteSession) -> None:
        self._awaiting = awaiting

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return self._awaiting.id

    @property
    def awaiting(self) -> AsyncRemoteSession:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    @property
    def state(self) -> RemoteState:
        """Session state: JSON values by name, shared by all sessions of this conversation."""
        return RemoteState(self._awaiting.state)

    @property
    def findings(self) -> RemoteFindings:
        """The findings (remembered tool results) of this conversation, by tool and arguments."""
        return RemoteFindings(self._awaiting.findings)

    @property
    def snapshots(self) -> RemoteSnapshots:
        """Workspace snapshots of this conversation, by turn."""
        return RemoteSnapshots(self._awaiting.snapshots)

    @property
    def last_call(self) -> str:
        """Id of the last call made through this session object; empty before the first."""
        return self._awaiting.last_call

    def system(self, content: object) -> Appended | None:
        """Set the system message of later contexts, replacing the current one.

        Returns None if the current one is the same.
        """
        return drive(self._awaiting.system(content))

    def user(self, content: object, *, name: str | None = None, client_id: str = "") -> Appended:
        """Append a user message; starts a turn."""
        return drive(self._awaiting.user(content, name=name, client_id=client_id))

    def assistant(
        self,
        content: object = None,
        *,
        tool_calls: Iterable[object] | None = None,
        name: str | None = None,
        client_id: str = "",
    ) -> Appended:
        """Append an assistant message with the tool calls it makes."""
        return drive(
            self._awaiting.assistant(content, tool_calls=tool_calls, name=name, client_id=client_id)
        )

    def tool(
        self, content: object, *, tool_call_id: str, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """Append the result of the tool call `tool_call_id`."""
        return drive(
            self._awaiting.tool(content, tool_call_id=tool_call_id, name=name, client_id=client_id)
        )

    def add(self, messages: object, *, client_id: str = "", expect: int | None = None) -> Appended:
        """Append one message, or several atomically. Durable on return.

        Takes messages in any shape, and the objects of the SDKs of OpenAI, Anthropic and Google: messages and whole
        responses. The usage of a response is recorded with the last call of this handle, as by `record_usage()`.

        A retry with the same `client_id` stores nothing twice. Several messages get the ids `<client_id>.1`,
        `<client_id>.2` and so on; `NewEntry` values have their own. `expect` is the newest seq the caller has seen:
        `Conflict` is raised if the log has newer entries.
        """
        return drive(self._awaiting.add(messages, client_id=client_id, expect=expect))

    def context(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        recall: RecallMode | str | None = None,
        notes: Mapping[str, str] | None = None,
        workspace: str = "",
        to: Provider | WireFormat | None = None,
        max_tokens: int = 0,
    ) -> RemoteContext:
        """Build the context of the next model call, within the budget, and store its manifest (record of the call).

        `budget` replaces the service's budget for this call; `tools` are the tool schemas that the call sends, which
        are counted. `query` recalls folded (compacted) entries that match; `recall` sets when to recall without a
        query. `notes` (text by name) and the `workspace` are shown in this call only, fenced (marked as data), and
        never enter the log.

        With `to` (a module of `turnfold.wire`, or its name) the budget's `max_bytes` limits the request body of that
        provider. `max_tokens` sets a lower token limit than the budget's.
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
        tools: Sequence[Mapping[str, object]] | None = None,
        to: Provider | WireFormat | None = None,
    ) -> RemoteContext:
        """Build the context `context` would return now, without storing anything or folding (compaction)."""
        return drive(self._awaiting.preview(query, budget=budget, tools=tools, to=to))

    def fold(
        self,
        *,
        summary: str | None = None,
        keep_turns: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint | None:
        """Fold (compact) everything before the newest turns now; returns None if there is nothing to fold.

        The newest `keep_turns` turns are not folded; the default is that of the service. With `summary` that text is
        used unchanged, and at least the oldest turn is folded; otherwise the summarizer of the service writes a
        summary, and an error is raised if it fails. `on_progress` is called once, at the end.
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
        """Drop the checkpoint with this id and all checkpoints made from it; return the dropped ones, oldest first.

        The conversation returns to the checkpoint before it, or to none. Dropped checkpoints are kept for audit
        (`checkpoints(dropped=True)`); contexts and searches leave them out. Raises `NotFound` if there is no such id.
        """
        return drive(self._awaiting.drop_checkpoint(checkpoint))

    def recall(
        self, query: str, *, limit: int = 5, tokens: int | None = None, within: Within = ALL_ENTRIES
    ) -> list[Recalled]:
        """Find matching entries of this conversation, best first, folded (compacted) or not.

        With `tokens`, `limit` is ignored: return as many entries as fit that token limit, in log order, with the
        entries next to them. `within` restricts the matches (not the entries next to them) by role, tool, turn, time,
        or file path mentioned in the text.
        """
        return drive(self._awaiting.recall(query, limit=limit, tokens=tokens, within=within))

    def pin(self, content: str | Entry = "", *, seq: int = 0, key: str = "") -> str:
        """Show a text verbatim in every call from the next user turn on; returns the key to unpin it with.

        Given an entry or its `seq`, the text of that entry is pinned, shown with its number and role. Erasing the entry
        removes the pin.
        """
        return drive(self._awaiting.pin(content, seq=seq, key=key))

    def unpin(self, key: str) -> bool:
        """Remove a pin; contexts leave it out from the next user turn on. Returns False if there is no such pin."""
        return drive(self._awaiting.unpin(key))

    def pins(self) -> dict[str, str]:
        """Return the texts that are pinned now, by key, oldest first."""
        return drive(self._awaiting.pins())

    def rules(self, *, ended: bool = False) -> list[StandingRule]:
        """Return the user's statements that still apply: rules, decisions, preferences, open tasks, facts.

        They are quoted from the user's messages, in the order in which they were said. Statements of a tool, a
        document or the model are never included. With `ended`, rules that were replaced, done or dropped are included.
        """
        return drive(self._awaiting.rules(ended=ended))

    def add_rule(self, text: str, *, kind: RuleKind = "rule") -> StandingRule:
        """Add a rule that is in no message of the conversation; contexts show it from now on."""
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

        `call` is its name, or its number, from 1 for the oldest. By default it is the last call of this object, or the
        newest stored one if this object made none; `"@last"` is always the newest stored one.
        """
        return drive(self._awaiting.explain(call))

    def diff(self, before: str | int, after: str | int) -> Difference:
        """Compare the messages that two calls sent; `before` and `after` are names or numbers of calls, or "@last"."""
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

    def erase(self, seq: int, *, reason: str = "") -> Erasure:
        """Erase one message and everything that was made from it, permanently.

        A placeholder with the same seq and the `reason` stays. Documents that the application wrote itself stay too:
        `mentions` of the result names those that may contain the text. Existing backups, exports and forks are not
        changed.
        """
        return drive(self._awaiting.erase(seq, reason=reason))

    def delete(self) -> Erasure:
        """Delete the conversation and everything derived from it, permanently; `NotFound` if there is none."""
        return drive(self._awaiting.delete())

    def fork(self, at: int | None = None, *, conversation: str) -> RemoteSession:
        """Copy all entries up to `at` (default: all) to a new conversation; return its session."""
        return RemoteSession(drive(self._awaiting.fork(at, conversation=conversation)))


class RemoteMemory:
    """HTTP client of a service's memory, with the methods of `AsyncMemory`."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        sender = open_sender(
            url, blocking=True, token=token, timeout=timeout, retries=retries, backoff=backoff
        )
        self._awaiting = AsyncRemoteMemory.over(sender)

    @property
    def awaiting(self) -> AsyncRemoteMemory:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def session(self, conversation: str) -> RemoteSession:
        """Return the session object of a conversation, which need not exist yet."""
        return RemoteSession(self._awaiting.session(conversation))

    def conversations(
        self, *, after: str = "", limit: int = 100, internal: bool = False
    ) -> list[ConversationInfo]:
        """List conversations of the token's tenant with an id after `after`, ordered by id.

        What adapters keep for themselves is listed only with `internal`.
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
        """Search all conversations, or one, best results first.

        `within` restricts the search by role, tool, turn, time, or file path mentioned in the text.
        """
        return drive(
            self._awaiting.search(query, conversation=conversation, within=within, limit=limit)
        )

    def delete(self, conversation: str) -> Erasure:
        """Delete a conversation and everything derived from it, permanently; `NotFound` if there is none."""
        return drive(self._awaiting.delete(conversation))

    def erase_session(self, conversation: str) -> ErasureReceipt:
        """Delete a conversation.

        Returns an erasure receipt, which can be verified later and lists the remaining forks.

        Raises `NotFound` if there never was such a conversation.
        """
        return drive(self._awaiting.erase_session(conversation))

    def erase_user(self, user: str) -> ErasureReceipt:
        """Erase all conversations of a user and their forks; raises `NotFound` if there are none.

        A conversation belongs to a user if its id is the user's id or begins with it and a slash (`user-42/trip`), or
        if it has this `user_id` in the metadata of a message or as the owner of a `ShortMemory`.
        """
        return drive(self._awaiting.erase_user(user))

    def erase_tenant(self, tenant: str) -> ErasureReceipt:
        """Erase all conversations of the token's tenant, whose name must be passed as a confirmation.

        Raises `NotFound` if there are none.
        """
        return drive(self._awaiting.erase_tenant(tenant))

    def verify_erasure(self, receipt: ErasureReceipt) -> ErasureCheck:
        """Let the service check that its store has no data of the conversations in an erasure receipt.

        The service reads its store again for this.

        The check of a receipt without conversations is never `ok`.
        """
        return drive(self._awaiting.verify_erasure(receipt))

    def health(self) -> Health:
        """Return the health of the service's store: whether it can serve requests.

        The details need the right `admin`.
        """
        return drive(self._awaiting.health())

    def close(self) -> None:
        """Close the connections to the service. Closing twice is allowed."""
        drive(self._awaiting.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drive(self._awaiting.__aexit__(kind, error, trace))

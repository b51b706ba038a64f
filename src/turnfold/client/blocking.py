"""A memory behind a service, for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.client.asking import open_asker
from turnfold.client.findings import AsyncRemoteFindings
from turnfold.client.forms import RemoteContext
from turnfold.client.memory import AsyncRemoteMemory
from turnfold.client.session import AsyncRemoteSession, AsyncRemoteState
from turnfold.client.snapshots_blocking import RemoteSnapshots
from turnfold.memory.drive import drive
from turnfold.memory.manifests import Difference, Explanation, Manifest
from turnfold.memory.searching import Found
from turnfold.memory.session import SessionStatus
from turnfold.memory.setting import RecallMode
from turnfold.memory.tail import Recalled
from turnfold.recall.findings import FindingRule
from turnfold.records import Checkpoint, Entry
from turnfold.records.findings import Finding
from turnfold.service.bodies import Provider
from turnfold.stores.protocol import Appended, ConversationInfo, Erasure, Health
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.wire import WireFormat

__all__ = (
    "RemoteFindings",
    "RemoteMemory",
    "RemoteSession",
    "RemoteState",
)


class RemoteState:
    """Values all holders of a conversation share. Changes of different names never undo one another."""

    def __init__(self, awaiting: AsyncRemoteState) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncRemoteState:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    def all(self) -> dict[str, object]:
        """Every value."""
        return drive(self._awaiting.all())

    def get(self, name: str, default: object = None) -> object:
        """One value."""
        return drive(self._awaiting.get(name, default))

    def set(self, name: str, value: object) -> None:
        """Set one value."""
        drive(self._awaiting.set(name, value))

    def update(self, values: Mapping[str, object]) -> None:
        """Set several values at once."""
        drive(self._awaiting.update(values))

    def remove(self, name: str) -> bool:
        """Remove a value; whether it was there."""
        return drive(self._awaiting.remove(name))


class RemoteFindings:
    """Results of tool calls, remembered by tool and arguments."""

    def __init__(self, awaiting: AsyncRemoteFindings) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncRemoteFindings:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """The rules of this handle, by tool; a tool without one is remembered only where `note` is called for it."""
        return self._awaiting.rules

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Follow these rules from now on, and keep at most `most` findings. Rules are code: a process sets its own."""
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
        """Remember what a call answered; None where that is an error, or not worth it by its rule (relevance, size).

        `call` is a `ToolCall` or a shape tool calls are written in. `seq` is the log entry that holds the result
        (0: it is in no entry); while that entry is shown, the finding is not shown a second time. `asked` is the
        newest seq when the call was made (by default: now). It shows in the tail from the next user turn on.
        """
        return drive(self._awaiting.note(call, result, score=score, seq=seq, asked=asked))

    def get(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> Finding | None:
        """What this very call answered, if it still holds."""
        return drive(self._awaiting.get(tool, arguments))

    def serve(self, call: object) -> Finding | None:
        """What a call may be answered with instead of being made: only where its rule says so, and it still holds.

        `turnfold.recall.findings.served_text` writes it as a result that says where it comes from.
        """
        return drive(self._awaiting.serve(call))

    def ran(self, tool: str) -> None:
        """A tool runs now, or ran: what it makes stale is stale. Say it before the tool starts and when it is done."""
        drive(self._awaiting.ran(tool))

    def list(self) -> tuple[Finding, ...]:
        """Everything that holds now: tables of contents, then by relevance, then the newest."""
        return drive(self._awaiting.list())

    def text(self, *, tokens: int, question: str = "") -> str:
        """Everything that holds now as a model is shown it: fenced, in at most `tokens`, cut at boundaries.

        What the `question` speaks of comes first. For programs that build their own prompt; `context` has it already.
        """
        return drive(self._awaiting.text(tokens=tokens, question=question))

    def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Forget what a call answered, or all a tool answered where no arguments are given; how many were forgotten."""
        return drive(self._awaiting.drop(tool, arguments))

    def clear_query(self) -> int:
        """The question is over: forget everything but tables of contents; how many were forgotten."""
        return drive(self._awaiting.clear_query())

    def clear(self) -> int:
        """Forget everything; how many were forgotten."""
        return drive(self._awaiting.clear())


class RemoteSession:
    """One conversation."""

    def __init__(self, awaiting: AsyncRemoteSession) -> None:
        self._awaiting = awaiting

    @property
    def id(self) -> str:
        """The id it was made with."""
        return self._awaiting.id

    @property
    def awaiting(self) -> AsyncRemoteSession:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def state(self) -> RemoteState:
        """The session's state: JSON values by name, shared by all who hold this conversation."""
        return RemoteState(self._awaiting.state)

    @property
    def findings(self) -> RemoteFindings:
        """What tools found in this conversation, remembered by tool and arguments."""
        return RemoteFindings(self._awaiting.findings)

    @property
    def snapshots(self) -> RemoteSnapshots:
        """The workspace of this conversation, turn by turn."""
        return RemoteSnapshots(self._awaiting.snapshots)

    @property
    def last_call(self) -> str:
        """The call made last through this handle; empty before the first."""
        return self._awaiting.last_call

    def system(self, content: object) -> Appended | None:
        """Make this the system message; None when it is already."""
        return drive(self._awaiting.system(content))

    def user(self, content: object, *, name: str | None = None, client_id: str = "") -> Appended:
        """What the user said; starts a turn."""
        return drive(self._awaiting.user(content, name=name, client_id=client_id))

    def assistant(
        self,
        content: object = None,
        *,
        tool_calls: Iterable[object] | None = None,
        name: str | None = None,
        client_id: str = "",
    ) -> Appended:
        """What the model answered, with the tool calls it made."""
        return drive(
            self._awaiting.assistant(content, tool_calls=tool_calls, name=name, client_id=client_id)
        )

    def tool(
        self, content: object, *, tool_call_id: str, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """What a tool answered to the call `tool_call_id`."""
        return drive(
            self._awaiting.tool(content, tool_call_id=tool_call_id, name=name, client_id=client_id)
        )

    def add(self, messages: object, *, client_id: str = "", expect: int | None = None) -> Appended:
        """Append a message, or several as one: all of them or none. Durable on return.

        With `client_id` a retry stores nothing twice; several messages get it with a number behind it, and a `NewEntry`
        brings its own. `expect` is the newest seq the caller has seen: another is a `Conflict`.
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
        """The context of the next model call: within budget, valid, and its manifest stored.

        `query` brings back what was folded and matches it; `recall` says whether that is also done unasked. `notes`
        (text by name) and the `workspace` are shown in this call alone, fenced as data, and never enter the log.

        `to` (a module of `turnfold.wire`, or its name) makes the budget's `max_bytes` hold for the body that provider
        gets. `max_tokens` asks for fewer tokens than the budget allows.
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
        """What `context` would give now, as a look and no call: nothing is stored, a fold that is due is not made."""
        return drive(self._awaiting.preview(query, budget=budget, tools=tools, to=to))

    def checkpoint(
        self,
        summary: str | None = None,
        *,
        keep_turns: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint | None:
        """Fold everything before the newest turns now; None when there is nothing to fold.

        With `summary` that text stands for it, word for word; at least the oldest turn is then folded. Otherwise the
        summariser is asked, and its failure is raised. The service answers when all is folded: `on_progress` is told
        once, at the end.
        """
        return drive(
            self._awaiting.checkpoint(summary, keep_turns=keep_turns, on_progress=on_progress)
        )

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first; the last one is live."""
        return drive(self._awaiting.checkpoints())

    def recall(
        self, query: str, *, limit: int = 5, tokens: int | None = None, within: Within = ALL_ENTRIES
    ) -> list[Recalled]:
        """Entries of this conversation that match, best first, folded or not.

        With `tokens`, as many as may be shown for that instead, in the order of the log and with what stands beside
        them. `within` keeps to entries of a role, a tool, a turn, a path or a time.
        """
        return drive(self._awaiting.recall(query, limit=limit, tokens=tokens, within=within))

    def pin(self, content: str, *, key: str = "") -> str:
        """Show a text word for word in every call from the next user turn on; returns the key to unpin it with."""
        return drive(self._awaiting.pin(content, key=key))

    def unpin(self, key: str) -> bool:
        """Show a pin no longer, from the next user turn on; whether it was pinned."""
        return drive(self._awaiting.unpin(key))

    def pins(self) -> dict[str, str]:
        """What is pinned, by key, oldest first."""
        return drive(self._awaiting.pins())

    def history(self, *, after: int = 0, limit: int = 100) -> list[Entry]:
        """A page of the log: entries with seq > `after`, oldest first, folded or not."""
        return drive(self._awaiting.history(after=after, limit=limit))

    def turn(self, number: int) -> list[Entry]:
        """The entries of one turn, folded or not; turn 0 is what came before the first user message."""
        return drive(self._awaiting.turn(number))

    def find(self, client_ids: Sequence[str]) -> list[Entry]:
        """The entries stored under these client ids, oldest first; unknown ids are simply not among them."""
        return drive(self._awaiting.find(client_ids))

    def calls(self, *, after: str = "", limit: int = 100) -> list[Manifest]:
        """A page of the calls made so far, in the order of the log."""
        return drive(self._awaiting.calls(after=after, limit=limit))

    def explain(self, call: str | None = None) -> Explanation:
        """What a call sent and why; the call made last through this handle if none is named."""
        return drive(self._awaiting.explain(call))

    def diff(self, before: str, after: str) -> Difference:
        """What changed from one call to another."""
        return drive(self._awaiting.diff(before, after))

    def record_usage(self, usage: object, *, call: str | None = None) -> Manifest:
        """Note what the provider reported about a call: an SDK's answer, its usage, or a `Usage`."""
        return drive(self._awaiting.record_usage(usage, call=call))

    def status(self) -> SessionStatus:
        """Where the session stands."""
        return drive(self._awaiting.status())

    def clear(self) -> int:
        """Start over: nothing said so far is shown again, though it stays in the log. Pins, state, findings stay."""
        return drive(self._awaiting.clear())

    def delete(self) -> Erasure:
        """Erase the conversation and everything derived from it, for good."""
        return drive(self._awaiting.delete())

    def fork(self, at: int | None = None, *, conversation: str) -> RemoteSession:
        """A new conversation with everything up to `at` (all of it by default); this one stays as it is."""
        return RemoteSession(drive(self._awaiting.fork(at, conversation=conversation)))


class RemoteMemory:
    """Conversations behind a service, for programs without an event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        asker = open_asker(
            url, blocking=True, token=token, timeout=timeout, retries=retries, backoff=backoff
        )
        self._awaiting = AsyncRemoteMemory.over(asker)

    @property
    def awaiting(self) -> AsyncRemoteMemory:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    def session(self, conversation: str) -> RemoteSession:
        """The handle on a conversation, new or not."""
        return RemoteSession(self._awaiting.session(conversation))

    def conversations(self, *, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        """A page of the conversations of this token's tenant, in id order."""
        return drive(self._awaiting.conversations(after=after, limit=limit))

    def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[Found]:
        """The best of what was said in any conversation, or in one, and whatever else `within` names."""
        return drive(
            self._awaiting.search(query, conversation=conversation, within=within, limit=limit)
        )

    def delete(self, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        return drive(self._awaiting.delete(conversation))

    def health(self) -> Health:
        """Whether the store can serve; its details take the right `admin`."""
        return drive(self._awaiting.health())

    def close(self) -> None:
        """Let go of the connections. Closing twice is allowed."""
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

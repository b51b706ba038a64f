"""Sessions and memories for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turnfold.budget import Budget
from turnfold.memory.assembling import Tools
from turnfold.memory.drive import drive
from turnfold.memory.findings_blocking import Findings
from turnfold.memory.fold_keeper import FoldMode
from turnfold.memory.front_door import AsyncMemory, make_setting
from turnfold.memory.manifests import Difference, Explanation, Manifest
from turnfold.memory.meaning import MeaningStatus
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.searching import Found
from turnfold.memory.session import AsyncSession, SessionStatus
from turnfold.memory.setting import RecallMode
from turnfold.memory.state import AsyncState
from turnfold.memory.tail import Recalled
from turnfold.memory.waiting import BlockingWay, Way
from turnfold.memory.writers import Summaries
from turnfold.models.embedding import Embedder
from turnfold.records import Checkpoint, Entry
from turnfold.stores.protocol import (
    Appended,
    ConversationInfo,
    Erasure,
    Health,
    Scope,
    Store,
)
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.tokens import Calibration, TokenCounter
from turnfold.window import Context, Strategy, oldest_first

if TYPE_CHECKING:
    from turnfold.memory.snapshots.blocking import Snapshots
    from turnfold.wire import WireFormat


__all__ = (
    "Memory",
    "Session",
    "State",
)


class State:
    """Values all holders of a conversation share. Changes of different names never undo one another."""

    def __init__(self, awaiting: AsyncState) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncState:
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


class Session:
    """One conversation."""

    def __init__(self, awaiting: AsyncSession) -> None:
        self._awaiting = awaiting

    @property
    def id(self) -> str:
        """The id it was made with."""
        return self._awaiting.id

    @property
    def awaiting(self) -> AsyncSession:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def counter(self) -> TokenCounter:
        """What counts the tokens of this session."""
        return self._awaiting.counter

    @property
    def budget(self) -> Budget:
        """What a call may spend where it does not say otherwise."""
        return self._awaiting.budget

    @property
    def store(self) -> Store:
        """Where its memory keeps everything; for what is kept beside the log."""
        return self._awaiting.store

    @property
    def scope(self) -> Scope:
        """Whose data it may touch."""
        return self._awaiting.scope

    @property
    def state(self) -> State:
        """The session's state: JSON values by name, shared by all who hold this conversation."""
        return State(self._awaiting.state)

    @property
    def findings(self) -> Findings:
        """What tools found in this conversation, remembered by tool and arguments."""
        return Findings(self._awaiting.findings)

    @property
    def snapshots(self) -> Snapshots:
        """The workspace of this conversation, turn by turn: taken, read back, compared."""
        from turnfold.memory.snapshots.blocking import Snapshots

        return Snapshots(self._awaiting.snapshots)

    @property
    def held_bytes(self) -> int:
        """Bytes of memory this handle takes, about: its windows, and what it has read of snapshots and vectors."""
        return self._awaiting.held_bytes

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
        tools: Tools | None = None,
        recall: RecallMode | str | None = None,
        notes: Mapping[str, str] | None = None,
        workspace: str = "",
        to: WireFormat | None = None,
        max_tokens: int = 0,
    ) -> Context:
        """The context of the next model call: within budget, valid, and its manifest stored.

        `query` brings back what was folded and matches it; `recall` says whether that is also done unasked, where the
        memory's own mode is not meant. `notes` (text by name) and the `workspace` are shown in this call alone, fenced
        as data, and never enter the log. No model is called unless this memory folds inline.

        `to` (a module of `turnfold.wire`, or a model's client) makes the budget's `max_bytes` hold for the body that
        provider gets, and puts on the receipt what it does not get as it was said. `max_tokens` asks for fewer tokens
        than the budget allows, as when a provider found the last prompt too long.
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
        summariser is asked, and its failure is raised. A long range is folded in steps: `on_progress` is told after
        each how many of how many entries are folded, and contexts are answered meanwhile.
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
        them: `recalled_text` of the answer costs no more. `within` keeps to entries of a role, a tool, a turn, a path
        or a time; what stands beside a match may be another's.
        """
        return drive(self._awaiting.recall(query, limit=limit, tokens=tokens, within=within))

    def index_meaning(self, on_progress: Callable[[int, int], None] | None = None) -> MeaningStatus:
        """Make the vectors that recall by meaning needs now, instead of in the background with the next recall.

        `on_progress` is told how many of how many entries are done.
        """
        return drive(self._awaiting.index_meaning(on_progress))

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

    def fork(self, at: int | None = None, *, conversation: str) -> Session:
        """A new conversation with everything up to `at` (all of it by default); this one stays as it is."""
        return Session(drive(self._awaiting.fork(at, conversation=conversation)))


class Memory:
    """Conversations in a store, for programs without an event loop."""

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
        checkpoint: FoldMode | str | None = None,
        threshold: float = 0.75,
        keep_turns: int = 8,
        retries: int = 3,
        backoff: float = 1.0,
        stand_in: bool = True,
        fold_lease: float = 120.0,
        recall: RecallMode | str = RecallMode.OFF,
        embedder: Embedder | None = None,
        strategy: Strategy = oldest_first,
        meter: Meter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        setting = make_setting(
            store,
            BlockingWay(),
            blocking=True,
            cache=cache,
            scope=scope,
            model=model,
            budget=budget,
            counter=counter,
            summarizer=summarizer,
            checkpoint=checkpoint,
            threshold=threshold,
            keep_turns=keep_turns,
            retries=retries,
            backoff=backoff,
            stand_in=stand_in,
            fold_lease=fold_lease,
            recall=recall,
            embedder=embedder,
            strategy=strategy,
            meter=meter,
            clock=clock,
        )
        self._awaiting = AsyncMemory.over(setting, owns=isinstance(store, str))

    @property
    def awaiting(self) -> AsyncMemory:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def store(self) -> Store:
        """Where it keeps everything; for what is kept beside sessions."""
        return self._awaiting.store

    @property
    def scope(self) -> Scope:
        """Whose data it may touch."""
        return self._awaiting.scope

    @property
    def meter(self) -> Meter:
        """What this memory did, in numbers."""
        return self._awaiting.meter

    @property
    def calibration(self) -> Calibration:
        """How far the counts are from what providers reported; see `turnfold.tokens.calibrated`."""
        return self._awaiting.calibration

    @property
    def way(self) -> Way:
        """How this memory waits; what is built on it waits the same way."""
        return self._awaiting.way

    @property
    def budget(self) -> Budget:
        """What a call may spend where it does not say otherwise."""
        return self._awaiting.budget

    def session(self, conversation: str) -> Session:
        """The handle on a conversation, new or not."""
        return Session(self._awaiting.session(conversation))

    def conversations(self, *, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        """A page of the conversations of this scope, in id order."""
        return drive(self._awaiting.conversations(after=after, limit=limit))

    def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[Found]:
        """The best of what was said in this scope, or in one conversation, and whatever else `within` names."""
        return drive(
            self._awaiting.search(query, conversation=conversation, within=within, limit=limit)
        )

    def delete(self, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        return drive(self._awaiting.delete(conversation))

    def health(self) -> Health:
        """Whether the store can serve."""
        return drive(self._awaiting.health())

    def drain(self) -> None:
        """Wait for the folds under way; nothing new is begun in the background after it."""
        drive(self._awaiting.drain())

    def close(self, *, cancel: bool = False) -> None:
        """Wait for the folds under way, or cancel them, and let go of the store. Closing twice is allowed."""
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

"""The live handle on a conversation: what a program holds.

Everything said goes to the log through it; every model call gets its context from it. It decides nothing that could
differ between two processes: where the window begins, what is pinned, what was folded are all in the store, so any
number of handles on one conversation build the same context, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from turnfold.budget import Budget
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory.assembling import Assembler, Tools, Wanted
from turnfold.memory.calls import Calls
from turnfold.memory.findings import AsyncFindings
from turnfold.memory.fold_keeper import FoldKeeper, FoldMode
from turnfold.memory.folding import Folder
from turnfold.memory.follower import Follower, StateLock
from turnfold.memory.forking import copy_conversation
from turnfold.memory.manifests import Difference, Explanation, Manifest, compare
from turnfold.memory.meaning import Meanings, MeaningStatus
from turnfold.memory.notes import (
    CLEARED,
    SESSION,
    SYSTEM,
    ClearedNote,
    SystemNote,
    write_note,
)
from turnfold.memory.pinboard import Pinboard
from turnfold.memory.recalling import Recaller
from turnfold.memory.saying import entries_of
from turnfold.memory.session_status import SessionStatus
from turnfold.memory.setting import RecallMode, Setting
from turnfold.memory.state import AsyncState
from turnfold.memory.tail import Recalled
from turnfold.records import (
    Checkpoint,
    Entry,
    NewEntry,
    Usage,
    assistant,
    encode_message,
    system,
    tool,
    user,
)
from turnfold.stores.protocol import Ability, Appended, Erasure, Scope, Store
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.tokens import TokenCounter
from turnfold.window import Context

if TYPE_CHECKING:
    from turnfold.memory.snapshots.history import AsyncSnapshots
    from turnfold.wire import WireFormat

__all__ = ("AsyncSession", "SessionStatus")


class AsyncSession:
    """One conversation."""

    def __init__(self, conversation: str, setting: Setting) -> None:
        self.id = conversation
        self._setting = setting
        self._store, self._scope = setting.store, setting.scope
        self._follower = Follower(self._store, self._scope, conversation, setting.counter)
        self._in_order = Ability.IN_ORDER in setting.store.abilities
        self._turnstile = StateLock(setting.way.turnstile(), self._forget)
        self.telling: AbstractAsyncContextManager[None] = setting.way.turnstile()
        """For who sets the system message and makes a context under it; the same one may not enter twice."""
        folder = Folder(
            self._store,
            self._scope,
            conversation,
            setting.counter,
            setting.policy.writer,
            setting.way,
        )
        self._keeper = FoldKeeper(folder, setting.policy, setting.clock, setting.meter)
        self._calls = Calls(self._follower, setting.clock)
        embedder = setting.embedder
        self._meanings = Meanings(setting, conversation, embedder) if embedder else None
        self._recaller = Recaller(setting, self._follower, self._meanings)
        self._assembler = Assembler(
            setting, self._follower, self._keeper, self._calls, self._recaller
        )
        self._state = AsyncState(self._follower)
        self._pinboard = Pinboard(self._follower, self._turnstile, setting.budget)
        self._findings = AsyncFindings(self._follower, self._turnstile, setting.clock)
        self._snapshots: AsyncSnapshots | None = None

    @property
    def counter(self) -> TokenCounter:
        """What counts the tokens of this session."""
        return self._setting.counter

    @property
    def budget(self) -> Budget:
        """What a call may spend where it does not say otherwise."""
        return self._setting.budget

    @property
    def store(self) -> Store:
        """Where its memory keeps everything; for what is kept beside the log."""
        return self._store

    @property
    def scope(self) -> Scope:
        """Whose data it may touch."""
        return self._scope

    @property
    def state(self) -> AsyncState:
        """The session's state: JSON values by name, shared by all who hold this conversation."""
        return self._state

    @property
    def findings(self) -> AsyncFindings:
        """What tools found in this conversation, remembered by tool and arguments."""
        return self._findings

    @property
    def snapshots(self) -> AsyncSnapshots:
        """The workspace of this conversation, turn by turn: taken, read back, compared."""
        if self._snapshots is None:
            from turnfold.memory.snapshots.history import AsyncSnapshots
            from turnfold.memory.snapshots.shelf import SnapshotShelf

            shelf = SnapshotShelf(self._store, self._scope, self.id)
            self._snapshots = AsyncSnapshots(
                shelf, count=self._setting.counter.count_text, clock=self._setting.clock
            )
        return self._snapshots

    @property
    def held_bytes(self) -> int:
        """Bytes of memory this handle takes, about: its windows, and what it has read of snapshots and vectors."""
        held = self._follower.held_bytes
        if self._snapshots is not None:
            held += self._snapshots.held_bytes
        return held + (self._meanings.held_bytes if self._meanings is not None else 0)

    @property
    def last_call(self) -> str:
        """The call made last through this handle; empty before the first."""
        return self._calls.last

    async def system(self, content: object) -> Appended | None:
        """Make this the system message; None when it is already."""
        message = system(content)
        digest = blake2b(encode_message(message), digest_size=8).hexdigest()
        async with self._turnstile:
            while True:
                await self._follower.refresh()
                current = self._follower.system
                if [entry.message for entry in current] == [message]:
                    return None
                # The same text after the same predecessor is the same change: a retry finds it under its name.
                after = current[-1].seq if current else 0
                done = await self._append([NewEntry(message, f"system:{after}:{digest}")], None)
                if await self._show_system(done, {done.first}):
                    return done

    async def user(
        self, content: object, *, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """What the user said; starts a turn."""
        return await self.add(user(content, name=name), client_id=client_id)

    async def assistant(
        self,
        content: object = None,
        *,
        tool_calls: Iterable[object] | None = None,
        name: str | None = None,
        client_id: str = "",
    ) -> Appended:
        """What the model answered, with the tool calls it made."""
        message = assistant(content, tool_calls=tool_calls, name=name)
        return await self.add(message, client_id=client_id)

    async def tool(
        self, content: object, *, tool_call_id: str, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """What a tool answered to the call `tool_call_id`."""
        message = tool(content, tool_call_id=tool_call_id, name=name)
        return await self.add(message, client_id=client_id)

    async def add(
        self, messages: object, *, client_id: str = "", expect: int | None = None
    ) -> Appended:
        """Append a message, or several as one: all of them or none. Durable on return.

        With `client_id` a retry stores nothing twice; several messages get it with a number behind it, and a `NewEntry`
        brings its own. `expect` is the newest seq the caller has seen: another is a `Conflict`.
        """
        entries = entries_of(messages, client_id)
        if any(one.message.role == "system" for one in entries):
            return await self._add_system(entries, expect)
        if self._in_order:  # who waits for the disk keeps nobody out: all who wait share a commit
            return await self._append(entries, expect)
        async with self._turnstile:
            return await self._append(entries, expect)

    async def _add_system(self, entries: Sequence[NewEntry], expect: int | None) -> Appended:
        """Append a batch that brings system messages, and show them beside those there are."""
        async with self._turnstile:
            while True:
                done = await self._append(entries, expect)
                await self._follower.refresh()
                seqs = {entry.seq for entry in self._follower.system}
                numbered = enumerate(entries, done.first)
                seqs.update(seq for seq, one in numbered if one.message.role == "system")
                if await self._show_system(done, seqs):
                    return done

    async def _show_system(self, done: Appended, seqs: Iterable[int]) -> bool:
        """Send the system messages with these seqs from now on; False when a failover lost what was just appended."""
        if done.repeated:
            await self._follower.refresh()
            seen = self._follower.newest
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
        """The context of the next model call: within budget, valid, and its manifest stored.

        `query` brings back what was folded and matches it; `recall` says whether that is also done unasked, where the
        memory's own mode is not meant. `notes` (text by name) and the `workspace` are shown in this call alone, fenced
        as data, and never enter the log. No model is called unless this memory folds inline.

        `to` (a module of `turnfold.wire`, or a model's client) makes the budget's `max_bytes` hold for the body that
        provider gets, and puts on the receipt what it does not get as it was said. `max_tokens` asks for fewer tokens
        than the budget allows, as when a provider found the last prompt too long.
        """
        wanted = Wanted(
            budget=budget or self._setting.budget,
            query=query or "",
            tools=tools or (),
            recall=self._setting.recall if recall is None else RecallMode.named(recall),
            notes=notes or {},
            workspace=workspace,
            to=to,
            max_tokens=max_tokens,
        )
        async with self._turnstile:
            return await self._assembler.context(wanted)

    async def preview(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Tools | None = None,
        to: WireFormat | None = None,
    ) -> Context:
        """What `context` would give now, as a look and no call: nothing is stored, a fold that is due is not made."""
        wanted = Wanted(
            budget=budget or self._setting.budget,
            query=query or "",
            tools=tools or (),
            recall=self._setting.recall,
            to=to,
        )
        policy = replace(self._setting.policy, mode=FoldMode.MANUAL)
        aside = AsyncSession(self.id, replace(self._setting, policy=policy))
        return await aside._assembler.preview(wanted)

    async def checkpoint(
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
        policy, budget = self._setting.policy, self._setting.budget
        keep = policy.keep_turns if keep_turns is None else keep_turns
        if keep < 0:
            raise InvalidOption(f"keep_turns={keep} must not be negative")
        async with self._turnstile:
            await self._follower.refresh()
            window = await self._follower.window(budget)
            around, _ = await self._assembler.around(Wanted(budget=budget))
            upto = window.before_turns(keep)
            if summary is not None and upto <= self._follower.folded:
                upto = window.turn_end(1)
            fold = await self._assembler.fold_range(budget, upto, around)
            if fold is None or not window.says_something(fold.after, fold.upto):
                return None
            if summary is not None:
                return await self._keeper.given(fold, summary)
        return await self._keeper.whole(fold, on_progress)

    async def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first; the last one is live."""
        return await self._store.checkpoints(self._scope, self.id)

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tokens: int | None = None,
        within: Within = ALL_ENTRIES,
    ) -> list[Recalled]:
        """Entries of this conversation that match, best first, folded or not.

        With `tokens`, as many as may be shown for that instead, in the order of the log and with what stands beside
        them: `recalled_text` of the answer costs no more. `within` keeps to entries of a role, a tool, a turn, a path
        or a time; what stands beside a match may be another's.
        """
        return await self._recaller.recall(query, limit=limit, tokens=tokens, within=within)

    async def index_meaning(
        self, on_progress: Callable[[int, int], None] | None = None
    ) -> MeaningStatus:
        """Make the vectors that recall by meaning needs now, instead of in the background with the next recall.

        `on_progress` is told how many of how many entries are done.
        """
        if self._meanings is None:
            raise InvalidOption(
                "this memory has no embedder: Memory(..., embedder=LocalEmbedder())"
            )
        return await self._meanings.build(on_progress)

    async def pin(self, content: str, *, key: str = "") -> str:
        """Show a text word for word in every call from the next user turn on; returns the key to unpin it with."""
        return await self._pinboard.pin(content, key)

    async def unpin(self, key: str) -> bool:
        """Show a pin no longer, from the next user turn on; whether it was pinned."""
        return await self._pinboard.unpin(key)

    async def pins(self) -> dict[str, str]:
        """What is pinned, by key, oldest first."""
        return await self._pinboard.shown()

    async def history(self, *, after: int = 0, limit: int = 100) -> list[Entry]:
        """A page of the log: entries with seq > `after`, oldest first, folded or not."""
        return await self._store.read(self._scope, self.id, after=after, limit=limit)

    async def turn(self, number: int) -> list[Entry]:
        """The entries of one turn, folded or not; turn 0 is what came before the first user message."""
        return await self._store.read_turn(self._scope, self.id, number)

    async def find(self, client_ids: Sequence[str]) -> list[Entry]:
        """The entries stored under these client ids, oldest first; unknown ids are simply not among them."""
        return await self._store.find(self._scope, self.id, client_ids)

    async def calls(self, *, after: str = "", limit: int = 100) -> list[Manifest]:
        """A page of the calls made so far, in the order of the log."""
        return await self._calls.page(after=after, limit=limit)

    async def explain(self, call: str | None = None) -> Explanation:
        """What a call sent and why; the call made last through this handle if none is named."""
        return await self._calls.explain(self._named(call))

    async def diff(self, before: str, after: str) -> Difference:
        """What changed from one call to another."""
        return compare(await self._calls.explain(before), await self._calls.explain(after))

    async def record_usage(self, usage: object, *, call: str | None = None) -> Manifest:
        """Note what the provider reported about a call: an SDK's answer, its usage, or a `Usage`."""
        noted = await self._calls.record(self._named(call), reported := Usage.of(usage))
        setting = self._setting
        setting.calibrating.observe(counted=noted.tokens, reported=reported.input)
        if noted.tokens:
            setting.meter.observe("count_ratio", reported.input / noted.tokens)
        return noted

    async def status(self) -> SessionStatus:
        """Where the session stands."""
        async with self._turnstile:
            follower = self._follower
            await follower.refresh()
            folding = await self._keeper.status()
            head = follower.head
            return SessionStatus(
                conversation=self.id,
                mode=await self._keeper.mode(follower.shown_checkpoint, follower.stand_in),
                entries=head.seq,
                turns=head.turns,
                tokens=head.tokens,
                checkpoint=head.checkpoint,
                covered=follower.covered,
                fold_failures=folding.failures,
                fold_error=folding.error,
            )

    async def clear(self) -> int:
        """Start over: nothing said so far is shown again, though it stays in the log. Pins, state, findings stay."""
        async with self._turnstile:
            while True:
                await self._follower.refresh()
                upto, seen = self._follower.head.seq, self._follower.newest
                if upto <= self._follower.cleared or await self._note(
                    CLEARED, ClearedNote(upto=upto), seen
                ):
                    return upto

    async def delete(self) -> Erasure:
        """Erase the conversation and everything derived from it, for good."""
        async with self._turnstile:
            return await self._store.delete(self._scope, self.id)

    async def fork(self, at: int | None = None, *, conversation: str) -> AsyncSession:
        """A new conversation with everything up to `at` (all of it by default); this one stays as it is."""
        async with self._turnstile:
            await self._follower.refresh()
            newest = self._follower.head.seq
            upto = newest if at is None else at
            if not 0 < upto <= newest:
                raise InvalidOption(f"cannot fork at {upto}: the log has entries 1 to {newest}")
            await copy_conversation(self._store, self._scope, self.id, conversation, upto=upto)
        return AsyncSession(conversation, replace(self._setting))

    def _forget(self) -> None:
        """Forget everything that is known of the conversation; it is read again."""
        self._follower.forget_all()
        self._calls.forget()
        self._assembler.last.clear()

    def _named(self, call: str | None) -> str:
        name = call or self._calls.last
        if not name:
            raise InvalidOption("no call was made through this handle yet; name one of calls()")
        return name

    async def _append(self, entries: Sequence[NewEntry], expect: int | None) -> Appended:
        done = await self._store.append(self._scope, self.id, entries, expect=expect)
        self._follower.appended(done, [entry.message for entry in entries])
        self._setting.meter.add("entries", 0 if done.repeated else len(entries))
        return done

    async def _note(self, key: str, note: SystemNote | ClearedNote, seen: tuple[int, int]) -> bool:
        """Store a note about entries up to `seen`; False when the store has no such entry (any longer)."""
        document = write_note(SESSION, key, note)
        try:
            await self._store.put_document(self._scope, self.id, document, seen=seen)
        except Conflict:
            return False
        return True

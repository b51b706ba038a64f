"""A conversation as the SDK's `Session`: items are appended to the log and are returned unchanged.

A log only grows, so `pop_item` and `clear_session` remove nothing from it: popped and cleared items are no longer
returned, and contexts, summaries and recall no longer contain them, but they stay in the log: the remaining items are
stored again, and everything before is cleared. That happens at each pop, until the pops in a row have stored
`_STORED_AGAIN` entries; further ones are only noted, and take effect when the session is next used in another way.

With a blocking memory the work is done in a thread, so that a slow disk blocks no other task of the SDK's loop.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from agents import SessionSettings, TResponseInputItem

from turnfold.adapters._common import (
    GivenRecord,
    PendingResults,
    ThreadBridge,
    VisibleEntry,
    VisibleHistory,
    clear_replaced,
    replace_history,
    session_of,
    short_name,
)
from turnfold.adapters.openai_agents.items import (
    RunItems,
    answered_calls,
    items_of,
    name_of,
    records_of,
)
from turnfold.errors import Conflict
from turnfold.findings import FindingRule
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.records import Entry, Message, NewEntry

__all__ = ("TurnfoldSession",)


_TRIES: Final = 16
"""Attempts to store the items again without popped ones; an attempt fails if another writer was first."""
_STORED_AGAIN: Final = 5_000
"""The most entries that pops in a row store again; it bounds what it costs to undo a long turn item by item."""
_STORED_AHEAD: Final = "openai_agents:"
"""Prefix of the client ids of responses and tool outputs that turnfold stored before the SDK added them."""


class TurnfoldSession:
    """A conversation as the SDK's `Session`: for `Runner.run(..., session=TurnfoldSession(memory.session("s1")))`.

    By itself it only stores items; `turnfold_run` also fits the input of a model to the budget. Items may be of any
    kind, and two processes may use one conversation.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        conversation: str = "",
        *,
        session_settings: SessionSettings | None = None,
        findings: Sequence[FindingRule] = (),
    ) -> None:
        self.awaiting = session_of(memory, conversation)
        """The session that holds the log."""
        self.session_id = self.awaiting.id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self.run = RunItems()
        """Tracks which items of the current run are in the log."""
        self.off_loop = ThreadBridge(memory)
        """Runs the coroutines of `awaiting`; in a thread if they block the event loop."""
        self.pending = PendingResults(self.awaiting, findings)
        """Tool calls of the current run whose results become findings (remembered tool results) when they are stored.
        """
        self._log = VisibleHistory(self.awaiting)
        self._whole: set[tuple[int, int]] = set()
        """(seq, number of items) of the entries that are noted as shortened, but show all of their items."""
        self._stored_twice = False
        """True if the last attempt to store the items again failed halfway, so that the log may have them twice."""
        self._again = 0
        """Number of entries that the pops since the last other use have stored again."""
        self._ahead: list[tuple[int, Message]] = []
        """(seq, message) of each message of the last response that turnfold stored before the SDK added the response to
        the session."""

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return every item, oldest first, folded (compacted) or not; with `limit` only the newest `limit` items.

        Popped and cleared items are left out, and calls of a run that failed before the SDK added them.
        """
        settings = self.session_settings
        most = limit if limit is not None else settings.limit if settings else None
        if most is not None and most < 0:  # the SDK's own sessions return all items then
            most = None
        more = most if most is None else most + 1
        items = await self.off_loop(self._newest(more))
        found = items if most is None else items[-most:] if most else []
        # A run begins with all items, or those within the session's own limit; with `limit` the SDK also reads a number
        # of the newest ones at other times.
        if limit is None:
            self.run.begin(found, partial=len(found) < len(items))
        return found

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items to the log, all or none, and wait until they are stored.

        Items that turnfold stored before the SDK added them are not stored again.
        """
        await self.settle()
        unclaimed = self.run.unclaimed(items)
        answered = answered_calls(items)
        await self.off_loop(self._append_unstored(records_of(unclaimed), answered))
        if len(unclaimed) < len(items):
            await self.off_loop(self._keep_open_calls(self._ahead, answered))
            self._ahead = []

    async def pop_item(self) -> TResponseInputItem | None:
        """Hide the session's newest item and return it; None if there is none.

        It stays in the log, but is no longer among the items, nor in contexts, summaries and recall. In a row of many
        pops from a long session the last ones take effect there at the next other use of the session.
        """
        return await self.off_loop(self._pop())

    async def clear_session(self) -> None:
        """Start over: earlier items are no longer returned or shown to a model, but stay in the log."""
        await self.off_loop(self.awaiting.clear())

    async def add_ahead(self, items: Sequence[TResponseInputItem]) -> None:
        """Store input items before the SDK adds them, so that they are in the log before a model is called."""
        await self.off_loop(self._append(records_of(items)))
        self.run.stored_input(items)

    async def settle(self) -> None:
        """Store the items again without those that were popped, so that contexts and summaries do not have these."""
        self._again = 0
        await self.off_loop(self._settle())

    async def add_response_ahead(self, items: Sequence[TResponseInputItem]) -> None:
        """Store a response's items before its tools run; the SDK adds them only afterwards."""
        self._ahead = []
        self._ahead = await self.off_loop(self._append_named(records_of(items)))
        self.run.stored_response(items)

    async def add_output_ahead(self, item: TResponseInputItem) -> None:
        """Store a tool's output when the tool has ended; the SDK adds it only if all tools of the response end well."""
        await self.off_loop(self._append_named(records_of([item])))
        self.run.stored_output(item)

    async def resume(self) -> None:
        """Begin to track a run that the SDK resumes, because it does not call `get_items`."""
        self.run.begin(await self.off_loop(self._newest(None)), resumed=True)

    def of_tool(self, name: str) -> TurnfoldSession:
        """Return the session of an agent that works as a tool in this session; it has a separate conversation."""
        conversation = short_name(f"{self.session_id}/{name}")
        found = TurnfoldSession(AsyncSession(conversation, self.awaiting.config))
        found.off_loop = self.off_loop
        return found

    async def _pop(self) -> TResponseInputItem | None:
        visible = _VisibleItems()
        shown = await self._log.take_back(visible.end)
        if shown is None:
            return None
        with suppress(
            Conflict
        ):  # the pop is noted; whoever uses the session next stores the rest again
            await self._settle(_STORED_AGAIN - self._again)
        return visible.items(shown)[-1]

    async def _settle(self, most: int = sys.maxsize) -> None:
        """Store the items again without the popped ones, unless that may take more than `most` entries."""
        session = self.awaiting
        for tries_left in range(_TRIES, -1, -1):
            # First what is hidden: if another process hides more after this, its version has changed below.
            retraction = await self._log.retraction()
            head = (await session.store.head(session.scope, session.id)).seq
            if retraction.hidden_upto > retraction.cleared:  # another process was interrupted
                await clear_replaced(session, retraction.hidden_upto)
            hiding = [one for one in retraction.hiding if one not in self._whole]
            if not self._stored_twice and (
                head - retraction.hidden_upto > most or not await self._is_any_popped(hiding)
            ):
                return
            shown = [
                one
                for one in await self._log.entries(retraction)
                if one.entry.message.role != "system"
            ]
            given = [each for one in shown for each in _as_given(one)]
            self._stored_twice = True
            try:
                placed = await replace_history(session, given, head=head, retraction=retraction)
            except Conflict:  # what was stored for nothing is hidden by the next attempt
                if not tries_left:
                    raise
                continue
            self._stored_twice = False
            self._again += len(placed)
            old = [one.entry.seq for one in shown for _ in _as_given(one)]
            new = dict(zip(old, (one.seq for one in placed), strict=True))
            self.run.own = {new.get(seq, seq) for seq in self.run.own}
            self._ahead = [(new.get(seq, seq), record) for seq, record in self._ahead]
            return

    async def _is_any_popped(self, hiding: Sequence[tuple[int, int]]) -> bool:
        """Return True if an entry shows fewer items than it has; remember those that show all of them."""
        session = self.awaiting
        for seq, kept in hiding:
            found = await session.store.read(
                session.scope, session.id, after=seq - 1, upto=seq, limit=1
            )
            if any(kept < len(items_of(entry.message)) for entry in found):
                return True
            self._whole.add((seq, kept))
        return False

    async def _newest(self, most: int | None) -> list[TResponseInputItem]:
        visible = _VisibleItems()
        wanted = sys.maxsize if most is None else most
        shown = await self._log.newest(wanted, lambda one: len(visible.items(one)))
        items = [item for one in shown for item in visible.items(one)]
        return items if most is None else items[-most:] if most else []

    async def _append(self, records: Sequence[Message]) -> None:
        if records:
            done = await self.awaiting.add(list(records))
            self.run.own.update(range(done.first, done.first + len(records)))
            await self.pending.logged(done.first, records)

    async def _append_unstored(self, records: list[Message], answered: set[str]) -> None:
        """Append the records (stored messages) that no process has stored in this turn yet."""
        stored = await self._stored_before(records)
        await self._keep_open_calls(list(stored.values()), answered)
        await self._append([record for record in records if id(record) not in stored])

    async def _keep_open_calls(
        self, stored: Sequence[tuple[int, Message]], answered: set[str]
    ) -> None:
        """Make tool calls without a result visible: the SDK has added them, so they wait for an approval."""
        for seq, record in stored:
            if {call.id for call in record.calls} - answered:
                await self._log.keep_whole(seq, len(items_of(record)))

    async def _append_named(self, records: Sequence[Message]) -> list[tuple[int, Message]]:
        """Append messages with client ids made of content and turn, by which other processes find them.

        A second message with the same content in one turn is stored too, with a number after its id. Returns (seq,
        message) of each.
        """
        turns = await self._turns()
        added: list[tuple[int, Message]] = []
        for record in records:
            name, number = _client_id(record, turns), 1
            done = await self.awaiting.add([NewEntry(record, name)])
            while done.repeated:  # the same words, and the same ids, a second time in one turn
                number += 1
                done = await self.awaiting.add([NewEntry(record, f"{name}.{number}")])
            self.run.own.add(done.first)
            await self.pending.logged(done.first, [record])
            added.append((done.first, record))
        return added

    async def _stored_before(self, records: list[Message]) -> dict[int, tuple[int, Message]]:
        """Return {id(record): (seq, content)} of the messages with tool calls or results that are stored already."""
        of_tools = [record for record in records if record.calls or record.results]
        if not of_tools:
            return {}
        turns, retraction = await self._turns(), await self._log.retraction()
        names = {_client_id(record, turns): record for record in of_tools}
        found = await self.awaiting.by_client_id(list(names))
        return {
            id(names[entry.client_id]): (entry.seq, entry.message)
            for entry in found
            if entry.seq > retraction.hidden_upto and _is_whole(entry, retraction.kept(entry.seq))
        }

    async def _turns(self) -> int:
        session = self.awaiting
        return (await session.store.head(session.scope, session.id)).turns


class _VisibleItems:
    """Returns the visible items of log entries; must be called with the newest entry first."""

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._known: dict[int, dict[int, TResponseInputItem]] = {}

    def items(self, shown: VisibleEntry) -> list[TResponseInputItem]:
        return list(self._of(shown).values())

    def end(self, shown: VisibleEntry) -> int:
        return max(self._of(shown), default=-1) + 1

    def _of(self, shown: VisibleEntry) -> dict[int, TResponseInputItem]:
        """Return the visible SDK items in a log entry, keyed by their index in the entry."""
        entry = shown.entry
        known = self._known.get(entry.seq)
        if known is None:
            self._answered.update(result.call_id for result in entry.message.results)
            items = dict(enumerate(items_of(entry.message)[: shown.kept]))
            waiting = {call.id for call in entry.message.calls} - self._answered
            stored_ahead = entry.client_id.startswith(_STORED_AHEAD)
            if waiting and stored_ahead and shown.kept != len(items_of(entry.message)):
                items = _without_calls(items, waiting)
            self._known[entry.seq] = known = items
        return known


def _as_given(shown: VisibleEntry) -> list[GivenRecord]:
    """Return a visible entry to be stored again without its popped items, or unchanged with its client id."""
    entry, kept = shown
    if kept is None:
        return [GivenRecord(entry.message, entry.client_id)]
    return [GivenRecord(record, "") for record in records_of(items_of(entry.message)[:kept])]


def _is_whole(entry: Entry, kept: int | None) -> bool:
    return kept is None or kept == len(items_of(entry.message))


def _without_calls(
    items: dict[int, TResponseInputItem], calls: set[str]
) -> dict[int, TResponseInputItem]:
    """Return a response's items without these calls, and without reasoning after which no item remains."""
    kept: dict[int, TResponseInputItem] = {}
    for place, item in reversed(items.items()):
        fields = cast("Mapping[str, object]", item)
        reasoning = fields.get("type") == "reasoning"
        if fields.get("call_id") not in calls and not (reasoning and place + 1 not in kept):
            kept[place] = item
    return dict(reversed(kept.items()))


def _client_id(record: Message, turns: int) -> str:
    """Return the client id of a message, by which a process that continues the run finds it; from content and turn."""
    return f"{_STORED_AHEAD}{name_of(record)}:{turns}"

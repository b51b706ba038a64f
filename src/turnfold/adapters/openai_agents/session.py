"""The SDK's `Session` over a conversation: what is added to it is in the log, and comes back as it was.

A log only grows. `pop_item` and `clear_session` therefore take nothing out of it: what was popped or cleared is no
longer among the items and no longer shown to a model, and stays in the log for whoever reads that.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, cast

from agents import SessionSettings, TResponseInputItem

from turnfold.adapters.openai_agents.items import item_key, items_of, name_of, records_of
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session
from turnfold.memory.chosen_session import chosen_session
from turnfold.memory.shown_log import Shown, ShownLog
from turnfold.records import Message, NewEntry
from turnfold.wire.values import object_of

__all__ = ("TurnfoldSession",)

_AHEAD: Final = "openai_agents:"
"""How the names of responses begin that were stored before the SDK added them."""


class TurnfoldSession:
    """A conversation as the SDK's `Session`: for `Runner.run(..., session=TurnfoldSession(memory.session("s1")))`.

    On its own it only keeps items; `turnfold_run` also shapes what a model sees. Items may be of any kind, known or
    not, and two processes may use one conversation.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        conversation: str = "",
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.awaiting = chosen_session(memory, conversation)
        """The session whose log it is."""
        self.session_id = self.awaiting.id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self.known: Counter[str] | None = None
        """Keys of the items the current run was given and of those it added; None before it was given any."""
        self.begun = 0
        """How often a run, or somebody else, has asked for the items."""
        self.own: set[int] = set()
        """Seqs of what the current run added."""
        self._log = ShownLog(self.awaiting)
        self._input_ahead: Counter[str] = Counter()
        self._response_ahead: Counter[str] = Counter()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Every item, oldest first, folded or not; with `limit` the newest of them.

        Without those that were popped or cleared, and without calls whose run failed before the SDK added them.
        """
        settings = self.session_settings
        most = limit if limit is not None else settings.limit if settings else None
        if most is not None and most < 0:  # as the SDK's own sessions take it
            most = None
        wanted = sys.maxsize if most is None else most
        visible = _Visible()
        shown = await self._log.newest(wanted, lambda one: len(visible.items(one)))
        items = [item for one in shown for item in visible.items(one)]
        if most is not None:
            items = items[-most:] if most else []
        self.known = Counter(map(_key, items))
        self.own = set()
        self.begun += 1
        self._input_ahead.clear()
        return items

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all of them or none; durable on return. What was stored ahead of time is not stored again."""
        self._forget_failed(items)
        new = [
            item
            for item in items
            if not _claimed(item, self._input_ahead) and not _claimed(item, self._response_ahead)
        ]
        await self._append(await self._unstored(records_of(new)))
        if self.known is not None:
            self.known.update(map(_key, items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back, and return it; None where there is none.

        It stays in the log, is not among the items any more, and no model is shown it; a summary made later or a recall
        may still speak of it.
        """
        visible = _Visible()
        shown = await self._log.take_back(visible.end)
        return visible.items(shown)[-1] if shown else None

    async def clear_session(self) -> None:
        """Start over: nothing so far is an item any more or is shown to a model; it stays in the log."""
        await self.awaiting.clear()

    async def add_ahead(self, items: Sequence[TResponseInputItem]) -> None:
        """Store input that the SDK will add in a moment: a model must not be asked before it is in the log."""
        self._forget_failed(items)
        await self._append(records_of(items))
        self._input_ahead.update(map(_key, items))
        if self.known is not None:
            self.known.update(map(_key, items))

    async def add_response_ahead(self, items: Sequence[TResponseInputItem]) -> None:
        """Store a response that the SDK will add once its tools have run."""
        turns = await self._turns()
        for record in records_of(items):
            name, number = _client_id(record, turns), 1
            done = await self.awaiting.add([NewEntry(record, name)])
            while done.repeated:  # the same words, and the same ids, a second time in one turn
                number += 1
                done = await self.awaiting.add([NewEntry(record, f"{name}.{number}")])
            self.own.add(done.first)
        self._response_ahead = Counter(map(_key, items))

    async def hidden(self) -> Mapping[int, int]:
        """Seq -> items kept, of the entries of which something was popped."""
        taken = await self._log.taken_back()
        whole = {seq: 0 for first, last in taken.note.stretches for seq in range(first, last + 1)}
        return {**whole, **dict(taken.note.shortened)}

    def _forget_failed(self, items: Sequence[TResponseInputItem]) -> None:
        """A question begins another run: a response whose run failed will not be added, the same words anew may be."""
        if any((object_of(item) or {}).get("role") == "user" for item in items):
            self._response_ahead.clear()

    async def _append(self, records: Sequence[Message]) -> None:
        if records:
            done = await self.awaiting.add(list(records))
            self.own.update(range(done.first, done.first + len(records)))

    async def _unstored(self, records: list[Message]) -> list[Message]:
        """The records that no other process stored ahead in this turn."""
        calling = [record for record in records if record.calls]
        if not calling:
            return records
        turns, taken = await self._turns(), await self._log.taken_back()
        found = await self.awaiting.find([_client_id(record, turns) for record in calling])
        stored = {
            entry.client_id
            for entry in found
            if entry.seq > taken.cleared and taken.kept(entry.seq) is None
        }
        return [record for record in records if _client_id(record, turns) not in stored]

    async def _turns(self) -> int:
        session = self.awaiting
        return (await session.store.head(session.scope, session.id)).turns


class _Visible:
    """The items of entries that are asked for from the newest back."""

    def __init__(self) -> None:
        self._answered: set[str] = set()
        self._known: dict[int, dict[int, TResponseInputItem]] = {}

    def items(self, shown: Shown) -> list[TResponseInputItem]:
        return list(self._of(shown).values())

    def end(self, shown: Shown) -> int:
        return max(self._of(shown), default=-1) + 1

    def _of(self, shown: Shown) -> dict[int, TResponseInputItem]:
        """Item by its place in the record."""
        entry = shown.entry
        known = self._known.get(entry.seq)
        if known is None:
            self._answered.update(result.call_id for result in entry.message.results)
            items = dict(enumerate(items_of(entry.message)[: shown.kept]))
            open_calls = {call.id for call in entry.message.calls} - self._answered
            if open_calls and entry.client_id.startswith(_AHEAD):
                items = _without_calls(items, open_calls)
            self._known[entry.seq] = known = items
        return known


def _without_calls(
    items: dict[int, TResponseInputItem], calls: set[str]
) -> dict[int, TResponseInputItem]:
    """The items of a response without some of its calls, and without the reasoning that led to nothing else."""
    kept: dict[int, TResponseInputItem] = {}
    for place, item in reversed(items.items()):
        fields = cast("Mapping[str, object]", item)
        reasoning = fields.get("type") == "reasoning"
        if fields.get("call_id") not in calls and not (reasoning and place + 1 not in kept):
            kept[place] = item
    return dict(reversed(kept.items()))


def _client_id(record: Message, turns: int) -> str:
    """Of what was said and in which turn: another process that goes on with the run finds it."""
    return f"{_AHEAD}{name_of(record)}:{turns}"


def _claimed(item: TResponseInputItem, ahead: Counter[str]) -> bool:
    if not ahead or ahead[key := _key(item)] <= 0:
        return False
    ahead[key] -= 1
    return True


def _key(item: TResponseInputItem) -> str:
    return item_key(cast("Mapping[str, object]", item))

"""A session that is held elsewhere, with the methods of one that is held here.

What was said becomes a message in this process, so a fault in it is found where it was made; it travels as it is
stored, so nothing of it is lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

import msgspec

from turnfold.budget import Budget
from turnfold.client.asking import Asker, check_positive, new_key
from turnfold.client.findings import AsyncRemoteFindings
from turnfold.client.forms import (
    RemoteContext,
    to_difference,
    to_entry,
    to_explanation,
    to_recalled,
)
from turnfold.client.snapshots import AsyncRemoteSnapshots
from turnfold.errors import InvalidOption
from turnfold.memory.manifests import Difference, Explanation, Manifest
from turnfold.memory.session import SessionStatus
from turnfold.memory.setting import RecallMode
from turnfold.memory.tail import Recalled
from turnfold.records import (
    Checkpoint,
    Entry,
    Message,
    NewEntry,
    Usage,
    as_message,
    as_messages,
    assistant,
    encode_message,
    system,
    tool,
    user,
)
from turnfold.service import answers
from turnfold.service.bodies import BudgetBody, Provider, WithinBody
from turnfold.stores.protocol import Appended, Erasure
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.wire import WireFormat

__all__ = ("AsyncRemoteSession", "AsyncRemoteState")

_MOST: Final = 1_000
"""Things on one page."""
_RECORD: Final = {"form": "record"}


class AsyncRemoteState:
    """Values all holders of a conversation share. Changes of different names never undo one another."""

    def __init__(self, asker: Asker, conversation: str) -> None:
        self._asker = asker
        self._path = "sessions", conversation, "state"

    async def all(self) -> dict[str, object]:
        """Every value."""
        return (await self._asker.ask("GET", *self._path, answer=answers.StateAnswer)).values

    async def get(self, name: str, default: object = None) -> object:
        """One value."""
        return (await self.all()).get(name, default)

    async def set(self, name: str, value: object) -> None:
        """Set one value."""
        await self.update({name: value})

    async def update(self, values: Mapping[str, object]) -> None:
        """Set several values at once."""
        body = {"values": dict(values)}
        await self._asker.ask("PATCH", *self._path, answer=answers.StateAnswer, body=body)

    async def remove(self, name: str) -> bool:
        """Remove a value; whether it was there."""
        if not name:
            return False
        done = await self._asker.ask(
            "DELETE", *self._path, name, answer=answers.DoneAnswer, key=new_key()
        )
        return done.done


class AsyncRemoteSession:
    """One conversation."""

    def __init__(self, conversation: str, asker: Asker) -> None:
        self.id = conversation
        self._asker = asker
        self._path = "sessions", conversation
        self._last = ""
        self._state = AsyncRemoteState(asker, conversation)
        self._findings = AsyncRemoteFindings(asker, conversation)
        self._snapshots = AsyncRemoteSnapshots(asker, conversation)

    @property
    def state(self) -> AsyncRemoteState:
        """The session's state: JSON values by name, shared by all who hold this conversation."""
        return self._state

    @property
    def findings(self) -> AsyncRemoteFindings:
        """What tools found in this conversation, remembered by tool and arguments."""
        return self._findings

    @property
    def snapshots(self) -> AsyncRemoteSnapshots:
        """The workspace of this conversation, turn by turn."""
        return self._snapshots

    @property
    def last_call(self) -> str:
        """The call made last through this handle; empty before the first."""
        return self._last

    async def system(self, content: object) -> Appended | None:
        """Make this the system message; None when it is already."""
        body = {"content": system(content).content}
        path = *self._path, "system"
        return (
            await self._asker.ask("PUT", *path, answer=answers.SystemAnswer, body=body)
        ).appended

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
        said, names = _said(messages)
        raw = [msgspec.Raw(encode_message(message)) for message in said]
        body: dict[str, object] = {"messages": raw, "expect": expect}
        if names:
            body["client_ids"] = names
        return await self._asker.ask(
            "POST",
            *self._path,
            "messages",
            answer=Appended,
            body=body,
            key=client_id or new_key(),
        )

    async def context(
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
        body = {
            "query": query,
            "budget": budget and BudgetBody.of(budget),
            "tools": tools,
            "recall": None if recall is None else RecallMode.named(recall),
            "notes": notes,
            "workspace": workspace,
            "to": _provider(to),
            "max_tokens": max_tokens,
        }
        path = *self._path, "context"
        form = await self._asker.ask(
            "POST", *path, answer=answers.ContextForm, body=body, query=_RECORD
        )
        self._last = form.call
        return RemoteContext(form)

    async def preview(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        to: Provider | WireFormat | None = None,
    ) -> RemoteContext:
        """What `context` would give now, as a look and no call: nothing is stored, a fold that is due is not made."""
        body = {
            "query": query,
            "budget": budget and BudgetBody.of(budget),
            "tools": tools,
            "to": _provider(to),
        }
        path = *self._path, "preview"
        form = await self._asker.ask(
            "POST", *path, answer=answers.ContextForm, body=body, query=_RECORD
        )
        return RemoteContext(form)

    async def checkpoint(
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
        if keep_turns is not None and keep_turns < 0:
            raise InvalidOption(f"keep_turns={keep_turns} must not be negative")
        made = await self._asker.ask(
            "POST",
            *self._path,
            "checkpoints",
            answer=answers.CheckpointAnswer,
            body={"summary": summary, "keep_turns": keep_turns},
            key=new_key(),
        )
        if on_progress is not None and made.checkpoint is not None:
            on_progress(made.checkpoint.upto, made.checkpoint.upto)
        return made.checkpoint

    async def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first; the last one is live."""
        path = *self._path, "checkpoints"
        return (await self._asker.ask("GET", *path, answer=answers.CheckpointsAnswer)).checkpoints

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
        them. `within` keeps to entries of a role, a tool, a turn, a path or a time.
        """
        check_positive("limit", limit)
        check_positive("tokens", tokens)
        kept_to = WithinBody.of(within)
        body = {"query": query, "limit": limit, "tokens": tokens, "within": kept_to}
        path = *self._path, "recall"
        found = await self._asker.ask(
            "POST", *path, answer=answers.RecalledAnswer, body=body, query=_RECORD
        )
        return [to_recalled(each) for each in found.recalled]

    async def pin(self, content: str, *, key: str = "") -> str:
        """Show a text word for word in every call from the next user turn on; returns the key to unpin it with."""
        body = {"content": content, "key": key}
        path = *self._path, "pins"
        return (await self._asker.ask("POST", *path, answer=answers.PinAnswer, body=body)).key

    async def unpin(self, key: str) -> bool:
        """Show a pin no longer, from the next user turn on; whether it was pinned."""
        if not key:
            return False
        path = *self._path, "pins", key
        done = await self._asker.ask("DELETE", *path, answer=answers.DoneAnswer, key=new_key())
        return done.done

    async def pins(self) -> dict[str, str]:
        """What is pinned, by key, oldest first."""
        return (await self._asker.ask("GET", *self._path, "pins", answer=answers.PinsAnswer)).pins

    async def history(self, *, after: int = 0, limit: int = 100) -> list[Entry]:
        """A page of the log: entries with seq > `after`, oldest first, folded or not."""
        found: list[Entry] = []
        following: int | None = after
        while following is not None and len(found) < limit:
            page = await self._asker.ask(
                "GET",
                *self._path,
                "messages",
                answer=answers.EntriesPage,
                query={**_RECORD, "after": following, "limit": min(limit - len(found), _MOST)},
            )
            found += map(to_entry, page.entries)
            following = page.next
        return found

    async def turn(self, number: int) -> list[Entry]:
        """The entries of one turn, folded or not; turn 0 is what came before the first user message."""
        path = *self._path, "turns", str(number)
        page = await self._asker.ask("GET", *path, answer=answers.EntriesPage, query=_RECORD)
        return [to_entry(each) for each in page.entries]

    async def find(self, client_ids: Sequence[str]) -> list[Entry]:
        """The entries stored under these client ids, oldest first; unknown ids are simply not among them."""
        body = {"client_ids": list(client_ids)}
        path = *self._path, "find"
        page = await self._asker.ask(
            "POST", *path, answer=answers.EntriesPage, body=body, query=_RECORD
        )
        return [to_entry(each) for each in page.entries]

    async def calls(self, *, after: str = "", limit: int = 100) -> list[Manifest]:
        """A page of the calls made so far, in the order of the log."""
        found: list[Manifest] = []
        following: str | None = after
        while following is not None and len(found) < limit:
            page = await self._asker.ask(
                "GET",
                *self._path,
                "calls",
                answer=answers.CallsPage,
                query={"after": following, "limit": min(limit - len(found), _MOST)},
            )
            found += page.calls
            following = page.next
        return found

    async def explain(self, call: str | None = None) -> Explanation:
        """What a call sent and why; the call made last through this handle if none is named."""
        path = *self._path, "calls", self._named(call)
        form = await self._asker.ask("GET", *path, answer=answers.ExplanationForm, query=_RECORD)
        return to_explanation(form)

    async def diff(self, before: str, after: str) -> Difference:
        """What changed from one call to another."""
        query = {**_RECORD, "before": before, "after": after}
        path = *self._path, "diff"
        return to_difference(
            await self._asker.ask("GET", *path, answer=answers.DifferenceForm, query=query)
        )

    async def record_usage(self, usage: object, *, call: str | None = None) -> Manifest:
        """Note what the provider reported about a call: an SDK's answer, its usage, or a `Usage`."""
        body = {"usage": Usage.of(usage)}
        path = *self._path, "calls", self._named(call), "usage"
        return await self._asker.ask("PUT", *path, answer=Manifest, body=body)

    async def status(self) -> SessionStatus:
        """Where the session stands."""
        return await self._asker.ask("GET", *self._path, answer=SessionStatus)

    async def clear(self) -> int:
        """Start over: nothing said so far is shown again, though it stays in the log. Pins, state, findings stay."""
        path = *self._path, "clear"
        done = await self._asker.ask("POST", *path, answer=answers.ClearedAnswer, key=new_key())
        return done.upto

    async def delete(self) -> Erasure:
        """Erase the conversation and everything derived from it, for good."""
        return await self._asker.ask("DELETE", *self._path, answer=Erasure)

    async def fork(self, at: int | None = None, *, conversation: str) -> AsyncRemoteSession:
        """A new conversation with everything up to `at` (all of it by default); this one stays as it is."""
        body = {"conversation": conversation, "at": at}
        path = *self._path, "fork"
        made = await self._asker.ask(
            "POST", *path, answer=answers.ForkedAnswer, body=body, key=new_key()
        )
        return AsyncRemoteSession(made.conversation, self._asker)

    def _named(self, call: str | None) -> str:
        name = call or self._last
        if not name:
            raise InvalidOption("no call was made through this handle yet; name one of calls()")
        return name


def _provider(to: Provider | WireFormat | None) -> str | None:
    """The name of a wire format; a model's client is none, for the service cannot ask it."""
    name: object = to if to is None or isinstance(to, str) else getattr(to, "PROVIDER", "")
    if name == "":
        raise InvalidOption(
            "to= takes a module of turnfold.wire or its name here: the service cannot ask a model's client"
        )
    return cast("str | None", name)


def _said(messages: object) -> tuple[list[Message], list[str]]:
    """What is said, and the client ids of entries that bring their own."""
    if isinstance(messages, list | tuple) and messages:
        given = cast("Sequence[object]", messages)
        if all(isinstance(one, NewEntry) for one in given):
            entries = cast("Sequence[NewEntry]", given)
            return [each.message for each in entries], [each.client_id for each in entries]
    if isinstance(messages, str | Mapping | Message) or not isinstance(messages, Iterable):
        return [as_message(cast("object", messages))], []
    return as_messages(cast("Iterable[object]", messages)), []

"""HTTP client with the methods of `AsyncSession`, its state and its findings (remembered tool results).

Messages are made and checked in this process, so an invalid message raises its error before anything is sent. They are
sent in their stored form, so nothing is lost.

Findings are remembered tool results. The rules for findings are code, so they run in this process and decide how
relevant a result is. Two decisions must be the same for all processes and are made by the service: which findings are
stale, and which are dropped when there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn, TypeVar, cast

import msgspec

from turnfold import api
from turnfold.api import (
    MAX_CLIENT_IDS,
    AddBody,
    AddRuleBody,
    BudgetBody,
    CheckpointsQuery,
    ClearFindingsBody,
    ClientIdsBody,
    ContextBody,
    CountAnswer,
    DiffQuery,
    DropFindingsBody,
    EraseQuery,
    FindingsTextBody,
    FoldBody,
    ForkBody,
    FormQuery,
    HistoryQuery,
    NamePageQuery,
    NoQuery,
    NoteFindingBody,
    Operation,
    PinBody,
    PreviewBody,
    Provider,
    RecallBody,
    RuleForm,
    RulesQuery,
    StateBody,
    SystemBody,
    ToolRanBody,
    UsageBody,
    WithinBody,
    message_json,
)
from turnfold.budget import Budget
from turnfold.client.conversion import (
    RemoteContext,
    to_difference,
    to_entry,
    to_explanation,
    to_recalled,
)
from turnfold.client.transport import RequestSender, check_positive, new_key, read_pages
from turnfold.client.workspace_snapshots import AsyncRemoteSnapshots
from turnfold.errors import InvalidOption, NotFound
from turnfold.findings import (
    FindingRule,
    as_tool_call,
    canonical_arguments,
    result_text,
    rules_by_tool,
)
from turnfold.memory import (
    LAST_CALL,
    Difference,
    Explanation,
    Manifest,
    RecallMode,
    SessionStatus,
    list_client_ids,
    numbered_call,
)
from turnfold.records import (
    Checkpoint,
    Entry,
    Finding,
    Message,
    NewEntry,
    ToolResult,
    Usage,
    as_message,
    as_messages,
    assistant,
    finding_key,
    system,
    tool,
    user,
)
from turnfold.rules import RuleKind, StandingRule
from turnfold.search import ALL_ENTRIES, Recalled, Within
from turnfold.stores import Appended, Erasure
from turnfold.wire import WireFormat, read_sdk_objects

__all__ = (
    "AsyncRemoteFindings",
    "AsyncRemoteSession",
    "AsyncRemoteState",
)

_Body = TypeVar("_Body")
_RECORD: Final = FormQuery(form="record")


class AsyncRemoteFindings:
    """Findings (remembered tool results) of one conversation of a service, by tool and arguments."""

    def __init__(self, sender: RequestSender, conversation: str) -> None:
        self._sender = sender
        self._conversation = conversation
        self._rules: dict[str, FindingRule] = {}
        self._most: int | None = None

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """Finding rules of this session object, by tool name: which tool results are remembered, and how long.

        Results of other tools are remembered only by calling `note`.
        """
        return MappingProxyType(self._rules)

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Use these finding rules from now on, and store at most `most` findings; each process sets its own rules."""
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
        """Remember the result of a tool call; returns None for an error, and if the tool's finding rule rejects it.

        `call` is a `ToolCall` or a tool call as a provider writes it. `seq` is the log entry with the result (0 if
        there is none); while that entry is in the window, the finding is not shown again. `asked` is the newest seq
        when the call was made (default: now). The finding is part of contexts from the next user turn on.
        """
        called, content = as_tool_call(call), result_text(result)
        if isinstance(result, ToolResult) and result.is_error:
            return None
        rule = self._rules.get(called.name) or FindingRule(called.name)
        function = {"name": called.name, "arguments": called.arguments}
        body = NoteFindingBody(
            call={"id": called.id, "type": "function", "function": function},
            result=content,
            score=rule.relevance_of(content, score),
            seq=seq,
            asked=asked,
            rules=self._rule_forms(),
            most=self._most,
        )
        noted = await self._sender.call(api.operations.NOTE_FINDING, self._conversation, body=body)
        return noted.finding

    async def get(
        self, tool: str, arguments: str | Mapping[str, object] | None = None
    ) -> Finding | None:
        """Return the remembered result of a call of this tool with exactly these arguments.

        Returns None if there is no valid one.
        """
        key = finding_key(tool, canonical_arguments(arguments))
        return next((found for found in await self.list() if found.key == key), None)

    async def serve(self, call: object) -> Finding | None:
        """Return a remembered result to use instead of calling the tool; None if there is no valid or allowed one.

        `turnfold.findings.served_text` renders it as a tool result that names its origin.
        """
        called = as_tool_call(call)
        rule = self._rules.get(called.name)
        if rule is None or not rule.serve or rule.side_effects:
            return None
        return await self.get(called.name, called.arguments)

    async def ran(self, tool: str) -> None:
        """Tell the service, before and after a run, that a tool runs.

        The findings (remembered tool results) that depend on the tool become stale.
        """
        body = ToolRanBody(tool=tool, rules=self._rule_forms())
        await self._sender.call(api.operations.TOOL_RAN, self._conversation, body=body)

    async def list(self) -> tuple[Finding, ...]:
        """Return the valid findings: tables of contents first, then by relevance, then newest first."""
        return tuple(
            (await self._sender.call(api.operations.FINDINGS, self._conversation)).findings
        )

    async def text(self, *, tokens: int, question: str = "") -> str:
        """Return the valid findings (remembered tool results) as fenced text (marked as data).

        The text has at most `tokens`, and is cut at line ends.

        Findings related to `question` come first. Only for applications that build their own prompt: `context()`
        includes the findings.
        """
        body = FindingsTextBody(tokens=tokens, question=question)
        return (
            await self._sender.call(api.operations.FINDINGS_TEXT, self._conversation, body=body)
        ).text

    async def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Delete the stored result of a call, or all results of a tool if `arguments` is None.

        Returns the number deleted.
        """
        given = dict(arguments) if isinstance(arguments, Mapping) else arguments
        body = DropFindingsBody(tool=tool, arguments=given)
        return await self._count(api.operations.DROP_FINDINGS, body)

    async def clear_query(self) -> int:
        """Delete all findings (remembered tool results) except tables of contents; return the number deleted.

        Call this method when a question is answered. Tables of contents are useful for later questions too.
        """
        return await self._count(api.operations.CLEAR_FINDINGS, ClearFindingsBody(query_only=True))

    async def clear(self) -> int:
        """Delete all findings (remembered tool results) of the conversation; return the number deleted."""
        return await self._count(api.operations.CLEAR_FINDINGS, ClearFindingsBody())

    async def _count(self, operation: Operation[_Body, NoQuery, CountAnswer], body: _Body) -> int:
        return (await self._sender.call(operation, self._conversation, body=body)).count

    def _rule_forms(self) -> list[RuleForm]:
        return [
            RuleForm(
                tool=rule.tool,
                kind=rule.kind,
                ttl=rule.ttl,
                invalidated_by=rule.invalidated_by,
                min_relevance=rule.min_relevance,
                largest=rule.largest,
            )
            for rule in self._rules.values()
        ]


class AsyncRemoteState:
    """Session state: JSON values by name, shared by all sessions of a conversation.

    Two writers that change different names do not overwrite each other.
    """

    def __init__(self, sender: RequestSender, conversation: str) -> None:
        self._sender = sender
        self._conversation = conversation

    def __setitem__(self, name: str, value: object) -> NoReturn:
        """Refuse `state[name] = value`, which cannot wait for the store."""
        raise InvalidOption(f"the state cannot be assigned to: use state.set({name!r}, {value!r})")

    def __getitem__(self, name: str) -> NoReturn:
        """Refuse `state[name]`, which cannot wait for the store."""
        raise InvalidOption(f"the state cannot be indexed: use state.get({name!r})")

    async def all(self) -> dict[str, object]:
        """Return all values of the session state by name."""
        return (await self._sender.call(api.operations.STATE, self._conversation)).values

    async def get(self, name: str, default: object = None) -> object:
        """Return the value stored under `name`, or `default` if there is none."""
        return (await self.all()).get(name, default)

    async def set(self, name: str, value: object) -> None:
        """Store a JSON value under a name, replacing an earlier one; contexts show it from the next user turn on."""
        await self.update({name: value})

    async def update(self, values: Mapping[str, object]) -> None:
        """Store several JSON values by name at once; other names keep their values."""
        body = StateBody(values=dict(values))
        await self._sender.call(api.operations.UPDATE_STATE, self._conversation, body=body)

    async def remove(self, name: str) -> bool:
        """Remove the value stored under a name; return False if there was none."""
        if not name:
            return False
        return (await self._sender.call(api.operations.REMOVE_STATE, self._conversation, name)).done


class AsyncRemoteSession:
    """HTTP client of one conversation of a service, with the methods of `AsyncSession`."""

    def __init__(self, conversation: str, sender: RequestSender) -> None:
        self.id = conversation
        self._sender = sender
        self._last = ""
        self._state = AsyncRemoteState(sender, conversation)
        self._findings = AsyncRemoteFindings(sender, conversation)
        self._snapshots = AsyncRemoteSnapshots(sender, conversation)

    @property
    def state(self) -> AsyncRemoteState:
        """Session state: JSON values by name, shared by all sessions of this conversation."""
        return self._state

    @property
    def findings(self) -> AsyncRemoteFindings:
        """The findings (remembered tool results) of this conversation, by tool and arguments."""
        return self._findings

    @property
    def snapshots(self) -> AsyncRemoteSnapshots:
        """Workspace snapshots of this conversation, by turn."""
        return self._snapshots

    @property
    def last_call(self) -> str:
        """Id of the last call made through this session object; empty before the first."""
        return self._last

    async def system(self, content: object) -> Appended | None:
        """Set the system message of later contexts, replacing the current one.

        Returns None if the current one is the same.
        """
        body = SystemBody(content=system(content).content)
        return (await self._sender.call(api.operations.SET_SYSTEM, self.id, body=body)).appended

    async def user(
        self, content: object, *, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """Append a user message; starts a turn."""
        return await self.add(user(content, name=name), client_id=client_id)

    async def assistant(
        self,
        content: object = None,
        *,
        tool_calls: Iterable[object] | None = None,
        name: str | None = None,
        client_id: str = "",
    ) -> Appended:
        """Append an assistant message with the tool calls it makes."""
        message = assistant(content, tool_calls=tool_calls, name=name)
        return await self.add(message, client_id=client_id)

    async def tool(
        self, content: object, *, tool_call_id: str, name: str | None = None, client_id: str = ""
    ) -> Appended:
        """Append the result of the tool call `tool_call_id`."""
        message = tool(content, tool_call_id=tool_call_id, name=name)
        return await self.add(message, client_id=client_id)

    async def add(
        self, messages: object, *, client_id: str = "", expect: int | None = None
    ) -> Appended:
        """Append one message, or several atomically. Durable on return.

        Takes messages in any shape, and the objects of the SDKs of OpenAI, Anthropic and Google: messages and whole
        responses. The usage of a response is recorded with the last call of this handle, as by `record_usage()`.

        A retry with the same `client_id` stores nothing twice. Several messages get the ids `<client_id>.1`,
        `<client_id>.2` and so on; `NewEntry` values have their own. `expect` is the newest seq the caller has seen:
        `Conflict` is raised if the log has newer entries.
        """
        usage: Usage | None = None
        if not isinstance(messages, Message):
            read = read_sdk_objects(messages)
            messages, usage = read.messages, read.usage
        given, client_ids = _messages_and_ids(messages)
        body = AddBody(
            messages=[message_json(message, "record") for message in given],
            expect=expect,
            client_ids=client_ids or None,
        )
        key = client_id or new_key()
        done = await self._sender.call(api.operations.ADD, self.id, body=body, key=key)
        if (
            usage is not None and self._last
        ):  # last, so that the messages are stored even if this fails
            await self.record_usage(usage)
        return done

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
        """Build the context of the next model call, within the budget, and store its manifest (record of the call).

        `budget` replaces the service's budget for this call; `tools` are the tool schemas that the call sends, which
        are counted. `query` recalls folded (compacted) entries that match; `recall` sets when to recall without a
        query. `notes` (text by name) and the `workspace` are shown in this call only, fenced (marked as data), and
        never enter the log.

        With `to` (a module of `turnfold.wire`, or its name) the budget's `max_bytes` limits the request body of that
        provider. `max_tokens` sets a lower token limit than the budget's.
        """
        body = ContextBody(
            query=query,
            budget=budget and BudgetBody.of(budget),
            tools=cast("list[dict[str, object]] | None", tools),
            recall=None if recall is None else RecallMode.named(recall),
            notes=dict(notes) if notes else None,
            workspace=workspace,
            to=_provider(to),
            max_tokens=max_tokens,
        )
        form = await self._sender.call(api.operations.CONTEXT, self.id, body=body, query=_RECORD)
        self._last = form.call
        return RemoteContext(form, tools=tools or ())

    async def preview(
        self,
        query: str | None = None,
        *,
        budget: Budget | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        to: Provider | WireFormat | None = None,
    ) -> RemoteContext:
        """Build the context `context` would return now, without storing anything or folding (compaction)."""
        body = PreviewBody(
            query=query,
            budget=budget and BudgetBody.of(budget),
            tools=cast("list[dict[str, object]] | None", tools),
            to=_provider(to),
        )
        form = await self._sender.call(api.operations.PREVIEW, self.id, body=body, query=_RECORD)
        return RemoteContext(form, tools=tools or ())

    async def fold(
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
        if keep_turns is not None and keep_turns < 0:
            raise InvalidOption(f"keep_turns={keep_turns} must not be negative")
        body = FoldBody(summary=summary, keep_turns=keep_turns)
        checkpoint = (await self._sender.call(api.operations.FOLD, self.id, body=body)).checkpoint
        if on_progress is not None and checkpoint is not None:
            on_progress(checkpoint.upto, checkpoint.upto)
        return checkpoint

    async def checkpoints(self, *, dropped: bool = False) -> list[Checkpoint]:
        """Return all checkpoints (fold summaries), oldest first; the last is in use.

        `dropped=True` returns the dropped ones instead.
        """
        query = CheckpointsQuery(dropped=dropped)
        found = await self._sender.call(api.operations.CHECKPOINTS, self.id, query=query)
        return found.checkpoints

    async def drop_checkpoint(self, checkpoint: str) -> list[Checkpoint]:
        """Drop the checkpoint with this id and all checkpoints made from it; return the dropped ones, oldest first.

        The conversation returns to the checkpoint before it, or to none. Dropped checkpoints are kept for audit
        (`checkpoints(dropped=True)`); contexts and searches leave them out. Raises `NotFound` if there is no such id.
        """
        if not checkpoint:
            raise NotFound("there is no checkpoint '' to drop: checkpoints() lists all checkpoints")
        found = await self._sender.call(api.operations.DROP_CHECKPOINT, self.id, checkpoint)
        return found.checkpoints

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tokens: int | None = None,
        within: Within = ALL_ENTRIES,
    ) -> list[Recalled]:
        """Find matching entries of this conversation, best first, folded (compacted) or not.

        With `tokens`, `limit` is ignored: return as many entries as fit that token limit, in log order, with the
        entries next to them. `within` restricts the matches (not the entries next to them) by role, tool, turn, time,
        or file path mentioned in the text.
        """
        check_positive("limit", limit)
        check_positive("tokens", tokens)
        body = RecallBody(query=query, limit=limit, tokens=tokens, within=WithinBody.of(within))
        found = await self._sender.call(api.operations.RECALL, self.id, body=body, query=_RECORD)
        return [to_recalled(each) for each in found.recalled]

    async def pin(self, content: str | Entry = "", *, seq: int = 0, key: str = "") -> str:
        """Show a text verbatim in every call from the next user turn on; returns the key to unpin it with.

        Given an entry or its `seq`, the text of that entry is pinned, shown with its number and role. Erasing the entry
        removes the pin.
        """
        if isinstance(content, Entry):
            if seq not in (0, content.seq):
                raise InvalidOption(
                    f"seq={seq} is not the seq of the given entry, {content.seq}: leave seq= out"
                )
            content, seq = "", content.seq
        body = PinBody(content=content, key=key, seq=seq)
        return (await self._sender.call(api.operations.PIN, self.id, body=body)).key

    async def unpin(self, key: str) -> bool:
        """Remove a pin; contexts leave it out from the next user turn on. Returns False if there is no such pin."""
        return bool(key) and (await self._sender.call(api.operations.UNPIN, self.id, key)).done

    async def pins(self) -> dict[str, str]:
        """Return the texts that are pinned now, by key, oldest first."""
        return (await self._sender.call(api.operations.PINS, self.id)).pins

    async def rules(self, *, ended: bool = False) -> list[StandingRule]:
        """Return the user's statements that still apply: rules, decisions, preferences, open tasks, facts.

        They are quoted from the user's messages, in the order in which they were said. Statements of a tool, a
        document or the model are never included. With `ended`, rules that were replaced, done or dropped are included.
        """
        query = RulesQuery(ended=ended)
        return (await self._sender.call(api.operations.RULES, self.id, query=query)).rules

    async def add_rule(self, text: str, *, kind: RuleKind = "rule") -> StandingRule:
        """Add a rule that is in no message of the conversation; contexts show it from now on."""
        body = AddRuleBody(text=text, kind=kind)
        return await self._sender.call(api.operations.ADD_RULE, self.id, body=body)

    async def drop_rule(self, rule: str) -> StandingRule:
        """Drop the active rule with this id (`rule.id`); raises `NotFound` if there is none."""
        if not rule:
            raise NotFound("no active rule has the id '': session.rules() lists the active rules")
        return await self._sender.call(api.operations.DROP_RULE, self.id, rule)

    async def history(self, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the log entries with seq above `after`, oldest first, whether folded (compacted) or not.

        Returns all of them, or at most `limit`.
        """

        async def page(after: int, limit: int) -> tuple[list[Entry], int | None]:
            query = HistoryQuery(form="record", after=after, limit=limit)
            found = await self._sender.call(api.operations.HISTORY, self.id, query=query)
            return [to_entry(each) for each in found.entries], found.next

        return await read_pages(page, after, limit)

    async def turn(self, number: int) -> list[Entry]:
        """Return the entries of one turn, whether folded (compacted) or not.

        Turn 0 is everything before the first user message.
        """

        async def page(after: int, limit: int) -> tuple[list[Entry], int | None]:
            query = HistoryQuery(form="record", after=after, limit=limit)
            found = await self._sender.call(api.operations.TURN, self.id, str(number), query=query)
            return [to_entry(each) for each in found.entries], found.next

        return await read_pages(page, 0, None)

    async def by_client_id(self, client_ids: str | Iterable[str]) -> list[Entry]:
        """Return the entries stored under a client id, or under any of several, in log order.

        Unknown ids are skipped, so the result may be shorter than `client_ids`, or empty. An id given twice counts
        once. Several messages that one `add()` stored under the id "a" have the ids "a.1", "a.2" and so on.
        """
        names = list_client_ids(client_ids)
        found: list[Entry] = []
        for first in range(0, len(names), MAX_CLIENT_IDS):
            body = ClientIdsBody(client_ids=names[first : first + MAX_CLIENT_IDS])
            page = await self._sender.call(
                api.operations.BY_CLIENT_ID, self.id, body=body, query=_RECORD
            )
            found += [to_entry(each) for each in page.entries]
        return sorted(found, key=lambda entry: entry.seq)

    async def calls(self, *, after: str = "", limit: int = 100) -> list[Manifest]:
        """Return the reports of up to `limit` model calls of this conversation after the call `after`, oldest first."""

        async def page(after: str, limit: int) -> tuple[list[Manifest], str | None]:
            query = NamePageQuery(after=after, limit=limit)
            found = await self._sender.call(api.operations.CALLS, self.id, query=query)
            return found.calls, found.next

        return await read_pages(page, after, limit)

    async def explain(self, call: str | int | None = None) -> Explanation:
        """Return what a model call sent and why, rebuilt from the log.

        `call` is its name, or its number, from 1 for the oldest. By default it is the last call of this object, or the
        newest stored one if this object made none; `"@last"` is always the newest stored one.
        """
        name = await self._named(self.last_call or LAST_CALL if call is None else call)
        return to_explanation(
            await self._sender.call(api.operations.EXPLAIN, self.id, name, query=_RECORD)
        )

    async def _named(self, call: str | int | None) -> str:
        """Return the name of a call that is given by name or number; `"@last"` is left to the service."""
        if not isinstance(call, int):
            return self._call_or_last(call)
        return await numbered_call(lambda after: self.calls(after=after), call, self.id)

    async def diff(self, before: str | int, after: str | int) -> Difference:
        """Compare the messages that two calls sent; `before` and `after` are names or numbers of calls, or "@last"."""
        first, second = await self._named(before), await self._named(after)
        query = DiffQuery(form="record", before=first, after=second)
        return to_difference(await self._sender.call(api.operations.DIFF, self.id, query=query))

    async def record_usage(self, usage: object, *, call: str | int | None = None) -> Manifest:
        """Store the token usage that the provider reported for a call, and return the call's manifest (report).

        `usage` is an SDK's response, its usage object, or a `Usage`. `call` is the call's name, or its number, from 1
        for the oldest; by default the last call of this session object.
        """
        body = UsageBody(usage=msgspec.to_builtins(Usage.of(usage)))
        name = await self._named(call)
        return await self._sender.call(api.operations.RECORD_USAGE, self.id, name, body=body)

    async def status(self) -> SessionStatus:
        """Return the numbers of entries, turns and tokens, the live checkpoint (summary), and the state of folding."""
        return await self._sender.call(api.operations.STATUS, self.id)

    async def clear(self) -> int:
        """Hide all messages so far from later contexts; return the last seq (log position) hidden.

        The messages stay in the log. Pins, state and findings (remembered tool results) are kept.
        """
        return (await self._sender.call(api.operations.CLEAR, self.id)).upto

    async def erase(self, seq: int, *, reason: str = "") -> Erasure:
        """Erase one message and everything that was made from it, permanently.

        A placeholder with the same seq and the `reason` stays. Documents that the application wrote itself stay too:
        `mentions` of the result names those that may contain the text. Existing backups, exports and forks are not
        changed.
        """
        query = EraseQuery(reason=reason)
        return await self._sender.call(api.operations.ERASE_ENTRY, self.id, str(seq), query=query)

    async def delete(self) -> Erasure:
        """Delete the conversation and everything derived from it, permanently; `NotFound` if there is none."""
        return await self._sender.call(api.operations.DELETE, self.id)

    async def fork(self, at: int | None = None, *, conversation: str) -> AsyncRemoteSession:
        """Copy all entries up to `at` (default: all) to a new conversation; return its session."""
        body = ForkBody(conversation=conversation, at=at)
        forked = await self._sender.call(api.operations.FORK, self.id, body=body)
        return AsyncRemoteSession(forked.conversation, self._sender)

    def _call_or_last(self, call: str | None) -> str:
        name = call or self._last
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


def _provider(to: Provider | WireFormat | None) -> Provider | None:
    """Return the provider's name for `to`, which may be that name or a module of `turnfold.wire`; None for None.

    Raises `InvalidOption` for anything else, such as a model client, which the service cannot call.
    """
    name: object = to if to is None or isinstance(to, str) else getattr(to, "PROVIDER", "")
    if name == "":
        raise InvalidOption(
            f"to= is of type {type(to).__name__}, which is not a provider: give 'anthropic', 'gemini', 'openai_chat' "
            "or 'openai_responses', or a module of turnfold.wire (a model client cannot be used over HTTP)"
        )
    return cast("Provider | None", name)


def _messages_and_ids(messages: object) -> tuple[list[Message], list[str]]:
    """Return the messages, and their client ids if all of them are `NewEntry` values."""
    if isinstance(messages, list | tuple) and messages:
        given = cast("Sequence[object]", messages)
        if all(isinstance(one, NewEntry) for one in given):
            entries = cast("Sequence[NewEntry]", given)
            return [each.message for each in entries], [each.client_id for each in entries]
    if isinstance(messages, str | Mapping | Message) or not isinstance(messages, Iterable):
        return [as_message(cast("object", messages))], []
    return as_messages(cast("Iterable[object]", messages)), []

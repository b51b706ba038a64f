"""What the tools of a conversation found, so that nobody has to look for it again.

Each result worth keeping is a small document beside the log: shared by all who hold the conversation, gone with it, and
never seen from another conversation or tenant. The newer result of a call takes the place of the older one, by the
order of the log and not by who writes last; what is stale or expired is neither shown nor served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.memory.finding_shelf import FindingOwner, FindingShelf
from turnfold.recall.findings import (
    FindingRule,
    canonical_arguments,
    findings_text,
    for_question,
    rules_by_tool,
)
from turnfold.records import Message, ToolCall, ToolResult, assistant
from turnfold.records.attributes import as_fields
from turnfold.records.findings import TOC, Finding, finding_key
from turnfold.records.json_text import freeze, plain_text

__all__ = ("AsyncFindings", "as_tool_call", "result_text")

_MOST = 64
"""Findings a conversation keeps where nobody says otherwise."""


class AsyncFindings:
    """Results of tool calls, remembered by tool and arguments."""

    def __init__(
        self,
        follower: FindingOwner,
        turnstile: AbstractAsyncContextManager[None],
        clock: Callable[[], int],
    ) -> None:
        self._follower = follower
        self._shelf = FindingShelf(follower)
        self._turnstile = turnstile
        self._clock = clock
        self._rules: dict[str, FindingRule] = {}
        self._most = _MOST

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """The rules of this handle, by tool; a tool without one is remembered only where `note` is called for it."""
        return MappingProxyType(self._rules)

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Follow these rules from now on, and keep at most `most` findings. Rules are code: a process sets its own."""
        if most is not None and most < 1:
            raise InvalidOption(f"most={most} must be at least 1")
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
        """Remember what a call answered; None where that is an error, or not worth it by its rule (relevance, size).

        None also where the arguments have no one meaning (no JSON, a name twice): such calls cannot be compared.

        `call` is a `ToolCall` or a shape tool calls are written in. `seq` is the log entry that holds the result
        (0: it is in no entry); while that entry is shown, the finding is not shown a second time. `asked` is the
        newest seq when the call was made (by default: now). It shows in the tail from the next user turn on.
        """
        called, content = as_tool_call(call), result_text(result)
        if isinstance(result, ToolResult) and result.is_error:
            return None
        rule = self._rules.get(called.name) or FindingRule(called.name)
        arguments = _comparable(called)
        relevance = rule.relevance_of(content, score)
        async with self._turnstile:
            follower = self._follower
            await follower.refresh()
            await self._tell(called.name)
            if arguments is None:
                return None
            now, head = self._clock(), follower.head
            if relevance < rule.min_relevance or len(content) > rule.largest:
                await self._shelf.outdate(finding_key(called.name, arguments), content)
                return None
            finding = Finding(
                tool=called.name,
                arguments=arguments,
                content=content,
                kind=rule.kind,
                score=relevance,
                turn=head.turns,
                seq=seq,
                since=head.seq,
                asked=head.seq if asked is None else asked,
                call=called.id,
                created=now,
                expires=now + round(rule.ttl * 1_000_000) if rule.ttl else 0,
                invalidated_by=rule.invalidated_by,
            )
            kept = await self._shelf.keep(finding)
            await self._shelf.make_room(most=self._most, now=now)
            return kept

    async def get(
        self, tool: str, arguments: str | Mapping[str, object] | None = None
    ) -> Finding | None:
        """What this very call answered, if it still holds."""
        key = finding_key(tool, canonical_arguments(arguments))
        return next((found for found in await self.list() if found.key == key), None)

    async def serve(self, call: object) -> Finding | None:
        """What a call may be answered with instead of being made: only where its rule says so, and it still holds.

        `turnfold.recall.findings.served_text` writes it as a result that says where it comes from.
        """
        called = as_tool_call(call)
        rule = self._rules.get(called.name)
        arguments = _comparable(called)
        if rule is None or not rule.serve or rule.side_effects or arguments is None:
            return None
        return await self.get(called.name, arguments)

    async def ran(self, tool: str) -> None:
        """A tool runs now, or ran: what it makes stale is stale. Say it before the tool starts and when it is done."""
        async with self._turnstile:
            await self._follower.refresh()
            await self._tell(tool)

    async def list(self) -> tuple[Finding, ...]:
        """Everything that holds now: tables of contents, then by relevance, then the newest."""
        async with self._turnstile:
            await self._follower.refresh()
            return tuple(self._follower.findings.holding(self._clock()))

    async def text(self, *, tokens: int, question: str = "") -> str:
        """Everything that holds now as a model is shown it: fenced, in at most `tokens`, cut at boundaries.

        What the `question` speaks of comes first. For programs that build their own prompt; `context` has it already.
        """
        count = self._follower.counter.count_text
        found, _ = for_question(await self.list(), question)
        return findings_text(found, tokens=tokens, count=count, measure=count, question=question)

    async def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Forget what a call answered, or all a tool answered where no arguments are given; how many were forgotten."""
        key = "" if arguments is None else finding_key(tool, canonical_arguments(arguments))
        return await self._drop(lambda each: each.tool == tool and key in ("", each.key))

    async def clear_query(self) -> int:
        """The question is over: forget everything but tables of contents; how many were forgotten."""
        return await self._drop(lambda each: each.kind != TOC)

    async def clear(self) -> int:
        """Forget everything; how many were forgotten."""
        return await self._drop(lambda _: True)

    async def _tell(self, tool: str) -> None:
        """Note that a tool runs, if that makes anything stale."""
        follower = self._follower
        stale = {name for rule in self._rules.values() for name in rule.invalidated_by}
        stale.update(name for each in follower.findings.all() for name in each.invalidated_by)
        if tool in stale:
            await self._shelf.mark({tool: follower.head.seq})

    async def _drop(self, chosen: Callable[[Finding], bool]) -> int:
        async with self._turnstile:
            await self._follower.refresh()
            known = self._follower.findings.all()
            return sum([await self._shelf.forget(each.key) for each in known if chosen(each)])


def as_tool_call(call: object) -> ToolCall:
    """A call from a part, from OpenAI's shape, or from a name with `arguments` (Anthropic says `input`)."""
    if isinstance(call, ToolCall):
        return call
    fields = as_fields(call, "call")
    if "function" in fields:
        return assistant(tool_calls=[fields]).calls[0]
    name, given = fields.get("name"), fields.get("arguments", fields.get("input"))
    if not isinstance(given, str | None):
        given = freeze(given, path="call.arguments")
    return ToolCall(str(fields.get("id", "")), plain_text(name, path="call.name"), given or "{}")


def _comparable(call: ToolCall) -> str | None:
    """The canonical arguments of a call; None where they have no one meaning."""
    try:
        return canonical_arguments(call.arguments)
    except InvalidRecord:
        return None


def result_text(result: object) -> str:
    """A result as text: as it is, or as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, Message | ToolResult):
        return result.text
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(result)

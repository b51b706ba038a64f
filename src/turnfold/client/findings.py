"""What the tools of a session found, kept by a service. Rules are code: they stay here, and travel as numbers.

What a tool's result is worth is decided here, by its rule; everything that all processes must decide alike (what is
stale, what is kept when there is no more room) is decided by the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from turnfold.client.asking import Asker, new_key
from turnfold.errors import InvalidOption
from turnfold.memory.findings import as_tool_call, result_text
from turnfold.recall.findings import FindingRule, canonical_arguments, rules_by_tool
from turnfold.records import ToolResult
from turnfold.records.findings import Finding, finding_key
from turnfold.service import answers

__all__ = ("AsyncRemoteFindings",)


class AsyncRemoteFindings:
    """Results of tool calls, remembered by tool and arguments."""

    def __init__(self, asker: Asker, conversation: str) -> None:
        self._asker = asker
        self._path = "sessions", conversation, "findings"
        self._rules: dict[str, FindingRule] = {}
        self._most: int | None = None

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

        `call` is a `ToolCall` or a shape tool calls are written in. `seq` is the log entry that holds the result
        (0: it is in no entry); while that entry is shown, the finding is not shown a second time. `asked` is the
        newest seq when the call was made (by default: now). It shows in the tail from the next user turn on.
        """
        called, content = as_tool_call(call), result_text(result)
        if isinstance(result, ToolResult) and result.is_error:
            return None
        rule = self._rules.get(called.name) or FindingRule(called.name)
        function = {"name": called.name, "arguments": called.arguments}
        body: dict[str, object] = {
            "call": {"id": called.id, "type": "function", "function": function},
            "result": content,
            "score": rule.relevance_of(content, score),
            "seq": seq,
            "asked": asked,
            "rules": self._written(),
            "most": self._most,
        }
        form = await self._asker.ask("POST", *self._path, answer=answers.FindingAnswer, body=body)
        return form.finding

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
        if rule is None or not rule.serve or rule.side_effects:
            return None
        return await self.get(called.name, called.arguments)

    async def ran(self, tool: str) -> None:
        """A tool runs now, or ran: what it makes stale is stale. Say it before the tool starts and when it is done."""
        body = {"tool": tool, "rules": self._written()}
        await self._asker.ask("POST", *self._path, "ran", answer=answers.DoneAnswer, body=body)

    async def list(self) -> tuple[Finding, ...]:
        """Everything that holds now: tables of contents, then by relevance, then the newest."""
        form = await self._asker.ask("GET", *self._path, answer=answers.FindingsAnswer)
        return tuple(form.findings)

    async def text(self, *, tokens: int, question: str = "") -> str:
        """Everything that holds now as a model is shown it: fenced, in at most `tokens`, cut at boundaries.

        What the `question` speaks of comes first. For programs that build their own prompt; `context` has it already.
        """
        body = {"tokens": tokens, "question": question}
        path = *self._path, "text"
        return (await self._asker.ask("POST", *path, answer=answers.TextAnswer, body=body)).text

    async def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Forget what a call answered, or all a tool answered where no arguments are given; how many were forgotten."""
        return await self._forget("drop", {"tool": tool, "arguments": arguments})

    async def clear_query(self) -> int:
        """The question is over: forget everything but tables of contents; how many were forgotten."""
        return await self._forget("clear", {"query_only": True})

    async def clear(self) -> int:
        """Forget everything; how many were forgotten."""
        return await self._forget("clear", {})

    async def _forget(self, what: str, body: dict[str, object]) -> int:
        path = *self._path, what
        done = await self._asker.ask(
            "POST", *path, answer=answers.CountAnswer, body=body, key=new_key()
        )
        return done.count

    def _written(self) -> tuple[dict[str, object], ...]:
        return tuple(
            {
                "tool": rule.tool,
                "kind": rule.kind,
                "ttl": rule.ttl,
                "invalidated_by": rule.invalidated_by,
                "min_relevance": rule.min_relevance,
                "largest": rule.largest,
            }
            for rule in self._rules.values()
        )

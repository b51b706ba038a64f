"""What a middleware has of one conversation: its place in the log, its view, and what its tools found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages import ToolCall as LangChainCall

from turnfold.adapters.langchain.recording import call_of, recorded
from turnfold.adapters.langchain.run_log import RunLog
from turnfold.adapters.langchain.view import View, history_of
from turnfold.memory import AsyncSession
from turnfold.recall.findings import FindingRule, served_text
from turnfold.records import ToolCall, Usage
from turnfold.wire.unwritable import writable

__all__ = ("Asked", "Talk")


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call, and where the log stood when it was made."""

    call: ToolCall
    seq: int = 0
    """0 where the call is none that is remembered."""
    served: ToolMessage | None = None
    """The answer from memory, where there is one."""


class Talk:
    """One conversation."""

    def __init__(
        self, session: AsyncSession, *, recall: bool, findings: Sequence[FindingRule]
    ) -> None:
        self._session = session
        self._log = RunLog(session)
        self._view = View(session, self._log, recall)
        self._remembers = bool(findings)
        if findings:
            session.findings.use(findings)
        self._unnoted: list[tuple[Asked, str]] = []
        """What was found and is not in the log yet; noted with the entry that shows it."""

    async def shape(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], str]:
        """The request as the model is to see it, and the name of the call."""
        shaped = await self._view.shape(request)
        await self._note(request.messages)
        return shaped

    async def used(self, answers: Sequence[AIMessage], call: str) -> None:
        """Note what the provider counted."""
        for answer in answers:
            usage = answer.usage_metadata
            if usage is None or not usage["input_tokens"] or not call:
                continue
            cached = usage.get("input_token_details", {}).get("cache_read", 0)
            reported = Usage(
                input=usage["input_tokens"], output=usage["output_tokens"], cached=cached
            )
            await self._session.record_usage(reported, call=call)

    async def before_tool(self, call: LangChainCall, messages: Sequence[BaseMessage]) -> Asked:
        """Store what was said up to the call; what is remembered of the same call is its answer."""
        await self._log.catch_up(history_of(messages))
        named, exact = call_of(call)
        if not self._remembers or not exact:
            return Asked(named)
        findings = self._session.findings
        seq = (await self._session.status()).entries
        known = await findings.serve(named)
        if known is None:
            # Told before it runs and after, however it ends: what it may have changed is not trusted meanwhile.
            await findings.ran(named.name)
            return Asked(named, seq)
        answer = ToolMessage(served_text(known), tool_call_id=named.id, name=named.name)
        return Asked(named, seq, answer)

    async def after_tool(self, call: LangChainCall) -> None:
        """What the tool may have changed is looked at anew."""
        if self._remembers:
            await self._session.findings.ran(call["name"])

    def found(self, asked: Asked, result: object) -> None:
        """Remember what a tool found, once the log shows it."""
        rules = self._session.findings.rules if self._remembers else ()
        if asked.seq and asked.call.name in rules and isinstance(result, ToolMessage):
            _, shown = recorded(result)
            if shown.content is result.content:  # else it has no text of its own
                self._unnoted.append((asked, str(writable(str(shown.text)))))

    async def finish(self, messages: Sequence[BaseMessage]) -> None:
        """Store what a run ended with."""
        await self._log.catch_up(history_of(messages))
        await self._note(messages)

    async def _note(self, messages: Sequence[BaseMessage]) -> None:
        if not self._unnoted:
            return
        shown = {
            message.tool_call_id: self._log.seq(self._log.name(message))
            for message in messages
            if isinstance(message, ToolMessage)
        }
        while self._unnoted:
            asked, text = self._unnoted.pop(0)
            seq = shown.get(asked.call.id, 0)
            await self._session.findings.note(asked.call, text, seq=seq, asked=asked.seq)

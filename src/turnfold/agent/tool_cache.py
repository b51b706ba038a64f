"""Remember tool results as findings, and answer identical calls from them.

A tool with a rule is remembered; one that allows it is not called twice with the same arguments while its answer holds.
The model gets the answer all the same, with a first line that says where it comes from, so that the log shows what was
called and what was not. An agent without rules does nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnfold.agent.tools import Tool
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule, rules_by_tool, served_text
from turnfold.memory import AsyncSession
from turnfold.records import ToolCall

__all__ = ("ToolCache",)


class ToolCache:
    """Answers identical calls from the findings (remembered tool results) of a conversation, and notes new ones."""

    def __init__(self, rules: Iterable[FindingRule], tools: Iterable[Tool]) -> None:
        own = [(tool.name, tool.remember) for tool in tools if tool.remember is not None]
        for name, rule in own:
            if rule.tool != name:
                raise InvalidOption(
                    f"tool {name!r} has a finding rule for tool {rule.tool!r}: give it one of its own"
                )
        self._rules = rules_by_tool([*rules, *(rule for _, rule in own)])

    def begin(self, session: AsyncSession) -> None:
        """Add the rules of the agent to those of the session."""
        if self._rules:
            session.findings.use(({**session.findings.rules, **self._rules}).values())

    async def answer(self, session: AsyncSession, call: ToolCall) -> str | None:
        """Return the remembered result of a call; None where the tool must run."""
        if not self._rules:
            return None
        found = await session.findings.serve(call)
        if found is not None:
            return served_text(found)
        await session.findings.ran(call.name)
        return None

    async def done(
        self,
        session: AsyncSession,
        call: ToolCall,
        text: str,
        *,
        failed: bool,
        seq: int,
        asked: int,
    ) -> None:
        """Invalidate what a finished tool makes stale, and note its result where a rule says so."""
        if not self._rules:
            return
        if failed or call.name not in self._rules:
            await session.findings.ran(call.name)
        else:
            await session.findings.note(call, text, seq=seq, asked=asked)

"""What an agent does with the results of its tools, beyond logging them.

A tool that was given a rule is remembered; one that allows it is not called twice with the same arguments while its
answer holds. The model gets the answer all the same, with a first line that says where it comes from, so that the log
tells what was called and what was not. An agent without rules does nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnfold.agent.tools import Tool
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncSession
from turnfold.recall.findings import FindingRule, rules_by_tool, served_text
from turnfold.records import ToolCall

__all__ = ("Serving",)


class Serving:
    """Answers identical calls from what the conversation found, and notes what is found anew."""

    def __init__(self, rules: Iterable[FindingRule], tools: Iterable[Tool]) -> None:
        own = [(tool.name, tool.remember) for tool in tools if tool.remember is not None]
        for name, rule in own:
            if rule.tool != name:
                raise InvalidOption(f"tool {name!r} has the rule of {rule.tool!r}")
        self._rules = rules_by_tool([*rules, *(rule for _, rule in own)])

    def begin(self, session: AsyncSession) -> None:
        """Let the session follow the rules of the agent, beside those it has."""
        if self._rules:
            session.findings.use(({**session.findings.rules, **self._rules}).values())

    async def answer(self, session: AsyncSession, call: ToolCall) -> str | None:
        """The result of a call that need not be made; None where it must."""
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
        """A tool ran: what it makes stale is stale, and what it answered is noted where a rule says so."""
        if not self._rules:
            return
        if failed or call.name not in self._rules:
            await session.findings.ran(call.name)
        else:
            await session.findings.note(call, text, seq=seq, asked=asked)

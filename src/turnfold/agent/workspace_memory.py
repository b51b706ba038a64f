"""The agent's workspace memory: snapshots of the workspace turn by turn, beside the conversation.

Once per user turn the workspace is stored and summarised; the summaries of all turns are shown with every call, and the
model may bring any earlier workspace back with `recall_context`, whose answer is logged like that of any tool. An agent
without a memory module does nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memories import AsyncMemoryModule
from turnfold.memory import AsyncSession
from turnfold.records import ToolCall
from turnfold.wire import ToolOutcome

__all__ = ("WorkspaceMemory",)


_NAME = "recall_context"
_arguments = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class WorkspaceMemory:
    """A memory module in an agent's loop."""

    module: AsyncMemoryModule | None
    render: Callable[[], str] | None
    """Returns the workspace as it is now."""

    def __post_init__(self) -> None:
        if self.module is not None and self.render is None:
            raise InvalidOption("memory_module= needs a workspace to remember: give workspace= too")

    def schemas(self, own: Mapping[str, object]) -> list[dict[str, object]]:
        """Return the schema of the tool it offers; `own` are the agent's tools by name."""
        if self.module is None:
            return []
        if _NAME in own:
            raise InvalidOption(f"a memory module adds the tool {_NAME}: give yours another name")
        return [self.module.recall_tool()]

    async def begin(self, session: AsyncSession) -> None:
        """Store and summarise the workspace of this user turn, unless that has been done."""
        if self.module is not None and self.render is not None:
            turn = (await session.status()).turns
            await self.module.within(session.id).perform_thinking_phase(self.render(), turn=turn)

    async def notes(
        self, session: AsyncSession, budget: Budget, max_tokens: int
    ) -> dict[str, str] | None:
        """Return what the next call is shown of it; `max_tokens` is set where less must do."""
        if self.module is None:
            return None
        allowed = replace(budget, max_tokens=max_tokens) if max_tokens else budget
        return await self.module.within(session.id).notes(budget=allowed)

    def answers(self, call: ToolCall) -> bool:
        """Return True if a call is for the recall tool."""
        return self.module is not None and call.name == _NAME

    async def result(self, session: AsyncSession, call: ToolCall) -> ToolOutcome:
        """Return the recalled workspace, or an error text for the model."""
        if self.module is None:
            return ToolOutcome("error: nothing is remembered here", failed=True)
        try:
            arguments = _arguments.decode(call.arguments or "{}")
            return ToolOutcome(await self.module.within(session.id).answer_recall(arguments))
        except (InvalidOption, msgspec.MsgspecError, RecursionError) as error:
            return ToolOutcome(f"error: {error}", failed=True)

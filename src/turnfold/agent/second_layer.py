"""The agent's second layer: the workspace remembered turn by turn, beside the conversation.

Once per user turn the workspace is kept and thought through; the summaries of all turns are shown with every call, and
the model may bring any earlier workspace back with `recall_context`, whose answer is logged like that of any tool. An
agent without a memory module does nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from turnfold.agent.results import Outcome
from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemoryModule, AsyncSession
from turnfold.records import ToolCall

__all__ = ("SecondLayer",)

_NAME = "recall_context"
_arguments = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class SecondLayer:
    """What a memory module does in an agent's loop."""

    module: AsyncMemoryModule | None
    render: Callable[[], str] | None
    """The workspace as it is now."""

    def __post_init__(self) -> None:
        if self.module is not None and self.render is None:
            raise InvalidOption(
                "memory_module= remembers a workspace and there is none: give workspace= too"
            )

    def schemas(self, own: Mapping[str, object]) -> list[dict[str, object]]:
        """The tool it offers; `own` are the agent's by name."""
        if self.module is None:
            return []
        if _NAME in own:
            raise InvalidOption(f"a memory module offers {_NAME}: give your own tool another name")
        return [self.module.recall_tool()]

    async def begin(self, session: AsyncSession) -> None:
        """Keep the workspace of this user turn and think it through, unless that has been done."""
        if self.module is not None and self.render is not None:
            turn = (await session.status()).turns
            await self.module.within(session.id).perform_thinking_phase(self.render(), turn=turn)

    async def notes(
        self, session: AsyncSession, budget: Budget, max_tokens: int
    ) -> dict[str, str] | None:
        """What the next call is shown of it; `max_tokens` is set where less must do."""
        if self.module is None:
            return None
        allowed = replace(budget, max_tokens=max_tokens) if max_tokens else budget
        return await self.module.within(session.id).notes(budget=allowed)

    def answers(self, call: ToolCall) -> bool:
        """Whether a call is for it."""
        return self.module is not None and call.name == _NAME

    async def result(self, session: AsyncSession, call: ToolCall) -> Outcome:
        """What is brought back; the model is told what is wrong with its question."""
        if self.module is None:
            return Outcome("error: nothing is remembered here", failed=True)
        try:
            asked = _arguments.decode(call.arguments or "{}")
            return Outcome(await self.module.within(session.id).answer_recall(asked))
        except (InvalidOption, msgspec.MsgspecError, RecursionError) as error:
            return Outcome(f"error: {error}", failed=True)

"""A context under the system message of the run that asks for it.

A framework brings its system message with every call, and a conversation has one at a time. Agents that work side by
side in one conversation would each be shown whichever was set last: between setting it and making the context another
run may set its own. So runs of one process wait for each other here (without, three that set theirs in turn would never
end), and the context is looked at, and made again where another process was faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from turnfold.errors import Conflict
from turnfold.memory.session import AsyncSession
from turnfold.records import TextPart, system
from turnfold.window import Context, Section
from turnfold.window.shrink import may_be_left_of

if TYPE_CHECKING:
    from turnfold.wire import WireFormat

__all__ = ("told_context",)

_TRIES = 16
"""Times another run may set its own system message first."""


async def told_context(
    session: AsyncSession,
    told: Sequence[str],
    query: str | None,
    *,
    tools: Sequence[Mapping[str, object]] = (),
    max_tokens: int = 0,
    to: WireFormat | None = None,
) -> Context:
    """The context of the next call with these texts as its system message; without any, with the session's own.

    They are set where another message is in force: who wants them in the log before the first question sets them first.
    """
    async with session.telling:
        for _ in range(_TRIES):
            context = await session.context(query, tools=tools, max_tokens=max_tokens, to=to)
            if not told or _is_under(context, told):
                return context
            await session.system([{"type": "text", "text": text} for text in told])
    raise Conflict(
        f"conversation {session.id!r}: {_TRIES} times another run set its own system message first. Give agents that "
        "work side by side conversations of their own"
    )


def _is_under(context: Context, told: Sequence[str]) -> bool:
    """Whether the system message of a context is this one, as it was told or shortened."""
    own = system([{"type": "text", "text": text} for text in told])
    wanted = [part.text for part in own.parts if isinstance(part, TextPart)]
    parts = [part for message in context.section(Section.SYSTEM) for part in message.parts]
    shown = [part.text for part in parts if isinstance(part, TextPart)]
    return len(shown) == len(wanted) and all(map(may_be_left_of, shown, wanted))

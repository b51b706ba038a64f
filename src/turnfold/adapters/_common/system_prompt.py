"""Builds a context with the system message of the run that requests it.

A framework gives its system message with every call, but a conversation has only one at a time: after a run sets it,
another run may set its own before the context is built. Runs of one process therefore use a lock (without it, three
runs could replace each other's message for ever). The context is checked, and rebuilt if another process changed the
message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from turnfold.errors import Conflict
from turnfold.memory import AsyncSession
from turnfold.records import TextPart, system
from turnfold.window import Context, Section, may_be_shrunk_from

__all__ = ("context_with_system", "set_system", "system_texts")


if TYPE_CHECKING:
    from turnfold.wire import WireFormat


_TRIES = 16
"""Attempts to build a context; an attempt fails if another run has set its own system message."""


async def set_system(session: AsyncSession, texts: Sequence[str]) -> None:
    """Store these texts as the session's system message; without texts, the stored message is not changed."""
    if texts:
        await session.system([{"type": "text", "text": text} for text in texts])


async def context_with_system(
    session: AsyncSession,
    texts: Sequence[str],
    query: str | None,
    *,
    tools: Sequence[Mapping[str, object]] = (),
    max_tokens: int = 0,
    to: WireFormat | None = None,
) -> Context:
    """Build the context of the next call with `texts` as its system message; without texts, with the session's own.

    The texts are stored only if the session's current system message differs. To have them in the log before the first
    user message, call `set_system` first.
    """
    async with session.system_lock:
        for _ in range(_TRIES):
            context = await session.context(query, tools=tools, max_tokens=max_tokens, to=to)
            if not texts or _has_system(context, texts):
                return context
            await set_system(session, texts)
    raise Conflict(
        f"conversation {session.id!r}: another run replaced the system message {_TRIES} times. Use separate "
        "conversations for agents that run at the same time"
    )


def system_texts(context: Context) -> list[str]:
    """Return the texts of a context's system message, which may have been shortened."""
    parts = [part for message in context.section(Section.SYSTEM) for part in message.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


def _has_system(context: Context, texts: Sequence[str]) -> bool:
    """Return True if the context was built with these texts as its system message, whole or shortened."""
    own = system([{"type": "text", "text": text} for text in texts])
    wanted = [part.text for part in own.parts if isinstance(part, TextPart)]
    found = system_texts(context)
    return len(found) == len(wanted) and all(map(may_be_shrunk_from, found, wanted))

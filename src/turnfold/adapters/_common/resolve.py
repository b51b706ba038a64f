"""Finds the session that an adapter uses, by the same rule for every framework."""

from __future__ import annotations

from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session

__all__ = ("session_of",)


def session_of(
    memory: AsyncMemory | Memory | AsyncSession | Session, conversation: str = ""
) -> AsyncSession:
    """Return the session that was given, or the memory's session of `conversation`."""
    given = memory.awaiting if isinstance(memory, Memory | Session) else memory
    if isinstance(given, AsyncSession):
        if conversation and conversation != given.id:
            raise InvalidOption(
                f"conversation={conversation!r} was given with a session of {given.id!r}: give only one of them"
            )
        return given
    if not conversation:
        raise InvalidOption(
            "a memory has many conversations: give conversation=, or memory.session(id)"
        )
    return given.session(conversation)

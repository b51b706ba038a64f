"""The session an adapter is meant to work on, however it was named: one rule for every framework."""

from __future__ import annotations

from turnfold.errors import InvalidOption
from turnfold.memory.blocking import Memory, Session
from turnfold.memory.front_door import AsyncMemory
from turnfold.memory.session import AsyncSession

__all__ = ("chosen_session",)


def chosen_session(
    memory: AsyncMemory | Memory | AsyncSession | Session, conversation: str = ""
) -> AsyncSession:
    """The session given, or the one a memory has for `conversation`."""
    given = memory.awaiting if isinstance(memory, Memory | Session) else memory
    if isinstance(given, AsyncSession):
        if conversation and conversation != given.id:
            raise InvalidOption(
                f"conversation={conversation!r} beside a session of {given.id!r}: give one of them"
            )
        return given
    if not conversation:
        raise InvalidOption("a memory has many conversations: name one, or give memory.session(id)")
    return given.session(conversation)

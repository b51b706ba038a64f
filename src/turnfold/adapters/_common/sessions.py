"""Finds the session that an adapter uses, by the same rule for every framework."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession, Memory, Session, use_model
from turnfold.stores import short_name

__all__ = (
    "calling_session",
    "count_for",
    "nested_conversation",
    "nested_session",
    "running_tool",
    "session_of",
)


_TOOL_CALL: ContextVar[tuple[str, str] | None] = ContextVar("turnfold_tool_call", default=None)
"""The conversation and the call id of the tool that is running."""


def session_of(
    memory: AsyncMemory | Memory | AsyncSession | Session, conversation: str = ""
) -> AsyncSession:
    """Return the async form of the session that was passed; if a memory was passed, of its session `conversation`."""
    given = memory.awaiting if isinstance(memory, Memory | Session) else memory
    if isinstance(given, AsyncSession):
        if conversation and conversation != given.id:
            raise InvalidOption(
                f"conversation={conversation!r} was given with a session of {given.id!r}: give only one of them"
            )
        return given
    if not conversation:
        raise InvalidOption(
            "no conversation was named, and a memory has many: give conversation=..., or memory.session(id) instead of "
            "the memory"
        )
    return given.session(conversation)


@contextmanager
def running_tool(conversation: str, call: str) -> Generator[None]:
    """Context manager: marks a tool call as running, so that an agent inside the tool gets its own conversation."""
    token = _TOOL_CALL.set((conversation, call))
    try:
        yield
    finally:
        _TOOL_CALL.reset(token)


def nested_conversation() -> str:
    """Return the conversation id for an agent inside the running tool; empty if no tool is running."""
    running = _TOOL_CALL.get()
    return short_name(f"{running[0]}/{running[1]}") if running else ""


def nested_session(session: AsyncSession) -> AsyncSession:
    """Return `session`, or a separate session for an agent inside a running tool of the same conversation."""
    running = _TOOL_CALL.get()
    if running is None or running[0] != session.id:
        return session
    return AsyncSession(nested_conversation(), session.config)


def calling_session(session: AsyncSession) -> AsyncSession:
    """Return the session of the agent that called the running tool; `session` if no nested agent did."""
    running = _TOOL_CALL.get()
    if running is None or running[0] == session.id:
        return session
    return AsyncSession(running[0], session.config)


async def count_for(session: AsyncSession, model: object) -> None:
    """Count tokens as the framework's model does, if the memory names no model.

    `model` is the name of that model, or an object with the name in a field.
    """
    names = (model, *(getattr(model, name, None) for name in ("model_name", "model", "model_id")))
    await use_model(session, next((name for name in names if isinstance(name, str) and name), ""))

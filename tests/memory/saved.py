"""Memories in a file, and what can be seen of them; for the tests of persistence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnfold import BudgetTooSmall, Message, MessageMemory, MessageMemoryConfig
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore

__all__ = (
    "BUDGETS",
    "SCOPE",
    "NumberedSummaries",
    "kept_in",
    "kept_in_config",
    "seen",
    "stored",
    "window",
)

SCOPE = Scope("default")
BUDGETS = (0, 250, 900, 2000)


def kept_in(path: Path, session: str = "s", **options: object) -> MessageMemory:
    config = MessageMemoryConfig(
        session_id=session,
        db_path=str(path),
        enable_persistence=True,
        **options,  # pyright: ignore[reportArgumentType] - options by name
    )
    return MessageMemory(config)


def stored(path: Path, session: str = "s") -> list[Message]:
    """The whole log, read without the memory."""
    store = SqliteStore(path, blocking=True)
    try:
        return [each.message for each in drive(store.read(SCOPE, session, limit=100_000))]
    finally:
        drive(store.close())


def seen(memory: MessageMemory) -> tuple[object, ...]:
    """Everything a caller can see without changing it."""
    return memory.get_messages(), memory.count(), memory.get_token_count()


def window(memory: MessageMemory, budget: int) -> list[Message] | str:
    try:
        return memory.get_messages_within_budget(budget)
    except BudgetTooSmall as error:
        return str(error)


def kept_in_config(path: Path, options: dict[str, object]) -> MessageMemoryConfig:
    return MessageMemoryConfig(
        session_id="s",
        db_path=path,
        enable_persistence=True,
        **options,  # pyright: ignore[reportArgumentType] - options by name
    )


class NumberedSummaries:
    """A summarizer that never says the same twice: whoever asks again is found out."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, messages: Sequence[Message], *, previous: str, limit: int) -> str:
        self.calls += 1
        text = f"summary {self.calls} of {len(messages)} messages after {previous[:20]!r}"
        return text[: 4 * limit]

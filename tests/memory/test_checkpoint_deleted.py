"""A summary for a conversation that is erased meanwhile is refused as such, wherever the erasure comes in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnfold import Memory
from turnfold.errors import ConversationDeleted
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store

SCOPE = Scope("alice")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param == "sqlite":
        opened = SqliteStore(tmp_path / "chat.db", blocking=True)
    else:
        pytest.importorskip("psycopg", reason="needs psycopg")
        from tests.stores.servers import fresh_database
        from turnfold.stores.postgres.store import PostgresStore

        opened = PostgresStore(fresh_database(), blocking=True)
    yield opened
    drive(opened.close())


def erase_before(store: Store, verb: str) -> None:
    """Erase the conversation just before the next call of a verb."""
    original = getattr(store, verb)

    async def erasing(*arguments: Any, **options: Any) -> Any:
        setattr(store, verb, original)
        await store.delete(SCOPE, "talk")
        return await original(*arguments, **options)

    setattr(store, verb, erasing)


@pytest.mark.parametrize("verb", ["read", "add_checkpoint"])
def test_a_summary_that_comes_too_late_is_told_why(store: Store, verb: str) -> None:
    with Memory(store, scope=SCOPE, keep_turns=1) as memory:
        session = memory.session("talk")
        for text in ("你好", "hello", "what now?"):
            session.user(text)
            session.assistant("好的")
        session.context()  # what a checkpoint reads before it reads what it covers is known now
        erase_before(store, verb)
        with pytest.raises(ConversationDeleted, match="'talk' has been erased"):
            session.fold(summary="we greeted each other", keep_turns=1)
        assert session.checkpoints() == []
        assert session.history() == []
    assert drive(store.head(SCOPE, "talk")).checkpoint == ""

"""Many who write through one session at once: they share commits, their order is kept, and contexts see all of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from turnfold import AsyncMemory, Budget, Memory, Session
from turnfold.memory import ConversationCache
from turnfold.records import Message
from turnfold.stores import Ability, Appended
from turnfold.stores.sqlite.engine import SqliteEngine

WRITERS = 8
PATIENCE = 20.0


def _at_once(jobs: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(jobs)) as threads:
        for done in [threads.submit(job) for job in jobs]:
            done.result()


def _said(session: Session) -> list[str]:
    return [entry.message.text for entry in session.history(limit=10_000)]


def _memory(path: Path, tokens: int = 600) -> Memory:
    budget = Budget(max_tokens=tokens)
    return Memory(f"sqlite:///{path}", model="gpt-4o", budget=budget, fold="manual")


def test_writers_of_one_session_share_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _memory(tmp_path / "chat.db") as memory:
        session = memory.session("talk")
        session.user("hello")
        everybody = threading.Event()
        submitted: list[object] = []
        submit, begin = SqliteEngine.submit, SqliteEngine._begin

        async def submit_and_tell(engine: SqliteEngine, kind: object, item: object) -> object:
            submitted.append(item)
            if len(submitted) == WRITERS:
                everybody.set()
            return await submit(engine, kind, item)  # type: ignore[arg-type]

        def begin_with_all(engine: SqliteEngine) -> None:
            # A session that let the next one through only after the commit would stand here for good.
            assert everybody.wait(PATIENCE), f"{len(submitted)} of {WRITERS} came to the store"
            begin(engine)

        monkeypatch.setattr(SqliteEngine, "submit", submit_and_tell)
        monkeypatch.setattr(SqliteEngine, "_begin", begin_with_all)
        _at_once([lambda n=n: session.user(f"said {n}") for n in range(WRITERS)])
        assert sorted(_said(session)[1:]) == [f"said {n}" for n in range(WRITERS)]


def test_contexts_made_while_others_write_see_whole_logs(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with _memory(path, 6_000) as memory:  # however far the writers are ahead, everything fits
        session = memory.session("talk")
        session.system("You answer briefly.")

        def write(name: int) -> None:
            for number in range(30):
                session.add(Message("user", f"{name}:{number}"), client_id=f"{name}.{number}")

        def look(name: int) -> None:
            for number in range(20):
                session.add(Message("user", f"look {name}:{number}"))
                shown = [message.text for message in session.context().messages]
                assert f"look {name}:{number}" in shown  # what a thread said, it is shown

        _at_once([lambda n=n: write(n) for n in range(4)] + [lambda n=n: look(n) for n in range(2)])
        log = _said(session)
        assert len(log) == 1 + 4 * 30 + 2 * 20
        for name in range(4):
            own = [text for text in log if text.startswith(f"{name}:")]
            assert own == [f"{name}:{number}" for number in range(30)]
        for call in session.calls(limit=1000):
            session.explain(call.call)  # proves by a digest that it rebuilt what was sent
        last = [message.text for message in session.context().messages]
    with _memory(path, 6_000) as memory:
        assert [message.text for message in memory.session("talk").context().messages] == last


@pytest.mark.parametrize("address", [None, "chat.db"])
def test_what_nobody_waited_for_is_stored_in_the_order_it_was_said(
    tmp_path: Path, address: str | None
) -> None:
    async def talk() -> list[str]:
        url = "sqlite://" if address is None else f"sqlite:///{tmp_path / address}"
        async with AsyncMemory(url, model="gpt-4o") as memory:
            assert Ability.IN_ORDER in memory.store.abilities
            session = memory.session("talk")
            await asyncio.gather(*(session.user(str(number)) for number in range(50)))
            return [entry.message.text for entry in await session.history()]

    assert asyncio.run(talk()) == [str(number) for number in range(50)]


def test_own_appends_are_not_read_again_in_whatever_order_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[ConversationCache, Appended, Sequence[Message]]] = []
    appended = ConversationCache.queue_append
    with _memory(tmp_path / "chat.db") as memory:
        session = memory.session("talk")
        session.user("hello")
        session.context()
        monkeypatch.setattr(ConversationCache, "queue_append", lambda *one: told.append(one))
        for number in range(5):
            session.user(f"said {number}")
        for one in reversed(told):
            appended(*one)
        reads: list[ConversationCache] = []
        refresh = ConversationCache.refresh

        async def refresh_and_tell(cache: ConversationCache) -> None:
            reads.append(cache)
            await refresh(cache)

        monkeypatch.setattr(ConversationCache, "refresh", refresh_and_tell)
        shown = [message.text for message in session.context().messages]
        assert shown == ["hello", *(f"said {number}" for number in range(5))]
        assert not reads


def test_more_own_appends_than_are_held_are_read_again(tmp_path: Path) -> None:
    with _memory(tmp_path / "chat.db") as memory:
        session = memory.session("talk")
        session.user("hello")
        session.context()
        for number in range(300):
            session.user(f"said {number}")
        assert session.context().messages[-1].text == "said 299"
        assert session.status().entries == 301

"""Messages that are stored again in place of others: at every moment a reader sees the old or the new, never both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from turnfold import AsyncMemory, Memory
from turnfold.adapters._common import (
    GivenRecord,
    VisibleHistory,
    follow_history,
    replace_history,
)
from turnfold.memory import AsyncSession
from turnfold.records import CLEARED, SESSION, user
from turnfold.stores import SqliteStore

Change = Callable[[AsyncSession], Awaitable[object]]
WORDS = ["harbour a", "harbour b", "harbour c", "harbour d"]


class Died(BaseException):
    """The process ends here."""


def dying(patch: pytest.MonkeyPatch, writes: int) -> None:
    """Let the store end the process before the write after so many."""
    left = [writes]

    def counted(method: Any) -> Any:
        async def write(*given: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Died
            return await method(*given, **more)

        return write

    for name in ("append", "put_document", "note"):
        patch.setattr(SqliteStore, name, counted(getattr(SqliteStore, name)))


async def follow(session: AsyncSession) -> None:
    given = [user(text) for text in ("harbour a", "harbour b", "edited c", "harbour e")]
    await follow_history(session, [GivenRecord(record, "") for record in given])


async def pop(session: AsyncSession) -> None:
    openai_agents = pytest.importorskip("turnfold.adapters.openai_agents")
    await openai_agents.TurnfoldSession(session).pop_item()


def seen_by_all(place: str) -> dict[str, list[str]]:
    """What each reader sees in another process."""
    with Memory(place) as memory:
        session = memory.session("s")
        found = session.recall("harbour", limit=20)
        context = [one.text for one in session.context().messages]
        fork = session.fork(conversation="t").context()
        assert [one.text for one in fork.messages] == context
    return {"context": context, "recall": sorted(one.message.text for one in found)}


async def shown(memory: AsyncMemory) -> list[str]:
    entries = await VisibleHistory(memory.session("s")).entries()
    return [one.entry.message.text for one in entries]


AFTER = {"follow": ["harbour a", "harbour b", "edited c", "harbour e"], "pop": WORDS[:3]}


def crashed(place: str, change: Change, writes: int) -> tuple[bool, list[str]]:
    """Change a session in a process that dies after so many writes; whether it did, and what its context showed."""

    async def work() -> tuple[bool, list[str]]:
        async with AsyncMemory(place) as memory:
            session = memory.session("s")
            await session.add([user(text) for text in WORDS])
            await session.context()
            with pytest.MonkeyPatch.context() as patch:
                dying(patch, writes)
                try:
                    await change(session)
                    died = False
                except Died:
                    died = True
            return died, [one.text for one in (await session.context()).messages]

    return asyncio.run(work())


@pytest.mark.parametrize("change", [follow, pop])
def test_wherever_the_process_dies_every_reader_sees_before_or_after(
    change: Change, tmp_path: Path
) -> None:
    after = AFTER[change.__name__]
    died, writes, seen = True, -1, dict[str, list[str]]()
    while died:
        writes += 1
        place = f"sqlite:///{tmp_path / f'{writes}.db'}"
        died, context = crashed(place, change, writes)
        seen = seen_by_all(place)
        assert seen["context"] in (WORDS, after), writes
        assert seen["recall"] in (
            WORDS,
            sorted(text for text in after if "harbour" in text),
        ), writes
        assert context == seen["context"], writes

        async def again(place: str = place) -> list[str]:
            async with AsyncMemory(place) as memory:
                before = await shown(memory)
                await change(memory.session("s"))
                assert before in (WORDS, after)
                context = (await memory.session("s").context()).messages
                assert [one.text for one in context] == await shown(memory)
                return await shown(memory)

        left = asyncio.run(again())
        assert left in (after, after[:2] if change is pop else after)
    assert writes >= 2
    assert seen["context"] == after


# ------------------------------------------------------------------------------------------------ forks


async def texts_of(session: AsyncSession) -> tuple[list[str], list[str]]:
    """What contexts and an adapter show of a conversation."""
    visible = await VisibleHistory(session).entries()
    context = await session.context()
    return [one.text for one in context.messages], [one.entry.message.text for one in visible]


def forked(place: str, change: Change, *, times: int = 1, cleared: bool = False) -> list[list[str]]:
    """What forks from each entry show, of a session that was changed; checked for every reader."""

    async def work() -> list[list[str]]:
        found: list[list[str]] = []
        async with AsyncMemory(place) as memory:
            session = memory.session("s")
            if cleared:
                await session.add([user("harbour z")])
                await session.clear()
            await session.add([user(text) for text in WORDS])
            for _ in range(times):
                await change(session)
            for upto in range(1, (await session.status()).entries + 1):
                fork = await session.fork(upto, conversation=f"t{upto}")
                context, visible = await texts_of(fork)
                assert visible == context
                found.append(context)
        return found

    return asyncio.run(work())


@pytest.mark.parametrize("change", [follow, pop])
@pytest.mark.parametrize("cleared", [False, True])
def test_a_fork_from_before_a_change_shows_what_was_there(
    change: Change,
    cleared: bool,  # noqa: FBT001
) -> None:
    after = AFTER[change.__name__]
    found = forked("sqlite://", change, cleared=cleared)
    before = [WORDS[:upto] for upto in range(1, 5)]
    assert found[int(cleared) :] == [*before, *(after[:upto] for upto in range(1, len(after) + 1))]
    assert found[: int(cleared)] == [[]] * cleared  # what was cleared stays hidden


def test_a_fork_from_between_two_pops_shows_what_was_left_then() -> None:
    found = forked("sqlite://", pop, times=2)
    assert found == [
        *(WORDS[:upto] for upto in range(1, 5)),
        *(WORDS[:upto] for upto in range(1, 4)),
        *(WORDS[:upto] for upto in range(1, 3)),
    ]


def test_a_pop_while_a_fork_is_made_leaves_the_fork_as_it_was_before() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            session = memory.session("s")
            await session.add([user(text) for text in WORDS])
            capture, popped = SqliteStore.capture, False

            async def later(store: Any, *given: Any) -> Any:
                nonlocal popped
                if not popped:
                    popped = True
                    await pop(session)
                return await capture(store, *given)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(SqliteStore, "capture", later)
                fork = await session.fork(conversation="t")
            assert popped
            assert await texts_of(fork) == (WORDS, WORDS)
            assert await texts_of(session) == (WORDS[:3], WORDS[:3])

    asyncio.run(work())


class EarlierNote(msgspec.Struct, forbid_unknown_fields=True):
    """The note of what is cleared, as versions of turnfold before replacements read it."""

    v: int = 1
    upto: int = 0


def test_a_version_that_knows_no_replacements_reads_what_was_cleared() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            session = memory.session("s")
            await session.user("old 旧")
            await session.clear()
            note = await session.store.get_document(session.scope, "s", SESSION, CLEARED)
            assert note is not None
            assert msgspec.json.decode(note.body, type=EarlierNote).upto == 1
            [first] = await follow_history(session, [GivenRecord(user("a"), "")])
            await replace_history(session, [GivenRecord(user("b"), "")], head=first.seq)
            note = await session.store.get_document(session.scope, "s", SESSION, CLEARED)
            assert note is not None
            with pytest.raises(msgspec.ValidationError, match="replaced"):
                msgspec.json.decode(note.body, type=EarlierNote)  # it would forget what forks need

    asyncio.run(main())

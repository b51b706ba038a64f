"""PydanticAI's own provider models with memory, against a server that checks requests as the providers do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
pytest.importorskip("anthropic", reason="needs anthropic")
pytest.importorskip("openai", reason="needs openai")

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.adapters.pydantic_agents import MANY, PAGE, dumped, logged, with_memory
from tests.models.strict_server import Call, Say, StrictServer
from turnfold import AsyncMemory, Budget
from turnfold.adapters.pydantic_ai import entries as restoring
from turnfold.adapters.pydantic_ai import turnfold_capability
from turnfold.testing.model_replies import Body

STEPS = 12
ROOM = Budget(max_tokens=2_200)


@asynccontextmanager
async def anthropic(url: str) -> AsyncIterator[Model]:
    async with AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        yield AnthropicModel("claude-opus-4-1", provider=AnthropicProvider(anthropic_client=client))


@asynccontextmanager
async def chat(url: str) -> AsyncIterator[Model]:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        yield OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))


@asynccontextmanager
async def responses(url: str) -> AsyncIterator[Model]:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        yield OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=client))


class Steps:
    """Thinks and looks `STEPS` times in each run, then answers."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, body: Body) -> Say:
        del body
        self.asked += 1
        thought = f"step {self.asked} 想一想"
        if self.asked % (STEPS + 1) == 0:
            return Say("done", thought=thought)
        calls = tuple(Call(f"call_{self.asked}_{at}", "look", {"at": at}) for at in range(2))
        return Say(f"looking {self.asked}", calls, thought=thought)


async def two_runs(memory: AsyncMemory, model: Model, settings: Any) -> None:
    session = memory.session("s")
    agent = Agent(
        model,
        instructions="Be brief.",
        model_settings=settings,
        capabilities=[turnfold_capability(session)],
    )

    @agent.tool_plain
    def look(at: int) -> dict[str, object]:
        """Look at an entry."""
        return {"at": at, "text": PAGE[:200]}

    del look
    first = await agent.run("Look at all of it.", usage_limits=MANY)
    assert first.output == "done"
    assert dumped(await logged(session)) == dumped(first.all_messages())
    second = await agent.run("Once more.", usage_limits=MANY)
    assert second.output == "done"
    assert dumped(await logged(session)) == dumped([*first.all_messages(), *second.all_messages()])
    assert len(await session.checkpoints()) >= 1


@pytest.mark.parametrize("make", [anthropic, chat, responses])
def test_two_long_runs_are_never_refused(
    make: Callable[[str], AbstractAsyncContextManager[Model]],
) -> None:
    thinking: Any = {
        "anthropic_thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 4096,
    }
    settings = thinking if make is anthropic else None

    with StrictServer(Steps()) as server:

        async def work(memory: AsyncMemory) -> None:
            async with make(server.url) as model:
                await two_runs(memory, model, settings)

        with_memory(work, budget=ROOM)
    assert server.rejected == []
    assert len(server.seen) == 2 * (STEPS + 1)


def test_sabotage_a_thought_without_its_signature_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts_of = restoring._parts

    def forged(*given: Any) -> Any:
        restored = parts_of(*given)
        if not isinstance(restored, ModelResponse):
            return restored
        parts = [
            replace(part, signature="Zm9yZ2Vk") if isinstance(part, ThinkingPart) else part
            for part in restored.parts
        ]
        return replace(restored, parts=parts)

    monkeypatch.setattr(restoring, "_parts", forged)
    thinking: Any = {
        "anthropic_thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 4096,
    }

    with StrictServer(Steps()) as server:

        async def work(memory: AsyncMemory) -> None:
            async with anthropic(server.url) as model:
                await two_runs(memory, model, thinking)

        with pytest.raises(Exception, match=r"400|signature|refused"):
            with_memory(work, budget=ROOM)
    assert server.rejected != []

"""Every client of ours, and any with `acompletion` or `complete`, summarises for every memory alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.memory.conversations import chat
from tests.models.providers import PROVIDERS
from tests.models.strict_server import Say, StrictServer
from turnfold import (
    Budget,
    Memory,
    MemoryModule,
    MessageMemory,
    MessageMemoryConfig,
    ShortMemory,
    SummaryTokenMemory,
)
from turnfold.errors import InvalidOption
from turnfold.models import Answer, OpenAIChat
from turnfold.records import assistant
from turnfold.testing import ScriptedModel

SAID = "用户在查订单 <77>, the user asks for orders."
ANSWER = '{"summary": "' + SAID + '"}'


class WithAcompletion:
    async def acompletion(self, messages: list[dict[str, str]]) -> object:
        assert messages[-1]["role"] == "user"
        return {"choices": [{"message": {"content": ANSWER}}]}


class WithComplete:
    """The least a chat model can be."""

    async def complete(self, prompt: object) -> Answer:
        assert prompt
        return Answer(message=assistant(ANSWER))


class Blocking:
    """A client without coroutines."""

    def acompletion(self, messages: list[dict[str, str]]) -> str:
        assert messages
        return ANSWER


CLIENTS: dict[str, Callable[[StrictServer], Any]] = {
    **{each.name: each.client for each in PROVIDERS},
    "ScriptedModel": lambda _: ScriptedModel([ANSWER], repeat=True),
    "acompletion": lambda _: WithAcompletion(),
    "complete": lambda _: WithComplete(),
    "blocking": lambda _: Blocking(),
    "function": lambda _: lambda prompt: ANSWER if prompt else "",
}


@pytest.fixture(scope="module")
def server() -> Iterator[StrictServer]:
    with StrictServer(lambda _: Say(ANSWER)) as server:
        yield server


def of_memory(model: Any) -> str:
    with Memory(budget=Budget(max_tokens=900), summarizer=model, fold="inline") as memory:
        session = memory.session("s")
        for message in chat(40):
            session.add(message)
        session.context()
        [*_, last] = session.checkpoints()
        return last.text


def of_short_memory(model: Any) -> str:
    with ShortMemory(summarizer=model) as memory:
        memory.write_turn("c", user_query="订单 <1>", agent_response="ok")
        return memory.checkpoint_short_memory("c", recent_turns=0).text


def of_message_memory(model: Any) -> str:
    config = MessageMemoryConfig(max_tokens=600, strategy="summarize")  # pyright: ignore[reportArgumentType]
    memory = MessageMemory(config, summarizer=model)
    for message in chat(40):
        memory.add(message)
    assert memory.get_token_count() <= 600
    return memory.get_messages()[0].text


def of_summary_token_memory(model: Any) -> str:
    memory = SummaryTokenMemory("s", model, max_tokens=600)
    asyncio.run(memory.get_history(chat(40)))
    return memory.current_summary


def of_memory_module(model: Any) -> str:
    with MemoryModule(model, enable_reflective_thinking=False) as module:
        found = module.perform_thinking_phase("Files: [main.ts]").summary
        assert found.model
        return found.summary


MEMORIES = [
    of_memory,
    of_short_memory,
    of_message_memory,
    of_summary_token_memory,
    of_memory_module,
]


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("client", CLIENTS)
def test_it_summarises(
    client: str,
    memory: Callable[[Any], str],
    server: StrictServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert SAID in memory(CLIENTS[client](server))
    assert not caplog.records, "no warning per message"


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "model",
    [object(), "gpt-4", 3, OpenAIChat, SimpleNamespace(complete=1)],
    ids=["object", "name", "number", "class", "attribute"],
)
def test_a_model_that_cannot_is_refused_when_the_memory_is_made(
    model: object, memory: Callable[[Any], str]
) -> None:
    with pytest.raises(InvalidOption, match="cannot summarise: give a client"):
        memory(model)

"""An agent keeps to what its provider takes: bytes of the body, a window smaller than was thought, other forms."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.scripts import calling
from tests.models.providers import Provider, every_provider
from tests.models.strict_server import Call, Line, Say, StrictServer
from turnfold import AsyncMemory, Budget, Memory
from turnfold.agent import Agent, AsyncAgent, Sending
from turnfold.errors import BudgetTooSmall, ContextOverflow
from turnfold.models import OpenAIChat
from turnfold.records import Message
from turnfold.testing import ScriptedModel
from turnfold.window import check

LIMIT = 12_000
PICTURE = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"\x89PNG" * 500).decode()},
}


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: roses and hedgehogs 玫瑰 " * 12


look.__doc__ = "Look at a place. 看一个地方。" * 40  # tools are part of the body too


def talker() -> Any:
    """Looks at two places, then answers."""
    numbers = iter(range(1_000))

    def say(body: dict[str, Any]) -> Line:
        del body
        number = next(numbers)
        if number % 3 == 2:
            return Say(f"There are roses. 有玫瑰。{number}", thought="Enough.")
        return Say("", calls=(Call(f"call_{number}", "look", {"place": f"garden {number}"}),))

    return say


async def conversation(provider: Provider, server: StrictServer) -> list[Sending]:
    sent: list[Sending] = []
    async with provider.client(server) as client:
        budget = Budget(max_tokens=60_000, max_bytes=LIMIT)
        async with AsyncMemory("sqlite://", budget=budget, fold="inline") as memory:
            agent = AsyncAgent(
                memory,
                client,
                tools=[look],
                on_event=lambda event: sent.append(event) if isinstance(event, Sending) else None,
            )
            for number in range(5):
                text = f"What is in picture {number}? 图 {number} 里有什么？"
                await agent.run("c", [{"type": "text", "text": text}, PICTURE])
    return sent


def sizes(server: StrictServer) -> list[int]:
    return [int(seen.headers["content-length"]) for seen in server.seen]


@every_provider
def test_no_body_is_larger_than_max_bytes(provider: Provider) -> None:
    with StrictServer(talker()) as server:
        sent = asyncio.run(conversation(provider, server))
        assert server.rejected == []
        assert max(sizes(server)) <= LIMIT
        assert len(sent) == len(server.seen) == 15
    for event, size in zip(sent, sizes(server), strict=True):
        wired = event.context.receipt.wired
        assert wired is not None
        assert wired.size == size  # what was weighed is what was sent, to the byte
        assert check(event.context) == ()
    assert any(event.context.receipt.wired.rebuilt for event in sent if event.context.receipt.wired)


@every_provider
def test_without_the_guard_the_clients_refuse_to_send(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnfold.wire.fitted", lambda context, *_, **__: context)
    with StrictServer(talker()) as server:
        with pytest.raises(BudgetTooSmall, match="bytes"):
            asyncio.run(conversation(provider, server))
        assert max(sizes(server)) <= LIMIT


@every_provider
def test_without_either_the_limit_is_broken(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnfold.wire.fitted", lambda context, *_, **__: context)
    monkeypatch.setattr("turnfold.models.base_client.require_size", lambda request, *_: request)
    with StrictServer(talker()) as server:
        asyncio.run(conversation(provider, server))
        assert max(sizes(server)) > LIMIT


def test_arguments_that_are_no_part_of_the_body_do_not_count() -> None:
    options = {"extra_headers": {"x-trace": "y" * 500}, "extra_body": {"seed": 7}, "timeout": 30}
    with StrictServer([Say("hello")]) as server:
        client = OpenAIChat(
            "model-1", base_url=f"{server.url}/v1", api_key="k", options=options, max_output=9
        )
        said = [Message("user", "hello 你好")]

        async def talk() -> None:
            async with client:
                await client.stream(said, on_text=lambda _: None)

        asyncio.run(talk())
        request = client.request(said)
        assert request.kwargs == server.seen[0].body


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory("sqlite://", budget=Budget(max_tokens=4_000), fold="manual") as opened:
        yield opened


def test_after_an_overflow_the_window_stays_small(memory: Memory) -> None:
    """The provider's window is smaller than was thought: only the first call finds out."""
    session = memory.session("one")
    for number in range(60):
        session.user(f"question {number} " * 8)
        session.assistant(f"answer {number} " * 8)

    def small(messages: tuple[Message, ...]) -> object:
        if sum(len(message.text) for message in messages) > 6_000:
            return ContextOverflow("too long")
        number = len(model.asked)
        return calling((f"c{number}", "look", '{"place": "here"}')) if number < 8 else "done"

    model = ScriptedModel([small], repeat=True)
    reply = Agent(memory, model, tools=[look]).run("one", "well?")
    assert reply.text == "done"
    assert len(model.asked) == reply.steps + 1  # one overflow, not one per step
    assert all(session.explain(call.call).exact for call in session.calls())


def test_the_reply_tells_what_another_provider_does_not_get(memory: Memory) -> None:
    thought = {"type": "thinking", "thinking": "let me see", "signature": "sig"}
    session = memory.session("one")
    session.user("what is there?")
    session.add({"role": "assistant", "content": [thought, {"type": "text", "text": "roses"}]})
    with StrictServer([Say("still roses")]) as server:
        client = OpenAIChat("model-1", base_url=f"{server.url}/v1", api_key="k")
        reply = Agent(memory, client).run("one", "and now?")
    [change] = reply.context.receipt.changes
    assert change[:3] == ("left out", "Chat Completions accepts no thinking", 1)
    manifest = session.explain().manifest
    assert manifest.wired is not None
    assert manifest.wired.provider == "openai_chat"
    assert manifest.wired.changes == (change,)
    assert len(reply.answer.changes) == 1

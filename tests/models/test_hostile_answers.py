"""A provider that answers nonsense: the conversation goes on, and what is sent next is taken by a strict one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.models.hostile import EMPTY, USAGES, answer, calls_body, raw
from tests.models.providers import PROVIDERS, Provider, every_provider
from tests.models.strict_server import Line, Raw, Say, StrictServer
from turnfold import AsyncMemory, Budget
from turnfold.agent import AgentReply, AsyncAgent
from turnfold.errors import ContextOverflow, ModelFailed
from turnfold.models.streams import ChatStream, MessageStream
from turnfold.records import Entry, user
from turnfold.window import check

DONE = Say("done 完成")


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: roses"


def conversation(
    provider: Provider, script: list[Line], turns: int = 1, **options: Any
) -> tuple[list[AgentReply], list[Entry], StrictServer]:
    """What an agent makes of a script, and what is in the log after it."""

    async def talk() -> tuple[list[AgentReply], list[Entry]]:
        async with (
            provider.client(server, **options) as client,
            AsyncMemory("sqlite://", budget=Budget(max_tokens=4_000)) as memory,
        ):
            agent = AsyncAgent(memory, client, tools=[look], max_steps=6)
            replies = [await agent.run("c", f"look {number}") for number in range(turns)]
            session = memory.session("c")
            assert check(await session.context()) == ()
            return replies, await session.history(limit=1_000)

    with StrictServer(script) as server:
        replies, entries = asyncio.run(talk())
        assert server.rejected == []
    return replies, entries, server


def results(entries: list[Entry]) -> list[str]:
    return [result.text for entry in entries for result in entry.message.results]


GARBAGE: list[Any] = ["", "not json", '{"place": "her', "[1]", "null", '{"place": NaN}', "{" * 300]


@every_provider
@pytest.mark.parametrize("arguments", GARBAGE, ids=range(len(GARBAGE)))
def test_arguments_that_are_garbage_are_answered_with_the_reason(
    provider: Provider, arguments: str
) -> None:
    script = [raw(calls_body(provider.name, [("c1", "look", arguments)])), DONE]
    [reply], entries, server = conversation(provider, script)
    assert reply.text == DONE.text
    [told] = results(entries)
    assert told.startswith("error: the arguments do not fit look")
    assert len(server.seen) == 2


@every_provider
def test_arguments_given_as_an_object_are_arguments(provider: Provider) -> None:
    script = [raw(calls_body(provider.name, [("c1", "look", {"place": "花园"})])), DONE]
    _, entries, _ = conversation(provider, script)
    assert results(entries) == ["花园: roses"]


@every_provider
def test_two_calls_with_one_id_are_two_calls(provider: Provider) -> None:
    given: list[Any] = ['{"place": "here"}', '{"place": "there"}']
    if provider.name == "anthropic":
        given = [{"place": "here"}, {"place": "there"}]
    twice = calls_body(provider.name, [("c1", "look", given[0]), ("c1", "look", given[1])])
    again = calls_body(provider.name, [("c1", "look", given[0])])
    script = [raw(twice), raw(again), DONE, raw(again), DONE]
    replies, entries, server = conversation(provider, script, turns=2)
    assert [reply.text for reply in replies] == [DONE.text] * 2
    assert sorted(results(entries)) == ["here: roses"] * 3 + ["there: roses"]
    assert len(server.seen) == 5


@every_provider
@pytest.mark.parametrize("name", ["", "no such tool", "x" * 300, "назад"])
def test_a_tool_nobody_has_is_told_to_the_model(provider: Provider, name: str) -> None:
    given: Any = {} if provider.name == "anthropic" else "{}"
    script = [raw(calls_body(provider.name, [("c1", name, given)])), DONE]
    [reply], entries, _ = conversation(provider, script)
    assert reply.text == DONE.text
    assert results(entries)[0].startswith("error: there is no tool")


@every_provider
def test_an_empty_answer_is_an_answer_and_the_next_turn_goes_on(provider: Provider) -> None:
    for body in EMPTY[provider.name]:
        replies, entries, server = conversation(provider, [raw(body), DONE], turns=2)
        assert [reply.text for reply in replies] == ["", DONE.text]
        assert [entry.message.role for entry in entries].count("user") == 2
        assert len(server.seen) == 2


@every_provider
@pytest.mark.parametrize("usage", USAGES, ids=range(len(USAGES)))
def test_usage_that_says_nothing_is_no_usage(provider: Provider, usage: Any) -> None:
    body = answer(provider.name, SAYS[provider.name]("hello"), usage=usage)
    [reply], _, _ = conversation(provider, [raw(body)])
    assert reply.text == "hello"
    assert reply.answer.usage is None


OVERFLOWS = {
    "OpenAI": {
        "error": {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in "
            "140000 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    "OpenAI Responses": {
        "error": {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "context_length_exceeded",
        }
    },
    "Anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 208310 tokens > 200000 maximum",
        },
    },
    "Anthropic with max_tokens": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input "
            "length or `max_tokens` and try again",
        },
    },
    "llama.cpp": {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 14429,
            "n_ctx": 8192,
        }
    },
    "vLLM without an envelope": {
        "object": "error",
        "message": "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "
        "(112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    },
    "vLLM with one": {
        "error": {
            "message": "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens "
            "plus 2045 'max_tokens'. Please reduce one or the other. (parameter=input_tokens, value=8)",
            "type": "BadRequestError",
            "param": "input_tokens",
            "code": 400,
        }
    },
    "vLLM, the engine": {
        "error": {
            "message": "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make "
            "sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
            "type": "BadRequestError",
            "code": 400,
        }
    },
    "vLLM, nothing left": {
        "error": {
            "message": "max_tokens must be at least 1, got -186.",
            "type": "BadRequestError",
            "code": 400,
        }
    },
    "Ollama": {
        "error": {
            "message": "prompt too long; exceeded max context length by 5000 tokens",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    },
    "Ollama, the runner": {
        "error": {
            "message": "the input length exceeds the context length",
            "type": "api_error",
            "param": None,
            "code": None,
        }
    },
}


@every_provider
@pytest.mark.parametrize("spelling", OVERFLOWS)
def test_a_prompt_that_is_too_long_is_known_in_every_spelling(
    provider: Provider, spelling: str
) -> None:
    refused = raw(OVERFLOWS[spelling], status=400)

    async def ask(client: Any) -> None:
        await client.complete([user("hello")])

    with StrictServer([refused]) as server:
        with pytest.raises(ContextOverflow, match="Send a smaller context"):
            provider.run(server, ask)
        assert len(server.seen) == 1


def test_an_overflow_told_within_a_stream_that_began_well() -> None:
    """llama.cpp answers 200 and then says in the first event that the prompt was too long."""
    told = (
        b'data: {"error":{"code":400,"message":"the request exceeds the available context size","type":'
        b'"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}\n\n'
    )
    heard: list[str] = []

    async def ask(client: Any) -> None:
        await client.stream([user("hello")], on_text=heard.append)

    with StrictServer([Raw(told, media="text/event-stream")]) as server:
        with pytest.raises(ContextOverflow, match="exceed_context_size_error"):
            PROVIDERS[0].run(server, ask)
        assert len(server.seen) == 1
    assert heard == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"choices": "none"}',
        b"\xff\xfe",
        b"[" * 5_000,
    ],
    ids=range(9),
)
@every_provider
def test_what_is_no_answer_at_all_is_an_error_of_ours(provider: Provider, content: bytes) -> None:
    async def ask(client: Any) -> None:
        await client.complete([user("hello")])

    line = Raw(content, media="application/json")
    with StrictServer(lambda _: line) as server, pytest.raises(ModelFailed):
        provider.run(server, ask)


SAYS: dict[str, Any] = {
    "openai_chat": lambda text: {"role": "assistant", "content": text},
    "openai_responses": lambda text: [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
    ],
    "anthropic": lambda text: [{"type": "text", "text": text}],
}


@every_provider
def test_half_a_character_is_an_error_of_ours_and_the_log_goes_on(provider: Provider) -> None:
    async def talk() -> None:
        async with provider.client(server) as client, AsyncMemory("sqlite://") as memory:
            agent = AsyncAgent(memory, client)
            with pytest.raises(ModelFailed):
                await agent.run("c", "hello", client_id="1")
            reply = await agent.run("c", "hello", client_id="1")
            assert reply.text == DONE.text
            assert len(await memory.session("c").history()) == 2

    half = answer(provider.name, SAYS[provider.name]("half \ud83d"))
    with StrictServer([raw(half), DONE]) as server:
        asyncio.run(talk())


def work(build: Any, events: list[dict[str, Any]]) -> int:
    """Characters copied while the events are put together, as far as the fields of the answer tell."""
    copied = 0
    for event in events:
        build.add(event)
        fields = getattr(build, "_message", {}) | getattr(build, "_blocks", {}).get(0, {})
        copied += sum(len(value) for value in fields.values() if isinstance(value, str))
    return copied


def test_a_long_stream_is_put_together_once() -> None:
    """Appending every piece to the text so far would copy the whole of it each time."""
    count = 20_000
    chat = [{"choices": [{"index": 0, "delta": {"content": "roses 玫瑰 "}}]} for _ in range(count)]
    building = ChatStream()
    assert work(building, chat) == 0
    building.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    choices: Any = building.result()["choices"]
    assert choices[0]["message"]["content"] == "roses 玫瑰 " * count

    delta = {"type": "text_delta", "text": "roses 玫瑰 "}
    begin = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    filling = [{"type": "content_block_delta", "index": 0, "delta": delta} for _ in range(count)]
    message = MessageStream()
    message.add({"type": "message_start", "message": {"role": "assistant"}})
    message.add(begin)
    constant = len("text") + len("assistant")
    assert work(message, filling) <= count * constant
    message.add({"type": "message_stop"})
    content: Any = message.result()["content"]
    assert content[0]["text"] == "roses 玫瑰 " * count


def test_a_field_that_changes_its_kind_within_a_stream_is_no_crash() -> None:
    building = ChatStream()
    for content in ("text", ["list"], {"a": "dict"}, "text again", 7, None):
        delta = {"content": content, "extra": [content]}
        building.add({"choices": [{"index": 0, "delta": delta}]})
    building.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert building.result()["choices"]

"""Official clients in long tool loops through the proxy: every request fits its budget and is valid."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.models.strict_server import Call, Say, StrictServer
from tests.proxy.running import (
    Arrived,
    Told,
    log_of,
    proxied,
    served,
    with_memory,
)
from turnfold import wire
from turnfold.tokens import TokenCounter, counter_for

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

STEPS = 60
BUDGET = 3_000
PARAMETERS = {"type": "object", "properties": {"place": {"type": "string"}}}
SYSTEM = "You look after a garden. 你照看一座花园。Never water the cactus."


def found_at(step: int) -> str:
    """The result of a tool: Chinese and English, and now and then far larger than the whole budget."""
    text = f"bed {step}: 玫瑰 {step * 7} roses, 刺猬 {step % 5} hedgehogs; "
    return text * (150 if step % 20 == 13 else 9)


class Gardener:
    """Asks for one to three tools at each step."""

    def __init__(self) -> None:
        self.steps = 0
        self._names = (f"call_{number}" for number in itertools.count())

    def __call__(self, body: object) -> Say:
        del body
        self.steps += 1
        calls = tuple(
            Call(next(self._names), "look", {"place": f"床 {self.steps}"})
            for _ in range(self.steps % 3 + 1)
        )
        if self.steps % 6 == 0:
            return Say(f"There are {self.steps} roses. 有玫瑰。", thought="Enough.")
        return Say("Let me see." * (self.steps % 2), calls=calls, thought="I have to look.")


class ChatLoop:
    """A conversation by OpenAI's client over Chat Completions."""

    provider, model = "openai_chat", "gpt-4o"

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/s/garden/v1", api_key="k", max_retries=0)
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}]

    def ask(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def step(self, step: int, *, stream: bool) -> bool:
        tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
        sent: dict[str, Any] = {"model": self.model, "messages": self.messages, "tools": tools}
        if stream:
            usage = {"stream_options": {"include_usage": True}}
            with self.client.chat.completions.stream(**sent, **usage) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = self.client.chat.completions.create(**sent).choices[0].message
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls or []
        ]
        own: dict[str, Any] = {"role": "assistant", "content": message.content or None}
        self.messages.append({**own, "tool_calls": calls} if calls else own)
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": found_at(step)}
            for call in calls
        ]
        self.unsent = len(calls)
        return bool(calls)


class ResponsesLoop:
    """A conversation by OpenAI's client over Responses, without state at the provider."""

    provider, model = "openai_responses", "gpt-4o"

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/s/garden/v1", api_key="k", max_retries=0)
        self.messages: list[Any] = []

    def ask(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def step(self, step: int, *, stream: bool) -> bool:
        tools = [{"type": "function", "name": "look", "parameters": PARAMETERS, "strict": False}]
        sent: dict[str, Any] = {"model": self.model, "input": self.messages, "tools": tools}
        sent |= {"instructions": SYSTEM, "store": False}
        if stream:
            with self.client.responses.stream(**sent) as events:
                response = events.get_final_response()
        else:
            response = self.client.responses.create(**sent)
        items = [item.model_dump(exclude_none=True) for item in response.output]
        for item in items:
            item.pop("parsed_arguments", None)
            for block in item.get("content", []):
                block.pop("parsed", None)
        self.messages += items
        calls = [item for item in items if item["type"] == "function_call"]
        self.messages += [
            {"type": "function_call_output", "call_id": call["call_id"], "output": found_at(step)}
            for call in calls
        ]
        self.unsent = len(calls)
        return bool(calls)


class MessagesLoop:
    """A conversation by Anthropic's client; it moves a cache breakpoint to its last message, as agents do."""

    provider, model = "anthropic", "gpt-4o"  # its tokens can be counted exactly

    def __init__(self, url: str) -> None:
        self.client = anthropic.Anthropic(base_url=f"{url}/s/garden", api_key="k", max_retries=0)
        self.messages: list[Any] = []

    def ask(self, text: str) -> None:
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def step(self, step: int, *, stream: bool) -> bool:
        tools = [{"name": "look", "input_schema": PARAMETERS}]
        marked = json.loads(json.dumps(self.messages))
        marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        sent: dict[str, Any] = {"model": self.model, "messages": marked, "tools": tools}
        sent |= {"system": SYSTEM, "max_tokens": 900}
        if stream:
            with self.client.messages.stream(**sent) as events:
                message = events.get_final_message()
        else:
            message = self.client.messages.create(**sent)
        blocks = [block.model_dump(exclude_none=True) for block in message.content]
        for block in blocks:
            block.pop("parsed_output", None)
        self.messages.append({"role": "assistant", "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": found_at(step)}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        if results:
            self.messages.append({"role": "user", "content": results})
        self.unsent = int(bool(results))
        return bool(results)


def tokens_of(loop: Any, body: dict[str, Any], counter: TokenCounter) -> int:
    """The tokens of a request, counted from what arrived at the provider."""
    module = getattr(wire, loop.provider)
    messages = module.accept_all(body, model=loop.model)
    tools = body.get("tools", [])
    return sum(counter.count_messages(messages)) + counter.count_tools(tools) + counter.reply


def run_loop(loop: Any, steps: int, *, stream: Callable[[int], bool]) -> None:
    running = False
    for step in range(1, steps + 1):
        if not running:
            loop.ask(f"请看第 {step} 号花坛. What grows there? Rule {step}: never cut rose {step}.")
        running = loop.step(step, stream=stream(step))


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (ChatLoop, 30),
        (ResponsesLoop, 16),
        (MessagesLoop, 16),
        pytest.param(ChatLoop, STEPS, marks=pytest.mark.slow),
        pytest.param(ResponsesLoop, STEPS, marks=pytest.mark.slow),
        pytest.param(MessagesLoop, STEPS, marks=pytest.mark.slow),
    ],
)
def test_a_long_tool_loop_with_not_one_request_too_large_or_refused(
    tmp_path: Path, make: Any, steps: int
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    script = Gardener()
    with StrictServer(script) as provider, proxied(provider.url, store=store, budget=BUDGET) as url:
        loop = make(url)
        run_loop(loop, steps, stream=lambda step: step % 2 == 0)
        loop.client.close()
    assert provider.rejected == []
    assert script.steps == len(provider.seen) == steps
    counter = counter_for(make.model)
    sizes = [tokens_of(loop, one.body, counter) for one in provider.seen]
    assert [size for size in sizes if size > BUDGET] == []
    assert max(sizes) > BUDGET * 0.8
    assert [fault for one in provider.seen for fault in wire.lint(one.body, loop.provider)] == []
    # The log holds the whole conversation once, and the last request only a part of it.
    accepted = getattr(wire, loop.provider).accept_all(loop.messages)
    told = sum(1 for message in accepted if message.role != "system")
    stored = [entry for entry in log_of(store, "garden") if entry.message.role != "system"]
    assert len(stored) == told - loop.unsent
    assert len(json.dumps(provider.seen[-1].body)) < len(json.dumps(loop.messages)) / 4

    async def calls(memory: Any) -> list[Any]:
        return await memory.session("garden").calls(limit=1_000)

    made = with_memory(store, calls)
    assert sum(1 for call in made if call.usage) == steps


def test_what_is_sent_and_not_stored_is_counted_too() -> None:
    billing = "x-anthropic-billing-header: " + "cch=5f3a; " * 90
    turns = [
        {"role": role, "content": f"{number}: {'roses 玫瑰 and hedgehogs ' * 12}"}
        for number in range(30)
        for role in ("user", "assistant")
    ]
    system = [{"type": "text", "text": billing}, {"type": "text", "text": SYSTEM}]
    body = {"model": "gpt-4o", "max_tokens": 9, "system": system, "messages": turns[:-1]}
    with served(lambda _: Told(), budget=BUDGET) as (provider, http):
        answer = http.post("/s/garden/v1/messages", json=body)
    assert answer.headers["x-turnfold"].startswith("shortened; ")
    sent = provider.seen[0].body
    assert sent["system"] == system
    size = tokens_of(MessagesLoop, sent, counter_for("gpt-4o"))
    assert BUDGET * 0.6 < size <= BUDGET
    assert answer.headers["x-turnfold"].endswith(f"tokens={size}/{BUDGET}")


GEMINI = "/s/garden/v1beta/models/gpt-4o"


def gemini_answer(say: Say, prompt: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": say.text}] if say.text else []
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in say.calls
    ]
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": 3}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-pro",
    }


def gemini_chunks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pieces of a streamed answer: two for its text, one for its calls."""
    [candidate] = answer["candidates"]
    parts = candidate["content"]["parts"]
    texts = [part["text"] for part in parts if "text" in part]
    calls = [part for part in parts if "text" not in part]
    pieces = [[{"text": half}] for text in texts for half in (text[:5], text[5:])]
    pieces += [calls] if calls else []
    for at, piece in enumerate(pieces):
        last = {"finishReason": "STOP"} if at == len(pieces) - 1 else {}
        found = {"content": {"role": "model", "parts": piece}, "index": 0, **last}
        yield {**answer, "candidates": [found]}


class GeminiLoop:
    """A conversation over Gemini; a streamed answer is sent back chunk by chunk, as Google's client does."""

    provider, model = "gemini", "gpt-4o"

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http
        self.messages: list[Any] = []

    def ask(self, text: str) -> None:
        self.messages.append({"role": "user", "parts": [{"text": text}]})

    def step(self, step: int, *, stream: bool) -> bool:
        tools = [{"functionDeclarations": [{"name": "look", "parameters": PARAMETERS}]}]
        body = {"contents": self.messages, "tools": tools}
        body |= {"systemInstruction": {"parts": [{"text": SYSTEM}]}, "generationConfig": {"x": 1.0}}
        if stream:
            text = self.http.post(f"{GEMINI}:streamGenerateContent?alt=sse", json=body).text
            events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data")]
        else:
            events = [self.http.post(f"{GEMINI}:generateContent", json=body).json()]
        contents = [event["candidates"][0]["content"] for event in events]
        self.messages += contents
        calls = [
            part["functionCall"]
            for content in contents
            for part in content["parts"]
            if "functionCall" in part
        ]
        results = [
            {
                "functionResponse": {
                    "id": call["id"],
                    "name": "look",
                    "response": {"result": found_at(step)},
                }
            }
            for call in calls
        ]
        if results:
            self.messages.append({"role": "user", "parts": results})
        return bool(results)


@pytest.mark.parametrize("steps", [22, pytest.param(STEPS, marks=pytest.mark.slow)])
def test_a_long_tool_loop_over_gemini(tmp_path: Path, steps: int) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    script = Gardener()
    counter = counter_for(GeminiLoop.model)

    def say(arrived: Arrived) -> Told:
        answer = gemini_answer(script(arrived), tokens_of(GeminiLoop, arrived.body, counter))
        if "streamGenerateContent" not in arrived.path:
            return Told(json.dumps(answer).encode())
        pieces = [b"data: %s\r\n\r\n" % json.dumps(one).encode() for one in gemini_chunks(answer)]
        return Told(pieces, headers={"content-type": "text/event-stream"})

    with served(say, store=store, budget=BUDGET) as (provider, http):
        loop = GeminiLoop(http)
        run_loop(loop, steps, stream=lambda step: step % 2 == 0)
    bodies = [one.body for one in provider.seen]
    assert len(bodies) == steps
    assert all(body["generationConfig"] == {"x": 1.0} for body in bodies)
    sizes = [tokens_of(loop, body, counter) for body in bodies]
    assert [size for size in sizes if size > BUDGET] == []
    assert max(sizes) > BUDGET * 0.7
    assert [fault for body in bodies for fault in wire.lint(body["contents"], "gemini")] == []

    async def conversations(memory: Any) -> list[str]:
        return [info.conversation for info in await memory.conversations()]

    assert with_memory(store, conversations) == ["garden"]

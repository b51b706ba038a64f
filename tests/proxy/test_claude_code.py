"""Claude Code through the proxy: the shape of its requests, and the program itself where it is installed."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.running import Arrived, Recorder, Told, log_of, proxied, served, with_memory
from tests.proxy.test_tool_loops import MessagesLoop, tokens_of
from turnfold import wire
from turnfold.tokens import counter_for

EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
ENVIRONMENT = "<system-reminder>\n# Environment\n - 工作目录: ~/garden\n</system-reminder>"
LEFT = "<system-reminder>\n<total_tokens>{} tokens left</total_tokens>\n</system-reminder>"


def reply(*blocks: dict[str, Any]) -> dict[str, Any]:
    stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 0, "output_tokens": 5}
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "gpt-4o"}
    return {
        **whole,
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def marked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with a cache breakpoint on the last, which makes its text a list of blocks."""
    last = messages[-1]
    block = {"type": "text", "text": last["content"], **EPHEMERAL}
    return [*messages[:-1], {**last, "content": [block]}]


def test_reminders_ride_on_their_messages_and_the_environment_stays(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    budget, steps = 2_500, 24
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "数一数玫瑰, and never cut one."},
        {"role": "system", "content": ENVIRONMENT},
    ]
    numbers = itertools.count()

    def say(_: Arrived) -> Told:
        number = next(numbers)
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"n": number}}
        said = {"type": "text", "text": f"step {number}"}
        return Told(json.dumps(reply(said) if number == 8 else reply(said, call)).encode())

    notes: list[str] = []
    with served(say, store=store, budget=budget) as (provider, http):
        for step in range(steps):
            body = {"model": "gpt-4o", "max_tokens": 9, "messages": marked(history)}
            system = [f"x-anthropic-billing-header: cch={step};", "You are Claude Code."]
            body["system"] = [{"type": "text", "text": text} for text in system]
            headers = {"x-claude-code-session-id": "cc"}
            answer = http.post("/v1/messages?beta=true", json=body, headers=headers)
            notes.append(answer.headers["x-turnfold"])
            content = answer.json()["content"]
            result = {"type": "tool_result", "tool_use_id": content[-1].get("id", "")}
            found: Any = [{**result, "content": f"rose {step} 玫瑰 " * 25}]
            history += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": "And the hedgehogs?" if step == 8 else found},
                {"role": "system", "content": LEFT.format(10_000 - step)},
            ]
    assert {note.split("; ")[1] for note in notes} == {"conversation=cc"}
    assert notes[0].startswith("unchanged")
    assert notes[-1].startswith("shortened")
    counter = counter_for("gpt-4o")
    for one in provider.seen:
        told = one.body["messages"]
        assert wire.lint(one.body, "anthropic") == ()
        assert tokens_of(MessagesLoop, one.body, counter) <= budget
        texts = [json.dumps(message, ensure_ascii=False) for message in told]
        assert sum("工作目录" in text for text in texts) == 1
        assert told[0]["role"] == "user"
    assert provider.seen[-1].body["messages"][-1] == marked(history[:-3])[-1]
    stored = [entry.message for entry in log_of(store, "cc")]
    assert [message.role for message in stored].count("user") == 2  # two turns, as it was
    assert not [message for message in stored if "total_tokens" in message.text]
    assert len([message for message in stored if message.role == "system"]) == 1


def test_an_instruction_in_the_middle_is_a_message_of_its_own(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "system", "content": "From now on answer in French. 从现在起用法语回答。"},
        {"role": "user", "content": "and now?"},
    ]
    with served(lambda _: Told(), store=store) as (provider, http):
        http.post("/s/one/v1/chat/completions", json={"model": "gpt-4o", "messages": messages})
    assert provider.seen[0].body["messages"] == messages
    texts = [entry.message.text for entry in log_of(store, "one")]
    assert texts == [message["content"] for message in messages]


MODEL, STEPS = "claude-sonnet-5", 60


def program() -> str:
    """Where Claude Code is: named, or in the package that carries it; empty if nowhere."""
    found = importlib.util.find_spec("claude_agent_sdk")
    places = [os.environ.get("TURNFOLD_CLAUDE", "")]
    places += (
        [str(Path(found.origin).parent / "_bundled" / "claude")] if found and found.origin else []
    )
    return next((place for place in places if place and Path(place).is_file()), "")


def events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": at, "content_block": begun}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": message["usage"]}
    yield {"type": "message_stop"}


class Counting:
    """A model that runs a command at each step of a turn, and says so at its end; `turns` has the steps of each."""

    def __init__(self, *turns: int) -> None:
        self._turns = iter(turns)
        self._left = next(self._turns)
        self._names = itertools.count()

    def __call__(self, arrived: Arrived) -> Told:
        if "count_tokens" in arrived.path or not arrived.body.get("tools"):
            return Told(
                json.dumps({"input_tokens": 9, **reply({"type": "text", "text": "-"})}).encode()
            )
        self._left -= 1
        if self._left > 0:
            command = {
                "command": f"seq {self._left * 100} {self._left * 100 + 900}",
                "description": "count",
            }
            call = {"type": "tool_use", "id": f"toolu_{next(self._names)}", "name": "Bash"}
            message = reply({"type": "text", "text": "counting 数数"}, {**call, "input": command})
        else:
            self._left = next(self._turns, 0)
            message = reply({"type": "text", "text": "done 完成"})
        message["id"] = f"msg_{next(self._names)}"
        written = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events(message)]
        return Told(
            [text.encode() for text in written], headers={"content-type": "text/event-stream"}
        )


@pytest.mark.slow
@pytest.mark.skipif(not program(), reason="Claude Code is not installed: make .venv-claude/.ready")
def test_the_program_itself_with_its_base_url_alone(tmp_path: Path) -> None:
    store, budget = f"sqlite:///{tmp_path}/a.db", 48_000
    (tmp_path / "work").mkdir()
    with (
        Recorder(Counting(STEPS, 4)) as provider,
        proxied(provider.url, store=store, budget=budget) as url,
    ):
        environment = {
            **os.environ,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        command = [program(), "--model", MODEL, "--allowedTools", "Bash"]
        for words in (["-p", "数一数"], ["--continue", "-p", "and once more"]):
            run = subprocess.run(
                [*command, "--output-format", "json", *words],
                env=environment,
                cwd=tmp_path / "work",
                capture_output=True,
                text=True,
                check=True,
                timeout=900,
            )
            assert json.loads(run.stdout)["result"] == "done 完成"
    calls = [one for one in provider.seen if one.path.startswith("/v1/messages?")]
    assert len(calls) == STEPS + 4
    assert [fault for one in calls for fault in wire.lint(one.body, "anthropic")] == []
    assert len(calls[-1].body["messages"]) < 30
    counter = counter_for(MODEL)
    tokens = [
        counter.count(
            wire.anthropic.accept_all(one.body, model=MODEL), tools=one.body.get("tools") or ()
        ).tokens
        for one in calls
    ]
    assert 0.7 * budget < max(tokens) <= budget

    async def made(memory: Any) -> tuple[list[Any], list[Any]]:
        [info] = await memory.conversations()
        session = memory.session(info.conversation)
        return await session.calls(limit=1_000), await session.checkpoints()

    receipts, folds = with_memory(store, made)
    assert len(receipts) >= STEPS + 4
    assert max(call.tokens for call in receipts) <= budget
    assert folds

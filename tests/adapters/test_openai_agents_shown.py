"""What a model is not shown after a pop, and whose turn stands last; and what happens without each rule."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import Runner, function_tool
from agents.testing import ScriptedModel

from tests.adapters.openai_runs import (
    PAGE,
    SMALL,
    agent_of,
    called,
    pops_only_noted,
    said,
    with_memory,
)
from turnfold import AsyncMemory, Budget
from turnfold.adapters._common import NumberedMessage
from turnfold.adapters.openai_agents import TurnfoldSession, turnfold_run
from turnfold.adapters.openai_agents import run as run_module
from turnfold.adapters.openai_agents.run import own_last
from turnfold.errors import Conflict
from turnfold.records import Message, ToolCall, assistant, tool, user

LARGE = Budget(max_tokens=200_000)


def asked(text: str) -> Any:
    return {"role": "user", "content": text}


# ---------------------------------------------------------------------------------- popped


def prompt_after_popping(items: list[Any], pops: int) -> list[Any]:
    """What a model is sent by another run once so many of these items were popped."""
    prompts: list[Any] = []

    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        await session.add_items(items)
        popped = [await session.pop_item() for _ in range(pops)]
        assert popped == list(reversed(items[len(items) - pops :]))
        model = ScriptedModel([[said("ok")]])
        await Runner.run(agent_of(model), "next", **turnfold_run(memory, "s"))
        prompts.extend(model.calls[-1].input)

    with_memory(work, LARGE)
    return prompts


CALL: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT: Any = {"type": "function_call_output", "call_id": "c", "output": "seen"}
ROUND = [asked("one"), CALL, {**CALL, "call_id": "d"}, OUTPUT, {**OUTPUT, "call_id": "d"}]


@pytest.mark.parametrize("noted", [False, True], ids=["at once", "noted"])
@pytest.mark.parametrize("pops", range(1, 6))
def test_a_model_is_not_shown_what_was_popped(
    pops: int,
    noted: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two calls are one entry: the one that stays must be shown without the one that was popped."""
    if noted:
        pops_only_noted(monkeypatch)
    prompt = prompt_after_popping(ROUND, pops)
    kept = [item.get("call_id") for item in prompt if item.get("type") == "function_call"]
    assert kept == [["c", "d"], ["c", "d"], ["c"], [], []][pops - 1]
    assert ("one" in json.dumps(prompt)) is (pops < 5)
    assert prompt[-1] == asked("next")
    answers = [item["call_id"] for item in prompt if item.get("type") == "function_call_output"]
    assert sorted(answers) == kept  # a call whose answer was popped has one that stands for it
    assert json.dumps(prompt).count('"seen"') == max(2 - pops, 0)


@pytest.mark.parametrize("pops", range(1, 6))
def test_sabotage_without_settling_it_is_shown(pops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: TurnfoldSession) -> None:
        return

    monkeypatch.setattr(TurnfoldSession, "settle", nothing)
    pops_only_noted(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_model_is_not_shown_what_was_popped(pops, True, monkeypatch)  # noqa: FBT003


# ---------------------------------------------------------------------------------- its own turn last


def distinct(*said: tuple[int, str]) -> list[NumberedMessage]:
    """`q` a question, `c` a call, `t` its answer, by seq; each an object of its own."""
    make: dict[str, Callable[[], Message]] = {
        "q": lambda: user("q"),
        "c": lambda: assistant(tool_calls=[ToolCall("c", "f", "{}")]),
        "t": lambda: tool("t", tool_call_id="c"),
    }
    return [NumberedMessage(seq, make[kind]()) for seq, kind in said]


def order(shown: list[NumberedMessage], own: set[int]) -> list[int]:
    seqs = {id(one.message): one.seq for one in shown}
    return [seqs[id(message)] for message in own_last(shown, own, conversation="s")]


def test_a_run_goes_on_with_its_own_turn_and_answers_stay_with_their_calls() -> None:
    shown = distinct((0, "q"), (1, "q"), (2, "c"), (3, "t"), (4, "q"), (5, "c"), (6, "t"))
    assert order(shown, {1, 2, 3}) == [0, 4, 5, 6, 1, 2, 3]
    assert order(shown, {4, 5, 6}) == [0, 1, 2, 3, 4, 5, 6]
    assert order(shown, set()) == [0, 1, 2, 3, 4, 5, 6]
    assert order(shown, {3}) == [
        0,
        1,
        4,
        5,
        6,
        2,
        3,
    ]  # a run resumed: the call is of the one before
    assert order([], {1}) == []


def two_runs(budget: Budget, question: str) -> Any:
    """The last prompt of a run during whose tool another run asked a question in the same conversation."""
    slow = ScriptedModel([[called("wait", 1)], [said("slow done")]])

    async def work(memory: AsyncMemory) -> None:
        @function_tool(failure_error_function=None)
        async def wait() -> str:
            """Wait."""
            quick = ScriptedModel([[said("quick done", 2)]])
            other = Runner.run(agent_of(quick), question, **turnfold_run(memory, "s"))
            await asyncio.create_task(other)
            return "waited"

        await Runner.run(agent_of(slow, wait), "slow", **turnfold_run(memory, "s"))

    with_memory(work, budget)
    return slow.calls[-1].input


def test_two_runs_in_one_conversation_and_the_one_whose_turn_is_gone_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert two_runs(LARGE, "quick")[-1]["output"] == "waited"
    monkeypatch.setattr(
        run_module, "own_last", lambda shown, *_, **__: [one.message for one in shown]
    )
    assert two_runs(LARGE, "quick")[-1].get("output") != "waited"


def test_a_run_that_is_no_longer_in_the_window_is_told_so() -> None:
    with pytest.raises(Conflict, match="conversation of its own, or a larger budget"):
        own_last(distinct((7, "q")), {1}, conversation="s")
    two_runs(
        Budget(max_tokens=SMALL.tokens // 2), PAGE * 40
    )  # a huge result leaves both runs in the window

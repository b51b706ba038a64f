"""An agent with a memory module follows document 002's data flow; one without is what it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from tests.agent.scripts import add, calling, loops
from tests.memory.module_scripts import CONTEXTS, SUMMARIES, summarised, three_turns
from turnfold import AsyncMemory, Budget, Memory, MemoryModule
from turnfold.agent import Agent, AsyncAgent, Event, Sending, ToolDone
from turnfold.errors import ContextOverflow, InvalidOption, StepsExhausted
from turnfold.memories import AsyncMemoryModule
from turnfold.models import ToolSchemas
from turnfold.testing import ScriptedModel


class Workspace:
    """Renders whatever it was given last."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.rendered = 0

    def render(self) -> str:
        self.rendered += 1
        return self.text


def sent(model: ScriptedModel, number: int = -1) -> str:
    return "\n".join(message.text for message in model.asked[number].messages)


def names(tools: ToolSchemas) -> list[str]:
    return [cast("Mapping[str, str]", tool["function"])["name"] for tool in tools]


def test_the_data_flow_of_the_document(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    model = ScriptedModel(
        [
            "analysed",
            "found it",
            calling(("r1", "recall_context", json.dumps({"turnNumbers": [2]}))),
            "optimised",
        ]
    )
    workspace = Workspace()
    events: list[Event] = []
    module = MemoryModule(three_turns(), url, enable_reflective_thinking=False)
    with module, Memory(url) as memory:
        agent = Agent(
            memory, model, workspace=workspace, memory_module=module, on_event=events.append
        )
        for said, context in zip(("分析代码", "找瓶颈", "优化"), CONTEXTS, strict=True):
            workspace.text = context
            agent.run("chat", said)
        session = memory.session("chat")
        kept = module.within("chat").memory_store.contexts()
        log = session.history()
        assert [context.full_context for context in kept] == [*CONTEXTS, CONTEXTS[2]]
        assert [context.turn_number for context in kept] == [1, 2, 3, 4]
        assert kept[3].links == (kept[2].id, kept[1].id)  # the one before, and what was recalled
        session.delete()
        assert module.within("chat").memory_store.contexts() == []

    accumulated = "\n".join(f"[Turn {at}] {text}" for at, text in enumerate(SUMMARIES, 1))
    assert "[Turn 1] 分析了代码库结构" in sent(model, 0)
    assert accumulated in sent(model, 2)
    assert CONTEXTS[2] in sent(model, 2)  # the present workspace, fresh
    assert CONTEXTS[1].strip() not in sent(model, 2)
    assert all(names(asked.tools) == ["recall_context"] for asked in model.asked)
    results = [each.text for each in model.asked[3].messages if each.role == "tool"]
    assert CONTEXTS[1].strip() in results[0]  # what was recalled is in the very next context
    logged = [entry.message.text for entry in log if entry.message.role == "tool"]
    assert logged == results  # and in the log
    assert not any("memory_summaries" in entry.message.text for entry in log)
    [done] = [event for event in events if isinstance(event, ToolDone)]
    assert not done.failed


def test_one_phase_per_call_of_the_model_and_none_twice() -> None:
    thinking = ScriptedModel([summarised(f"call {number}") for number in range(1, 6)])
    module = MemoryModule(thinking, enable_reflective_thinking=False)
    model = ScriptedModel(loops(4))
    with Memory() as memory:
        agent = Agent(
            memory, model, tools=[add], workspace=Workspace("w"), memory_module=module, max_steps=2
        )
        with pytest.raises(StepsExhausted):
            agent.run("chat", "count")
        again = Agent(
            memory, model, tools=[add], workspace=Workspace("changed"), memory_module=module
        )
        reply = again.resume("chat")  # another process goes on with the turn
    assert reply is not None
    assert len(thinking.asked) == len(model.asked) == 5
    kept = module.memory_store.contexts()
    assert [context.full_context for context in kept] == ["w", "w", "changed", "changed", "changed"]
    assert [context.summary for context in kept] == [f"call {number}" for number in range(1, 6)]
    assert all(
        f"[Turn {number}] call {number}" in sent(model, number - 1) for number in range(1, 6)
    )


def test_a_call_that_failed_does_not_think_again() -> None:
    thinking = ScriptedModel([summarised("once"), summarised("twice")])
    module = MemoryModule(thinking, enable_reflective_thinking=False)
    model = ScriptedModel([ValueError("down"), "better"])
    with Memory() as memory:
        agent = Agent(memory, model, workspace=Workspace("w"), memory_module=module)
        with pytest.raises(ValueError, match="down"):
            agent.run("chat", "hello")
        assert agent.resume("chat")
    assert len(thinking.asked) == 1
    assert [context.turn_number for context in module.memory_store.contexts()] == [1]


def test_awaited_and_with_rounds() -> None:
    async def run() -> tuple[str, ScriptedModel]:
        thinking = ScriptedModel(["a thought", "DONE", summarised("thought through")])
        model = ScriptedModel(["answer"])
        async with AsyncMemory() as memory, AsyncMemoryModule(thinking) as module:
            agent = AsyncAgent(memory, model, workspace=Workspace("w"), memory_module=module)
            return (await agent.run("chat", "hello")).text, model

    text, model = asyncio.run(run())
    assert text == "answer"
    assert "[Turn 1] thought through" in sent(model)


def contexts_of(**options: object) -> list[tuple[object, ...]]:
    """Everything a run sent, message by message."""
    events: list[Event] = []
    with Memory(budget=Budget(max_tokens=900)) as memory:
        agent = Agent(
            memory,
            ScriptedModel([*loops(6), *loops(3)]),
            tools=[add],
            workspace=Workspace("the workspace 工作区"),
            on_event=events.append,
            **options,  # pyright: ignore[reportArgumentType]
        )
        agent.run("chat", "count 数数", client_id="1")
        agent.run("chat", "again 再来", client_id="2")
    return [
        (event.context.messages, event.context.tokens)
        for event in events
        if isinstance(event, Sending)
    ]


def test_without_a_module_nothing_changes() -> None:
    plain = contexts_of()
    assert contexts_of(memory_module=None) == plain
    with_module = contexts_of(memory_module=MemoryModule())
    assert with_module != plain  # the comparison can tell


def test_a_thinking_model_that_fails_does_not_keep_the_agent_from_answering() -> None:
    module = MemoryModule(ScriptedModel([]))
    model = ScriptedModel(["answer"])
    with Memory() as memory:
        agent = Agent(memory, model, workspace=Workspace("Line 42 fails."), memory_module=module)
        assert agent.run("chat", "hello").text == "answer"
    assert "[Turn 1] Line 42 fails." in sent(model)


def test_a_wrong_recall_is_told_to_the_model() -> None:
    model = ScriptedModel([calling(("r1", "recall_context", '{"query": "x"}')), "sorry"])
    events: list[Event] = []
    with Memory() as memory:
        agent = Agent(
            memory,
            model,
            workspace=Workspace("w"),
            memory_module=MemoryModule(),
            on_event=events.append,
        )
        agent.run("chat", "hello")
    [done] = [event for event in events if isinstance(event, ToolDone)]
    assert done.failed
    assert "has no argument 'query'" in done.result


def test_a_prompt_the_provider_finds_too_long_is_made_smaller_with_its_notes() -> None:
    def summary(number: int) -> str:
        return summarised(
            f"turn {number} changed " + ", ".join(f"file{number}x{at}" for at in range(20))
        )

    thinking = ScriptedModel([summary(number) for number in range(12)])
    module = MemoryModule(thinking, enable_reflective_thinking=False)
    script: list[object] = [*["ok"] * 11, ContextOverflow("too long"), "at last"]
    model = ScriptedModel(script)
    with Memory(budget=Budget(max_tokens=4_000)) as memory:
        agent = Agent(memory, model, workspace=Workspace("w"), memory_module=module)
        replies = [agent.run("chat", f"hello {number}") for number in range(12)]
    assert replies[-1].text == "at last"
    assert len(sent(model, 12)) < len(sent(model, 11))


def test_conversations_of_one_agent_are_kept_apart() -> None:
    module = MemoryModule()
    workspace = Workspace()
    model = ScriptedModel(["one", "two"])
    with Memory() as memory:
        agent = Agent(memory, model, workspace=workspace, memory_module=module)
        workspace.text = "secret of alice"
        agent.run("alice", "hello")
        workspace.text = "bob's"
        agent.run("bob", "hello")
    assert "secret" not in sent(model)
    assert len(module.within("alice").memory_store.contexts()) == 1


def test_a_recall_by_the_program_is_shown_in_the_next_call() -> None:
    module = MemoryModule()
    workspace = Workspace("first view 第一")
    model = ScriptedModel([calling(("c1", "look", "{}")), "done"])

    def look() -> str:
        """Look back."""
        module.within("chat").recall_context({"turn_numbers": [1]})
        workspace.text = "second view"
        return "ok"

    with Memory() as memory:
        agent = Agent(memory, model, tools=[look], workspace=workspace, memory_module=module)
        agent.run("chat", "hello")
    assert "<recalled_context" not in sent(model, 0)
    assert "<recalled_context" in sent(model, 1)
    first, second = module.memory_store.contexts()
    assert second.links == (first.id,)


def test_what_cannot_work_is_refused_when_the_agent_is_made() -> None:
    with Memory() as memory:
        with pytest.raises(InvalidOption, match="workspace="):
            Agent(memory, ScriptedModel([]), memory_module=MemoryModule())

        def recall_context() -> str:
            """Mine."""
            return ""

        with pytest.raises(InvalidOption, match="rename yours"):
            Agent(
                memory,
                ScriptedModel([]),
                tools=[recall_context],
                workspace=Workspace(),
                memory_module=MemoryModule(),
            )
        Agent(memory, ScriptedModel([]), tools=[recall_context])

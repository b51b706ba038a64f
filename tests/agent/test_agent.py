"""What an agent does with what the model says, and what is in the log whatever happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from tests.agent.scripts import add, calling, loops
from turnfold import AsyncMemory, Budget, Memory, user
from turnfold.agent import (
    Agent,
    Answered,
    AsyncAgent,
    Event,
    Sending,
    TextCame,
    Tool,
    ToolDone,
    ToolStarted,
)
from turnfold.errors import (
    ContextOverflow,
    IdReused,
    InvalidOption,
    ModelFailed,
    ModelUnavailable,
    StepsExhausted,
)
from turnfold.models import Answer, Prompt, ToolSchemas
from turnfold.testing import ScriptedModel
from turnfold.window import Section, check

WIDE = Budget(max_tokens=4_000)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", budget=WIDE) as opened:
        yield opened


def tool_names(tools: ToolSchemas) -> list[str]:
    return [cast("Mapping[str, str]", tool["function"])["name"] for tool in tools]


def texts(memory: Memory, conversation: str = "one") -> list[tuple[str, str]]:
    entries = memory.session(conversation).history(limit=1_000)
    return [(entry.message.role, entry.message.text) for entry in entries]


def test_the_answer_comes_after_the_tools(memory: Memory) -> None:
    model = ScriptedModel([calling(("c1", "add", '{"a": 1}')), "The sum is 3."])
    reply = Agent(memory, model, tools=[add], system="Add.").run("one", "1 + 2?")
    assert (reply.text, reply.steps) == ("The sum is 3.", 2)
    assert texts(memory) == [
        ("system", "Add."),
        ("user", "1 + 2?"),
        ("assistant", ""),
        ("tool", "3"),
        ("assistant", "The sum is 3."),
    ]
    first, second = model.asked
    assert [message.role for message in first.messages] == ["system", "user"]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert first.tools[0]["function"] == {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
            "required": ["a"],
            "additionalProperties": False,
        },
    }
    assert [call.usage is not None for call in memory.session("one").calls()] == [True, True]


def test_what_goes_wrong_in_a_tool_is_told_to_the_model(memory: Memory) -> None:
    def broken() -> None:
        raise RuntimeError("the disk is on fire")

    answer = calling(
        ("c1", "broken", "{}"),
        ("c2", "add", '{"a": "one"}'),
        ("c3", "nothing", "{}"),
        ("c5", "add", "not json"),
        ("c6", "add", '{"a": 1, "c": 2}'),
    )
    agent = Agent(memory, ScriptedModel([answer, "I see."]), tools=[broken, add])
    assert agent.run("one", "go").text == "I see."
    results = {
        result.call_id: result.text
        for entry in memory.session("one").history()
        for result in entry.message.results
    }
    assert results["c1"] == "error: RuntimeError: the disk is on fire"
    assert results["c2"].startswith("error: the arguments do not fit add: Expected `int`")
    assert results["c3"] == "error: there is no tool 'nothing'; known: add, broken"
    assert results["c5"].startswith("error: the arguments do not fit add")
    assert results["c6"].startswith("error: the arguments do not fit add")


def test_a_tool_that_takes_too_long_is_given_up(memory: Memory) -> None:
    release = threading.Event()

    def slow() -> None:
        release.wait(60)

    model = ScriptedModel([calling(("c1", "slow", "{}")), "I see."])
    agent = Agent(memory, model, tools=[slow], tool_seconds=0.2)
    assert agent.run("one", "go").text == "I see."
    release.set()
    [result] = [
        result for entry in memory.session("one").history() for result in entry.message.results
    ]
    assert result.text == "error: no result within 0.2 s"


def test_tools_run_side_by_side_up_to_the_limit(memory: Memory) -> None:
    inside: list[int] = []
    running = 0
    lock = threading.Lock()
    meeting = threading.Barrier(3, timeout=20)

    async def visit(number: int) -> str:
        nonlocal running
        with lock:
            running += 1
            inside.append(running)
        await asyncio.to_thread(meeting.wait)  # passes only if three are here together
        with lock:
            running -= 1
        return f"visited {number}"

    answer = calling(*((f"c{n}", "visit", f'{{"number": {n}}}') for n in range(6)))
    agent = Agent(memory, ScriptedModel([answer, "ok"]), tools=[visit], parallel=3)
    assert agent.run("one", "go").text == "ok"
    assert max(inside) == 3
    assert check(memory.session("one").context()) == ()


def test_a_long_loop_is_folded_and_never_over_budget(memory: Memory) -> None:
    tight = Budget(max_tokens=700)
    with Memory(memory.awaiting._config.store, budget=tight) as small:
        contexts = [
            event.context
            for event in _watched(small, ScriptedModel(loops(60)))
            if isinstance(event, Sending)
        ]
    assert len(contexts) == 61
    assert all(check(context) == () for context in contexts)
    assert all(context.tokens <= 700 for context in contexts)
    assert contexts[-1].section(Section.SUMMARY)


def _watched(memory: Memory, model: ScriptedModel) -> list[Event]:
    events: list[Event] = []
    agent = Agent(memory, model, tools=[add], max_steps=100, on_event=events.append)
    agent.run("one", "count for a long while 请数很久")
    return events


def test_those_who_watch_are_told_in_order(memory: Memory) -> None:
    events = _watched(memory, ScriptedModel(loops(1)))
    kinds = [type(event) for event in events if not isinstance(event, TextCame)]
    assert kinds == [Sending, Answered, ToolStarted, ToolDone, Sending, Answered]
    assert "".join(e.text for e in events if isinstance(e, TextCame)) == "done: 完成"


def test_a_prompt_the_provider_finds_too_long_is_sent_once_more_and_smaller(memory: Memory) -> None:
    session = memory.session("one")
    for number in range(40):
        session.user(f"question {number} " * 8)
        session.assistant(f"answer {number} " * 8)
    model = ScriptedModel([ContextOverflow("too long"), "fits now"])
    assert Agent(memory, model).run("one", "well?").text == "fits now"
    first, second = model.asked
    assert len(second.messages) < len(first.messages)
    hopeless = ScriptedModel([ContextOverflow("too long"), ContextOverflow("still too long")])
    with pytest.raises(ContextOverflow, match="still"):
        Agent(memory, hopeless).run("one", "well?")
    with pytest.raises(ContextOverflow, match=r"^too long"):
        Agent(memory, ScriptedModel([ContextOverflow("too long")])).run("two", "well?")


def test_steps_are_bounded_and_can_be_gone_on_from(memory: Memory) -> None:
    model = ScriptedModel(loops(5))
    agent = Agent(memory, model, tools=[add], max_steps=3)
    with pytest.raises(StepsExhausted, match="no answer after 3 steps"):
        agent.run("one", "count")
    reply = agent.resume("one")
    assert reply is not None
    assert reply.text == "done: 完成"
    assert agent.resume("one") is None
    assert agent.resume("never heard of") is None


def test_a_model_that_fails_leaves_a_log_to_go_on_from(memory: Memory) -> None:
    agent = Agent(memory, ScriptedModel([ModelFailed("down"), "up again"]))
    with pytest.raises(ModelFailed):
        agent.run("one", "hello", client_id="u1")
    reply = agent.run("one", "hello", client_id="u1")
    assert reply.text == "up again"
    assert texts(memory) == [("user", "hello"), ("assistant", "up again")]


class Silent(ScriptedModel):
    """Answers its first question never."""

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        if not self.asked:
            await super().complete(prompt, tools=tools)
            await asyncio.sleep(3_600)
        return await super().complete(prompt, tools=tools)


def test_a_model_that_takes_too_long_is_unavailable(memory: Memory) -> None:
    silent = Silent(["never", "at last 终于"])
    with pytest.raises(ModelUnavailable, match=r"scripted did not answer within 0\.1 s"):
        Agent(memory, silent, model_seconds=0.1).run("one", "hello")
    reply = Agent(memory, silent).resume("one")  # whose patience is that of a person
    assert reply is not None
    assert reply.text == "at last 终于"
    assert texts(memory) == [("user", "hello"), ("assistant", "at last 终于")]

    async def run() -> None:
        async with AsyncMemory("sqlite://", budget=WIDE) as awaited:
            slow = AsyncAgent(awaited, Silent(["never", "at last"]), model_seconds=0.1)
            with pytest.raises(ModelUnavailable, match="model_seconds"):
                await slow.run("one", "hello")

    asyncio.run(run())


def test_the_workspace_is_fresh_in_every_call_and_never_in_the_log(memory: Memory) -> None:
    class Desk:
        looks = 0

        def render(self) -> str:
            self.looks += 1
            return f"open file: notes-{self.looks}.md"

    model = ScriptedModel(loops(2))
    Agent(memory, model, tools=[add], workspace=Desk()).run("one", "go")
    for number, asked in enumerate(model.asked, 1):
        shown = [message.text for message in asked.messages if "open file" in message.text]
        assert len(shown) == 1
        assert f"notes-{number}.md" in shown[0]
    assert all("open file" not in text for _, text in texts(memory))
    assert all(memory.session("one").explain(c.call).exact for c in memory.session("one").calls())


def test_cancelling_leaves_a_valid_log(tmp_path: Path) -> None:
    async def run() -> None:
        started = asyncio.Event()

        async def forever() -> str:
            started.set()
            await asyncio.sleep(3_600)
            return "never"

        model = ScriptedModel([calling(("c1", "forever", "{}"), ("c2", "add", '{"a": 1}')), "ok"])
        async with AsyncMemory(f"sqlite:///{tmp_path / 'chat.db'}", budget=WIDE) as memory:
            agent = AsyncAgent(memory, model, tools=[forever, add])
            task = asyncio.create_task(agent.run("one", "go"))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            context = await memory.session("one").context()
            assert check(context) == ()
            reply = await agent.resume("one")
            assert reply is not None
            assert reply.text == "ok"

    asyncio.run(run())


def test_options_that_cannot_work_are_refused(memory: Memory) -> None:
    model = ScriptedModel(["hi"])
    with pytest.raises(InvalidOption, match="max_steps=0"):
        Agent(memory, model, max_steps=0)
    with pytest.raises(InvalidOption, match="two tools have the name 'add'"):
        Agent(memory, model, tools=[add, Tool("add", "", {}, add)])
    same = Tool("add", "", {}, add)
    with pytest.raises(InvalidOption, match="two tools have the name 'add'"):
        Agent(memory, model, tools=[same, same])
    with pytest.raises(
        InvalidOption,
        match="parameter 'things' cannot be passed by name: make it an ordinary parameter",
    ):
        Agent(memory, model, tools=[lambda *things: things])


def test_a_tool_may_be_given_as_it_is(memory: Memory) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    seen: list[dict[str, object]] = []

    def weather(**arguments: object) -> dict[str, object]:
        seen.append(arguments)
        return {"city": arguments["city"], "雨": True}

    tool = Tool("weather", "The weather.", schema, weather)
    model = ScriptedModel([calling(("c1", "weather", '{"city": "杭州"}')), "rain"])
    Agent(memory, model, tools=[tool]).run("one", "weather?")
    assert seen == [{"city": "杭州"}]
    assert ("tool", '{"city": "杭州", "雨": true}') in texts(memory)
    assert user("weather?") == memory.session("one").history()[0].message


def test_what_was_said_long_ago_comes_back_when_the_user_speaks_of_it(tmp_path: Path) -> None:
    with Memory(
        f"sqlite:///{tmp_path / 'a.db'}", model="gpt-4o", budget=Budget(max_tokens=1_200)
    ) as memory:
        session = memory.session("one")
        session.user("The spare key is under the blue crate. 备用钥匙在蓝色箱子下面。")
        session.assistant("Noted.")
        for number in range(60):
            session.user(f"Unrelated question {number} about the weather in May")
            session.assistant(f"Unrelated answer {number}: it rained " + "again " * 10)
        seen: dict[str, str] = {}
        for mode in ("off", "automatic"):
            agent = Agent(memory, ScriptedModel(["Under the crate."]), recall=mode)
            reply = agent.run("one", "Where is the spare key, 备用钥匙?")
            seen[mode] = "\n".join(message.text for message in reply.context.messages)
        assert "<recalled " not in seen["off"]
        assert "蓝色箱子下面" in seen["automatic"].split("<recalled ")[1]


def test_where_nothing_is_recalled_the_model_can_search_itself(tmp_path: Path) -> None:
    small = Budget(max_tokens=1_200)
    address = f"sqlite:///{tmp_path / 'a.db'}"
    with Memory(address, model="gpt-4o", budget=small, recall="off") as memory:
        session = memory.session("one")
        session.user("The spare key is under the blue crate. 备用钥匙在蓝色箱子下面。")
        session.assistant("Noted.")
        for number in range(60):
            session.user(f"Unrelated question {number} about the weather in May")
            session.assistant(f"Unrelated answer {number}: it rained " + "again " * 10)
        asked = ['{"query": "备用钥匙"}', '{"query": ', '{"words": "key"}']
        calls = [(f"c{number}", "recall_context", given) for number, given in enumerate(asked)]
        model = ScriptedModel([calling(*calls), "Under the crate."])
        agent = Agent(memory, model, parallel=1)  # with the mode of the memory
        assert agent.run("one", "Where is the spare key?").text == "Under the crate."
        assert tool_names(model.asked[0].tools) == ["recall_context"]
        found, broken, unknown = [text for role, text in texts(memory) if role == "tool"]
        assert "蓝色箱子下面" in found
        assert broken.startswith("error:")
        assert unknown.startswith("error: unknown arguments words")


def test_the_tool_that_searches_is_given_by_need_or_by_wish(memory: Memory) -> None:
    def recall_context() -> str:
        """A tool of the program with the same name."""
        return "mine"

    def offered(*tools: object, **options: object) -> list[str]:
        model = ScriptedModel([calling(("c1", "recall_context", "{}")), "done"])
        Agent(memory, model, tools=tools, **options).run("one", "go")  # pyright: ignore[reportArgumentType] (any of them)
        return tool_names(model.asked[0].tools)

    assert offered() == []
    assert offered(recall="off") == offered(recall_tool=True) == ["recall_context"]
    assert offered(recall="off", recall_tool=False) == []
    assert offered(recall_context, recall="off") == ["recall_context"]
    assert ("tool", "mine") in texts(memory)
    with pytest.raises(InvalidOption, match="the agent has one already: rename yours"):
        offered(recall_context, recall_tool=True)


def test_a_repeated_message_gets_the_stored_answer(memory: Memory) -> None:
    model = ScriptedModel([calling(("c1", "add", '{"a": 1}')), "The sum is 3.", "Another answer."])
    shown: list[str] = []

    def show(event: Event) -> None:
        if isinstance(event, TextCame):
            shown.append(event.text)

    agent = Agent(memory, model, tools=[add], on_event=show)
    first = agent.run("one", "1 + 2?", client_id="turn-1")
    shown.clear()
    again = agent.run("one", "1 + 2?", client_id="turn-1")
    assert (again.text, again.steps) == (first.text, 0)
    assert again.answer.message == first.answer.message
    assert shown == ["The sum is 3."]
    assert texts(memory)[-1] == ("assistant", "The sum is 3.")
    assert len(texts(memory)) == 4
    with pytest.raises(IdReused):
        agent.run("one", "1 + 3?", client_id="turn-1")
    assert agent.run("one", "再来一次", client_id="turn-2").text == "Another answer."


def test_a_repeated_message_continues_a_run_that_was_interrupted(memory: Memory) -> None:
    failing = ScriptedModel([calling(("c1", "add", '{"a": 1}')), ModelUnavailable("down")])
    with pytest.raises(ModelUnavailable):
        Agent(memory, failing, tools=[add]).run("one", "1 + 2?", client_id="turn-1")
    reply = Agent(memory, ScriptedModel(["The sum is 3."]), tools=[add]).run(
        "one", "1 + 2?", client_id="turn-1"
    )
    assert (reply.text, reply.steps) == ("The sum is 3.", 1)
    assert [role for role, _ in texts(memory)] == ["user", "assistant", "tool", "assistant"]

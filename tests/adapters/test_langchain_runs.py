"""LangChain agents whose state is changed, taken back or interrupted, and what is brought back for their model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from langchain.agents.middleware import HumanInTheLoopMiddleware, after_model, before_model
from langchain.agents.middleware.types import (
    AgentState,
)
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command

from tests.adapters.langchain_agents import (
    MANY,
    PAGE,
    SMALL,
    Watched,
    agent_of,
    answering,
    appending,
    asked,
    calling,
    check_prompt,
    log_of,
    logged,
    looping,
    thread,
    user_words,
    words,
)
from turnfold import AgentMemory, AsyncMemory, Budget, Memory
from turnfold.adapters.langchain import TurnfoldSaver, state_log
from turnfold.errors import Conflict
from turnfold.memory import Session

# ---------------------------------------------------------------------------------- what changes in a state


def test_a_call_that_is_changed_before_it_is_made_is_stored_as_it_was_made() -> None:
    @after_model
    def change(state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        del runtime
        newest: Any = state["messages"][-1]
        calls = [{**call, "args": {"at": 7}} for call in newest.tool_calls]
        return {"messages": [newest.model_copy(update={"tool_calls": calls})]} if calls else None

    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=looping(1)), memory, behind=[change])
        state = agent.invoke(asked("Look."), thread())
        [call] = [call for one in log_of(memory.session("t")) for call in one.message.calls]
        assert call.arguments == '{"at":7}'
        assert logged(memory.session("t")) == state["messages"]


def test_a_run_that_a_human_interrupts_goes_on_with_everything_stored_once() -> None:
    with Memory("sqlite://") as memory:
        guard = HumanInTheLoopMiddleware(interrupt_on={"look": True})
        model = Watched(step=looping(1))
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory), behind=[guard])
        agent.invoke(asked("Look."), thread())
        assert [one.message.role for one in log_of(memory.session("t"))] == ["system", "user"]
        state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
        assert [one.type for one in state["messages"]] == ["human", "ai", "tool", "ai"]
        assert logged(memory.session("t")) == state["messages"]


def test_a_filter_before_the_model_decides_what_is_stored() -> None:
    @before_model
    def redact(state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any]:
        del runtime
        return {
            "messages": [
                one.model_copy(update={"content": one.text.replace("4711", "****")})
                for one in state["messages"]
            ]
        }

    with Memory("sqlite://") as memory:
        model = Watched(step=answering("Noted."))
        agent_of(model, memory, before=[redact]).invoke(asked("My code is 4711."), thread())
        assert "4711" not in "".join(one.message.text for one in log_of(memory.session("t")))
        assert "****" in words(model.prompts[0])


def test_a_thread_that_went_back_in_time_does_not_show_what_it_left() -> None:
    with Memory("sqlite://") as memory:
        model = Watched(step=answering("Noted.", "It is red.", "It is green."))
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory), recall=False)
        agent.invoke(asked("I have a boat."), thread())
        fork = agent.get_state(thread()).config
        agent.invoke(asked("It is red."), thread())
        agent.invoke(asked("It is green."), {**thread(), **fork})
        assert user_words(model.prompts[-1].messages) == ["I have a boat.", "It is green."]
        check_prompt(model.prompts[-1], memory.session("t"))
        assert "It is red." in [one.message.text for one in log_of(memory.session("t"))]


def test_a_removed_message_and_an_older_version_are_not_shown() -> None:
    with Memory("sqlite://") as memory:
        model = Watched(step=answering("One.", "Two.", "Three.", "Four."))
        agent = agent_of(model, memory, checkpointer=InMemorySaver(), recall=False)
        agent.invoke(asked("first"), thread())
        agent.invoke({"messages": [HumanMessage("second", id="x")]}, thread())
        agent.invoke({"messages": [RemoveMessage("x"), HumanMessage("third", id="y")]}, thread())
        assert user_words(model.prompts[-1].messages) == ["first", "third"]
        agent.update_state(thread(), {"messages": [HumanMessage("third, mended", id="y")]})
        agent.invoke(asked("fourth"), thread())
        assert sorted(user_words(model.prompts[-1].messages)) == [
            "first",
            "fourth",
            "third, mended",
        ]


def test_answers_that_are_changed_in_the_state_stay_with_their_calls_and_within_the_budget() -> (
    None
):
    @before_model
    def mark(state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any]:
        del runtime
        old = [one for one in state["messages"] if isinstance(one, ToolMessage)][:-2]
        changed = {True: "[cleared]", False: f"[kept] {PAGE * 3}"}
        return {
            "messages": [
                one.model_copy(update={"content": changed[at % 3 != 0]})
                for at, one in enumerate(old)
                if not one.text.startswith("[")
            ]
        }

    with Memory("sqlite://", budget=SMALL) as memory:
        model = Watched(step=looping(14))
        agent = agent_of(model, memory, before=[mark], recall=False)
        agent.invoke(asked("Look."), thread())
        for number, prompt in enumerate(model.prompts):
            check_prompt(prompt, memory.session("t"))
            answers = [one for one in prompt.messages if isinstance(one, ToolMessage)]
            assert [one.text[0] for one in answers[:-2]] == ["["] * max(0, len(answers) - 2), number


def test_a_step_that_is_done_again_shows_its_new_answer_with_the_call() -> None:
    runs: list[int] = []

    @tool
    def weigh() -> str:
        """Weigh it."""
        runs.append(1)
        return f"weighed {len(runs)} times"

    def step(number: int) -> AIMessage:
        return calling("weigh", {}, 1) if number == 1 else AIMessage("done")

    with Memory("sqlite://") as memory:
        model = Watched(step=step)
        saver = TurnfoldSaver(memory)
        agent = agent_of(model, memory, tools=[weigh], checkpointer=saver, recall=False)
        agent.invoke(asked("Weigh it."), thread())
        history = agent.get_state_history(thread())
        fork = next(one for one in history if one.next == ("tools",)).config
        agent.invoke(None, {**thread(), **fork})
        for prompt, weighed in zip(model.prompts[-2:], ("1 times", "2 times"), strict=True):
            check_prompt(prompt, memory.session("t"))
            [answer] = [one.text for one in prompt.messages if isinstance(one, ToolMessage)]
            assert answer.endswith(weighed)


@after_model(can_jump_to=["end"])
def stop_at_calls(state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
    """Ends the run before any tool is asked."""
    del runtime
    return {"jump_to": "end"} if state["messages"][-1].tool_calls else None  # type: ignore[union-attr]


def gone_back(model: Watched, memory: Memory) -> Any:
    """An agent whose second turn was left behind for a third, said from where the first had ended."""
    saver = InMemorySaver()
    agent = agent_of(model, memory, checkpointer=saver, behind=[stop_at_calls], recall=False)
    agent.invoke(asked("first"), thread())
    fork = agent.get_state(thread()).config
    agent.invoke(asked("second"), thread())
    agent.invoke(asked("third"), {**thread(), **fork})
    return agent


def test_a_call_left_without_an_answer_goes_with_its_branch() -> None:
    def step(number: int) -> AIMessage:
        return calling("look", {"at": 1}, 1) if number == 2 else AIMessage("Hm.")

    with Memory("sqlite://") as memory:
        model = Watched(step=step)
        gone_back(model, memory)
        shown = model.prompts[-1].messages
        assert user_words(shown) == ["first", "third"]
        assert not [one for one in shown if isinstance(one, ToolMessage) or one.text == ""]


def test_a_call_that_stays_keeps_what_stands_for_its_answer_though_another_had_its_id() -> None:
    def step(number: int) -> AIMessage:
        return calling("look", {"at": number}, 1) if number in (2, 3) else AIMessage("Hm.")

    with Memory("sqlite://") as memory:
        model = Watched(step=step)
        agent = gone_back(model, memory)
        agent.invoke(asked("fourth"), thread())
        shown = model.prompts[-1].messages
        assert user_words(shown) == ["first", "third", "fourth"]
        assert len([one for one in shown if isinstance(one, ToolMessage)]) == 1
        check_prompt(model.prompts[-1], memory.session("t"))


def test_a_thread_that_went_back_behind_the_window_goes_on_from_there() -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=1_000)) as memory:
        session, model = memory.session("t"), Watched(step=looping(3))
        agent = agent_of(model, memory, checkpointer=TurnfoldSaver(memory), recall=False)
        agent.invoke(asked("Look."), thread())
        agent.invoke(asked("Look again."), thread())
        history = list(agent.get_state_history(thread()))
        fork = [one for one in history if one.next == ("tools",)][-1]
        assert len(fork.values["messages"]) == 2
        begun = len(model.prompts)
        agent.invoke(None, {**thread(), **fork.config})
        for prompt in model.prompts:
            check_prompt(prompt, session)
        shown = model.prompts[begun].messages
        assert [one.text for one in shown if isinstance(one, AIMessage)] == ["thought 1"]
        assert "Look again." not in user_words(shown)


def test_sabotage_without_following_the_state_such_a_thread_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_log, "follow_history", appending)
    with pytest.raises(Conflict):
        test_a_thread_that_went_back_behind_the_window_goes_on_from_there()


# ---------------------------------------------------------------------------------- recall and findings


def test_recall_brings_back_what_was_folded_by_itself_and_by_tool() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        session = memory.session("t")
        filler = Watched(step=looping(16))
        plain = agent_of(filler, session, recall=False)
        plain.invoke(asked("The safe of the Nordlys has the combination 4711-0815."), MANY)
        plain.invoke(asked("Look again."), MANY)
        assert "recall_context" not in str(filler.prompts[0].tools)

        def step(number: int) -> AIMessage:
            queries = {1: {"query": "safe Nordlys"}, 2: {"turn_numbers": [1], "max_tokens": 300}}
            return (
                calling("recall_context", queries[number], number)
                if number < 3
                else AIMessage("ok")
            )

        model = Watched(step=step)
        state = agent_of(model, session).invoke(asked("What opens the safe of the Nordlys?"), MANY)
        assert "4711-0815" in words(model.prompts[0])
        answers = [one.text for one in state["messages"] if isinstance(one, ToolMessage)]
        assert len(answers) == 2
        assert all("4711-0815" in text for text in answers)
        assert all(check_prompt(prompt, session) for prompt in model.prompts)


def test_recall_context_answers_in_the_thread_of_its_run_awaited_too() -> None:
    step = answering("Noted.")

    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            await agent_of(Watched(step=step), memory).ainvoke(
                asked("The code is 4711."), thread("a")
            )
            model = Watched(
                step=lambda n: (
                    calling("recall_context", {"query": "code"}, 1) if n == 1 else AIMessage("?")
                )
            )
            agent = agent_of(model, memory)
            other = await agent.ainvoke(asked("Which code?"), thread("b"))
            assert "4711" not in other["messages"][2].text

    asyncio.run(work())


def test_an_agent_memory_is_kept_up_to_date() -> None:
    """Document 004, in a framework it does not name."""
    known = AgentMemory()

    @tool
    def get_toc(reg_id: str) -> dict[str, object]:
        """Return the table of contents."""
        return {"title": reg_id, "children": [{"title": "第一章 总则"}]}

    def step(number: int) -> AIMessage:
        return (
            AIMessage("done")
            if number == 2
            else calling("get_toc", {"reg_id": "angui_2024"}, number)
        )

    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=step), memory.session("s"), tools=[get_toc], findings=known)
        agent.invoke(asked("What is in it?"))
        assert [each.tool for each in memory.session("s").findings.list()] == ["get_toc"]
    assert known.has_cached_toc("angui_2024")
    assert known.known_chapters == ["第一章 总则"]


def test_findings_are_remembered_and_given_again() -> None:
    from turnfold.findings import FindingRule

    runs: list[int] = []

    @tool
    def fetch(page: int) -> str:
        """Fetch a page."""
        runs.append(page)
        return f"page {page}: {PAGE}"

    def step(number: int) -> AIMessage:
        return AIMessage("done") if number == 3 else calling("fetch", {"page": 4}, number)

    def run(session: Session, rules: list[FindingRule]) -> Any:
        agent = agent_of(Watched(step=step), session, tools=[fetch], findings=rules)
        return agent.invoke(asked("Fetch it twice."))

    with Memory("sqlite://") as memory:
        rule = FindingRule("fetch", serve=True)
        state = run(memory.session("s"), [rule])
        assert runs == [4]
        first, second = [one for one in state["messages"] if isinstance(one, ToolMessage)]
        assert PAGE in first.text
        assert PAGE in second.text
        assert first.text != second.text  # the second says where it is from
        runs.clear()
        run(memory.session("other"), [])
        assert runs == [4, 4]

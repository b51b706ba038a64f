"""Runs whose list of items another component changes, and items that were popped: what a model still sees of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import (
    Agent,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.extensions import handoff_filters
from agents.testing import ScriptedModel

from tests.adapters.openai_runs import (
    PAGE,
    SMALL,
    agent_of,
    called,
    check_prompt,
    look_tool,
    looping,
    pops_only_noted,
    run_either,
    said,
    with_memory,
)
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters._common import VisibleHistory, framework_history_in_log
from turnfold.adapters.openai_agents import TurnfoldSession, recall_tool, turnfold_run
from turnfold.adapters.openai_agents import session as session_module
from turnfold.adapters.openai_agents.items import RunItems, item_key
from turnfold.memory import RecallTool
from turnfold.records import CLEARED, TAKEN_BACK
from turnfold.runtime import drive

LARGE = Budget(max_tokens=200_000)
both = pytest.mark.parametrize("streamed", [False, True], ids=["run", "run_streamed"])
Edit = Callable[[Any], Any]


def asked(text: str) -> Any:
    return {"role": "user", "content": text}


CALL: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT: Any = {"type": "function_call_output", "call_id": "c", "output": "seen"}


# ---------------------------------------------------------------------------------- edited lists


def redacted(item: Any) -> Any:
    return json.loads(json.dumps(item).replace("4711", "****"))


def forgetting(data: Any) -> Any:
    return data.clone(input_history=(), pre_handoff_items=())


def putting_before(data: Any) -> Any:
    return data.clone(input_history=(asked("put before"), *data.input_history))


def redacting(data: Any) -> Any:
    items = [item.to_input_item() for item in data.pre_handoff_items]
    return data.clone(
        input_history=(*map(redacted, data.input_history), *map(redacted, items)),
        pre_handoff_items=(),
    )


def putting_after(data: Any) -> Any:
    items = [item.to_input_item() for item in data.pre_handoff_items]
    every = (*data.input_history, *items, asked("put after"))
    return data.clone(input_history=every, pre_handoff_items=(), new_items=())


HANDOFFS: dict[str, dict[str, Any]] = {
    "forgets": {"filter": forgetting},
    "puts before": {"filter": putting_before},
    "puts after": {"filter": putting_after},
    "redacts": {"filter": redacting},
    "removes tools": {"filter": handoff_filters.remove_all_tools},
    # It quotes items as JSON, whose keys the SDK's own session keeps in another order.
    "nested": {"config": {"nest_handoff_history": True}, "greets": False},
    "of the run": {"config": {"handoff_input_filter": forgetting}},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "callback drops": {"session_input_callback": lambda _, new: new},
    "callback turns": {"session_input_callback": lambda old, new: [*old[-1:], *old[:-1], *new]},
    "callback cuts": {"session_input_callback": lambda old, new: [*old[-1:], *new]},
    "callback adds": {"session_input_callback": lambda old, new: [asked("first"), *old, *new]},
    "callback repeats": {"session_input_callback": lambda old, new: [*old, *old[:1], *new]},
    "limit": {"session_settings": SessionSettings(limit=2)},
}


async def handed_over(session: dict[str, Any], how: dict[str, Any], *, streamed: bool) -> list[Any]:
    """All prompts of two runs of an agent that looks up a number and then hands the conversation over."""
    second = ScriptedModel([[called("look", 8, '{"at": 8}')], [said("x", 3)], [said("y", 5)]])
    target = Agent(name="target", model=second, tools=[look_tool("sky")])
    away = handoff(target, input_filter=how.get("filter"))
    script = [[called("look", 1, '{"at": 1}')], [called("transfer_to_target", 2)], [said("z", 4)]]
    greets = how.get("greets", True)
    first = ScriptedModel([*[[said("Hello.", 0)]] * greets, *script])
    agent = agent_of(first, look_tool("4711"), handoffs=[away])
    for text in ("Hi", "My number is 4711.", "And again?")[not greets :]:
        await run_either(streamed, agent, [asked(text)], **session)
    return [call.input for model in (first, second) for call in model.calls]


async def asked_three_times(session: dict[str, Any], _: object, *, streamed: bool) -> list[Any]:
    script = [[called("look", 1, '{"at": 1}')], [said("a", 2)], [said("b", 3)], [said("c", 4)]]
    model = ScriptedModel(script)
    agent = agent_of(model, look_tool("sea"))
    for text in ("One?", "Two?", "Three?"):
        await run_either(streamed, agent, text, **session)
    return [call.input for call in model.calls]


@both
@pytest.mark.parametrize("name", [*HANDOFFS, *CONFIGS])
def test_a_list_that_was_changed_is_what_a_model_sees(name: str, streamed: bool) -> None:  # noqa: FBT001
    how = HANDOFFS.get(name, {})
    config = RunConfig(**how.get("config", CONFIGS.get(name, {})))
    talk = handed_over if name in HANDOFFS else asked_three_times

    async def work(memory: AsyncMemory) -> None:
        plain = SQLiteSession("plain")
        theirs = await talk({"session": plain, "run_config": config}, how, streamed=streamed)
        given: Any = turnfold_run(memory, "s", run_config=config)
        assert await talk(given, how, streamed=streamed) == theirs
        kept = await TurnfoldSession(memory, "s").get_items()
        assert list(map(item_key, kept)) == list(map(item_key, await plain.get_items()))
        plain.close()

    with_memory(work, LARGE)


@pytest.mark.parametrize("name", ["forgets", "redacts", "limit"])
def test_sabotage_a_list_that_is_taken_for_the_session_shows_what_was_taken_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_edit(run: RunItems, items: Any) -> Any:
        run._partial = False
        known = {item_key(item) for item in run._sent} | set(run._stored)
        return [item for item in items if item_key(item) not in known]

    monkeypatch.setattr(RunItems, "new_in", no_edit)
    with pytest.raises(AssertionError):
        test_a_list_that_was_changed_is_what_a_model_sees(name, streamed=False)


@both
def test_a_run_with_a_changed_list_is_held_to_the_budget(streamed: bool) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory) -> None:
        model = ScriptedModel(looping(40))
        target = Agent(name="target", model=model, tools=[look_tool()])
        away = handoff(target, input_filter=handoff_filters.remove_all_tools)
        first = ScriptedModel([*looping(12)[:-1], [called("transfer_to_target", 500)]])
        agent = agent_of(first, look_tool(), handoffs=[away])
        result = await run_either(streamed, agent, "Look.", **turnfold_run(memory, "s"))
        assert result.final_output == "done"
        edited = memory.session("s/edited")
        counts = [await check_prompt(call, target, edited) for call in model.calls]
        assert len(counts) == 41
        assert max(counts) > 0.7 * SMALL.tokens
        assert len([one for one in await edited.calls(limit=100) if one.tokens]) == 41

    with_memory(work)


def test_what_a_filter_took_out_is_not_recalled_either() -> None:
    async def work(memory: AsyncMemory) -> None:
        recall = [called("recall_context", 9, '{"query": "harbour Kronborg"}')]
        model = ScriptedModel([recall, [said("ok", 3)]])
        target = Agent(name="target", model=model, tools=[recall_tool()])
        away = handoff(target, input_filter=forgetting)
        first = ScriptedModel([[called("transfer_to_target", 1)]])
        agent = agent_of(first, handoffs=[away])
        await Runner.run(agent, "The harbour is Kronborg.", **turnfold_run(memory, "s"))
        assert "is Kronborg" not in json.dumps(model.calls[-1].input)
        again = ScriptedModel([recall, [said("ok", 4)]])
        await Runner.run(agent_of(again, recall_tool()), "Which?", **turnfold_run(memory, "s"))
        assert "is Kronborg" in again.calls[-1].input[-1]["output"]

    with_memory(work, LARGE)


def test_new_items_come_last_and_asking_changes_nothing() -> None:
    run = RunItems()
    run.begin([asked("one"), asked("two")])
    assert run.new_in([asked("one"), asked("two"), asked("three")]) == [asked("three")]
    for _ in range(2):
        assert run.new_in([asked("one"), asked("new"), asked("two")]) is None
        assert run.new_in([asked("two"), asked("one")]) is None
        assert run.new_in([asked("two")]) is None
    assert run.new_in([asked("one"), asked("two"), asked("two")]) == [asked("two")]


def test_a_request_is_recognised_however_the_sdk_tidied_it() -> None:
    thought: Any = {"type": "reasoning", "id": "rs_1", "summary": []}
    run = RunItems()
    opened: Any = {**CALL, "call_id": "open"}
    run.begin([asked("one"), thought, opened])
    first = [asked("one"), CALL]  # the SDK leaves out calls without an output
    assert run.new_in(first) == [CALL]
    assert run.new_in([asked("one"), thought, CALL]) == [CALL]
    run.stored_input([CALL])
    run.sent(first)
    assert run.new_in([*first, OUTPUT]) is None  # the SDK adds it before it sends it
    assert run.unclaimed([CALL, OUTPUT]) == [OUTPUT]
    assert run.new_in([*first, OUTPUT]) == []
    tidied: list[Any] = [asked("one"), {**CALL, "status": None}, OUTPUT]
    assert run.new_in(tidied) == []
    other: Any = {**CALL, "arguments": '{"x": 1}'}
    hidden: Any = {**OUTPUT, "output": "****"}
    assert run.new_in([asked("one"), other, OUTPUT]) is None
    assert run.new_in([asked("one"), CALL, hidden]) is None


# ---------------------------------------------------------------------------------- popped


TOLD = "The harbour password is zebra42. 密码是斑马。"


async def popped(memory: AsyncMemory, *, pops: int = 2) -> TurnfoldSession:
    session = TurnfoldSession(memory, "s")
    items = [asked(f"Question {n}? {PAGE[:200]}") for n in range(30)]
    await session.add_items([*items, asked(TOLD), asked("Tell nobody zebra42.")])
    for _ in range(pops):
        await session.pop_item()
    return session


def test_what_was_popped_is_in_no_context_summary_or_recalled_passage() -> None:
    async def shown(memory: AsyncMemory) -> str:
        await popped(memory)
        model = ScriptedModel([*looping(30), [said("ok", 900)]])
        agent = agent_of(model, look_tool(), recall_tool())
        await run_either(False, agent, "Look.", **turnfold_run(memory, "s"))  # noqa: FBT003
        await run_either(False, agent, "Password of the harbour?", **turnfold_run(memory, "s"))  # noqa: FBT003
        session = memory.session("s")
        checkpoints = await session.checkpoints()
        assert checkpoints
        return json.dumps([call.input for call in model.calls]) + "".join(
            one.text for one in checkpoints
        )

    async def work(memory: AsyncMemory) -> None:
        assert "zebra42" not in await shown(memory)

    async def sabotaged(memory: AsyncMemory) -> None:
        assert "zebra42" in await shown(memory)

    with_memory(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TurnfoldSession, "_is_any_popped", lambda *_: asyncio.sleep(0, result=False))
        with_memory(sabotaged)


def seen_through(memory: Memory) -> str:
    """Everything that a program reads of the conversation without the adapter."""
    session = memory.session("s")
    passages = [one.message.text for one in session.recall("harbour password")]
    found = drive(RecallTool(session.awaiting).call({"query": "harbour password"}))
    return "\n".join([*passages, found, *(one.text for one in session.context().messages)])


def test_a_pop_takes_effect_at_once_whoever_reads_the_session() -> None:
    def read_after(pops: int) -> str:
        with Memory("sqlite://", budget=LARGE) as memory:
            session = TurnfoldSession(memory, "s")
            given = [asked("The harbour is Kronborg."), asked(TOLD)]
            asyncio.run(session.add_items(given))
            for _ in range(pops):
                asyncio.run(session.pop_item())
            return seen_through(memory)

    assert "zebra42" in read_after(0)
    shown = read_after(1)
    assert "zebra42" not in shown
    assert "Kronborg" in shown
    with pytest.MonkeyPatch.context() as patch:
        pops_only_noted(patch)
        assert "zebra42" in read_after(1)


def test_many_pops_in_a_row_store_a_bounded_number_of_entries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(memory: AsyncMemory) -> None:
        pops_only_noted(monkeypatch, after=100)
        session, log = await popped(memory, pops=12), memory.session("s")
        stored = 32 + 31 + 30 + 29  # a fourth time would be more than 100
        assert len(await log.history(limit=500)) == stored
        await session.add_items([asked("next")])
        assert len(await log.history(limit=500)) == stored + 20 + 1
        await session.add_items([asked("and next")])
        assert len(await log.history(limit=500)) == stored + 20 + 2
        found = await TurnfoldSession(memory, "s").get_items()
        assert len(found) == 22
        assert found[-2:] == [asked("next"), asked("and next")]
        await session.pop_item()  # the first of another row
        assert len(await log.history(limit=500)) == stored + 20 + 2 + 21

    with_memory(work, LARGE)


@pytest.mark.parametrize("at", [TAKEN_BACK, CLEARED])
def test_a_crash_while_the_rest_is_stored_again_loses_nothing(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_note = framework_history_in_log.write_note

    def failing(kind: str, key: str, note: Any) -> Any:
        if key == at and getattr(note, "upto", True):  # not the note before the append
            raise TypeError(at)
        return write_note(kind, key, note)

    async def work(memory: AsyncMemory) -> None:
        with monkeypatch.context() as patch:
            pops_only_noted(patch)
            session = await popped(memory)
        before = await session.get_items()
        assert len(before) == 30
        with monkeypatch.context() as patch:
            patch.setattr(framework_history_in_log, "write_note", failing)  # after the append
            with pytest.raises(TypeError, match=at):
                await session.add_items([asked("next")])
        assert len(await memory.session("s").history(limit=500)) == 62
        again = TurnfoldSession(memory, "s")
        assert await again.get_items() == before
        await again.add_items([asked("next")])
        assert await again.get_items() == [*before, asked("next")]
        texts = [one.text for one in (await memory.session("s").context()).messages]
        assert texts == [one["content"] for one in [*before, asked("next")]]

    with_memory(work, LARGE)


def test_what_is_popped_or_added_while_the_rest_is_stored_again_counts() -> None:
    async def left(memory: AsyncMemory) -> list[str]:
        one, two = TurnfoldSession(memory, "s"), TurnfoldSession(memory, "s")
        await one.add_items([asked(text) for text in "abcd"])
        entries = VisibleHistory.entries
        meanwhile = [two.pop_item, lambda: two.add_items([asked("e")])]

        async def read(history: VisibleHistory, *given: Any) -> Any:
            found = await entries(history, *given)
            if meanwhile:
                await meanwhile.pop(0)()
            return found

        with pytest.MonkeyPatch.context() as patch:
            pops_only_noted(patch)
            await one.pop_item()  # d
            patch.setattr(VisibleHistory, "entries", read)
            await one.settle()
        shown = [one.text for one in (await memory.session("s").context()).messages]
        assert shown == [item.get("content") for item in await one.get_items()]
        return shown

    async def work(memory: AsyncMemory) -> None:
        assert await left(memory) == ["a", "b", "e"]

    async def sabotaged(memory: AsyncMemory) -> None:
        assert await left(memory) == ["a", "b", "c"]  # c was popped, and is back

    with_memory(work, LARGE)
    replace = session_module.replace_history

    async def unguarded(*given: Any, retraction: Any, **more: Any) -> Any:
        del retraction
        return await replace(*given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module, "replace_history", unguarded)
        with_memory(sabotaged, LARGE)


def test_two_who_store_the_rest_again_at_once_do_it_once() -> None:
    async def work(memory: AsyncMemory) -> None:
        one = await popped(memory)
        two = TurnfoldSession(memory, "s")
        before = await one.get_items()
        await asyncio.gather(one.settle(), two.settle(), one.settle(), two.settle())
        assert await one.get_items() == await two.get_items() == before

    with_memory(work, LARGE)


def test_an_item_popped_while_a_tool_runs_does_not_end_the_run() -> None:
    async def work(memory: AsyncMemory) -> None:
        @function_tool
        async def undo() -> str:
            """Undo."""
            other = TurnfoldSession(memory, "s")
            while await other.pop_item() != asked("two"):
                pass
            await other.settle()
            return "undone"

        await TurnfoldSession(memory, "s").add_items([asked("one"), asked("two")])
        model = ScriptedModel([[called("undo", 1)], [said("done")]])
        agent = agent_of(model, undo)
        result = await Runner.run(agent, "three", **turnfold_run(memory, "s"))
        assert result.final_output == "done"
        shown = [one.get("content", one.get("type")) for one in model.calls[1].input]
        assert shown == ["one", "function_call", "function_call_output"]

    with_memory(work, LARGE)


def test_an_output_before_its_call_is_sent_after_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        def turned(old: Any, new: Any) -> Any:
            return [*reversed(old), *new]

        config = RunConfig(session_input_callback=turned)
        await TurnfoldSession(memory, "s").add_items([asked("one"), CALL, OUTPUT])
        model = ScriptedModel([[said("ok")]])
        given: Any = turnfold_run(memory, "s", run_config=config)
        await Runner.run(agent_of(model), "two", **given)
        assert model.calls[0].input == [CALL, OUTPUT, asked("one"), asked("two")]

    with_memory(work, LARGE)

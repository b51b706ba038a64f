"""The session of the OpenAI Agents SDK: what is added comes back as it was, and nothing leaves the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast, get_args

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import Agent, Runner, Session, SessionSettings
from agents.testing import ScriptedModel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses.response_input_item_param import ResponseInputItemParam

from tests.adapters.openai_runs import pops_only_noted, said, sample, with_memory
from tests.sizes import examples
from turnfold import AsyncMemory, Memory
from turnfold.adapters.openai_agents import TurnfoldSession
from turnfold.adapters.openai_agents import items as items_module
from turnfold.adapters.openai_agents.items import RunItems, item_key, items_of, records_of
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import ToolCall

KINDS = [sample(kind) for kind in get_args(ResponseInputItemParam)]
ODD: list[dict[str, Any]] = [
    {},
    {"type": "from_next_year", "payload": [1, 1.0, True, None, "1"]},
    {"id": "ref_1"},
    {"role": "narrator", "content": "Once upon a time"},
    {"role": "user", "content": ""},
    {"role": "user", "content": "half a \ud83d pair"},
    {"role": "developer", "content": [{"type": "input_text", "text": "Speak plainly."}]},
    {"role": "system", "content": "说中文。"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="},
    {"type": "function_call_output", "call_id": "c", "output": []},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{", "status": None},
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
any_item = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["message", "function_call", "function_call_output", "reasoning", "odd", ""]
        ),
        "role": st.sampled_from(["user", "assistant", "system", "developer", "?"]),
        "content": json_values,
        "call_id": st.sampled_from(["a", "b", ""]),
        "name": st.text(max_size=4),
        "arguments": json_values,
        "output": json_values,
        "summary": json_values,
        "id": st.text(max_size=4),
        "x": json_values,
    },
)


def strict(value: object) -> object:
    """Told apart where Python takes 1, 1.0 and True for the same."""
    if isinstance(value, dict):
        return {key: strict(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [strict(inner) for inner in value]
    return type(value).__name__, value


def there_and_back(items: list[Any]) -> list[Any]:
    return [item for record in records_of(items) for item in items_of(record)]


@pytest.mark.parametrize("item", [*KINDS, *ODD], ids=lambda item: str(item.get("type", "odd")))
def test_every_kind_of_item_comes_back_as_it_was(item: dict[str, Any]) -> None:
    assert strict(there_and_back([item])) == strict([item])


@settings(examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(any_item | st.sampled_from([*KINDS, *ODD]), max_size=6))
def test_any_list_of_items_comes_back_as_it_was(items: list[dict[str, Any]]) -> None:
    assert strict(there_and_back(items)) == strict(items)


def test_the_round_trip_rests_on_reading_back(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = {"role": "narrator", "content": "Once upon a time"}
    monkeypatch.setattr(items_module, "_kept_whole", lambda _: records_of([{"id": "lost"}])[0])
    assert there_and_back([odd]) != [odd]


def test_items_survive_the_store_in_order_and_another_process(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    every: list[Any] = [*KINDS, *ODD]

    async def write() -> None:
        async with AsyncMemory(store) as memory:
            session = TurnfoldSession(memory, "s")
            assert isinstance(session, Session)
            await session.add_items(every[:20])
            await session.add_items([])
            await session.add_items(every[20:])
            assert await session.get_items() == every

    asyncio.run(write())
    with Memory(store) as memory:
        session = TurnfoldSession(memory.session("s"))
        assert asyncio.run(session.get_items()) == every


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def test_a_limit_gives_the_newest_items_in_order() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        group: list[Any] = [call, {**call, "call_id": "d"}]
        items = [user("one"), *group, user("two"), user("three")]
        await session.add_items(items)
        for limit in range(8):
            assert await session.get_items(limit=limit) == (items[-limit:] if limit else [])
        session.session_settings = SessionSettings(limit=2)
        assert await session.get_items() == items[-2:]
        assert await session.get_items(limit=4) == items[-4:]
        assert await session.get_items(limit=-1) == items

    with_memory(work)


def test_a_popped_item_is_gone_for_the_sdk_and_stays_in_the_log() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        assert await session.pop_item() is None
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        items: list[Any] = [user("one"), call, {**call, "call_id": "d"}]
        await session.add_items(items)
        assert await session.pop_item() == items[2]
        assert await TurnfoldSession(memory, "s").get_items() == items[:2]
        assert await session.pop_item() == items[1]
        await session.add_items([user("two")])
        assert await session.get_items() == [items[0], user("two")]
        assert await session.get_items(limit=2) == [items[0], user("two")]
        assert [await session.pop_item() for _ in range(3)] == [user("two"), items[0], None]
        assert await session.get_items() == []
        log = await memory.session("s").history()
        assert [call.id for one in log for call in one.message.calls] == ["c", "d", "c"]

    with_memory(work)


def test_two_who_pop_at_once_get_different_items() -> None:
    async def work(memory: AsyncMemory) -> None:
        one, two = TurnfoldSession(memory, "s"), TurnfoldSession(memory, "s")
        await one.add_items([user(str(number)) for number in range(-4, 8)])
        popped = await asyncio.gather(*(each.pop_item() for each in (one, two) * 4))
        assert sorted(str(cast("Any", item)["content"]) for item in popped) == list("01234567")
        left = ["-4", "-3", "-2", "-1"]
        assert await one.get_items() == [user(text) for text in left]
        await two.settle()
        assert await one.get_items() == [user(text) for text in left]
        context = await memory.session("s").context()
        assert [message.text for message in context.messages] == left

    with_memory(work)


def test_a_cleared_session_starts_over_and_keeps_its_log() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        await session.add_items([user("one"), user("two")])
        await session.pop_item()
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([user("three")])
        assert await session.get_items() == [user("three")]
        texts = [one.message.text for one in await memory.session("s").history()]
        assert texts == ["one", "two", "one", "three"]

    with_memory(work)


@pytest.mark.parametrize("noted", [False, True], ids=["at once", "noted"])
def test_a_fork_takes_along_what_was_popped(
    noted: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if noted:
        pops_only_noted(monkeypatch)

    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        await session.add_items([user("one"), user("two"), user("three")])
        await session.pop_item()
        await session.pop_item()
        await memory.session("s").fork(2 if noted else None, conversation="t")
        assert await TurnfoldSession(memory, "t").get_items() == [user("one")]

    with_memory(work)


def test_conversations_do_not_mix_and_must_be_named() -> None:
    async def work(memory: AsyncMemory) -> None:
        await TurnfoldSession(memory, "a").add_items([user("a")])
        assert await TurnfoldSession(memory, "b").get_items() == []
        assert TurnfoldSession(memory.session("a"), "a").session_id == "a"
        with pytest.raises(InvalidOption, match="give conversation="):
            TurnfoldSession(memory)
        with pytest.raises(InvalidOption, match="give only one of them"):
            TurnfoldSession(memory.session("a"), "b")

    with_memory(work)


def test_what_others_logged_is_among_the_items() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        await session.system("Be brief.")
        await session.user("你好")
        await session.assistant(tool_calls=[ToolCall("c", "look", "{}")])
        await session.tool("deep", tool_call_id="c")
        items = await TurnfoldSession(session).get_items()
        shapes = [cast("Any", item).get("type", cast("Any", item).get("role")) for item in items]
        assert shapes == ["user", "function_call", "function_call_output"]

    with_memory(work)


def test_the_sdk_goes_on_with_a_session_whichever_way_it_runs(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        model = ScriptedModel([[said("San Francisco", 1)], [said("California", 2)]])
        agent = Agent(name="guide", model=model)
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        try:
            for question in ("Which city?", "Which state?"):
                Runner.run_sync(agent, question, session=TurnfoldSession(memory, "s"))
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        last = model.calls[-1].input
        assert [item["role"] for item in last] == ["user", "assistant", "user"]
        assert last == asyncio.run(TurnfoldSession(memory, "s").get_items())[:3]


def test_an_item_is_recognised_however_the_sdk_tidied_it() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    marked = {**call, "_agents_tool_description": "f", "created_by": "x", "status": None}
    assert item_key(call) == item_key(marked)
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "a"}
    assert item_key(reasoning) == item_key({**reasoning, "id": "rs_1"})
    assert item_key(user("one")) != item_key(user("two"))


def test_an_item_that_is_no_item_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        records_of(["hello"])


def test_the_words_of_a_failed_run_may_be_said_again_in_the_next() -> None:
    # Items of Chat Completions all have the same id: only their words tell them apart.
    again: Any = said("Let me look.")
    fields = {**again.model_dump(exclude_unset=True), "id": "__fake_id__"}
    call: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

    async def work(memory: AsyncMemory) -> None:
        session = TurnfoldSession(memory, "s")
        await session.add_items([user("one")])
        await session.add_response_ahead([cast("Any", fields), call])  # and its tool failed
        await session.add_items([user("two")])
        await session.add_items([cast("Any", fields)])
        assert await session.get_items() == [user("one"), fields, user("two"), fields]

    with_memory(work)


def test_sabotage_a_claim_that_outlives_its_run_swallows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RunItems, "_forget_failed", lambda *_: None)
    with pytest.raises(AssertionError):
        test_the_words_of_a_failed_run_may_be_said_again_in_the_next()

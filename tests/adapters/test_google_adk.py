"""Google ADK with memory: contents both ways, agents in real tool loops, several agents, long-term memory."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "google.adk", reason="the extra google-adk is not installed; it has an environment of its own"
)

from tests.adapters.adk_agents import (
    Chat,
    agent_of,
    agents,
    looping,
    requests,
    scripted,
    types,
)
from tests.adapters.tool_loops import STEPS, cost
from turnfold import AsyncMemory, Budget, Memory, Message, wire
from turnfold.adapters.google_adk import (
    TurnfoldMemoryService,
    TurnfoldPlugin,
    adk_contents,
    record_of,
)
from turnfold.errors import MissingExtra, NotFound
from turnfold.redaction import find_secrets
from turnfold.tokens import counter_for

# ADK uses names that pydantic and its own packages have since replaced.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SMALL = Budget(max_tokens=3_000)
PLACE = "ann/app/s"
plugins: Any = import_module("google.adk.plugins.base_plugin")

CONTENTS = [
    types.Content(role="user", parts=[types.Part(text="你好")]),
    types.Content(role="model", parts=[types.Part(text="a"), types.Part(text="b")]),
    types.Content(
        role="model",
        parts=[
            types.Part(text="hm", thought=True, thought_signature=b"\x00\xff"),
            types.Part(
                function_call=types.FunctionCall(name="look", args={"at": 1, "在": "海"}),
                thought_signature=b"sign",
            ),
            types.Part(function_call=types.FunctionCall(id="c", name="look", args={})),
        ],
    ),
    types.Content(
        role="user",
        parts=[
            types.Part.from_function_response(name="look", response={"result": "海"}),
            types.Part(
                function_response=types.FunctionResponse(id="c", name="look", response={"n": [1.5]})
            ),
        ],
    ),
    types.Content(
        role="user",
        parts=[
            types.Part.from_bytes(data=b"png", mime_type="image/png"),
            types.Part.from_uri(file_uri="gs://a/b.pdf", mime_type="application/pdf"),
            types.Part(executable_code=types.ExecutableCode(code="1", language="PYTHON")),
        ],
    ),
]


def texts(contents: Any) -> str:
    return " ".join(part.text for one in contents for part in one.parts or () if part.text)


def tool_schemas(model: Any) -> list[dict[str, object]]:
    """The tools of the last request, to count them."""
    found: list[dict[str, object]] = []
    for tool in model.configs[-1].tools or ():
        for one in tool.function_declarations:
            given = one.parameters_json_schema or one.parameters.model_dump(
                mode="json", exclude_none=True
            )
            function = {"name": one.name, "description": one.description, "parameters": given}
            found.append({"type": "function", "function": function})
    return found


def check_requests(memory: Memory, model: Any) -> None:
    """Every request of a loop fits with the system instruction, and no pair is broken."""
    session = memory.session(PLACE)
    tools = tool_schemas(model)
    costs: list[int] = []
    for sent, config in zip(requests(model), model.configs, strict=True):
        system = [Message("system", config.system_instruction)]
        costs.append(cost(session, [*system, *sent], tools))
        # Signatures are of Gemini; the script has none.
        faults = wire.lint(wire.gemini.request(sent, repair=False).kwargs, "gemini")
        assert [fault for fault in faults if "signature" not in str(fault)] == []
        calls = [{call.id for call in one.calls} for one in sent]
        results = [{result.call_id for result in one.results} for one in sent]
        assert all(
            answer in (set(), call) for call, answer in zip(calls, results[1:], strict=False)
        )
        assert results[0] == set()
    assert len(costs) == STEPS + 1
    assert 0.6 * SMALL.tokens < max(costs) <= SMALL.tokens, max(costs)
    assert session.status().checkpoint


# ---------------------------------------------------------------------------------- contents


def test_contents_come_back_as_they_were() -> None:
    assert adk_contents([record_of(content) for content in CONTENTS]) == CONTENTS


def test_calls_and_results_are_known() -> None:
    assert [call.name for call in record_of(CONTENTS[2]).calls] == ["look", "look"]
    assert [one.call_id for one in record_of(CONTENTS[3]).results] == [
        call.id for call in record_of(CONTENTS[2]).calls
    ]


# ---------------------------------------------------------------------------------- tool loops


def test_sixty_steps_with_folding_stay_in_budget_and_nothing_is_lost() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        model = scripted(looping(STEPS))
        chat = Chat(agent_of(model), TurnfoldPlugin(memory, recall=False))
        assert chat.ask("Look at everything.") == ["done"]
        check_requests(memory, model)
        assert len(asyncio.run(chat.events())) == 2 * STEPS + 2
        log = [entry.message for entry in memory.session(PLACE).history()]
        assert sum(len(message.calls) for message in log) == 2 * STEPS
        assert sum(len(message.results) for message in log) == 2 * STEPS


def test_sixty_awaited_steps_with_recall_stay_in_budget(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/memory.db"
    model = scripted(looping(STEPS))

    async def main() -> None:
        async with AsyncMemory(place, budget=SMALL) as memory:
            await Chat(agent_of(model), TurnfoldPlugin(memory)).say("Look at everything.")

    asyncio.run(main())
    with Memory(place, budget=SMALL) as memory:
        assert [one["function"]["name"] for one in tool_schemas(model)] == [  # pyright: ignore[reportIndexIssue] (a dictionary)
            "look",
            "recall_context",
        ]
        check_requests(memory, model)


def test_without_turnfold_the_loop_outgrows_the_budget() -> None:
    model = scripted(looping(STEPS))
    Chat(agent_of(model)).ask("Look at everything.")
    with Memory("sqlite://") as memory:
        assert cost(memory.session("s"), requests(model)[-1], ()) > SMALL.tokens


def test_while_everything_fits_the_requests_are_those_without_turnfold() -> None:
    sent: list[Any] = []
    with Memory("sqlite://") as memory:
        for used in ([], [TurnfoldPlugin(memory, recall=False)]):
            model = scripted([*looping(2), "again"])
            Chat(agent_of(model), *used).ask("Look.", "And again?")
            sent.append((model.sent, [one.system_instruction for one in model.configs]))
        assert sent[0] == sent[1]
        assert memory.session(PLACE).status().turns == 2


def test_a_call_is_in_the_log_before_its_tool_runs_and_the_answer_at_the_end() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session(PLACE)
        seen: list[str] = []

        def note() -> str:
            """Note what is known."""
            seen.extend(call.name for one in session.history() for call in one.message.calls)
            return "noted"

        model = scripted([[("note", {})], "done"])
        Chat(agent_of(model, tools=[note]), TurnfoldPlugin(memory)).ask("Go.")
        assert seen == ["note"]
        assert session.history()[-1].message.text == "done"


def test_streamed_answers_are_stored_once() -> None:
    run: Any = import_module("google.adk.agents.run_config")

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            chat = Chat(agent_of(scripted(["one", "two"])), TurnfoldPlugin(memory))
            for text in ("First.", "Second."):
                config = run.RunConfig(streaming_mode=run.StreamingMode.SSE)
                await chat.say(text, run_config=config)
            log = [one.message for one in await memory.session(PLACE).history()]
            said = [one.text for one in log if one.role != "system"]
            assert said == ["First.", "one", "Second.", "two"]

    asyncio.run(main())


def test_the_usage_of_the_provider_is_recorded() -> None:
    with Memory("sqlite://") as memory:
        Chat(agent_of(scripted(["hi"], usage=True)), TurnfoldPlugin(memory)).ask("Hello")
        [call] = memory.session(PLACE).calls()
        assert call.usage is not None
        assert (call.usage.input, call.usage.output, call.usage.cached) == (100, 5, 10)


def test_the_tool_brings_back_what_was_said() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("mine")
        session.user("The harbour is Kronborg.")
        model = scripted([[("recall_context", {"query": "harbour"})], "Kronborg"])
        Chat(agent_of(model), TurnfoldPlugin(session)).ask("Which harbour?")
        answer = model.sent[-1][-1].parts[0].function_response.response
        assert "Kronborg" in answer["result"]


# ---------------------------------------------------------------------------------- sessions and agents


def test_a_session_that_adk_did_not_keep_is_continued() -> None:
    with Memory("sqlite://") as memory:
        Chat(agent_of(scripted(["hi"])), TurnfoldPlugin(memory)).ask("I am Ann.")
        model = scripted(["Ann"])
        Chat(agent_of(model), TurnfoldPlugin(memory)).ask("Who am I?")
        assert texts(model.sent[-1]) == "I am Ann. hi Who am I?"


def test_sessions_and_users_do_not_see_each_other() -> None:
    with Memory("sqlite://") as memory:
        plugin = TurnfoldPlugin(memory)
        Chat(agent_of(scripted(["hi"])), plugin, session="one").ask("I am Ann.")
        model = scripted(["?"])
        Chat(agent_of(model), plugin, session="two").ask("Who am I?")
        assert texts(model.sent[-1]) == "Who am I?"
        erased = memory.erase_user("ann")
        assert len(erased.conversations) == 2


def test_what_a_rewind_left_is_no_longer_shown() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            model = scripted(["one", "two", "three"])
            chat = Chat(agent_of(model), TurnfoldPlugin(memory))
            await chat.say("I live in Oslo.")
            first = (await chat.events())[0].invocation_id
            await chat.say("What is there to see?")
            await chat.runner.rewind_async(
                user_id="ann", session_id="s", rewind_before_invocation_id=first
            )
            await chat.say("Where do I live?")
            assert texts(model.sent[-1]) == "Where do I live?"
            log = " ".join(one.message.text for one in await memory.session(PLACE).history())
            assert "Oslo" in log

    asyncio.run(main())


def test_each_agent_has_a_conversation_of_its_own() -> None:
    with Memory("sqlite://") as memory:
        german = agents.LlmAgent(
            name="german", model=scripted(["Guten Tag.", "Bitte."]), description="speaks German"
        )
        first = scripted([[("transfer_to_agent", {"agent_name": "german"})]])
        chat = Chat(agent_of(first, tools=[], sub_agents=[german]), TurnfoldPlugin(memory))
        assert chat.ask("Hallo", "Danke") == ["Guten Tag.", "Bitte."]
        assert "Hallo" in texts(german.model.sent[-1])
        places = {one.conversation for one in memory.conversations()}
        assert places == {PLACE, f"{PLACE}/german"}
        [*_, last] = memory.session(f"{PLACE}/german").history()
        assert last.message.text == "Bitte."


def test_contents_that_are_not_of_the_session_are_sent_counted_and_not_stored() -> None:
    hint = "the tide is high 潮水 " * 20
    with Memory("sqlite://", budget=SMALL) as memory:
        model = scripted([*looping(STEPS)])
        agent = agent_of(
            model,
            static_instruction=types.Content(role="user", parts=[types.Part(text="Be brief.")]),
            instruction=hint,
        )
        Chat(agent, TurnfoldPlugin(memory, recall=False)).ask("Look at everything.")
        check_requests(memory, model)
        assert all(hint.strip() in texts(sent) for sent in model.sent)
        log = [one.message for one in memory.session(PLACE).history()]
        assert not any(hint.strip() in one.text for one in log if one.role != "system")
        assert len([one for one in log if one.role != "system"]) == 2 * STEPS + 2


def test_a_tool_is_not_added_where_a_model_would_refuse_it() -> None:
    with Memory("sqlite://") as memory:
        model = scripted(['{"a": "b"}'])
        agent = agent_of(model, tools=[], output_schema=dict[str, str])
        Chat(agent, TurnfoldPlugin(memory)).ask("Answer.")
        assert not model.configs[-1].tools


def test_a_blocking_run_over_an_awaiting_memory_is_refused() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            chat = Chat(agent_of(scripted(["hi", "hi"])), TurnfoldPlugin(memory))
            await chat.say("Hello")
            message = types.Content(role="user", parts=[types.Part(text="Hello")])
            with pytest.raises(Exception, match="give the adapter a Memory"):
                list(chat.runner.run(user_id="ann", session_id="s", new_message=message))

    asyncio.run(main())


# ---------------------------------------------------------------------------------- long-term memory


def test_the_memory_service_finds_what_other_sessions_said() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            service: Any = TurnfoldMemoryService(memory)
            chat = Chat(agent_of(scripted(["Noted.", "好的。"])), memory_service=service)
            await chat.say("The harbour is Kronborg.")
            await chat.say("我喜欢吃荔枝。")
            session = await chat.runner.session_service.get_session(
                app_name="app", user_id="ann", session_id="s"
            )
            for _ in range(2):  # a session may be added many times
                await service.add_session_to_memory(session)
            assert len(await memory.session("ann/app/memory").history()) == 4
            for query, wanted in (("harbour", "Kronborg"), ("荔枝", "荔枝")):
                found = await service.search_memory(app_name="app", user_id="ann", query=query)
                best = found.memories[0]
                assert wanted in best.content.parts[0].text
                assert (best.author, best.timestamp[:2]) == ("user", "20")
            other = await service.search_memory(app_name="app", user_id="bob", query="harbour")
            assert other.memories == []
            await service.delete_memory(app_name="app", user_id="ann", memory_id=best.id)
            await service.add_session_to_memory(session)
            found = await service.search_memory(app_name="app", user_id="ann", query="荔枝")
            assert not any("荔枝" in one.content.parts[0].text for one in found.memories)
            with pytest.raises(NotFound, match="no memory 'x'"):
                await service.delete_memory(app_name="app", user_id="ann", memory_id="x")

    asyncio.run(main())


def test_without_adk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("turnfold.adapters.google_adk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.adk", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[google-adk\]"):
        __import__("turnfold.adapters.google_adk")


def test_a_memory_that_redacts_is_refused() -> None:
    with Memory("sqlite://", redact=find_secrets) as memory:
        chat = Chat(agent_of(scripted(["hi"])), TurnfoldPlugin(memory))
        with pytest.raises(Exception, match="redact"):
            chat.ask("Hello")


def test_tokens_are_counted_as_the_model_of_the_agent_counts_them() -> None:
    with Memory("sqlite://") as memory:
        model = scripted(["hi"])
        model.model = "openai/gpt-4o"
        Chat(agent_of(model), TurnfoldPlugin(memory)).ask("Hello")
        [call] = memory.session(PLACE).calls()
        assert call.counter == counter_for("gpt-4o").name

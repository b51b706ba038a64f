"""Microsoft Agent Framework with memory: messages both ways, agents in real tool loops, approvals, other providers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "agent_framework",
    reason="the extra agent-framework is not installed; it has an environment of its own",
)

from tests.adapters.framework_agents import (
    Content,
    ScriptedChatClient,
    agent_of,
    framework,
    look,
    looping,
)
from tests.adapters.tool_loops import STEPS, check_requests, cost
from tests.models.strict_server import Call, Say, StrictServer
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.agent_framework import (
    TurnfoldHistoryProvider,
    framework_messages,
    record_of,
)
from turnfold.adapters.agent_framework import messages as messages_module
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.tokens import counter_for

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SMALL = Budget(max_tokens=3_000)
LOOK = look.to_json_schema_spec()

CALL = Content.from_function_call(call_id="c", name="look", arguments='{"at": 1, "在": "海"}')
MESSAGES = [
    framework.Message("user", ["你好"], author_name="ann", message_id="m"),
    framework.Message("system", ["Be brief."]),
    framework.Message("assistant", ["a", "b"]),
    framework.Message(
        "assistant",
        [
            Content.from_text_reasoning(text="hm", protected_data="s"),
            Content.from_text("I look."),
            CALL,
            Content.from_function_call(call_id="d", name="look", arguments={"at": 2}),
        ],
    ),
    framework.Message(
        "tool",
        [
            Content.from_function_result("c", result="海"),
            Content.from_function_result("d", result={"a": 1}, exception="no"),
        ],
    ),
    framework.Message(
        "user",
        [
            Content.from_data(b"png", "image/png"),
            Content.from_uri("https://example.com/a.pdf", media_type="application/pdf"),
            Content.from_hosted_file("file-1"),
            Content.from_error(message="no", error_code="1"),
        ],
    ),
]


def said(messages: Any) -> list[str]:
    return [message.text for message in messages if message.text]


def with_memory(
    work: Callable[[AsyncMemory], Awaitable[None]], place: str = "sqlite://", **more: Any
) -> None:
    async def main() -> None:
        async with AsyncMemory(place, **more) as memory:
            await work(memory)

    asyncio.run(main())


def contents(message: Any) -> Any:
    return message.role, [one.to_dict() for one in message.contents], message.author_name


# ---------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_comes_back_as_it_was(message: Any) -> None:
    [back] = framework_messages([record_of(message)])
    assert contents(back) == contents(message)
    assert back.message_id == message.message_id


def test_the_round_trip_rests_on_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "original_fields", lambda _, written, **__: written)
    [back] = framework_messages([record_of(MESSAGES[3])])
    assert contents(back) != contents(MESSAGES[3])


def test_calls_and_results_are_known() -> None:
    assert [call.id for call in record_of(MESSAGES[3]).calls] == ["c", "d"]
    results = record_of(MESSAGES[4]).results
    assert [(one.call_id, one.text, one.is_error) for one in results] == [
        ("c", "海", False),
        ("d", '{"a": 1}', True),
    ]


def test_a_call_that_waits_for_an_approval_is_one_call() -> None:
    request = Content.from_function_approval_request(id="r", function_call=CALL)
    for contents_of in ([request], [CALL, request]):
        record = record_of(framework.Message("assistant", contents_of))
        assert [call.id for call in record.calls] == ["c"]
        [back] = framework_messages([record])
        assert [one.type for one in back.contents] == ["function_call"]


def test_a_result_with_half_a_character_becomes_text() -> None:
    broken = framework.Message("tool", [Content.from_function_result("c", result="half \ud83d")])
    [back] = framework_messages([record_of(broken)])
    assert "lone surrogate" in back.contents[0].result


# ---------------------------------------------------------------------------------- tool loops


@pytest.mark.parametrize("stream", [False, True])
def test_sixty_steps_with_folding_stay_in_budget_and_nothing_is_lost(
    stream: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    place = f"sqlite:///{tmp_path}/memory.db"
    client = ScriptedChatClient(looping(STEPS))

    async def work(memory: AsyncMemory) -> None:
        provider = TurnfoldHistoryProvider(memory, recall=stream)
        agent = agent_of(client, provider)
        session = agent.create_session(session_id="s")
        if stream:
            response = await agent.run("Look.", session=session, stream=True).get_final_response()
        else:
            response = await agent.run("Look.", session=session)
        assert response.text == "done"
        assert len(await provider.get_messages("s")) == 2 * STEPS + 2

    with_memory(work, place, budget=SMALL)
    tools = [one.to_json_schema_spec() for one in client.options[-1]["tools"]]
    assert len(tools) == 1 + stream
    with Memory(place, budget=SMALL) as memory:
        check_requests(memory, "s", client.requests, tools)


def test_the_usual_history_outgrows_the_budget() -> None:
    client = ScriptedChatClient(looping(STEPS))
    agent = agent_of(client, framework.InMemoryHistoryProvider())
    asyncio.run(agent.run("Look.", session=agent.create_session()))
    with Memory("sqlite://") as memory:
        assert cost(memory.session("s"), client.requests[-1], [LOOK]) > SMALL.tokens


def test_a_strict_server_accepts_every_request_of_the_real_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients: Any = import_module("agent_framework_openai")
    openai: Any = import_module("openai")
    script = [
        *(Say(calls=(Call(f"c{number}", "look", {"at": number}),)) for number in range(20)),
        Say("done"),
    ]

    async def work(memory: AsyncMemory) -> None:
        async with openai.AsyncOpenAI() as service:
            client = clients.OpenAIChatCompletionClient(model="gpt-4o", async_client=service)
            agent = agent_of(client, TurnfoldHistoryProvider(memory))
            response = await agent.run("Look.", session=agent.create_session(session_id="s"))
        assert response.text == "done"
        assert (await memory.session("s").status()).checkpoint

    with StrictServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        with_memory(work, budget=SMALL)
        assert server.rejected == []
        assert len(server.seen) == 21


def test_while_everything_fits_the_requests_are_those_without_turnfold() -> None:
    sent: list[Any] = []

    async def work(memory: AsyncMemory) -> None:
        ours = TurnfoldHistoryProvider(memory, recall=False)
        for provider in (framework.InMemoryHistoryProvider(), ours):
            client = ScriptedChatClient([*looping(2), "again"])
            agent = agent_of(client, provider)
            session = agent.create_session(session_id="s")
            for text in ("Look.", "And again?"):
                await agent.run(text, session=session)
            instructions = [one["instructions"] for one in client.options]
            sent.append(([[record_of(m).parts for m in one] for one in client.sent], instructions))
        assert sent[0] == sent[1]

    with_memory(work)


def test_a_call_is_in_the_log_before_its_tool_runs_and_the_answer_at_the_end() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        seen: list[str] = []

        @framework.tool
        def note() -> str:
            """Note what is known."""
            seen.extend(call.id for one in session.history() for call in one.message.calls)
            return "noted"

        client = ScriptedChatClient([[("c1", "note", {})], "done"])
        agent = agent_of(client, TurnfoldHistoryProvider(session), tools=[note])
        asyncio.run(agent.run("Go."))
        assert seen == ["c1"]
        assert session.history()[-1].message.text == "done"


def test_the_usage_of_the_provider_is_recorded() -> None:
    with Memory("sqlite://") as memory:
        agent = agent_of(
            ScriptedChatClient(["hi"], usage=True), TurnfoldHistoryProvider(memory.session("s"))
        )
        asyncio.run(agent.run("Hello"))
        [call] = memory.session("s").calls()
        assert call.usage is not None
        assert (call.usage.input, call.usage.output, call.usage.cached) == (100, 5, 10)


def test_the_tool_brings_back_what_was_said() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        session.user("The harbour is Kronborg.")
        client = ScriptedChatClient([[("c1", "recall_context", {"query": "harbour"})], "Kronborg"])
        asyncio.run(agent_of(client, TurnfoldHistoryProvider(session)).run("Which harbour?"))
        assert "Kronborg" in client.sent[-1][-1].contents[0].result


# ---------------------------------------------------------------------------------- sessions


def test_another_process_continues_the_session_and_others_do_not_see_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        client = ScriptedChatClient(["hi", "Ann", "?"])
        for name, text in (("s", "I am Ann."), ("s", "Who am I?"), ("other", "Who am I?")):
            agent = agent_of(client, TurnfoldHistoryProvider(memory))
            await agent.run(text, session=agent.create_session(session_id=name))
        assert said(client.sent[1]) == ["I am Ann.", "hi", "Who am I?"]
        assert said(client.sent[2]) == ["Who am I?"]

    with_memory(work)


def test_a_run_that_is_given_a_whole_conversation_makes_the_session_follow_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        client = ScriptedChatClient(["one", "two", "three"])
        agent = agent_of(client, TurnfoldHistoryProvider(memory))
        session = agent.create_session(session_id="s")
        await agent.run("I live in Oslo.", session=session)
        given = [
            framework.Message("user", ["I live in Rome."]),
            framework.Message("assistant", ["one"]),
            framework.Message("user", ["Where do I live?"]),
        ]
        await agent.run(given, session=session)
        assert said(client.sent[1]) == ["I live in Rome.", "one", "Where do I live?"]
        log = " ".join(one.message.text for one in await memory.session("s").history())
        assert "Oslo" in log

    with_memory(work)


def test_a_call_that_waited_for_an_approval_is_sent_with_its_result() -> None:
    @framework.tool(approval_mode="always_require")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async def work(memory: AsyncMemory) -> None:
        client = ScriptedChatClient([[("c1", "pay", {"amount": 5})], "done"])
        agent = agent_of(client, TurnfoldHistoryProvider(memory), tools=[pay])
        session = agent.create_session(session_id="s")
        asked = await agent.run("Pay 5.", session=session)
        [request] = asked.user_input_requests
        answer = framework.Message("user", [request.to_function_approval_response(approved=True)])
        assert (await agent.run([answer], session=session)).text == "done"
        calls = [call.id for one in client.requests[-1] for call in one.calls]
        results = [(x.call_id, x.text) for one in client.requests[-1] for x in one.results]
        assert (calls, results) == (["c1"], [("c1", "paid 5")])

    with_memory(work)


def test_messages_can_be_saved_and_got_without_a_run() -> None:
    async def work(memory: AsyncMemory) -> None:
        provider = TurnfoldHistoryProvider(memory)
        await provider.save_messages("s", MESSAGES[2:])
        await provider.save_messages("s", [])
        assert [contents(one) for one in await provider.get_messages("s")] == [
            contents(one) for one in MESSAGES[2:]
        ]
        with pytest.raises(InvalidOption, match="conversation="):
            await provider.get_messages(None)

    with_memory(work)


# ---------------------------------------------------------------------------------- other components


def test_messages_of_other_providers_are_sent_counted_and_not_stored() -> None:
    hint = "the tide is high 潮水 " * 20

    class Hints(framework.ContextProvider):
        async def before_run(self, *, context: Any, **_: Any) -> None:
            context.extend_messages(self.source_id, [framework.Message("user", [hint])])

    with Memory("sqlite://", budget=SMALL) as memory:
        session = memory.session("s")
        client = ScriptedChatClient(looping(STEPS))
        agent = agent_of(client, TurnfoldHistoryProvider(session, recall=False), Hints("hints"))
        asyncio.run(agent.run("Look."))
        check_requests(memory, "s", client.requests, [LOOK])
        assert all(said(sent).count(hint) == 1 for sent in client.sent)
        assert hint not in [one.message.text for one in session.history()]


def test_a_history_that_a_server_keeps_is_refused() -> None:
    class Storing(ScriptedChatClient):
        STORES_BY_DEFAULT = True

    with Memory("sqlite://") as memory:
        provider = TurnfoldHistoryProvider(memory.session("s"))
        with pytest.raises(InvalidOption, match='"store": False'):
            asyncio.run(agent_of(Storing(["hi"]), provider).run("Hello"))
        kept = agent_of(Storing(["hi"]), provider, default_options={"store": False})
        asyncio.run(kept.run("Hello"))
        each = agent_of(
            ScriptedChatClient(["hi"]), provider, require_per_service_call_history_persistence=True
        )
        with pytest.raises(InvalidOption, match="leave out"):
            asyncio.run(each.run("Hello"))


def test_without_agent_framework_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = "turnfold.adapters.agent_framework"
    for name in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "agent_framework", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[agent-framework\]"):
        __import__(ours)


def test_tokens_are_counted_as_the_model_of_the_client_counts_them() -> None:
    with Memory("sqlite://") as memory:
        client = ScriptedChatClient(["hi"])
        client.model = "gpt-4o"
        asyncio.run(agent_of(client, TurnfoldHistoryProvider(memory.session("s"))).run("Hello"))
        [call] = memory.session("s").calls()
        assert call.counter == counter_for("gpt-4o").name

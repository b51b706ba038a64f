"""Strands Agents with memory: messages both ways, agents in real tool loops, histories that change."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "strands", reason="the extra strands is not installed; it has an environment of its own"
)

from strands import tool
from strands.agent.conversation_manager import ConversationManager, NullConversationManager
from strands.middleware import InvokeModelStage
from strands.plugins import Plugin
from strands.session import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from tests.adapters.strands_agents import ScriptedStrandsModel, agent_of, look, looping
from tests.adapters.tool_loops import STEPS, check_requests, cost
from tests.models.strict_server import Call, Say, StrictServer
from turnfold import AsyncMemory, Budget, Memory, Message
from turnfold.adapters.strands import TurnfoldConversationManager, record_of, strands_messages
from turnfold.adapters.strands import messages as messages_module
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.records import ThinkingPart, ToolCall
from turnfold.tokens import counter_for

SMALL = Budget(max_tokens=3_000)
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": look.tool_spec["description"],
        "parameters": look.tool_spec["inputSchema"]["json"],
    },
}

MESSAGES: list[Any] = [
    {"role": "user", "content": [{"text": "你好"}]},
    {"role": "user", "content": [{"text": ""}]},
    {"role": "assistant", "content": [{"text": "a"}, {"text": "b"}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
            {"text": "I look."},
            {"toolUse": {"toolUseId": "c", "name": "look", "input": {"at": 1, "在": "海"}}},
            {
                "toolUse": {
                    "toolUseId": "d",
                    "name": "look",
                    "input": {},
                    "reasoningSignature": "r",
                }
            },
        ],
    },
    {"role": "assistant", "content": [{"reasoningContent": {"redactedContent": b"\x00\x01"}}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": [1]}}]},
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": "海"}]}},
            {"toolResult": {"toolUseId": "d", "status": "error", "content": [{"json": {"a": 1}}]}},
            {"toolResult": {"toolUseId": "e", "content": []}},
            {"text": "and go on"},
            {"cachePoint": {"type": "default"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"image": {"format": "png", "source": {"bytes": b"png"}}},
            {"image": {"format": "png", "source": {"location": {"type": "s3", "uri": "s3://a"}}}},
            {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"pdf"}}},
            {"document": {"format": "md", "name": "d", "source": {"bytes": b"md"}, "context": "c"}},
            {"audio": {"format": "wav", "source": {"bytes": b"wav"}}},
            {"video": {"format": "mp4", "source": {"bytes": b"mp4"}}},
            {"guardContent": {"text": {"text": "g", "qualifiers": ["query"]}}},
        ],
    },
]


def said(text: str) -> Any:
    return {"role": "user", "content": [{"text": text}]}


def texts(messages: Any) -> str:
    return " ".join(block.get("text", "") for message in messages for block in message["content"])


# ---------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_comes_back_as_it_was(message: Any) -> None:
    tracked: Any = {**message, "tracking_id": "t"}
    assert strands_messages([record_of(tracked)]) == [message]


def test_the_round_trip_rests_on_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "original_fields", lambda _, written, **__: written)
    assert strands_messages([record_of(MESSAGES[6])]) != [MESSAGES[6]]


def test_calls_results_and_thoughts_are_known() -> None:
    thought, _, call, _ = record_of(MESSAGES[3]).parts
    assert isinstance(thought, ThinkingPart)
    assert isinstance(call, ToolCall)
    assert (thought.signature, call.id, call.arguments) == ("s", "c", '{"at":1,"在":"海"}')
    results = record_of(MESSAGES[6]).results
    assert [(one.call_id, one.text, one.is_error) for one in results] == [
        ("c", "海", False),
        ("d", '{"a":1}', True),
        ("e", "", False),
    ]


def test_messages_of_one_role_are_joined() -> None:
    records = [Message("user", "a"), Message("user", "b"), Message("assistant", "c")]
    joined = strands_messages(records)
    assert [(one["role"], len(one["content"])) for one in joined] == [("user", 2), ("assistant", 1)]


@pytest.mark.parametrize("value", [{"x": float("nan")}, {1, 2}, "half \ud83d"])
def test_a_result_that_json_cannot_express_becomes_text(value: Any) -> None:
    content = [{"text": value}] if isinstance(value, str) else [{"json": value}]
    result = {"toolUseId": "c", "status": "success", "content": content}
    [back] = strands_messages([record_of({"role": "user", "content": [{"toolResult": result}]})])
    [block] = back["content"]
    assert block["toolResult"]["content"][0]["text"].encode()


# ---------------------------------------------------------------------------------- tool loops


def test_sixty_steps_with_folding_stay_in_budget_and_nothing_is_lost() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        model = ScriptedStrandsModel(looping(STEPS))
        manager = TurnfoldConversationManager(memory, "s", recall=False)
        agent = agent_of(model, manager)
        assert str(agent("Look at everything.")).strip() == "done"
        check_requests(memory, "s", model.requests, [LOOK])
        assert len(agent.messages) == 2 * STEPS + 2
        roles = [[message["role"] for message in sent] for sent in model.messages]
        assert all(set(one[::2]) == {"user"} and set(one[1::2]) <= {"assistant"} for one in roles)
        log = [entry.message for entry in memory.session("s").history()]
        kept = [record for record in log if record.role != "system"]
        assert [message["content"] for message in strands_messages(kept)] == [
            message["content"] for message in agent.messages
        ]


def test_sixty_awaited_steps_with_recall_stay_in_budget(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/memory.db"

    async def main(model: Any) -> None:
        async with AsyncMemory(place, budget=SMALL) as memory:
            agent = agent_of(model, TurnfoldConversationManager(memory.session("s")))
            await agent.invoke_async("Look at everything.")

    model = ScriptedStrandsModel(looping(STEPS))
    asyncio.run(main(model))
    recall = next(spec for spec in model.specs[-1] if spec["name"] == "recall_context")
    function = {"name": "recall_context", "description": recall["description"]}
    schema = {
        "type": "function",
        "function": {**function, "parameters": recall["inputSchema"]["json"]},
    }
    with Memory(place, budget=SMALL) as memory:
        check_requests(memory, "s", model.requests, [LOOK, schema])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_strict_server_accepts_every_request_of_the_real_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models: Any = import_module("strands.models.openai")
    script = [
        *(Say(calls=(Call(f"c{number}", "look", {"at": number}),)) for number in range(20)),
        Say("done"),
    ]
    with StrictServer(script) as server, Memory("sqlite://", budget=SMALL) as memory:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        model = models.OpenAIModel(model_id="gpt-4o")
        agent = agent_of(model, TurnfoldConversationManager(memory, "s"))
        assert str(agent("Look at everything.")).strip() == "done"
        assert server.rejected == []
        assert len(server.seen) == 21
        assert memory.session("s").status().checkpoint


def test_without_turnfold_the_loop_outgrows_the_budget() -> None:
    model = ScriptedStrandsModel(looping(STEPS))
    agent_of(model, NullConversationManager())("Look at everything.")
    with Memory("sqlite://") as memory:
        assert cost(memory.session("s"), model.requests[-1], [LOOK]) > SMALL.tokens


def test_while_everything_fits_the_requests_are_those_without_turnfold() -> None:
    prompt = [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    sent: list[Any] = []
    with Memory("sqlite://") as memory:
        ours = TurnfoldConversationManager(memory, "s", recall=False)
        for manager in (NullConversationManager(), ours):
            model = ScriptedStrandsModel([*looping(2), "again"])
            agent = agent_of(model, manager, system_prompt=prompt)
            agent("Look.")
            agent("And again?")
            plain = [
                [{key: one[key] for key in ("role", "content")} for one in messages]
                for messages in model.messages
            ]
            sent.append((plain, model.prompts, model.specs))
    assert sent[0] == sent[1]
    assert isinstance(ours, ConversationManager)


def test_a_call_is_in_the_log_before_its_tool_runs_and_the_answer_at_the_end() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        seen: list[str] = []

        @tool
        def note() -> str:
            """Note what is known."""
            seen.extend(call.id for one in session.history() for call in one.message.calls)
            return "noted"

        model = ScriptedStrandsModel([[("c1", "note", {})], "done"])
        agent_of(model, TurnfoldConversationManager(session), tools=[note])("Go.")
        assert seen == ["c1"]
        assert session.history()[-1].message.text == "done"


def test_the_usage_of_the_provider_is_recorded() -> None:
    with Memory("sqlite://") as memory:
        model = ScriptedStrandsModel(["hi"], usage=True)
        agent_of(model, TurnfoldConversationManager(memory, "s"))("Hello")
        [call] = memory.session("s").calls()
        assert call.usage is not None
        assert (call.usage.input, call.usage.output, call.usage.cached) == (100, 5, 10)


def test_the_tool_brings_back_what_was_said() -> None:
    with Memory("sqlite://") as memory:
        memory.session("s").user("The harbour is Kronborg.")
        script: Any = [[("c1", "recall_context", {"query": "harbour"})], "Kronborg"]
        model = ScriptedStrandsModel(script)
        agent_of(model, TurnfoldConversationManager(memory, "s"))("Which harbour?")
        [block] = model.messages[-1][-1]["content"]
        assert "Kronborg" in block["toolResult"]["content"][0]["text"]


# ---------------------------------------------------------------------------------- histories


def test_a_new_agent_continues_the_session() -> None:
    with Memory("sqlite://") as memory:
        agent_of(ScriptedStrandsModel(["hi"]), TurnfoldConversationManager(memory, "s"))(
            "I am Ann."
        )
        model = ScriptedStrandsModel(["Ann", "Ann"])
        agent = agent_of(model, TurnfoldConversationManager(memory, "s"))
        agent("Who am I?")
        agent("And who?")
        assert texts(model.messages[-1]).split() == "I am Ann. hi Who am I? Ann And who?".split()
        assert len(memory.session("s").history()) == 7  # with the system prompt


@pytest.mark.parametrize("changed", ["edited", "emptied", "redacted"])
def test_what_the_agent_left_is_no_longer_shown_and_stays_in_the_log(changed: str) -> None:
    with Memory("sqlite://") as memory:
        model = ScriptedStrandsModel(["one", "two", "three"])
        agent = agent_of(model, TurnfoldConversationManager(memory, "s"))
        agent("I live in Oslo.")
        agent("What is there to see?")
        if changed == "edited":
            agent.messages[:] = [said("I live in Rome."), agent.messages[1]]
        elif changed == "emptied":
            agent.messages.clear()
        else:
            agent.messages[0]["content"] = [{"text": "[blocked]"}]
        agent("And where do I live?")
        shown = texts(model.messages[-1])
        assert "Oslo" not in shown
        assert ("Rome" in shown, "[blocked]" in shown) == (
            changed == "edited",
            changed == "redacted",
        )
        log = " ".join(entry.message.text for entry in memory.session("s").history())
        assert "Oslo" in log


def test_a_session_of_strands_is_followed(tmp_path: Path) -> None:
    with Memory("sqlite://") as memory:
        for question in ("I am Ann.", "Who am I?"):
            model = ScriptedStrandsModel(["ok"])
            agent = agent_of(
                model,
                TurnfoldConversationManager(memory, "s"),
                session_manager=FileSessionManager("one", storage_dir=str(tmp_path)),
            )
            agent(question)
        assert texts(model.messages[-1]) == "I am Ann. ok Who am I?"
        log = [entry.message for entry in memory.session("s").history()]
        kept = [message.text for message in log if message.role != "system"]
        assert kept == ["I am Ann.", "ok", "Who am I?", "ok"]


def test_messages_without_ids_before_a_left_history_are_kept() -> None:
    """Messages that a program added itself have no client id: they are stored again after a clear like all others."""
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        session.user("First.")
        session.assistant("Yes.")
        first = [said("First."), {"role": "assistant", "content": [{"text": "Yes."}]}]
        model = ScriptedStrandsModel(["two", "other"])
        agent = agent_of(model, TurnfoldConversationManager(session), messages=first)
        agent("Second.")
        agent.messages[2:] = []
        agent("Another.")
        assert texts(model.messages[-1]) == "First. Yes. Another."


# ---------------------------------------------------------------------------------- other components


def test_blocks_that_a_middleware_adds_are_sent_and_counted() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        model = ScriptedStrandsModel(looping(STEPS))
        hint = {"text": "the tide is high 潮水 " * 20}

        def add(context: Any) -> Any:
            last = context.messages[-1]
            changed = {**last, "content": [*last["content"], hint]}
            return context.replace(messages=[*context.messages[:-1], changed])

        class Hinting(Plugin):
            name = "hints"

            def init_agent(self, agent: Any) -> None:
                agent.add_middleware(InvokeModelStage.Input, add)

        manager = TurnfoldConversationManager(memory, "s", recall=False)
        agent = agent_of(model, manager, plugins=[Hinting()])
        agent("Look at everything.")
        check_requests(memory, "s", model.requests, [LOOK])
        assert all(sent[-1]["content"][-1] == hint for sent in model.messages)
        assert hint not in agent.messages[-2]["content"]


def test_a_middleware_that_rewrites_the_history_is_refused() -> None:
    class Cutting(Plugin):
        name = "cut"

        def init_agent(self, agent: Any) -> None:
            agent.add_middleware(
                InvokeModelStage.Input,
                lambda context: context.replace(messages=context.messages[-1:]),
            )

    with Memory("sqlite://") as memory:
        model = ScriptedStrandsModel(["one", "two"])
        agent = agent_of(model, TurnfoldConversationManager(memory, "s"), plugins=[Cutting()])
        agent("First.")
        with pytest.raises(InvalidOption, match="only one component may edit the history"):
            agent("Second.")


def test_a_model_that_accepts_less_than_the_budget_is_heard() -> None:
    class Small(ScriptedStrandsModel):
        async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            raise ContextWindowOverflowException("too long")
            yield

    with Memory("sqlite://", budget=SMALL) as memory:
        agent = agent_of(Small([]), TurnfoldConversationManager(memory, "s"))
        with pytest.raises(ContextWindowOverflowException) as caught:
            agent("Hello")
        assert "3,000 tokens" in caught.value.__notes__[0]


def test_a_manager_is_for_one_agent() -> None:
    with Memory("sqlite://") as memory:
        manager = TurnfoldConversationManager(memory, "s")
        first = agent_of(ScriptedStrandsModel(["hi"]), manager)
        with pytest.raises(InvalidOption, match="belongs to another agent"):
            agent_of(ScriptedStrandsModel(["hi"]), manager)
        first("Hello")


def test_a_blocking_call_over_an_awaiting_memory_is_refused() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            agent = agent_of(ScriptedStrandsModel(["hi"]), TurnfoldConversationManager(memory, "s"))
            with pytest.raises(InvalidOption, match="give the adapter a Memory"):
                agent("Hello")
            await agent.invoke_async("Hello")

    asyncio.run(main())


def test_without_strands_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("turnfold.adapters.strands")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "strands", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[strands\]"):
        __import__("turnfold.adapters.strands")


def test_tokens_are_counted_as_the_model_of_the_agent_counts_them() -> None:
    with Memory("sqlite://") as memory:
        model = ScriptedStrandsModel(["hi"])
        model.update_config(model_id="gpt-4o")
        agent_of(model, TurnfoldConversationManager(memory, "s"))("Hello")
        [call] = memory.session("s").calls()
        assert call.counter == counter_for("gpt-4o").name

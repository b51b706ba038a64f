"""An approval for PydanticAI that is given in a later process: the history comes from the log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs pydantic-ai-slim")

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.house.source_tree import ROOT
from turnfold import AsyncMemory, Memory
from turnfold.adapters.pydantic_ai import message_history, run_log, turnfold_capability
from turnfold.records import Message

APPROVED = DeferredToolResults(approvals={"call_1": True})


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that has the order refunded, and says so."""
    del info
    newest = messages[-1].parts[-1]
    if isinstance(newest, ToolReturnPart):
        return ModelResponse([TextPart(f"done: {newest.content}")])
    return ModelResponse([ToolCallPart("refund", {"order": "A-1007"}, "call_1")])


def made(memory: AsyncMemory, ledger: Path, model: Any = answer) -> Agent[Any, Any]:
    agent = Agent(
        FunctionModel(model),
        output_type=[str, DeferredToolRequests],
        capabilities=[turnfold_capability(memory)],
        system_prompt="Refund with care. 谨慎退款。",
    )

    @agent.tool_plain(requires_approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{order}\n")
        return f"{order} refunded"

    del refund
    return agent


async def step(name: str, store: str, ledger: Path) -> str:
    async with AsyncMemory(store) as memory:
        agent = made(memory, ledger)
        if name == "ask":
            result = await agent.run("Refund A-1007. 退款。", conversation_id="c")
            return " ".join(call.tool_call_id for call in result.output.approvals)
        history = await message_history(memory.session("c"))
        result = await agent.run(
            message_history=history, deferred_tool_results=APPROVED, conversation_id="c"
        )
        return str(result.output)


def in_a_process(name: str, store: str, ledger: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.adapters.test_pydantic_approvals", name, store, str(ledger)],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        text=True,
    )
    return done.stdout.strip()


def test_a_later_process_approves(tmp_path: Path) -> None:
    store, ledger = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "ledger"
    assert in_a_process("ask", store, ledger) == "call_1"
    assert not ledger.exists()
    assert in_a_process("decide", store, ledger) == "done: A-1007 refunded"
    assert ledger.read_text("utf-8") == "A-1007\n"
    with Memory(store) as memory:
        log = memory.session("c").history()
    roles = [entry.message.role for entry in log]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    with pytest.raises(UserError, match="unprocessed tool calls"):
        asyncio.run(step("decide", store, ledger))  # a second decision
    assert ledger.read_text("utf-8") == "A-1007\n"


@pytest.mark.parametrize("kind", ["decided twice", "asked meanwhile", "wrong call", "model down"])
def test_a_run_that_fails_before_its_first_answer_hides_nothing_that_was_said(
    kind: str, tmp_path: Path
) -> None:
    def down(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ConnectionError(
            f"no line for {len(messages)} messages, {len(info.function_tools)} tools"
        )

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            agent, session = made(memory, tmp_path / "ledger"), memory.session("c")
            await session.user("Never call me before noon. 我对花生过敏。")
            await session.assistant("Noted. 记下了。")
            await agent.run("Refund A-1007. 退款。", conversation_id="c")
            options: dict[str, Any] = {"deferred_tool_results": APPROVED}
            if kind == "decided twice":
                history = await message_history(session)
                await agent.run(message_history=history, conversation_id="c", **options)
            elif kind == "asked meanwhile":
                options = {"user_prompt": "Are you there? 在吗？"}
            elif kind == "wrong call":
                options = {"deferred_tool_results": DeferredToolResults(approvals={"call_9": True})}
            else:
                agent = made(memory, tmp_path / "ledger", down)
            shown = [message_text(each) for each in await message_history(session)]
            rules = [rule.text for rule in await session.rules()]
            assert len(rules) >= 2
            history = await message_history(session)
            with pytest.raises((UserError, ConnectionError)):
                await agent.run(message_history=history, conversation_id="c", **options)
            assert [rule.text for rule in await session.rules()] == rules
            left = [message_text(each) for each in await message_history(session)]
            assert left[: len(shown)] == shown
            assert await session.recall("花生", tokens=200)

    asyncio.run(main())


def message_text(message: ModelMessage) -> str:
    return " ".join(str(getattr(part, "content", part.part_kind)) for part in message.parts)


def test_a_run_that_failed_after_the_tool_goes_on_without_it(tmp_path: Path) -> None:
    store, ledger = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "ledger"

    def failing(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        raise ConnectionError("line cut")

    async def run() -> str:
        await step("ask", store, ledger)
        async with AsyncMemory(store) as memory:
            session = memory.session("c")
            with pytest.raises(ConnectionError):
                await made(memory, ledger, failing).run(
                    message_history=await message_history(session),
                    deferred_tool_results=APPROVED,
                    conversation_id="c",
                )
            history = await message_history(session)
            result = await made(memory, ledger).run(message_history=history, conversation_id="c")
            return str(result.output)

    assert asyncio.run(run()) == "done: A-1007 refunded"
    assert ledger.read_text("utf-8") == "A-1007\n"


def test_the_history_has_what_is_visible_and_nothing_more(tmp_path: Path) -> None:
    async def run() -> list[ModelMessage]:
        async with AsyncMemory("sqlite://") as memory:
            agent, session = made(memory, tmp_path / "ledger"), memory.session("c")
            await agent.run("Refund A-1007.", conversation_id="c")
            await agent.run("Rather this.", message_history=[], conversation_id="c")
            await session.clear()
            await agent.run("And now?", conversation_id="c")
            return await message_history(session)

    found = asyncio.run(run())
    prompts = [
        part.content for one in found for part in one.parts if part.part_kind == "user-prompt"
    ]
    assert prompts == ["And now?"]


DECISIONS: dict[str, Any] = {
    "approved": (True, True),
    "denied": (ToolDenied("No. 不行"), ToolDenied("Too much.")),
    "one denied": (True, ToolDenied("Too much.")),
    "changed": (ToolApproved(override_args={"amount": 7}), True),
}


def pay_twice(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del info
    answered = [part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
    if answered:
        return ModelResponse([TextPart(f"done, {len(messages)} messages")])
    calls = [("pay", {"amount": 1}), ("peek", {}), ("pay", {"amount": 2})]
    return ModelResponse(
        [ToolCallPart(name, given, f"call_{at}") for at, (name, given) in enumerate(calls)]
    )


async def prompts_of_decided_runs(store: str, decisions: Any) -> tuple[list[Any], list[int]]:
    """The prompts of a run that waits, is resumed in another process, and goes on; and what was paid.

    Without a store the history is handed on as it is; with one it comes from the log.
    """
    prompts: list[Any] = []
    paid: list[int] = []

    def watched(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts.append([shape(part) for one in messages for part in one.parts])
        return pay_twice(messages, info)

    history: list[ModelMessage] | None = None
    results = DeferredToolResults(
        approvals={"call_0": decisions[0], "call_2": decisions[1]},
    )
    steps: list[dict[str, Any]] = [
        {"user_prompt": "Pay! 付款"},
        {"deferred_tool_results": results},
        {"user_prompt": "And now?"},
    ]
    for given in steps:
        async with AsyncMemory(store or "sqlite://") as memory:
            agent = Agent(
                FunctionModel(watched),
                output_type=[str, DeferredToolRequests],
                capabilities=[turnfold_capability(memory)] if store else [],
            )

            @agent.tool_plain(requires_approval=True)
            def pay(amount: int) -> str:
                """Pay."""
                paid.append(amount)
                return f"paid {amount} 已付"

            @agent.tool_plain
            def peek() -> str:
                """Look."""
                return "sea 海"

            del pay, peek
            if store and history is not None:
                history = await message_history(memory.session("c"))
            result = await agent.run(message_history=history, conversation_id="c", **given)
            history = result.all_messages()
    return prompts, sorted(paid)  # the tools of one response run at the same time


def shape(part: Any) -> tuple[str, str, str]:
    return part.part_kind, str(getattr(part, "content", "")), getattr(part, "tool_call_id", "")


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_are_shown_as_without_turnfold(name: str, tmp_path: Path) -> None:
    theirs = asyncio.run(prompts_of_decided_runs("", DECISIONS[name]))
    ours = asyncio.run(
        prompts_of_decided_runs(f"sqlite:///{tmp_path / 'chat.db'}", DECISIONS[name])
    )
    assert ours == theirs


@pytest.mark.parametrize("name", DECISIONS)
def test_sabotage_with_other_results_in_the_history_decisions_are_shown_wrongly(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = run_log.model_messages

    def lost(part: Any) -> Any:
        return replace(part, content="lost") if isinstance(part, ToolReturnPart) else part

    def with_other_results(records: list[Message]) -> list[ModelMessage]:
        return [replace(one, parts=list(map(lost, one.parts))) for one in restored(records)]

    monkeypatch.setattr(run_log, "model_messages", with_other_results)
    with pytest.raises(AssertionError):
        test_decisions_are_shown_as_without_turnfold(name, tmp_path)


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(step(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))

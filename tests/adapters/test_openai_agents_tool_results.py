"""Whatever a tool returns in a run of the OpenAI Agents SDK is told to the model: it never ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

from agents import Runner, UserError, function_tool
from agents.testing import ScriptedModel

from tests.adapters.openai_runs import agent_of, called, said
from tests.agent.hostile_values import RETURNING, UNAWAITED
from turnfold import AsyncMemory, Budget, wire
from turnfold.adapters.openai_agents import TurnfoldSession, turnfold_run
from turnfold.adapters.openai_agents import items as items_module

Giving = Mapping[str, Callable[[], object]]

OF_THE_SDK = {
    "class raises",
    "deep",
    "dict without items",
    "exception",
    "huge int",
    "huge int inside",
    "unprintable",
    "unprintable inside",
}
"""What the SDK itself cannot take as a tool's output: it raises before it makes an item of it."""
THROUGH = {name: give for name, give in RETURNING.items() if name not in OF_THE_SDK | UNAWAITED}


async def run(giving: Giving, **more: Any) -> list[Any]:
    """What the model was sent last; its first answer calls every tool."""
    tools = [
        function_tool(_tool(give), name_override=f"t{n}") for n, give in enumerate(giving.values())
    ]
    calls = [called(f"t{n}", n) for n in range(len(tools))]
    model = ScriptedModel([calls, [said("done")]])
    result = await Runner.run(agent_of(model, *tools), "go", **more)
    assert result.final_output == "done"
    return list(model.calls[-1].input)


def _tool(give: Callable[[], object]) -> Callable[[], object]:
    def look() -> object:
        """Look."""
        return give()

    return look


def test_every_value_a_tool_returns_is_a_result() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
            sent = await run(THROUGH, **turnfold_run(memory.session("s")))
            assert wire.lint({"input": sent}, "openai_responses") == ()
            told = {item["call_id"]: item["output"] for item in sent if "output" in item}
            assert "[no result was recorded for this call]" not in told.values()
            "".join(told.values()).encode()
            by_name = {name: told[f"call_{n}"] for n, name in enumerate(THROUGH)}
            assert by_name["subclass of str"] == "text 文本"
            assert by_name["lone surrogate"] == (
                "error: the result holds a lone surrogate (U+DCFF at character 5), which no provider accepts; "
                "with such characters escaped it is:\nfile \\udcff name 文件"
            )
            log = [entry.message for entry in await memory.session("s").history(limit=100)]
            answered = {result.call_id for message in log for result in message.results}
            assert answered == told.keys()

    asyncio.run(main())


def test_the_session_alone_keeps_every_output() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
            session = TurnfoldSession(memory.session("s"))
            await run(THROUGH, session=session)
            items: list[Any] = await session.get_items()
            kept = {item["call_id"]: item["output"] for item in items if "output" in item}
            assert len(kept) == len(THROUGH)
            at = f"call_{list(THROUGH).index('lone surrogate')}"
            assert kept[at] == "file \udcff name 文件"  # as it was

    asyncio.run(main())


@pytest.mark.parametrize("name", sorted(OF_THE_SDK))
def test_what_the_sdk_cannot_take_it_refuses_without_turnfold_too(name: str) -> None:
    with pytest.raises(BaseException, match=r"no |recursion|4300 digits"):
        asyncio.run(run({name: RETURNING[name]}))


def test_sabotage_without_telling_an_output_is_lost_or_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items_module, "_with_text_output", lambda item: item)
    with pytest.raises((AssertionError, UserError)):
        test_every_value_a_tool_returns_is_a_result()

"""Whatever a tool of a PydanticAI agent returns is told to the model: it never ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import Agent, ModelRetry, Tool, ToolReturn
from pydantic_ai.messages import (
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)

from tests.adapters.pydantic_agents import Watched, log_of
from tests.agent.hostile_values import RETURNING, Unprintable, call_ids
from turnfold import AsyncMemory, Budget, wire
from turnfold.adapters.pydantic_ai import entries as recording_module
from turnfold.adapters.pydantic_ai import turnfold_capability
from turnfold.findings import FindingRule
from turnfold.records import ToolResult

OF_PYDANTIC_AI = {"awaitable that raises", "claims to be a coroutine", "class raises"}
"""What PydanticAI itself cannot take from a tool: it raises before it shows turnfold anything."""


Giving = Mapping[str, Callable[[], object]]


async def run(giving: Giving, memory: AsyncMemory | None, **more: Any) -> Watched:
    """A run whose model calls every tool at once; `giving` are tools by the name of their value."""
    ids = call_ids(giving).values()
    calls = [ToolCallPart(f"t{n}", {"at": "海"}, call_id) for n, call_id in enumerate(ids)]
    watched = Watched(lambda number: ModelResponse(calls if number == 1 else [TextPart("done")]))
    with_it = [turnfold_capability(memory.session("s"), **more)] if memory else []
    tools = [Tool[object](_tool(give), name=f"t{n}") for n, give in enumerate(giving.values())]
    agent = Agent(watched.model, tools=tools, capabilities=with_it)
    assert (await agent.run("go")).output == "done"
    return watched


def _tool(give: Callable[[], object]) -> Callable[[str], object]:
    def look(at: str) -> object:
        del at
        return give()

    return look


def told_of(watched: Watched) -> dict[str, str]:
    """Call id -> what the model was told."""
    parts = [part for message in watched.prompts[-1][0] for part in message.parts]
    return {
        part.tool_call_id: part.model_response_str(wrap_if_error=False)
        for part in parts
        if isinstance(part, ToolReturnPart)
    }


async def results_of(memory: AsyncMemory) -> dict[str, ToolResult]:
    entries = [one.message for one in await log_of(memory.session("s"))]
    for provider in ("openai_chat", "anthropic", "openai_responses", "gemini"):
        written = getattr(wire, provider).request(entries, repair=False)
        assert wire.lint(written.kwargs, provider) == (), provider
    return {result.call_id: result for message in entries for result in message.results}


def results(giving: Giving, **more: Any) -> dict[str, ToolResult]:
    """The results in the log, by the name of the value; they are what the model was told."""

    async def main() -> dict[str, ToolResult]:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
            shown = told_of(await run(giving, memory, **more))
            logged = await results_of(memory)
            texts = {name: result.text for name, result in logged.items()}
            "".join(shown.values()).encode()
            # PydanticAI shows nothing for None.
            assert shown == {name: "" if text == "null" else text for name, text in texts.items()}
            return {name: logged[call_id] for name, call_id in call_ids(giving).items()}

    return asyncio.run(main())


def result(give: Callable[[], object]) -> ToolResult:
    return results({"it": give})["it"]


THROUGH = {name: give for name, give in RETURNING.items() if name not in OF_PYDANTIC_AI}


@pytest.mark.parametrize("remembered", [False, True])
def test_every_value_a_tool_returns_is_a_result(*, remembered: bool) -> None:
    rules = [FindingRule(f"t{n}", serve=True) for n in range(len(THROUGH) if remembered else 0)]
    results(THROUGH, findings=rules)


@pytest.mark.slow
@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize("name", sorted(THROUGH))
def test_each_value_alone_is_a_result(name: str, *, remembered: bool) -> None:
    results({name: RETURNING[name]}, findings=[FindingRule("t0")] if remembered else [])


@pytest.mark.parametrize("name", sorted(OF_PYDANTIC_AI))
def test_what_pydantic_ai_cannot_take_it_refuses_without_turnfold_too(name: str) -> None:
    with pytest.raises(BaseException, match=r"await|no class"):
        asyncio.run(run({name: RETURNING[name]}, None))


def test_the_model_is_told_what_was_wrong() -> None:
    unprintable = result(Unprintable)
    assert unprintable.is_error
    assert unprintable.text == (
        "error: the tool returned a value of type Unprintable, which cannot be written as text: Stop: no text"
    )
    half = result(lambda: "file \udcff 文件")
    assert half.text.endswith("with such characters escaped it is:\nfile \\udcff 文件")
    generator = result(RETURNING["generator"])
    assert generator.text.endswith(
        "TypeError: the tool returned a generator: return its items as a list"
    )
    assert result(lambda: {"深": [1, "文"]}).text == '{"深":[1,"文"]}'


def test_what_a_tool_gives_beside_its_answer_is_told_too() -> None:
    given = ToolReturn("seen", content="half \ud83d", metadata={"raw": Unprintable()})
    assert result(lambda: given).text == "seen"


def test_a_retry_with_half_a_character_is_told() -> None:
    def give() -> str:
        raise ModelRetry("again \udcff")

    told = result(give)
    assert told.is_error
    assert "again \\udcff" in told.text


def test_an_answer_with_half_a_character_is_kept_escaped() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            watched = Watched(lambda _: ModelResponse([TextPart("cut \ud83d")]))
            session = memory.session("s")
            agent = Agent(watched.model, capabilities=[turnfold_capability(session)])
            assert (await agent.run("go")).output == "cut \ud83d"
            assert (await log_of(session))[-1].message.text == "cut \\ud83d"

    asyncio.run(main())


def test_a_result_without_a_text_is_no_finding() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            rules = [FindingRule("t0"), FindingRule("t1")]
            await run({"a": Unprintable, "b": lambda: {"深": 1}}, memory, findings=rules)
            found = await memory.session("s").findings.list()
            assert [one.content for one in found] == ['{"深":1}']

    asyncio.run(main())


def test_sabotage_without_telling_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "_as_text", lambda _: None)
    with pytest.raises(Exception, match="PydanticAI cannot write"):
        result(Unprintable)

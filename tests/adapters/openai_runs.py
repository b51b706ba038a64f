"""Runs of the OpenAI Agents SDK whose model is a script, and what may be said of every prompt it received."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ModelCall, ScriptedModel
from agents.tool import Tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from typing_extensions import is_typeddict

from turnfold import AsyncMemory, Budget, wire
from turnfold.adapters.openai_agents import session as session_module
from turnfold.adapters.openai_agents.items import records_of
from turnfold.adapters.openai_agents.run import tool_schemas
from turnfold.memory import AsyncSession
from turnfold.records import system

set_tracing_disabled(disabled=True)  # it would be sent to a server

SMALL = Budget(max_tokens=3_000)
PAGE = "water and stone 水与石 " * 40
MANY = 200
"""Model calls a run may make."""


def said(text: str, number: int = 1) -> ResponseOutputMessage:
    content: list[Any] = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(
        id=f"msg_{number}", content=content, role="assistant", status="completed", type="message"
    )


def called(name: str, number: int, arguments: str = "{}") -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{number}",
        call_id=f"call_{number}",
        name=name,
        arguments=arguments,
        type="function_call",
    )


def thought(number: int) -> ResponseReasoningItem:
    return ResponseReasoningItem(
        id=f"rs_{number}", summary=[], type="reasoning", encrypted_content=f"secret {number}"
    )


def looping(steps: int, *, answer: str = "done") -> list[Sequence[Any]]:
    """Thinks and calls the tool `look` so many times, two calls every fifth time, then answers."""
    script: list[Sequence[Any]] = []
    for number in range(1, steps + 1):
        calls = [called("look", number, f'{{"at": {number}}}')]
        if number % 5 == 0:
            calls.append(called("look", 1000 + number, f'{{"at": {number}}}'))
        script.append([thought(number), *calls])
    return [*script, [said(answer)]]


def look_tool(result: str = PAGE) -> FunctionTool:
    @function_tool
    def look(at: int) -> str:
        """Look at a place."""
        return f"place {at}: {result}"

    return look


def agent_of(model: ScriptedModel, *tools: Tool, **more: Any) -> Agent[Any]:
    return Agent(name="scout", model=model, tools=list(tools), instructions="Be brief.", **more)


def with_memory(
    work: Callable[[AsyncMemory], Awaitable[None]], budget: Budget = SMALL, **more: Any
) -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=budget, **more) as memory:
            await work(memory)

    asyncio.run(main())


def pops_only_noted(patch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """Let pops store only so many entries again; further ones take effect when the session is used otherwise."""
    patch.setattr(session_module, "_STORED_AGAIN", after)


async def run_either(streamed: bool, agent: Agent[Any], given: Any, **more: Any) -> Any:  # noqa: FBT001
    if not streamed:
        return await Runner.run(agent, given, max_turns=MANY, **more)
    result = Runner.run_streamed(agent, given, max_turns=MANY, **more)
    async for _ in result.stream_events():
        pass
    return result


async def check_prompt(call: ModelCall, agent: Agent[Any], session: AsyncSession) -> int:
    """Tokens of a prompt; it must be within the budget and valid for the provider."""
    assert wire.lint({"input": call.input}, "openai_responses") == ()
    records = records_of(call.input)
    if call.system_instructions:
        records = [system(call.system_instructions), *records]
    count = session.counter
    schemas = await tool_schemas(agent, RunContextWrapper(None))
    tokens = sum(count.count_messages(records)) + count.count_tools(schemas) + count.reply
    assert tokens <= session.budget.tokens
    return tokens


def sample(hint: Any) -> Any:
    """A value of a type, every field of it filled."""
    kind, inside = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return {name: sample(inner) for name, inner in get_type_hints(hint).items()}
    if hint in (str, object, Any):
        return "海 sea"
    if hint in (int, float, bool, type(None)):
        return {int: 7, float: 0.5, bool: True}.get(hint)
    if str(kind) == "typing.Literal":
        return inside[0]
    if kind is dict:
        return {"key": sample(inside[1])}
    if str(kind).endswith(("Union", "UnionType", "Annotated", "Required", "NotRequired")):
        return sample(inside[0])
    return [sample(inside[0])] if inside else "x"

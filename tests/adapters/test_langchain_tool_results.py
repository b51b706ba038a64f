"""Whatever a tool of a LangChain agent returns is told to the model: it never ends the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool

from tests.adapters.langchain_agents import Watched, asked, log_of, thread
from tests.agent.hostile_values import RETURNING, UNAWAITED, Unprintable, call_ids
from turnfold import Budget, Memory, wire
from turnfold.adapters.langchain import messages as recording_module
from turnfold.adapters.langchain import turnfold_middleware
from turnfold.findings import FindingRule
from turnfold.records import ToolResult

Giving = Mapping[str, Callable[[], object]]

OF_LANGCHAIN = {
    "class raises",
    "deep",
    "dict without items",
    "exception",
    "huge int",
    "huge int inside",
    "no type name",
    "unprintable",
    "unprintable inside",
}
"""What LangChain itself cannot take as a tool's answer: it raises before it makes a message of it."""
_AWAITED = {name: give for name, give in RETURNING.items() if name not in UNAWAITED}
_PLAIN = {name: give for name, give in _AWAITED.items() if name not in OF_LANGCHAIN}


def run(giving: Giving, memory: Memory | None, **more: Any) -> list[ToolMessage]:
    """The answers of the tools as the model was shown them; all tools are called at once."""
    ids = list(call_ids(giving).values())
    calls = [
        {"name": f"t{n}", "args": {"at": "海"}, "id": one, "type": "tool_call"}
        for n, one in enumerate(ids)
    ]
    model = Watched(step=lambda n: AIMessage("", tool_calls=calls) if n == 1 else AIMessage("done"))
    tools = [
        StructuredTool.from_function(_tool(give), name=f"t{n}", description="Look.")
        for n, give in enumerate(giving.values())
    ]
    within = [turnfold_middleware(memory, **more)] if memory is not None else []
    state = create_agent(model, tools, middleware=within).invoke(asked("go"), thread())
    assert state["messages"][-1].text == "done"
    return [one for one in model.prompts[-1].messages if isinstance(one, ToolMessage)]


def _tool(give: Callable[[], object]) -> Callable[[str], object]:
    def look(at: str) -> object:
        del at
        return give()

    return look


def results(giving: Giving, **more: Any) -> dict[str, ToolResult]:
    """The results in the log, by the name of the value; the model was told each of them."""
    with Memory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
        shown = run(giving, memory, **more)
        entries = [one.message for one in log_of(memory.session("t"))]
        for provider in ("openai_chat", "anthropic", "openai_responses", "gemini"):
            written = getattr(wire, provider).request(entries, repair=False)
            assert wire.lint(written.kwargs, provider) == (), provider
    logged = {result.call_id: result for message in entries for result in message.results}
    for message in shown:
        if isinstance(message.content, str):
            message.content.encode()
    assert {one.tool_call_id for one in shown} == logged.keys()
    return {name: logged[call_id] for name, call_id in call_ids(giving).items()}


def wrapped(wrap: Callable[[object], object]) -> Giving:
    def within(give: Callable[[], object]) -> Callable[[], object]:
        return lambda: wrap(give())

    return {name: within(give) for name, give in _AWAITED.items()}


IN_BLOCKS: dict[str, Callable[[object], object]] = {
    "text of a block": lambda value: [{"type": "text", "text": value}],
    "field of a block": lambda value: [{"type": "text", "text": "seen", "extra": value}],
    "additional_kwargs": lambda value: ToolMessage(
        "seen", tool_call_id="", additional_kwargs={"value": value}
    ),
    "response_metadata": lambda value: ToolMessage(
        "seen", tool_call_id="", response_metadata={"\udc00": value}
    ),
}
"""Places of a tool's answer that LangChain takes anything in."""


@pytest.mark.parametrize("remembered", [False, True])
def test_every_value_a_tool_returns_is_a_result(*, remembered: bool) -> None:
    rules = [FindingRule(f"t{n}", serve=True) for n in range(len(_PLAIN) if remembered else 0)]
    found = results(_PLAIN, findings=rules)
    assert (
        found["lone surrogate"].text == "file \\udcff name 文件"
    )  # and the message is kept exactly


@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize("place", IN_BLOCKS)
def test_every_value_inside_an_answer_is_a_result(place: str, *, remembered: bool) -> None:
    giving = wrapped(IN_BLOCKS[place])
    if "block" not in place:  # such a message names its call itself
        giving = {name: partial(_named, give, name) for name, give in giving.items()}
    rules = [FindingRule(f"t{n}") for n in range(len(giving) if remembered else 0)]
    found = results(giving, findings=rules)
    if place != "text of a block":
        told = {name for name, one in found.items() if "seen" not in one.text}
        assert told == set()  # what the model need not see does not cost it what it does


def _named(give: Callable[[], object], name: str) -> object:
    message = give()
    assert isinstance(message, ToolMessage)
    return message.model_copy(update={"tool_call_id": call_ids([name])[name]})


@pytest.mark.parametrize("name", sorted(OF_LANGCHAIN))
def test_what_langchain_cannot_take_it_refuses_without_turnfold_too(name: str) -> None:
    with pytest.raises(BaseException, match=r"no |recursion|4300 digits"):
        run({name: RETURNING[name]}, None)


def test_the_model_is_told_what_was_wrong() -> None:
    with Memory("sqlite://") as memory:
        blocks = [{"type": "text", "text": Unprintable()}]
        [told] = run({"it": lambda: blocks}, memory, findings=[FindingRule("t0")])
        assert told.text == (
            "error: the tool returned a value of type Unprintable, which cannot be written as text: Stop: no text"
        )
        assert memory.session("t").findings.list() == ()
        half = run({"half": lambda: "file \udcff 文件"}, memory)[-1]
        assert half.status == "error"
        assert half.text.endswith("with such characters escaped it is:\nfile \\udcff 文件")


def test_sabotage_without_telling_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "_as_text", lambda message: message)
    with pytest.raises(Exception, match="cannot be written as JSON"):
        results({"it": lambda: [{"type": "text", "text": Unprintable()}]})

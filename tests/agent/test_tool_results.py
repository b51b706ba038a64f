"""Whatever a tool returns or raises, and whatever a model calls it with: one result per call, and the run goes on."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.hostile_values import RAISING, RETURNING, Unprintable, made, recipes
from tests.agent.scripts import add, calling
from tests.sizes import examples
from turnfold import AsyncMemory, Budget, Memory, Message, wire
from turnfold.agent import Agent, AsyncAgent, Event, Tool, ToolDone, as_tool
from turnfold.findings import FindingRule
from turnfold.memories import AsyncMemoryModule
from turnfold.testing import ScriptedModel
from turnfold.window import check

WIDE = Budget(max_tokens=20_000)
FORMATS = (wire.openai_chat, wire.openai_responses, wire.anthropic, wire.gemini)


class Run(Protocol):
    """Runs an agent until it has answered; the results by call, and what was told of each."""

    def __call__(
        self, tools: Sequence[Tool], answer: Message, rules: Sequence[FindingRule] = ()
    ) -> tuple[dict[str, str], list[ToolDone]]: ...


def checked(history: Sequence[Message], context: Sequence[Message]) -> dict[str, str]:
    """The results by call, after every call was seen to have exactly one and every provider to take them."""
    calls = [call.id for message in history for call in message.calls]
    results = [(result.call_id, result.text) for message in history for result in message.results]
    assert sorted(call for call, _ in results) == sorted(calls)
    for one in FORMATS:
        assert wire.lint(one.request(context).kwargs, one.PROVIDER) == ()
    return dict(results)


def run_blocking(
    tools: Sequence[Tool], answer: Message, rules: Sequence[FindingRule] = ()
) -> tuple[dict[str, str], list[ToolDone]]:
    seen: list[Event] = []
    with Memory("sqlite://", budget=WIDE) as memory:
        agent = Agent(
            memory,
            ScriptedModel([answer, "done 完成"]),
            tools=tools,
            findings=rules,
            on_event=seen.append,
        )
        assert agent.run("one", "go").text == "done 完成"
        session = memory.session("one")
        context = session.context()
        assert check(context) == ()
        history = [entry.message for entry in session.history(limit=1_000)]
    return checked(history, context.messages), [e for e in seen if isinstance(e, ToolDone)]


def run_awaiting(
    tools: Sequence[Tool], answer: Message, rules: Sequence[FindingRule] = ()
) -> tuple[dict[str, str], list[ToolDone]]:
    seen: list[Event] = []

    async def run() -> dict[str, str]:
        async with AsyncMemory("sqlite://", budget=WIDE) as memory:
            agent = AsyncAgent(
                memory,
                ScriptedModel([answer, "done 完成"]),
                tools=tools,
                findings=rules,
                on_event=seen.append,
            )
            assert (await agent.run("one", "go")).text == "done 完成"
            session = memory.session("one")
            context = await session.context()
            assert check(context) == ()
            history = [entry.message for entry in await session.history(limit=1_000)]
        return checked(history, context.messages)

    return asyncio.run(run()), [e for e in seen if isinstance(e, ToolDone)]


both_faces = pytest.mark.parametrize("run", [run_blocking, run_awaiting])


def plain_and_awaited(name: str, give: Callable[[], object]) -> list[Tool]:
    """A tool as a plain function and as a coroutine function."""

    async def awaited() -> object:
        await asyncio.sleep(0)
        return give()

    return [Tool(f"{name}p", "", {}, give), Tool(f"{name}a", "", {}, awaited)]


def all_called(tools: Sequence[Tool]) -> Message:
    return calling(*((f"c-{tool.name}", tool.name, "{}") for tool in tools))


@both_faces
def test_every_value_a_tool_returns_is_a_result(run: Run) -> None:
    named = {f"t{number}": name for number, name in enumerate(RETURNING)}
    tools = [
        tool for key, name in named.items() for tool in plain_and_awaited(key, RETURNING[name])
    ]
    results, done = run(tools, all_called(tools))
    told = {name: results[f"c-{key}p"] for key, name in named.items()}
    assert told["lone surrogate"] == (
        "error: the result holds a lone surrogate (U+DCFF at character 5), which no provider accepts; "
        "with such characters escaped it is:\nfile \\udcff name 文件"
    )
    assert told["lone surrogate inside"].endswith('it is:\n{"\\ud800": ["文", "\\udfff"]}')
    assert told["subclass of str"] == "text 文本"
    assert told["str() gives a subclass"] == '"sub-text"'
    assert told["unprintable"] == (
        "error: the tool returned a value of type Unprintable, which cannot be written as text: Stop: no text"
    )
    assert told["no type name"].startswith('"<')
    assert told["deep"].startswith("error: the tool returned a value of type list, ")
    assert "RecursionError" in told["deep"]
    assert told["cycle"] == "{'self': [{...}]}"
    assert told["nan"] == '{"a": NaN, "b": [-Infinity]}'
    assert told["huge int"].startswith("error: ")
    assert "4300 digits" in told["huge int"]
    assert told["generator"] == (
        "error: the tool returned a value of type generator, which cannot be written as text: "
        "TypeError: the tool returned a generator: return its items as a list"
    )
    assert told["coroutine that returns a coroutine"].endswith(
        "to be awaited: await it, and return its result"
    )
    assert told["coroutine"] == told["unprintable"]
    assert told["awaitable that raises"] == "error: Stop: awaited"
    assert (told["nul"], told["nothing"], told["none"]) == ("a\x00b", "", "null")
    assert told["bytes"] == "\"b'\\\\x00\\\\xff\\\\x89PNG'\""
    # A coroutine is awaited once: what it returns is a value like any other.
    twice = {"awaitable that raises", "coroutine", "coroutine that returns a coroutine"}
    alike = {key for key, name in named.items() if name not in twice and "<" not in told[name]}
    assert [k for k in sorted(alike) if results[f"c-{k}a"] != results[f"c-{k}p"]] == []
    assert {event.call.id for event in done if event.failed} == {
        call for call, text in results.items() if text.startswith("error: ")
    }


@both_faces
def test_every_exception_a_tool_raises_is_a_result(run: Run) -> None:
    def raising(make: Callable[[], BaseException]) -> object:
        raise make()

    tools = [
        tool
        for number, make in enumerate(RAISING)
        for tool in plain_and_awaited(f"t{number}", partial(raising, make))
    ]
    results, done = run(tools, all_called(tools))
    assert all(event.failed for event in done)
    assert [results[f"c-t{number}p"] for number in range(len(RAISING))] == [
        "error: RuntimeError: file \\udcff name 文件",
        "error: _NoText: (its message cannot be read)",
        "error: _HalfText: file \\udcff name 文件",
        "error: _NumberText: (its message cannot be read)",
        "error: NamelessError",
        "error: Stop",
        "error: Stop: \\ud800",
        "error: GeneratorExit",
        "error: StopIteration",
        "error: StopAsyncIteration",
        "error: MemoryError",
        "error: RecursionError",
        "error: TimeoutError: of the tool's own",
        "error: CancelledError",
        "error: BaseExceptionGroup: both (2 sub-exceptions)",
        "error: UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: bad",
    ]
    # Python itself makes a RuntimeError of these two where a coroutine raises them.
    own = [n for n in range(len(RAISING)) if RAISING[n] not in (StopIteration, StopAsyncIteration)]
    assert [results[f"c-t{n}a"] for n in own] == [results[f"c-t{n}p"] for n in own]
    assert results["c-t8a"] == "error: RuntimeError: coroutine raised StopIteration"


@examples(10)
@given(st.lists(recipes(), min_size=1, max_size=12))
@both_faces
def test_any_values_at_all_are_results(run: Run, returned: list[object]) -> None:
    are_results(run, returned)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(recipes(), min_size=1, max_size=12))
@both_faces
def test_many_more_values_are_results(run: Run, returned: list[object]) -> None:
    are_results(run, returned)


def are_results(run: Run, returned: list[object]) -> None:
    tools = [
        tool
        for number, recipe in enumerate(returned)
        for tool in plain_and_awaited(f"t{number}", partial(made, recipe))
    ]
    results, _ = run(tools, all_called(tools))
    assert len(results) == 2 * len(returned)
    for text in results.values():
        text.encode()


HOSTILE_CALLS = (
    ("echo", '{"a": "\\ud800"}'),
    ("echo", '{"\\udc00": 1}'),
    ("echo", '{"a": ' * 3_000 + "1" + "}" * 3_000),
    ("echo", '{"a": NaN}'),
    ("echo", '{"a": ' + "9" * 5_000 + "}"),
    ("echo", ""),
    ("echo", "null"),
    ("echo", "[1]"),
    ("echo", '{"a": 1'),
    ("echo", '{"a": 1, "a": 2}'),
    ("echo", '{"self": 1, "tool": 2, "call": 3}'),
    ("echo", "\x00"),
    ("add", '{"a": 1, "\x00": 2}'),
    ("add", '{"a": "一"}'),
    ("add", '{"a": 1e400}'),
    ("", "{}"),
    ("没有这个工具 \x00", "{}"),
    ("x" * 300, "not json"),
)


@both_faces
@pytest.mark.parametrize("remembered", [False, True])
def test_whatever_the_model_calls_gets_its_result(run: Run, *, remembered: bool) -> None:
    def echo(**arguments: object) -> object:
        return arguments

    tools = [Tool("echo", "", {}, echo), as_tool(add)]
    rules = [FindingRule(name, serve=True) for name in ("echo", "add")] if remembered else []
    answer = calling(
        *((f"c{number}", name, text) for number, (name, text) in enumerate(HOSTILE_CALLS))
    )
    results, _ = run(tools, answer, rules)
    assert results["c0"] == (
        "error: the arguments do not fit echo: \\ud800 is half a character; "
        "escape both halves or write the character"
    )
    assert results["c2"].startswith("error: the arguments do not fit echo: maximum recursion")
    assert results["c5"] == "{}"
    assert results["c9"] == '{"a": 2}'
    assert results["c10"] == '{"self": 1, "tool": 2, "call": 3}'
    assert results["c15"] == "error: there is no tool ''; known: add, echo"
    assert [n for n in range(len(HOSTILE_CALLS)) if not results[f"c{n}"].startswith("error: ")] == [
        5,
        9,
        10,
    ]


@examples(10)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "echo", "none", "", "加"]),
            st.text(st.characters(exclude_categories=["Cs"]))
            | st.sampled_from([text for _, text in HOSTILE_CALLS]),
        ),
        min_size=1,
        max_size=12,
    )
)
@both_faces
def test_any_calls_at_all_get_their_results(run: Run, calls: list[tuple[str, str]]) -> None:
    def echo(**arguments: object) -> object:
        return arguments

    answer = calling(*((f"c{number}", *call) for number, call in enumerate(calls)))
    results, _ = run([Tool("echo", "", {}, echo), as_tool(add)], answer)
    assert len(results) == len(calls)


@pytest.mark.parametrize(
    "arguments",
    [text for name, text in HOSTILE_CALLS if name == "echo"]
    + ['{"turnNumbers": [-1]}', '{"turnNumbers": 1e3}', '{"keyword": "\\u0000"}', '{"no": 1}'],
)
def test_the_tool_of_the_memory_module_answers_whatever_it_is_asked(arguments: str) -> None:
    class Desk:
        def render(self) -> str:
            return "open file: notes.md 笔记"

    async def run() -> dict[str, str]:
        async with AsyncMemory("sqlite://", budget=WIDE) as memory, AsyncMemoryModule() as module:
            model = ScriptedModel([calling(("c1", "recall_context", arguments)), "done"])
            agent = AsyncAgent(memory, model, workspace=Desk(), memory_module=module)
            assert (await agent.run("one", "go")).text == "done"
            session = memory.session("one")
            history = [entry.message for entry in await session.history()]
            return checked(history, (await session.context()).messages)

    assert list(asyncio.run(run())) == ["c1"]


def test_a_value_that_takes_for_ever_to_print_is_given_up() -> None:
    entered, release = threading.Event(), threading.Event()

    class Endless:
        def __str__(self) -> str:
            entered.set()
            release.wait(60)
            return "late"

    async def awaited() -> object:
        return Endless()

    tools = [Tool("plain", "", {}, Endless), Tool("awaited", "", {}, awaited)]
    with Memory("sqlite://", budget=WIDE) as memory:
        agent = Agent(
            memory, ScriptedModel([all_called(tools), "done"]), tools=tools, tool_seconds=0.2
        )
        assert agent.run("one", "go").text == "done"
        history = [entry.message for entry in memory.session("one").history()]
        assert set(checked(history, history).values()) == {"error: no result within 0.2 s"}
        assert entered.wait(60)
        release.set()


@pytest.mark.parametrize("face", ["blocking", "awaiting"])
def test_a_coroutine_that_comes_too_late_is_closed(face: str) -> None:
    """A plain function may return a coroutine after the agent has given it up: Python must not have to complain."""
    release, returned = threading.Event(), threading.Event()

    async def never() -> str:
        return "never"

    def late() -> object:
        release.wait(60)
        try:
            return never()
        finally:
            returned.set()

    tools = [Tool("late", "", {}, late)]
    model = ScriptedModel([all_called(tools), lambda _: release.set() or "done"])

    async def run() -> str:
        async with AsyncMemory("sqlite://", budget=WIDE) as memory:
            agent = AsyncAgent(memory, model, tools=tools, tool_seconds=0.1)
            return (await agent.run("one", "go")).text

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if face == "blocking":
            with Memory("sqlite://", budget=WIDE) as memory:
                agent = Agent(memory, model, tools=tools, tool_seconds=0.1)
                assert agent.run("one", "go").text == "done"
                assert returned.wait(60)
                for thread in threading.enumerate():
                    if thread.name == "turnfold-ask":
                        thread.join(60)
        else:
            assert asyncio.run(run()) == "done"
        gc.collect()
    assert [str(one.message) for one in caught] == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_from_a_tool_ends_the_run(interrupt: type[BaseException]) -> None:
    def press() -> None:
        raise interrupt

    tools = [Tool("press", "", {}, press)]
    with Memory("sqlite://", budget=WIDE) as memory:
        agent = Agent(memory, ScriptedModel([all_called(tools), "resumed"]), tools=tools)
        with pytest.raises(interrupt):
            agent.run("one", "go")
        reply = agent.resume("one")
        assert reply is not None
        assert reply.text == "resumed"


def test_a_tool_may_be_an_object_with_an_awaited_call() -> None:
    class Search:
        async def __call__(self) -> object:
            return Unprintable()

    results, _ = run_awaiting([Tool("t", "", {}, Search())], calling(("c1", "t", "{}")))
    assert results["c1"].endswith("cannot be written as text: Stop: no text")

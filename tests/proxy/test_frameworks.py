"""Agents of every framework through the proxy: sixty steps with folds, and only the base URL is changed.

Each program is as its framework's documentation writes it. The address of the proxy comes from the environment, as the
official clients read it, so that the same program runs with and without the proxy.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.models.strict_server import Call, Say
from tests.proxy.running import proxied, with_memory
from turnfold import AsyncMemory, Message, wire
from turnfold.testing.model_server import ModelServer
from turnfold.tokens import counter_for

MODEL, BUDGET = "gpt-4o", 3_000
STEPS = 60
SYSTEM = "You look after a garden. 你照看一座花园。Never water the cactus."
ASKED = "Look at every bed. 请看每一个花坛。"
DONE = "There are roses. 有玫瑰。"
CHAT, RESPONSES, MESSAGES = "openai_chat", "openai_responses", "anthropic"


def look(place: str) -> str:
    """Look at a bed of the garden.

    Args:
        place: Which bed.
    """
    return f"{place}: 玫瑰 roses, 刺猬 hedgehogs; " * 9


class Gardener:
    """A model that looks at a bed at each step, or at two, and answers at the end."""

    def __init__(self, steps: int, last: tuple[str, str] | None, *, together: bool) -> None:
        self._numbers = iter(range(1, steps + 1))
        self._together = together
        """True if it asks for two tools at every other step."""
        self._last = last
        """The tool, and its argument, by which the framework wants the answer; None if it wants a text."""
        self.asked: list[str] = []
        """The ids of all calls."""

    def __call__(self, body: object) -> Say:
        del body
        step = next(self._numbers, 0)
        if not step:
            name, argument = self._last or ("", "")
            return Say("", calls=(Call("last", name, {argument: DONE}),)) if name else Say(DONE)
        places = [f"bed {step}", f"床 {step}"][: 1 + (self._together and step % 2)]
        calls = [Call(f"call_{step}_{at}", "look", {"place": p}) for at, p in enumerate(places)]
        self.asked += [call.id for call in calls]
        return Say("", calls=tuple(calls))


def openai_agents(interface: str, *, stream: bool) -> str:
    """OpenAI Agents SDK."""
    agents: Any = import_module("agents")
    openai: Any = import_module("openai")

    async def work() -> str:
        async with openai.AsyncOpenAI() as client:
            kind = (
                "OpenAIResponsesModel" if interface == RESPONSES else "OpenAIChatCompletionsModel"
            )
            model = getattr(agents, kind)(model=MODEL, openai_client=client)
            tools = [agents.function_tool(look)]
            agent = agents.Agent(name="gardener", instructions=SYSTEM, model=model, tools=tools)
            settings = agents.RunConfig(tracing_disabled=True)
            options = {"max_turns": STEPS + 5, "run_config": settings}
            if not stream:
                return (await agents.Runner.run(agent, ASKED, **options)).final_output
            run = agents.Runner.run_streamed(agent, ASKED, **options)
            async for _ in run.stream_events():
                pass
            return run.final_output

    return asyncio.run(work())


def pydantic_ai(interface: str, *, stream: bool) -> str:
    """PydanticAI."""
    package: Any = import_module("pydantic_ai")
    kinds = {
        CHAT: ("pydantic_ai.models.openai", "OpenAIChatModel"),
        RESPONSES: ("pydantic_ai.models.openai", "OpenAIResponsesModel"),
        MESSAGES: ("pydantic_ai.models.anthropic", "AnthropicModel"),
    }
    module, kind = kinds[interface]
    model = getattr(import_module(module), kind)(MODEL)
    agent = package.Agent(model, instructions=SYSTEM, tools=[look])
    limits = package.UsageLimits(request_limit=STEPS + 5)

    async def work() -> str:
        async with agent:  # closes its connections at the end
            if not stream:
                return (await agent.run(ASKED, usage_limits=limits)).output
            async with agent.run_stream(ASKED, usage_limits=limits) as run:
                return await run.get_output()

    return asyncio.run(work())


def langchain(interface: str, *, stream: bool) -> str:
    """LangChain's agent."""
    del interface
    agents: Any = import_module("langchain.agents")
    clients: Any = import_module("langchain_openai")
    agent = agents.create_agent(
        clients.ChatOpenAI(model=MODEL, streaming=stream), tools=[look], system_prompt=SYSTEM
    )
    asked = {"messages": [{"role": "user", "content": ASKED}]}
    found = agent.invoke(asked, {"recursion_limit": 3 * STEPS})
    return found["messages"][-1].content


def llama_index(interface: str, *, stream: bool) -> str:
    """LlamaIndex's agent."""
    del interface
    workflow: Any = import_module("llama_index.core.agent.workflow")
    tools: Any = import_module("llama_index.core.tools")
    clients: Any = import_module("llama_index.llms.openai")
    # Its own memory cuts off the history at this many tokens, in place of the proxy.
    memory: Any = import_module("llama_index.core.memory")

    async def work() -> str:
        agent = workflow.FunctionAgent(
            tools=[tools.FunctionTool.from_defaults(look)],
            llm=clients.OpenAI(model=MODEL),
            system_prompt=SYSTEM,
            streaming=stream,
        )
        kept = memory.Memory.from_defaults(session_id="garden", token_limit=1_000_000)
        return str(await agent.run(ASKED, memory=kept, max_iterations=STEPS + 5))

    return asyncio.run(work())


def strands(interface: str, *, stream: bool) -> str:
    """Strands Agents."""
    del interface
    package: Any = import_module("strands")
    models: Any = import_module("strands.models.openai")
    managers: Any = import_module("strands.agent.conversation_manager")
    agent = package.Agent(
        model=models.OpenAIModel(model_id=MODEL, stream=stream),
        tools=[package.tool(look)],
        system_prompt=SYSTEM,
        callback_handler=None,
        conversation_manager=managers.NullConversationManager(),
    )
    return str(agent(ASKED)).strip()


def google_adk(interface: str, *, stream: bool) -> str:
    """Google's Agent Development Kit, with an OpenAI model."""
    del interface
    agents: Any = import_module("google.adk.agents")
    runs: Any = import_module("google.adk.agents.run_config")
    models: Any = import_module("google.adk.models.lite_llm")
    runners: Any = import_module("google.adk.runners")
    types: Any = import_module("google.genai.types")
    agent = agents.LlmAgent(
        name="gardener",
        model=models.LiteLlm(model=f"openai/{MODEL}"),
        instruction=SYSTEM,
        tools=[look],
    )

    async def work() -> str:
        runner = runners.InMemoryRunner(agent, app_name="garden")
        session = await runner.session_service.create_session(app_name="garden", user_id="u")
        asked = types.Content(role="user", parts=[types.Part(text=ASKED)])
        mode = runs.StreamingMode.SSE if stream else runs.StreamingMode.NONE
        settings = runs.RunConfig(streaming_mode=mode, max_llm_calls=STEPS + 5)
        told = ""
        async for event in runner.run_async(
            user_id="u", session_id=session.id, new_message=asked, run_config=settings
        ):
            if event.is_final_response() and event.content and event.content.parts:
                told = event.content.parts[0].text
        return told

    return asyncio.run(work())


def agent_framework(interface: str, *, stream: bool) -> str:
    """Microsoft Agent Framework."""
    package: Any = import_module("agent_framework")
    clients: Any = import_module("agent_framework_openai")
    kind = "OpenAIChatClient" if interface == RESPONSES else "OpenAIChatCompletionClient"

    async def work() -> str:
        settings = {"max_iterations": STEPS + 5}
        client = getattr(clients, kind)(model=MODEL, function_invocation_configuration=settings)
        options = {"store": False} if interface == RESPONSES else {}
        agent = package.Agent(client=client, instructions=SYSTEM, tools=[look])
        if not stream:
            return (await agent.run(ASKED, options=options)).text
        run = agent.run(ASKED, stream=True, options=options)
        async for _ in run:
            pass
        return (await run.get_final_response()).messages[-1].text

    return asyncio.run(work())


def smolagents(interface: str, *, stream: bool) -> str:
    """smolagents of Hugging Face."""
    del interface
    package: Any = import_module("smolagents")
    agent = package.ToolCallingAgent(
        tools=[package.tool(look)],
        model=package.OpenAIModel(MODEL),
        instructions=SYSTEM,
        max_steps=STEPS + 5,
        stream_outputs=stream,
        verbosity_level=package.LogLevel.OFF,
    )
    return str(agent.run(ASKED))


def agno(interface: str, *, stream: bool) -> str:
    """Agno."""
    package: Any = import_module("agno.agent")
    models: Any = import_module("agno.models.openai")
    kind = "OpenAIResponses" if interface == RESPONSES else "OpenAIChat"
    options = {"store": False} if interface == RESPONSES else {}
    agent = package.Agent(
        model=getattr(models, kind)(id=MODEL, **options),
        tools=[look],
        instructions=SYSTEM,
        telemetry=False,
    )
    if not stream:
        return agent.run(ASKED).content
    return "".join(
        event.content
        for event in agent.run(ASKED, stream=True)
        if event.event == "RunContent" and isinstance(event.content, str)
    )


class Program(NamedTuple):
    """An agent program, the package that it needs, and the interface over which it asks its model."""

    run: Callable[..., str]
    package: str
    interface: str
    last: tuple[str, str] | None = None


PROGRAMS = [
    Program(openai_agents, "agents", CHAT),
    Program(openai_agents, "agents", RESPONSES),
    Program(pydantic_ai, "pydantic_ai", CHAT),
    Program(pydantic_ai, "pydantic_ai", RESPONSES),
    Program(pydantic_ai, "pydantic_ai", MESSAGES),
    Program(langchain, "langchain_openai", CHAT),
    Program(llama_index, "llama_index.llms.openai", CHAT),
    Program(strands, "strands", CHAT),
    Program(google_adk, "google.adk", CHAT),
    Program(agent_framework, "agent_framework_openai", CHAT),
    Program(agent_framework, "agent_framework_openai", RESPONSES),
    Program(smolagents, "smolagents", CHAT, ("final_answer", "answer")),
    Program(agno, "agno", CHAT),
    Program(agno, "agno", RESPONSES),
]


DEFAULT = [(PROGRAMS[1], False), (PROGRAMS[4], True)]
"""Programs that the default run tries, with fewer steps, and whether their answers are streamed."""


def name_of(program: Program, stream: bool) -> str:  # noqa: FBT001 (a parameter of a test)
    """The name of a test."""
    return f"{program.run.__name__}-{program.interface}-{'streamed' if stream else 'whole'}"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Give programs the address of their provider by the environment alone."""

    def set_to(url: str) -> None:
        for name, value in (
            ("OPENAI_BASE_URL", f"{url}/v1"),
            ("OPENAI_API_BASE", f"{url}/v1"),  # the older name, which LlamaIndex reads
            ("OPENAI_API_KEY", "k"),
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "k"),
            ("NO_PROXY", "127.0.0.1"),
        ):
            monkeypatch.setenv(name, value)

    yield set_to
    gc.collect()  # connections that a framework left open are told of now, where that is ignored


@pytest.mark.filterwarnings(
    "ignore"
)  # of the frameworks, about each other and about connections left open
@pytest.mark.parametrize(
    ("program", "stream", "steps"),
    [
        *(pytest.param(*each, 16, id=name_of(*each)) for each in DEFAULT),
        *(
            pytest.param(one, stream, STEPS, id=name_of(one, stream), marks=pytest.mark.slow)
            for one in PROGRAMS
            for stream in (False, True)
        ),
    ],
)
def test_a_long_tool_loop_of_an_agent_with_its_base_url_alone(
    tmp_path: Path, address: Callable[[str], None], program: Program, *, stream: bool, steps: int
) -> None:
    pytest.importorskip(program.package)
    store = f"sqlite:///{tmp_path}/a.db"
    # LlamaIndex cannot read two calls whose arguments are streamed in turns.
    gardener = Gardener(steps, program.last, together=not stream)
    with (
        ModelServer(gardener) as provider,
        proxied(provider.url, store=store, budget=BUDGET) as url,
    ):
        address(f"{url}/s/garden")
        assert program.run(program.interface, stream=stream) == DONE
    assert provider.rejected == []
    bodies = [one.body for one in provider.seen]
    assert len(bodies) == steps + 1
    assert [bool(body.get("stream")) for body in bodies] == [stream] * len(bodies)
    assert [fault for body in bodies for fault in wire.lint(body, program.interface)] == []
    counter, module = counter_for(MODEL), getattr(wire, program.interface)
    sizes = [
        counter.count(module.accept_all(body, model=MODEL), tools=body.get("tools") or ()).tokens
        for body in bodies
    ]
    assert [size for size in sizes if size > BUDGET] == []
    assert max(sizes) > 0.8 * BUDGET
    # Every call and every result is in one log, once.
    logs = logs_of(store)
    if (
        program.run is smolagents
    ):  # it sends calls and results as texts, so that the history forks once
        assert len(logs) == 2
        texts = [message.text for message in logs[-1] if message.text.startswith("Observation")]
        assert len(texts) == steps
        return
    [log] = logs
    assert [call.id for message in log for call in message.calls] == gardener.asked
    assert [one.call_id for message in log for one in message.results] == gardener.asked


def logs_of(store: str) -> list[list[Message]]:
    """The messages of each conversation, the shortest first."""

    async def read(memory: AsyncMemory) -> list[list[Message]]:
        names = [info.conversation for info in await memory.conversations()]
        logs = [await memory.session(name).history() for name in names]
        return sorted(([entry.message for entry in log] for log in logs), key=len)

    return with_memory(store, read)

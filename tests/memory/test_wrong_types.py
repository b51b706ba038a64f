"""A value of the wrong type is refused at once, by an error that shows the right call."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import turnfold
from turnfold import Agent, AsyncMemory, Budget, Memory, Message, system, user, wire
from turnfold._argument_hints import MEMORY_ADVICE, SESSION_ADVICE, hinted, hinted_methods
from turnfold.agent import as_tool
from turnfold.errors import InvalidOption, InvalidRecord, TurnfoldError, UnknownModel
from turnfold.models import Anthropic, OpenAIChat
from turnfold.runtime import drive
from turnfold.testing import ScriptedModel

OPTIONS: dict[str, tuple[dict[str, object], str]] = {
    "budget as a number": ({"budget": 8000}, "budget=Budget(max_tokens=8000)"),
    "budget as text": ({"budget": "8k"}, "budget=Budget(max_tokens=8000)"),
    "model": ({"model": 42}, 'model="gpt-4o"'),
    "scope": ({"scope": 42}, 'scope="tenant-1"'),
    "cache": ({"cache": 42}, 'cache="redis://localhost"'),
    "counter": ({"counter": "gpt-4o"}, 'counter=counter_for("gpt-4o")'),
    "embedder": ({"embedder": "local"}, "embedder=LocalEmbedder()"),
    "strategy": ({"strategy": "oldest"}, "strategy=oldest_first"),
    "threshold": ({"threshold": "75%"}, "threshold=0.75"),
    "keep_turns": ({"keep_turns": "8"}, "keep_turns=8"),
    "retries": ({"retries": "3"}, "retries=3"),
    "backoff": ({"backoff": "1s"}, "backoff=1.0"),
    "fold_lease": ({"fold_lease": "2m"}, "fold_lease=120.0"),
    "stand_in": ({"stand_in": "no"}, "stand_in=False"),
    "rules": ({"rules": "off"}, "rules=False"),
    "fold off": ({"fold": "off"}, 'to turn folding (compaction) off, use fold="manual"'),
    "no fold": ({"fold": False}, 'use fold="manual"'),
    "compaction off": ({"compaction": "off"}, 'use fold="manual"'),
    "time_zone": ({"time_zone": 8}, 'time_zone="Asia/Shanghai"'),
    "unknown time zone": ({"time_zone": "Asia/Beijing"}, 'for example time_zone="Asia/Shanghai"'),
    "folder of time zones": ({"time_zone": "Asia"}, "time_zone='Asia' is no IANA time zone"),
    "path as a time zone": ({"time_zone": "../zone"}, "'../zone' is no IANA time zone"),
    "no time zone": ({"time_zone": ""}, "time_zone='' is no IANA time zone"),
    "meter": ({"meter": 3}, "meter=Meter()"),
    "clock": ({"clock": 3}, "clock="),
    "path": ({"store": Path("chat.db")}, 'Memory("sqlite:///chat.db")'),
    "no store": ({"store": None}, 'Memory("sqlite:///chat.db")'),
    "file name": ({"store": "chat.db"}, '"sqlite:///chat.db"'),
    "Chinese file name": ({"store": "聊天.db"}, '"sqlite:///聊天.db"'),
}


@pytest.mark.parametrize("face", [Memory, AsyncMemory])
@pytest.mark.parametrize("case", OPTIONS)
def test_an_option_of_the_wrong_type(case: str, face: Callable[..., object]) -> None:
    options, right = OPTIONS[case]
    with pytest.raises(InvalidOption) as caught:
        face(**options)
    assert right in str(caught.value)


def weather(city: str) -> str:
    """Return the weather of a city."""
    return city


def asked(**options: Any) -> Callable[[Memory], object]:
    return lambda memory: memory.session("a").context(**options)


CALLS: dict[str, tuple[Callable[[Memory], object], str]] = {
    "session by number": (lambda memory: memory.session(cast("str", 42)), "give '42'"),
    "session by None": (
        lambda memory: memory.session(cast("str", None)),
        "must be text, got None: give one",
    ),
    "session without a name": (lambda memory: memory.session(""), "1 to"),
    "user": (lambda memory: memory.session("a").user(None), 'user("...")'),
    "system": (lambda memory: memory.session("a").system(None), 'system("...")'),
    "user by itself": (lambda _: user(None), 'user("...")'),
    "system by itself": (lambda _: system(None), 'system("...")'),
    "budget of a call": (
        lambda memory: memory.session("a").context(budget=cast("Any", 900)),
        "budget=Budget(max_tokens=900)",
    ),
    "query": (
        lambda memory: memory.session("a").context(cast("str", 42)),
        "query=42 has the wrong type int",
    ),
    "recall": (
        lambda memory: memory.session("a").recall(cast("str", 42)),
        "query=42 has the wrong type int",
    ),
    "search": (
        lambda memory: memory.search(cast("str", None)),
        'query=None has the wrong type NoneType: for example search("what to find")',
    ),
    "summary": (
        lambda memory: memory.session("a").fold(summary=cast("str", 3)),
        'summary=3 has the wrong type int: for example fold(summary="text")',
    ),
    "turns to keep": (
        lambda memory: memory.session("a").fold(keep_turns=cast("int", "2")),
        "for example fold(keep_turns=2)",
    ),
    "entry to erase": (
        lambda memory: memory.session("a").erase(cast("int", "x")),
        "seq='x' has the wrong type str: for example erase(entry.seq)",
    ),
    "turn": (
        lambda memory: memory.session("a").turn(cast("int", "x")),
        "number='x' has the wrong type str: for example turn(1)",
    ),
    "rule": (
        lambda memory: memory.session("a").drop_rule(
            cast("str", memory.session("b").add_rule("Never say no."))
        ),
        "for example drop_rule(rule.id)",
    ),
    "state, assigned to": (
        lambda memory: memory.session("a").state.__setitem__("x", 1),
        "use state.set('x', 1)",
    ),
    "state, indexed": (
        lambda memory: memory.session("a").state["x"],
        "use state.get('x')",
    ),
    "function as a tool": (asked(tools=[weather]), "tools=[as_tool(weather).schema]"),
    "function instead of tools": (asked(tools=weather), "tools=[as_tool(weather).schema]"),
    "tool of an agent": (asked(tools=[as_tool(weather)]), "tools=[weather.schema]"),
    "name of a tool": (asked(tools=["weather"]), 'tools=[{"type": "function"'),
    "name instead of tools": (asked(tools="天气"), "tools is the str '天气'"),
    "one tool, not in a list": (asked(tools=as_tool(weather).schema), "give tools=[schema]"),
    "tool of a preview": (
        lambda memory: memory.session("a").preview(tools=cast("Any", [weather])),
        "tools=[as_tool(weather).schema]",
    ),
    "tokens as text": (asked(max_tokens="500"), "max_tokens='500' has the wrong type str"),
    "notes as text": (asked(notes="x"), 'notes={"name": "text"}'),
    "workspace as a path": (asked(workspace=Path("x")), 'workspace="text"'),
    "name of a model": (
        lambda memory: Agent(memory, cast("Any", "gpt-4o")),
        "OpenAIChat('gpt-4o')",
    ),
    "name of a Claude model": (
        lambda memory: Agent(memory, cast("Any", "claude-x")),
        "Anthropic('claude-x')",
    ),
    "class of a model": (
        lambda memory: Agent(memory, cast("Any", ScriptedModel)),
        "model=ScriptedModel cannot answer",
    ),
    "memory with an event loop": (
        lambda _: Agent(cast("Any", AsyncMemory()), ScriptedModel(["x"])),
        "use AsyncAgent(memory, model)",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_an_argument_of_the_wrong_type(case: str) -> None:
    call, right = CALLS[case]
    with Memory() as memory:
        with pytest.raises(TurnfoldError) as caught:
            call(memory)
        assert isinstance(caught.value, InvalidOption | InvalidRecord)
        assert right in str(caught.value)
        assert memory.session("a").history() == []  # nothing was stored


def test_a_password_in_a_store_without_a_scheme_is_not_shown() -> None:
    with pytest.raises(InvalidOption) as caught:
        Memory("me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_session_says_what_it_is() -> None:
    with Memory() as memory:
        shown = repr(memory.session("会话"))
    assert shown == "Session('会话', store=sqlite://, scope='default')"


FORMATS = [wire.openai_chat, wire.openai_responses, wire.anthropic, wire.gemini]


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("face", FORMATS, ids=lambda face: face.__name__.rpartition(".")[2])
def test_a_request_is_made_from_a_context(face: Any) -> None:
    with Memory() as memory:
        with pytest.raises(InvalidOption, match=r"got Session.*request\(session\.context\(\)\)"):
            face.request(memory.session("a"))
        with pytest.raises(InvalidOption, match=r"got AsyncSession.*await session\.context\(\)"):
            face.request(memory.session("a").awaiting)
        with pytest.raises(InvalidOption, match=r"got coroutine.*await it first"):
            face.request(AsyncMemory().session("a").context())
        with pytest.raises(InvalidOption, match=r"got str.*list of Message objects"):
            face.request("你好")
        with pytest.raises(InvalidOption, match=r"as_tool\(weather\)\.schema"):
            face.request([user("hi")], tools=[weather])


UNKNOWN: dict[str, tuple[Callable[[], object], str]] = {
    "budget by position": (lambda: cast("Any", Budget)(8000), "use Budget(max_tokens=8000)"),
    "tokens of a budget": (lambda: cast("Any", Budget)(tokens=9), "use Budget(max_tokens=9)"),
    "misspelt in a budget": (
        lambda: cast("Any", Budget)(max_token=9),
        "did you mean max_tokens=?",
    ),
    "budget of a memory": (
        lambda: cast("Any", Memory)(max_tokens=8000),
        "use Memory(..., budget=Budget(max_tokens=8000))",
    ),
    "window of a memory": (
        lambda: cast("Any", AsyncMemory)(context_window=99, reserve_ratio=0.1),
        "budget=Budget(context_window=99, reserve_ratio=0.1)",
    ),
    "misspelt in a memory": (lambda: cast("Any", Memory)(modell="x"), "did you mean model=?"),
    "model by position": (
        lambda: cast("Any", Memory)("sqlite://", "gpt-4o"),
        "use Memory('sqlite://', model='gpt-4o')",
    ),
    "misspelt in a client": (
        lambda: cast("Any", OpenAIChat)("gpt-4o", baseurl="x"),
        "OpenAIChat has no option 'baseurl': did you mean base_url=?",
    ),
    "misspelt in another client": (
        lambda: cast("Any", Anthropic)("claude-sonnet-4-5", key="x"),
        "Anthropic has no option 'key': did you mean api_key=?",
    ),
    "unlike any option": (lambda: cast("Any", Memory)(zzz=1), "no option 'zzz'"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_argument_that_does_not_exist(case: str) -> None:
    call, right = UNKNOWN[case]
    with pytest.raises(TypeError) as caught:
        call()
    assert right in str(caught.value)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("messages", "history() has what was said"),
        ("append", "use add(message)"),
        ("add_message", "use add(message)"),
        ("get_messages", "history() has what was said"),
        ("add_items", "use add(messages)"),
        ("get_items", "history() has what was said"),
        ("pop_item", "use erase(seq)"),
        ("clear_session", "use clear()"),
        ("clear_history", "use clear()"),
        ("save_context", 'use user("...") and assistant("...")'),
        ("load_memory_variables", "context().messages what a model is sent"),
        ("add_user_message", 'use user("...")'),
        ("add_ai_message", 'use assistant("...")'),
        ("search", 'use recall("...")'),
        ("compact", "use fold()"),
        ("run", "turnfold.Agent"),
    ],
)
def test_a_method_of_other_libraries_is_answered(name: str, right: str) -> None:
    with Memory() as memory:
        for session in (memory.session("a"), memory.session("a").awaiting):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
                getattr(session, name)
            assert right in str(caught.value)
            assert not hasattr(session, "other")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("add", 'use memory.session("user-42").add(...)'),
        ("user", 'use memory.session("user-42").user(...)'),
        ("context", 'use memory.session("user-42").context(...)'),
        ("save_context", 'use session = memory.session("user-42"), then session.user("...")'),
        ("chat_memory", 'use memory.session("user-42")'),
        ("load_memory_variables", 'use memory.session("user-42").context().messages'),
        ("get_messages", 'use memory.session("user-42").history()'),
        ("get_all", "memory.conversations() lists what is stored"),
        ("create_session", 'memory.session("user-42") needs no creating'),
        ("delete_user", 'erase_user("user-42") for everything of a user'),
        ("delete_all", 'erase_user("user-42") for everything of a user'),
    ],
)
def test_a_method_that_belongs_to_a_session_or_to_other_libraries_is_answered(
    name: str, right: str
) -> None:
    with Memory() as memory:
        for each in (memory, memory.awaiting):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
                getattr(each, name)
            assert right in str(caught.value)
            assert not hasattr(each, "other")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("to_openai", "model_dump() for message in context.messages"),
        ("to_messages", "use .messages"),
        ("to_anthropic", "turnfold.wire.anthropic"),
    ],
)
def test_a_context_answers_for_methods_of_other_libraries(name: str, right: str) -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("a")
        session.user("Hello")
        context = session.context()
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
            getattr(context, name)
        assert right in str(caught.value)
        with pytest.raises(
            TypeError, match=r"'Context' object is not subscriptable: use \.messages"
        ):
            context["messages"]  # type: ignore[index]
        assert not hasattr(context, "other")


@pytest.mark.parametrize(
    ("name", "right"),
    [("to_dict", "use model_dump()"), ("dict", "use model_dump()"), ("tool_calls", "use .calls")],
)
def test_a_message_answers_for_methods_of_other_libraries(name: str, right: str) -> None:
    message = user("Hello")
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
        getattr(message, name)
    assert right in str(caught.value)
    with pytest.raises(TypeError, match=r"'Message' object is not subscriptable: use \.content"):
        message["content"]  # type: ignore[index]
    with pytest.raises(TypeError, match="not iterable"):
        iter(message)  # type: ignore[call-overload]
    assert not hasattr(message, "other")
    assert copy.deepcopy(message) == message == pickle.loads(pickle.dumps(message))  # noqa: S301 (made here)


@pytest.mark.parametrize("name", ["OpenAI", "ChatOpenAI"])
def test_a_client_class_of_another_library_names_the_one_here(name: str) -> None:
    with pytest.raises(ImportError, match=r"use turnfold\.OpenAIChat"):
        getattr(turnfold, name)
    with pytest.raises(ImportError, match=r"from turnfold: use turnfold\.adapters\.langchain"):
        from turnfold import langgraph  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize(("role", "right"), [("human", "user"), ("ai", "assistant")])
def test_a_role_of_another_library_names_the_one_here(role: str, right: str) -> None:
    told = f"unknown role '{role}'. Use one of assistant, system, tool, user: use {right} for it"
    with pytest.raises(InvalidRecord, match=re.escape(told)):
        Message(role, "Hello")


def test_every_call_that_an_answer_names_is_there() -> None:
    with Memory() as memory:
        holders = {"session": memory.session("a"), "memory": memory}
        for kind, advice in (("session", SESSION_ADVICE), ("memory", MEMORY_ADVICE)):
            for name, told in advice.items():
                assert not hasattr(type(holders[kind]), name), f"{kind}.{name} is there"
                for dotted, called in re.findall(r"(session\.|memory\.|\)\.)?([a-z_]+)\(", told):
                    owner = "memory" if dotted == "memory." else "session" if dotted else kind
                    holder = holders[owner]
                    assert hasattr(type(holder), called), f"{kind}.{name}: {called} is not there"


@pytest.mark.parametrize(
    ("call", "right"),
    [
        (lambda memory: memory.session(session_id="a"), "it takes conversation"),
        (lambda memory: memory.search("x", user_id="a"), "Memory.search has no option 'user_id'"),
        (lambda memory: memory.recall("x"), 'use memory.session("user-42").recall("...")'),
    ],
)
def test_an_option_that_a_method_of_a_memory_does_not_have(
    call: Callable[[Any], object], right: str
) -> None:
    with Memory() as memory, pytest.raises(TypeError) as caught:
        call(memory)
    assert right in str(caught.value)


def test_a_tool_schema_that_no_provider_takes() -> None:
    with Memory() as memory:
        session = memory.session("a")
        session.user("hi")
        with pytest.raises(InvalidOption, match=r"tools\[0\] has a name alone.*\"parameters\""):
            session.context(tools=[{"name": "a"}])
        with pytest.raises(InvalidOption, match=r"'weather', which is neither a function nor a"):
            Agent(memory, ScriptedModel(["hi"]), tools=cast("Any", ["weather"]))


METHODS: dict[str, tuple[Callable[[Any], object], str]] = {
    "user": (
        lambda session: session.user("hi", metadata={}),
        'user has no option \'metadata\': use add({"role": "user"',
    ),
    "history": (
        lambda session: session.history(last=3),
        "history has no option 'last': use history()[-3:]",
    ),
    "recall": (
        lambda session: session.recall("x", k=3),
        "recall has no option 'k': use limit=",
    ),
    "context": (lambda session: session.context(top=3), "has no option 'top': it takes query, "),
    "status": (lambda session: session.status(full=True), "'full': it takes none"),
}


@pytest.mark.parametrize("case", METHODS)
def test_an_option_that_a_method_does_not_have(case: str) -> None:
    call, right = METHODS[case]
    with Memory() as memory:
        for session in (memory.session("a"), memory.session("a").awaiting):
            with pytest.raises(TypeError) as caught:
                drive_if_awaited(call(session))
            assert str(caught.value).startswith(type(session).__name__ + ".")
            assert right in str(caught.value)


def drive_if_awaited(found: Any) -> None:
    if inspect.isawaitable(found):
        drive(cast("Any", found))


def test_methods_keep_their_kind_and_other_errors() -> None:
    with Memory() as memory:
        session = memory.session("a")
        assert inspect.iscoroutinefunction(session.awaiting.user)
        assert list(inspect.signature(session.user).parameters) == ["content", "name", "client_id"]
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            cast("Any", session).user()
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        Careless().read(3)


@hinted_methods({})
class Careless:
    def read(self, given: Any) -> None:
        list(given)


def test_hints_leave_signatures_and_other_errors_as_they_are() -> None:
    parameters = inspect.signature(Memory).parameters
    assert "budget" in parameters
    assert "max_tokens" in inspect.signature(Budget).parameters
    kinds = {each.kind for face in (Memory, AsyncMemory, Budget) for each in signature_of(face)}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        Failing(3)


class Failing:
    @hinted("Failing", lambda given, unknown: f"never shown: {given} {unknown}")
    def __init__(self, given: Any) -> None:
        list(given)


def signature_of(face: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(face).parameters.values())


def test_an_unknown_model_needs_a_budget() -> None:
    with pytest.raises(UnknownModel, match=r"budget=Budget\(max_tokens=8000\)") as caught:
        Memory(model="gpt-99-ultra")
    assert "context_window" not in str(caught.value)
    with Memory(model="gpt-99-ultra", budget=Budget(max_tokens=8000)) as memory:
        assert memory.budget.tokens == 8000


def test_a_session_without_messages_has_an_empty_context() -> None:
    with Memory() as memory:
        assert memory.session("a").context().messages == ()
        body = wire.openai_chat.request(memory.session("a").context()).kwargs
        assert body["messages"] == [{"role": "user", "content": "…"}]

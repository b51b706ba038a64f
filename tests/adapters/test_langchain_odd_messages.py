"""LangChain's messages that JSON cannot carry, and those that nothing but their place tells apart."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from hypothesis import given
from hypothesis import strategies as st
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from tests.adapters.langchain_agents import (
    Watched,
    agent_of,
    answering,
    asked,
    calling,
    log_of,
    logged,
    thread,
)
from tests.sizes import examples
from turnfold import Memory
from turnfold.adapters.langchain import langchain_messages, record_of, turnfold_middleware
from turnfold.adapters.langchain import messages as recording_module
from turnfold.adapters.langchain import state_log as run_log_module
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.findings import FindingRule
from turnfold.records import decode_message, encode_message

HALF = "half a \ud83d pair"
TWO_HALVES = "\ud83d\ude00"
"""Two halves that were never joined: another text than the emoji they would make."""
TEXT = st.text(st.characters(categories=["Cs", "Ll", "Lo"]), max_size=6)
VALUE = st.recursive(
    st.none() | st.integers(-9, 9) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)
FIELDS = st.dictionaries(st.sampled_from("xyz"), VALUE, max_size=3)


@st.composite
def odd_messages(draw: st.DrawFn) -> BaseMessage:
    content: Any = draw(TEXT | st.lists(FIELDS.map(lambda more: {**more, "type": "new"})))
    beside: Any = {"id": draw(st.none() | TEXT), "additional_kwargs": draw(FIELDS)}
    match draw(st.sampled_from(["human", "ai", "tool"])):
        case "human":
            return HumanMessage(content, **beside)
        case "tool":
            return ToolMessage(content, tool_call_id=draw(TEXT), **beside)
        case _:
            call: Any = {"name": "f", "args": draw(FIELDS), "id": draw(TEXT), "type": "tool_call"}
            return AIMessage(
                content, tool_calls=[call], response_metadata={"logprob": draw(VALUE)}, **beside
            )


def through_the_log(message: BaseMessage) -> BaseMessage:
    [back] = langchain_messages([decode_message(encode_message(record_of(message)))])
    return back


@examples(150)
@given(odd_messages())
def test_whatever_json_cannot_carry_comes_back_as_it_was(message: BaseMessage) -> None:
    back = through_the_log(message)
    assert type(back) is type(message)
    assert repr(back.model_dump()) == repr(message.model_dump())  # NaN is not equal to itself


def test_two_halves_stay_two_halves_and_infinity_is_not_null() -> None:
    [back] = langchain_messages(
        [record_of(AIMessage(TWO_HALVES, additional_kwargs={"p": -math.inf}))]
    )
    assert back.content == TWO_HALVES
    assert back.content != "😀"
    assert back.additional_kwargs == {"p": -math.inf}


def test_the_record_says_it_in_what_everybody_takes() -> None:
    call: Any = {"name": "f", "args": {"x": math.nan, "y": HALF}, "id": "c", "type": "tool_call"}
    record = record_of(AIMessage(HALF, tool_calls=[call]))
    assert record.text == "half a \\ud83d pair"
    assert json.loads(record.calls[0].arguments) == {"x": "NaN", "y": "half a \\ud83d pair"}


def test_a_run_goes_on_whatever_its_model_and_its_tools_say() -> None:
    @tool
    def measure(at: float) -> str:
        """Measure."""
        return f"{at}: {HALF}"

    steps = [
        calling("measure", {"at": math.nan}, 1, said=HALF),
        calling("measure", {"at": "NaN"}, 2),
        AIMessage("done", response_metadata={"logprob": -math.inf}),
    ]
    with Memory("sqlite://") as memory:
        model = Watched(step=lambda number: steps[number - 1])
        rule = FindingRule("measure", serve=True)
        agent = agent_of(model, memory, tools=[measure], findings=[rule], system_prompt=HALF)
        state = agent.invoke(asked(HALF), thread())
        assert repr(logged(memory.session("t"))) == repr(state["messages"])
        results = [one for one in state["messages"] if isinstance(one, ToolMessage)]
        assert [one.text for one in results] == [f"nan: {HALF}"] * 2  # the second is no repetition
        shown = model.prompts[-1].messages
        assert [one.text for one in shown if not isinstance(one, ToolMessage)] == [HALF] * 3 + [""]
        told = [one.text for one in shown if isinstance(one, ToolMessage)]
        assert [text.partition("\n")[2] for text in told] == ["nan: half a \\ud83d pair"] * 2


def test_sabotage_without_it_the_run_stops_and_the_error_names_the_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording_module, "writable", lambda value: value)
    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=answering("ok")), memory)
        told = [HumanMessage("fine", id="a"), HumanMessage(HALF, id="b")]
        with pytest.raises(
            InvalidRecord, match=r"messages\[1\].*U\+D83D.*'human', id 'b'.*replace"
        ):
            agent.invoke({"messages": told}, thread())


def test_what_no_record_can_hold_is_refused_by_name() -> None:
    deep: Any = {}
    for _ in range(120):
        deep = {"in": deep}
    with Memory("sqlite://") as memory:
        agent = agent_of(Watched(step=answering("ok")), memory)
        told = [HumanMessage("fine"), HumanMessage("x", id="b", additional_kwargs=deep)]
        with pytest.raises(InvalidRecord, match=r"messages\[1\].*deeper.*id 'b'.*flatten"):
            agent.invoke({"messages": told}, thread())


# ---------------------------------------------------------------------------------- without an id


def shown_of(memory: Memory, *states: list[BaseMessage]) -> list[list[str]]:
    """What a model is shown of states whose messages have no ids, one after another, in one conversation."""
    middleware = turnfold_middleware(memory.session("t"), recall=False)
    shown: list[list[str]] = []

    def ask(request: ModelRequest[Any]) -> ModelResponse[Any]:
        shown.append([one.text for one in request.messages])
        return ModelResponse([AIMessage("ok")])

    for messages in states:
        given: Any = list(messages)
        state: Any = {"messages": given}
        middleware.wrap_model_call(
            ModelRequest(model=Watched(step=answering("ok")), messages=given, state=state), ask
        )
    return shown


def words_logged(memory: Memory) -> list[str]:
    return [one.message.text for one in log_of(memory.session("t"))]


def talk() -> list[BaseMessage]:
    return [HumanMessage("yes"), AIMessage("Sure?"), HumanMessage("yes"), HumanMessage("yes")]


def test_the_same_words_twice_without_an_id_are_kept_twice() -> None:
    words = ["yes", "Sure?", "yes", "yes"]
    again = HumanMessage("yes")
    with Memory("sqlite://") as memory:
        grown = [*talk(), AIMessage("Sure?"), again, again]
        shown = shown_of(memory, talk(), talk(), grown, grown)
        assert shown == [words, words, *[[*words, "Sure?", "yes", "yes"]] * 2]
        assert words_logged(memory) == shown[-1]
    with Memory("sqlite://") as memory:
        assert shown_of(memory, [again, AIMessage("Sure?"), again]) == [words[:3]]


def test_another_process_recognises_them(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    for _ in range(2):
        with Memory(store) as memory:
            assert shown_of(memory, talk()) == [["yes", "Sure?", "yes", "yes"]]
            assert words_logged(memory) == ["yes", "Sure?", "yes", "yes"]


def test_sabotage_without_numbers_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log_module, "numbered", lambda record, _: record)
    with pytest.raises(InvalidOption, match="several entries of one batch"):
        test_the_same_words_twice_without_an_id_are_kept_twice()

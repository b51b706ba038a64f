"""What the saver's own serializer gives back: everything of Python, LangChain and LangGraph, and what is listed."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import GetOp, Item
from langgraph.types import Command, Interrupt, Overwrite, PregelTask, Send, TimeoutPolicy
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from tests.adapters.hostile_checkpoints import put_thread, read_thread
from tests.adapters.langchain_agents import Watched, asked, calling, thread
from tests.sizes import examples
from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints.serializer import StrictSerializer, safe_names
from turnfold.errors import InvalidOption, InvalidRecord


@dataclass
class Plan:
    steps: list[str]
    due: datetime
    asked: BaseMessage | None = None


class Colour(Enum):
    RED = "red 红"


class Level(IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Boat(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    length: Decimal = Decimal("7.5")


class Aliased(BaseModel):
    inner: str = Field(alias="outer")


@dataclass
class Broken:
    """Cannot be made again from its fields."""

    name: str
    made: str = field(init=False, default="later")


NOW = datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
OWN = [Plan, Colour, Level, Point, Boat, Aliased, SecretStr]
SAFE: list[Any] = [
    None,
    b"bytes",
    bytearray(b"more"),
    "港口 harbour 🚢",
    [1, -1, 2**63, 1.5, True, {"a": [None], 1: 2, 2.5: 3, None: 4}],
    {"nested": {"deep": [{"er": HumanMessage("你好")}]}},
    UUID(int=7),
    Decimal("1.50"),
    {1, "a"},
    {(1, 2), (3, (4, 5))},
    frozenset({"x"}),
    deque([1, 2]),
    NOW,
    datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Shanghai")).astimezone(timezone(timedelta(hours=8))),
    NOW.replace(tzinfo=None),
    date(2026, 1, 2),
    time(1, 2, 3, 4),
    time(1, 2, tzinfo=UTC),
    timedelta(1, 2, 3),
    timezone(timedelta(hours=1), "X"),
    ZoneInfo("Asia/Shanghai"),
    IPv4Address("1.2.3.4"),
    IPv6Network("::/64"),
    Path("/a/b/港口"),
    re.compile("a.*b", re.IGNORECASE | re.DOTALL),
    re.compile(b"a"),
    HumanMessage("hi", id="1"),
    AIMessage(
        [{"type": "text", "text": "看"}],
        tool_calls=[{"name": "look", "args": {"at": 1}, "id": "c", "type": "tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    AIMessageChunk(content="piece"),
    SystemMessage("be brief"),
    ToolMessage("seen", tool_call_id="c", artifact={"rows": [1]}),
    RemoveMessage("1"),
    Document("page", metadata={"at": NOW}),
    Send("node", {"x": HumanMessage("y")}),
    Send("node", 1, timeout=TimeoutPolicy(run_timeout=3)),
    Command(goto="a", update={"x": {1}}, resume="yes"),
    Interrupt("why?", id="i"),
    Overwrite([1]),
    Item(value={"a": 1}, key="k", namespace=("n",), created_at=NOW, updated_at=NOW),
    _DeltaSnapshot([HumanMessage("x")]),
]
LISTED: list[Any] = [
    Plan(["看", "go"], NOW, HumanMessage("why?")),
    Colour.RED,
    Level.HIGH,
    Point(1, 2),
    Boat(name="Ålesund"),
    [{"at": {Colour.RED}, "plan": Plan([], NOW)}],
]


@pytest.mark.parametrize("value", SAFE, ids=lambda value: type(value).__name__)
def test_safe_values_come_back_as_they_were(value: Any) -> None:
    strict = StrictSerializer()
    stored = strict.dumps_typed(value)
    found = strict.loads_typed(stored)
    assert (found, type(found)) == (value, type(value))
    assert stored == JsonPlusSerializer().dumps_typed(value)  # other savers of LangGraph read it


@pytest.mark.parametrize("value", LISTED, ids=lambda value: type(value).__name__)
def test_listed_values_come_back_and_others_are_refused_when_they_are_written(value: Any) -> None:
    strict = StrictSerializer(allowed_types=OWN)
    found = strict.loads_typed(strict.dumps_typed(value))
    assert (found, type(found)) == (value, type(value))
    with pytest.raises(InvalidRecord, match=r"to be stored .*\..*allowed_types=\["):
        StrictSerializer().dumps_typed(value)
    by_name = StrictSerializer(allowed_types=[(one.__module__, one.__name__) for one in OWN[-1:]])
    with pytest.raises(InvalidRecord, match="allowed_types"):
        by_name.loads_typed(strict.dumps_typed(value))


def test_named_tuples_of_langgraph_come_back_with_lists_for_tuples() -> None:
    strict = StrictSerializer()
    for value in (PregelTask("i", "n", ("p",)), GetOp(("a",), "k")):
        found = strict.loads_typed(strict.dumps_typed(value))
        assert type(found) is type(value)
        assert found == JsonPlusSerializer().loads_typed(strict.dumps_typed(value))


def test_models_with_aliases_and_secrets_come_back() -> None:
    strict = StrictSerializer(allowed_types=OWN)
    aliased: Any = strict.loads_typed(strict.dumps_typed(Aliased(outer="x")))
    assert (type(aliased), aliased.inner) == (Aliased, "x")
    secret: Any = strict.loads_typed(strict.dumps_typed([SecretStr("s")]))
    assert secret == [SecretStr("s")]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::2],
        np.array(5),
        np.array(["a", "港"]),
        np.array([b"x"]),
        np.array([True, False]),
        np.array([1 + 2j]),
    ],
    ids=str,
)
def test_arrays_come_back(array: Any) -> None:
    strict = StrictSerializer()
    found: Any = strict.loads_typed(strict.dumps_typed({"x": [array]}))["x"][0]  # type: ignore[index]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])]
)
def test_arrays_that_would_be_lost_are_refused_when_they_are_written(array: Any) -> None:
    with pytest.raises(InvalidRecord, match="numpy"):
        StrictSerializer().dumps_typed(array)


VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(codec="utf-8"), max_size=8),
        st.binary(max_size=8),
        st.datetimes(),
        st.dates(),
        st.times(),
        st.timedeltas(),
        st.uuids(),
        st.decimals(allow_nan=False),
        st.ip_addresses(),
        st.builds(HumanMessage, st.text(max_size=8)),
        st.frozensets(st.integers(0, 9), max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers(0, 9)), inner, max_size=3),
        st.builds(Send, st.text(max_size=4), inner),
        st.builds(_DeltaSnapshot, inner),
    ),
    max_leaves=12,
)


@examples(200)
@given(VALUE)
def test_any_safe_value_comes_back_as_it_was(value: Any) -> None:
    strict = StrictSerializer()
    assert strict.loads_typed(strict.dumps_typed(value)) == value


def test_the_list_is_that_of_langgraph() -> None:
    """A type that LangGraph adds, or moves, is looked at before it is taken over."""
    ours = {(module, name) for _, module, name in safe_names()}
    assert ours == set(SAFE_MSGPACK_TYPES)
    assert {("datetime", "datetime", "fromisoformat")} == SAFE_MSGPACK_METHODS


def test_a_listed_class_that_cannot_be_made_again_is_told_when_it_is_written() -> None:
    with pytest.raises(InvalidRecord, match=r"Broken cannot be rebuilt: TypeError"):
        StrictSerializer(allowed_types=[Broken]).dumps_typed([Broken("x")])


def test_a_value_that_cannot_be_read_back_leaves_the_thread_as_it_was() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        put_thread(saver, "t", "before")
        with pytest.raises(InvalidRecord, match=r"channel 'x'.*Colour.*allowed_types=\[Colour\]"):
            put_thread(saver, "t", [Colour.RED])
        assert read_thread(saver, "t") == "before"
        listed = TurnfoldSaver(memory, allowed_types=[Colour, (Boat.__module__, "Boat")])
        put_thread(listed, "t", [Colour.RED, Boat(name="x")])
        assert read_thread(listed, "t") == [Colour.RED, Boat(name="x")]
        with pytest.raises(InvalidRecord, match="Colour"):
            read_thread(saver, "t")


def test_langgraphs_own_list_of_a_graphs_types_is_taken() -> None:
    """LangGraph in its strict mode hands a saver the types of the graph's state."""
    with Memory("sqlite://") as memory:
        saver: Any = TurnfoldSaver(memory)
        named = [(Boat.__module__, "Boat"), ("no.such.module", "X"), ("os", "system")]
        widened = saver.with_allowlist(named)
        put_thread(widened, "t", Boat(name="x"))
        assert read_thread(widened, "t") == Boat(name="x")
        with pytest.raises(InvalidRecord):
            read_thread(saver, "t")


@pytest.mark.parametrize(
    "allowed",
    ["Boat", Boat, [5], [("os", "system")], [("os",)], [("no.such.module", "X")], [("os", "nope")]],
)
def test_a_wrong_list_is_refused(allowed: Any) -> None:
    with Memory("sqlite://") as memory, pytest.raises(InvalidOption, match="allowed_types"):
        TurnfoldSaver(memory, allowed_types=allowed)


def test_options_that_exclude_each_other_are_refused() -> None:
    with Memory("sqlite://") as memory:
        with pytest.raises(InvalidOption, match="serde"):
            TurnfoldSaver(memory, serde=JsonPlusSerializer(), allowed_types=[Boat])
        with pytest.raises(InvalidOption, match="seal_key has 5 bytes"):
            TurnfoldSaver(memory, seal_key="short")
        with pytest.raises(InvalidOption, match="max_checkpoint_bytes"):
            TurnfoldSaver(memory, max_checkpoint_bytes=0)


def test_two_listed_classes_of_one_name_are_refused() -> None:
    twin = type("Boat", (), {"__module__": Boat.__module__})
    with pytest.raises(InvalidOption, match="two classes named"):
        StrictSerializer(allowed_types=[Boat, twin])


def test_the_form_of_an_agents_answer_is_listed_like_any_class_of_its_state() -> None:
    def step(number: int) -> AIMessage:
        return calling("Boat", {"name": "Ålesund 奥勒松"}, number)

    def answer(saver: TurnfoldSaver) -> Any:
        agent: Any = create_agent(
            Watched(step=step), [], response_format=ToolStrategy(Boat), checkpointer=saver
        )
        agent.invoke(asked("Which boat?"), thread())
        return agent.get_state(thread()).values

    with Memory("sqlite://") as memory:
        with pytest.raises(InvalidRecord, match=r"Boat.*allowed_types=\[Boat\]"):
            answer(TurnfoldSaver(memory))
        found = answer(TurnfoldSaver(memory, name="other", allowed_types=[Boat]))
        assert found["structured_response"] == Boat(name="Ålesund 奥勒松")
        assert [type(one).__name__ for one in found["messages"]] == [
            "HumanMessage",
            "AIMessage",
            "ToolMessage",
        ]

"""The saver under graphs with a `DeltaChannel`: the same history as LangGraph's own walk, in far fewer reads."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph", reason="the extra langchain is not installed")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints import storage

THREAD: Any = {"configurable": {"thread_id": "t"}}


def joined(state: Any, writes: Any) -> list[Any]:
    more = [one for write in writes for one in (write if isinstance(write, list) else [write])]
    return [*(state or []), *more]


class State(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=50)]
    other: Annotated[list[Any], DeltaChannel(joined)]


def graph_of(saver: BaseCheckpointSaver[Any]) -> Any:
    def one(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{len(state['messages'])} 回答")]}

    def two(state: State) -> dict[str, Any]:
        return {"messages": ["two"], "other": [len(state["messages"])]}

    graph: Any = StateGraph(State)
    graph.add_node("one", one)
    graph.add_node("two", two)
    graph.add_edge(START, "one")
    graph.add_edge(START, "two")
    return graph.compile(checkpointer=saver)


def talk(saver: BaseCheckpointSaver[Any], turns: int) -> Any:
    """A thread that goes back in the middle of its turns."""
    graph = graph_of(saver)
    for number in range(turns):
        config = THREAD
        if number == turns // 2:
            config = list(graph.get_state_history(THREAD))[7].config
        graph.invoke({"messages": [HumanMessage(f"q {number}", id=str(number))]}, config)
    return graph


def said(graph: Any) -> list[str]:
    return [str(getattr(one, "content", one)) for one in graph.get_state(THREAD).values["messages"]]


def walked(saver: TurnfoldSaver, config: Any, channels: list[str]) -> Any:
    """The history as LangGraph finds it with any saver."""
    return BaseCheckpointSaver.get_delta_channel_history(saver, config=config, channels=channels)


def test_every_checkpoint_has_the_history_that_a_walk_finds() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        graph = talk(saver, 12)
        channels = ["messages", "other", "unknown"]
        places = [one.config for one in graph.get_state_history(THREAD)]
        assert len(places) > 24
        for place in places:
            found = saver.get_delta_channel_history(config=place, channels=channels)
            assert found == walked(saver, place, channels)
        newest = saver.get_delta_channel_history(config=THREAD, channels=channels)
        assert newest == walked(saver, THREAD, channels)
        plain = talk(InMemorySaver(), 12)
        assert said(graph) == said(plain)


def test_a_long_history_is_read_by_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        talk(saver, 40)
        reads: list[str] = []

        class Counted:
            def __getattr__(self, name: str) -> Any:
                reads.append(name)
                return getattr(store, name)

        documents = vars(saver)["_storage"]
        store = vars(documents)["_store"]
        monkeypatch.setattr(documents, "_store", Counted())
        found = saver.get_delta_channel_history(config=THREAD, channels=["other"])
        assert len(found["other"]["writes"]) >= 20
        assert len(reads) <= 10
        reads.clear()
        assert walked(saver, THREAD, ["other"]) == found
        assert len(reads) > 100


def test_sabotage_without_the_writes_in_order_the_history_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(storage._DocumentReader, "starting_with", storage._DocumentReader._next)
    with pytest.raises((AssertionError, TypeError)):
        test_every_checkpoint_has_the_history_that_a_walk_finds()

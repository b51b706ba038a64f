"""A conversation held by a graph with any saver, for the benchmark of checkpoints; runs where LangGraph is.

A graph that answers once per turn is run with a real saver; what is divided is the size of the files it leaves, closed,
by the UTF-8 bytes of the messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph

__all__ = ("held_by",)

Opened = Callable[[Path], AbstractContextManager[BaseCheckpointSaver[Any]]]
_WORDS = (
    "harbour depth tide chart anchor 港口 水深 潮汐 航线 pilot berth mooring signal buoy".split()
)


def held_by(open_saver: Opened) -> Callable[[Path, int], tuple[int, int, float]]:
    """What holds a conversation in an empty folder with this saver: bytes said, bytes on disk, seconds."""
    return lambda folder, turns: _held(open_saver, folder, turns)


def _held(open_saver: Opened, folder: Path, turns: int) -> tuple[int, int, float]:
    words = random.Random(5)  # noqa: S311 (the same conversation every time)
    answers: list[str] = []

    def answer(state: MessagesState) -> dict[str, list[AIMessage]]:
        del state
        answers.append(_said(words))
        return {"messages": [AIMessage(answers[-1])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", answer)
    builder.add_edge(START, "model")
    asked: list[str] = []
    begun = perf_counter()
    with open_saver(folder / "graph.db") as saver:
        graph = builder.compile(checkpointer=saver)
        for _ in range(turns):
            asked.append(_said(words))
            question: Any = {"messages": [("user", asked[-1])]}
            state = graph.invoke(question, {"configurable": {"thread_id": "talk"}})
            assert len(state["messages"]) == 2 * len(asked)
    said = sum(len(text.encode()) for text in (*asked, *answers))
    disk = sum(file.stat().st_size for file in folder.iterdir())
    return said, disk, perf_counter() - begun


def _said(words: random.Random) -> str:
    return " ".join(words.choices(_WORDS, k=60))

"""LangGraph: `SqliteSaver`, which keeps the messages of a thread as one value of its newest checkpoint.

A window is `trim_messages` over what the newest checkpoint holds, with an exact counter and a memo around it that the
user has to write. The saver is called directly, which leaves out what running a graph costs besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from bench.contender import Item, Reopened, Stored
from bench.peers.langchain import CONTENDERS

__all__ = ("REOPENED", "STORED")

NEEDS = ("langchain-core==1.7.2", "langgraph-checkpoint-sqlite==3.1.2")

_THREAD: dict[str, Any] = {"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}


def _seed(path: Path, items: Sequence[Item]) -> None:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": CONTENDERS[0].convert(items)}
    checkpoint["channel_versions"] = {"messages": 1}
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.put(_THREAD, checkpoint, {"source": "input", "step": 1}, {"messages": 1})


def _reopen(path: Path) -> tuple[int, Callable[[], object]]:
    opened = ExitStack()
    saver = opened.enter_context(SqliteSaver.from_conn_string(str(path)))
    found = saver.get_tuple(_THREAD)
    assert found is not None
    return len(found.checkpoint["channel_values"]["messages"]), opened.close


REOPENED = (
    Reopened(
        name="LangGraph SqliteSaver",
        package="langgraph-checkpoint-sqlite",
        seed=_seed,
        reopen=_reopen,
        note="opened, newest checkpoint read as a graph does; seeded with one checkpoint that holds all messages",
    ),
)


class _Session:
    """A thread whose state is read and written for every call, as a graph does between two invocations."""

    def __init__(self, path: Path, budget: int) -> None:
        self._opened = ExitStack()
        self._saver = self._opened.enter_context(SqliteSaver.from_conn_string(str(path)))
        self._trim = CONTENDERS[1].open([], budget)
        self._added = 0

    def add(self, item: Item) -> None:
        found = self._saver.get_tuple(_THREAD)
        assert found is not None
        [message] = CONTENDERS[1].convert([item])
        message.id = f"added-{self._added}"
        self._added += 1
        checkpoint = empty_checkpoint()
        values = found.checkpoint["channel_values"]["messages"]
        checkpoint["channel_values"] = {"messages": [*values, message]}
        checkpoint["channel_versions"] = {"messages": self._added + 1}
        metadata: Any = {"source": "loop", "step": self._added + 1}
        self._saver.put(found.config, checkpoint, metadata, {"messages": self._added + 1})

    def window(self) -> Sequence[Any]:
        found = self._saver.get_tuple(_THREAD)
        assert found is not None
        trim: Any = self._trim
        trim.messages = found.checkpoint["channel_values"]["messages"]
        return trim.window()

    def close(self) -> None:
        self._opened.close()


STORED = (
    Stored(
        name="LangGraph SqliteSaver + trim_messages, exact with a user's memo",
        package="langgraph-checkpoint-sqlite",
        seed=_seed,
        open=_Session,
        read=CONTENDERS[1].read,
        note="the newest checkpoint is read, trimmed, and written with one message more",
        largest=100_000,
    ),
)

"""LangGraph: `SqliteSaver`, which keeps the messages of a thread as one value of its newest checkpoint.

A window is `trim_messages` over what the newest checkpoint holds, with an exact counter and a memo around it that the
user has to write. The saver is called directly, which leaves out what running a graph costs besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from bench.appenders import ThreadAppender
from bench.checkpoint_bytes import held_by
from bench.contender import Appended, Checkpointed, Item, Reopened, Settings, Stored, Turn
from bench.peers.langchain import CONTENDERS

__all__ = ("APPENDED", "APPENDED_NOTE", "CHECKPOINTED", "REOPENED", "STORED", "SaverAppender")

NEEDS = ("langchain-core==1.7.2", "langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2")

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


class SaverAppender(ThreadAppender):
    """Threads that share a saver; a lock per conversation, because two runs of one thread lose the first one's turn."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def write(self, turn: Turn) -> None:
        """Read the newest state, merge the messages into it by id, write it as a new checkpoint."""
        added = CONTENDERS[0].convert(turn.items)
        for number, message in enumerate(added):
            message.id = f"{turn.name}.{number}"
        with self._locks[turn.talk]:
            config = _thread(turn.talk)
            found = self._saver.get_tuple(config)
            values = found.checkpoint["channel_values"]["messages"] if found else []
            merged = {message.id: message for message in (*values, *added)}
            version = f"{len(merged):032}"
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": list(merged.values())}
            checkpoint["channel_versions"] = {"messages": version}
            metadata: Any = {"source": "loop", "step": len(merged)}
            parent = found.config if found else config
            self._saver.put(parent, checkpoint, metadata, {"messages": version})

    def texts(self, talk: str) -> list[str]:
        """Of the newest checkpoint."""
        found = self._saver.get_tuple(_thread(talk))
        values = found.checkpoint["channel_values"]["messages"] if found else []
        return [str(message.content) for message in values]


class _Appender(SaverAppender):
    def __init__(self, path: Path) -> None:
        self._opened = ExitStack()
        opened = self._opened.enter_context(SqliteSaver.from_conn_string(str(path)))
        opened.setup()
        self._connection = opened.conn
        super().__init__(opened)

    def settings(self) -> Settings:
        [journal] = self._connection.execute("PRAGMA journal_mode").fetchone()
        [synchronous] = self._connection.execute("PRAGMA synchronous").fetchone()
        return Settings(journal, synchronous)

    def close(self) -> None:
        self._opened.close()


def _thread(talk: str) -> Any:  # noqa: ANN401 (a RunnableConfig)
    return {"configurable": {"thread_id": talk, "checkpoint_ns": ""}}


APPENDED_NOTE = (
    "the newest checkpoint read, the turn merged into its messages by id, one put() of all of them; a graph puts "
    "several times a turn. A user's lock per conversation, without which turns are lost"
)

APPENDED = (
    Appended(
        name="LangGraph SqliteSaver",
        package="langgraph-checkpoint-sqlite",
        open=_Appender,
        note=APPENDED_NOTE,
        largest=1_500,
    ),
)


CHECKPOINTED = (
    Checkpointed(
        name="LangGraph SqliteSaver",
        package="langgraph-checkpoint-sqlite",
        hold=held_by(lambda path: SqliteSaver.from_conn_string(str(path))),
    ),
)

"""pytest plugin for the own tests of LangGraph and LangChain: their savers and stores are turnfold's.

`InMemorySaver`, `SqliteSaver` and `AsyncSqliteSaver` become a `TurnfoldSaver`, in memory or in a file, and
`InMemoryStore` a `TurnfoldStore`. A store with embeddings stays LangGraph's own: turnfold's store has none.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from inspect import isclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from langchain_core.agents import AgentAction, AgentFinish
from langgraph.store.memory import InMemoryStore as Embedding
from pydantic import BaseModel

from turnfold import AsyncMemory, Memory
from turnfold.adapters.langchain import TurnfoldSaver, TurnfoldStore
from turnfold.adapters.langchain.checkpoints.serializer import StrictSerializer
from turnfold.stores import MemoryStore

STATE_CLASSES = [AgentAction, AgentFinish]
"""Classes of LangChain that the tests have in their states."""


class _TestClasses(dict[tuple[str, str], type[Any]]):
    """Allows the classes that the tests define, as if each test listed those of its state in `allowed_types`."""

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        found = super().get(key)
        if found is None and key[0].split(".")[0] == "tests":
            outer = getattr(sys.modules.get(key[0]), key[1], None)
            found = outer if isclass(outer) else _inner(*key)
        return default if found is None else found

    def __or__(self, other: Any) -> Self:
        return type(self)({**self, **other})


def _inner(module: str, name: str) -> type[Any] | None:
    """Return the newest class of this name that a test function defines."""
    made: list[type[Any]] = [*object.__subclasses__(), *BaseModel.__subclasses__()]
    for each in made:
        if each.__module__ == module:
            made += each.__subclasses__()  # the list grows while it is read
    named = [each for each in made if (each.__module__, each.__name__) == (module, name)]
    return named[-1] if named else None


def _serializer() -> StrictSerializer:
    made = StrictSerializer(allowed_types=STATE_CLASSES)
    vars(made)["_types"] = _TestClasses(vars(made)["_types"])
    return made


class InMemorySaver(TurnfoldSaver):
    """A `TurnfoldSaver` with the constructor of LangGraph's `InMemorySaver`.

    Its awaited methods call the others, as LangGraph's do: the tests derive savers from it that change only those.
    """

    def __init__(self, *, serde: Any = None, factory: Any = None) -> None:
        del factory  # what LangGraph keeps checkpoints in
        # Tests make it inside an event loop, where LangChain's forbid to open a database.
        super().__init__(MemoryStore(), serde=serde or _serializer())
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stack.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.stack.close()

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **given: Any) -> AsyncIterator[Any]:
        for each in self.list(config, **given):
            yield each

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def aget_delta_channel_history(self, *, config: Any, channels: Any) -> Any:
        return self.get_delta_channel_history(config=config, channels=channels)


class SqliteSaver(TurnfoldSaver):
    """A `TurnfoldSaver` with the factory of LangGraph's `SqliteSaver`."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Iterator[SqliteSaver]:
        """Open a database file, which is gone in the end if it is called `:memory:`."""
        with TemporaryDirectory() as folder, Memory(_url(conn_string, folder)) as memory:
            yield cls(memory, serde=_serializer())


class AsyncSqliteSaver(TurnfoldSaver):
    """A `TurnfoldSaver` with the factory of LangGraph's `AsyncSqliteSaver`."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str) -> AsyncIterator[AsyncSqliteSaver]:
        """Open a database file, which is gone in the end if it is called `:memory:`."""
        with TemporaryDirectory() as folder:
            async with AsyncMemory(_url(conn_string, folder)) as memory:
                yield cls(memory, serde=_serializer())


def _url(conn_string: str, folder: str) -> str:
    path = Path(folder) / "checkpoints.db" if conn_string == ":memory:" else Path(conn_string)
    return f"sqlite:///{path}"


class InMemoryStore(TurnfoldStore):
    """A `TurnfoldStore` with the constructor of LangGraph's `InMemoryStore`."""

    def __new__(cls, *, index: Any = None) -> Any:
        """Make LangGraph's own store if embeddings are asked for."""
        return super().__new__(cls) if index is None else Embedding(index=index)

    def __init__(self, *, index: Any = None) -> None:
        del index
        super().__init__(Memory("sqlite://"))


def pytest_load_initial_conftests() -> None:
    """Swap the savers and stores before any test is imported."""
    for module, name, kind in (
        ("langgraph.checkpoint.memory", "InMemorySaver", InMemorySaver),
        ("langgraph.checkpoint.memory", "MemorySaver", InMemorySaver),
        ("langgraph.checkpoint.sqlite", "SqliteSaver", SqliteSaver),
        ("langgraph.checkpoint.sqlite.aio", "AsyncSqliteSaver", AsyncSqliteSaver),
        ("langgraph.store.memory", "InMemoryStore", InMemoryStore),
    ):
        vars(import_module(module))[name] = kind

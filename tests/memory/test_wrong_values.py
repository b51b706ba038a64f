"""An error for a wrong value names that value only, and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from turnfold import Agent, Memory
from turnfold.cli import replay
from turnfold.client import RemoteMemory
from turnfold.errors import InvalidOption
from turnfold.memories import MemoryModule
from turnfold.memory.memory import SessionCache
from turnfold.memory.summary_writers import ModelWriter
from turnfold.models.failures import RetryPolicy
from turnfold.records import Usage
from turnfold.search import Within
from turnfold.testing import ScriptedModel

ADDRESS = "http://127.0.0.1:9"


def writer(**options: float) -> ModelWriter:
    async def ask(prompt: str) -> str:
        return prompt

    return ModelWriter(ask, **options)  # pyright: ignore[reportArgumentType] (numbers of both kinds)


def remote_heads(**options: int) -> object:
    with RemoteMemory(ADDRESS) as memory:
        return memory.session("one").snapshots.heads(**options)


def agent(**options: int) -> object:
    with Memory() as memory:
        return Agent(memory, ScriptedModel([]), **options)  # pyright: ignore[reportArgumentType] (as above)


def heads(**options: int) -> object:
    with Memory() as memory:
        return memory.session("one").snapshots.heads(**options)


def summaries(**options: int) -> object:
    with MemoryModule() as module:
        return module.memory_store.summaries(**options)


# What is made with the wrong value, and the whole text of its error.
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: heads(after=-1), "after=-1 must not be negative"),
    (lambda: heads(limit=0), "limit=0 must be at least 1"),
    (lambda: remote_heads(after=-1), "after=-1 must not be negative"),
    (lambda: remote_heads(limit=0), "limit=0 must be at least 1"),
    (lambda: summaries(after=-1), "after=-1 must not be negative"),
    (lambda: summaries(limit=0), "limit=0 must be at least 1"),
    (lambda: agent(max_steps=0), "max_steps=0 must be at least 1"),
    (lambda: agent(parallel=0), "parallel=0 must be at least 1"),
    (lambda: RetryPolicy(first=0), "first=0, the seconds of the first pause, must be above 0"),
    (
        lambda: RetryPolicy(first=2, longest=1),
        "longest=1, the seconds of the longest pause, must be at least first=2",
    ),
    (
        lambda: RetryPolicy(patience=-1),
        "patience=-1, the longest wait in seconds, must not be negative",
    ),
    (lambda: RemoteMemory(ADDRESS, retries=-1), "retries=-1 must not be negative"),
    (lambda: RemoteMemory(ADDRESS, backoff=-1.0), "backoff=-1.0 must not be negative"),
    (lambda: SessionCache(most=0), "most=0, the number of sessions to cache, must be at least 1"),
    (lambda: SessionCache(most_bytes=-1), "most_bytes=-1 must not be negative"),
    (lambda: writer(reads=0), "reads=0 must be above 0"),
    (lambda: writer(seconds=0), "seconds=0 must be above 0"),
    (
        lambda: MemoryModule(max_thinking_rounds=0),
        "max_thinking_rounds=0 must be at least 1; to turn the rounds off, set enable_reflective_thinking=False",
    ),
    (lambda: MemoryModule(model_seconds=0), "model_seconds=0 must be above 0"),
    (
        lambda: Within(turns=(5, 3)),
        "turns=(5, 3) must be (first, last): two turn numbers with 0 <= first <= last <= 4611686018427387903",
    ),
]


@pytest.mark.parametrize(("make", "text"), WRONG, ids=[text for _, text in WRONG])
def test_only_the_wrong_value_is_named(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        make()
    assert str(caught.value) == text


def test_an_empty_rule_is_not_told_to_be_shortened() -> None:
    with Memory() as memory, pytest.raises(InvalidOption) as caught:
        memory.session("one").add_rule("  ")
    assert str(caught.value) == "a rule must not be empty: give its text"


def test_usage_is_recorded_for_a_call_by_its_number() -> None:
    with Memory() as memory:
        session = memory.session("one")
        session.user("hello 你好")
        session.context()
        name = session.last_call
        session.context()
        assert session.record_usage(Usage(input=7), call=1).call == name
        assert [call.usage for call in session.calls()] == [Usage(input=7), None]
        with pytest.raises(InvalidOption, match="call=0 must be at least 1: calls are numbered"):
            session.record_usage(Usage(input=7), call=0)


def test_tool_schemas_that_cannot_be_read_are_not_called_wrong_json(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption) as caught:
        replay._tools(tmp_path)  # a folder
    assert str(caught.value) == f"cannot read {tmp_path}: Is a directory"

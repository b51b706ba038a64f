"""Recorded agent sessions through a session at 8,000 tokens: nothing vanishes, every call can be explained exactly, the
prompt keeps its beginning, and the summariser reads about as much as was said.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.memory.trace_replay import BUDGET, COUNTER, Replay, traces
from tests.window.test_traces import invented_trace, needs_traces
from turnfold.budget import Budget
from turnfold.memory import Memory, ModelWriter
from turnfold.stores import MemoryStore

Record = Callable[[str, object], None]


class ReadingModel:
    """A summariser that counts what it is given to read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, prompt: str) -> str:
        self.read += COUNTER.count_text(prompt)
        return "What was said so far, in a few words. 到目前为止的要点。" * 20


@needs_traces
def test_a_sample_of_recorded_sessions(record_property: Record) -> None:
    store = MemoryStore(counter=COUNTER)
    replay = Replay(Memory(store, counter=COUNTER, budget=BUDGET), audits=25, explains=25)
    for name, log in islice(traces(), 5, None, 60):
        replay.trace(name, log)
    record_property("replay", str(replay))
    assert replay.faults == []
    assert replay.calls > 100
    assert replay.explained > 10


@needs_traces
@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_recorded_session_keeps_its_prompts_beginning(
    tmp_path: Path, record_property: Record
) -> None:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", counter=COUNTER, budget=BUDGET) as memory:
        replay = Replay(memory)
        for number, (name, log) in enumerate(traces()):
            replay.trace(f"{number} {name}", log)
    record_property("replay", str(replay))
    print(replay)  # noqa: T201 (shown with -rP)
    assert replay.faults == []
    assert replay.share(inside=True) >= 0.97
    assert replay.share() >= 0.90


@needs_traces
@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_summariser_reads_about_as_much_as_was_said(record_property: Record) -> None:
    model = ReadingModel()
    said = long_said = long_read = 0
    store = MemoryStore(counter=COUNTER)
    writer = ModelWriter(model)
    with Memory(store, counter=COUNTER, budget=BUDGET, summarizer=writer, fold="inline") as memory:
        replay = Replay(memory, audits=10_000, explains=0)
        for number, (name, log) in enumerate(traces()):
            before, tokens = model.read, COUNTER.count(log).tokens
            replay.trace(f"{number} {name}", log)
            said += tokens
            if tokens > BUDGET.tokens:  # the others are hardly ever folded
                long_said, long_read = long_said + tokens, long_read + model.read - before
    told = f"read {model.read / said:.3f} of what was said, {long_read / long_said:.3f} where it is folded"
    record_property("read", told)
    print(told)  # noqa: T201 (shown with -rP)
    assert replay.faults == []
    assert model.read <= 1.2 * said
    assert long_read <= 1.2 * long_said


@pytest.mark.parametrize(("recall", "kept"), [("off", 0.8), ("automatic", 0.65)])
def test_an_invented_session_vanishes_nowhere_and_is_explained(recall: str, kept: float) -> None:
    replay = Replay(
        Memory(
            MemoryStore(counter=COUNTER),
            counter=COUNTER,
            budget=Budget(max_tokens=3_000),
            recall=recall,
        ),
        audits=1,
        explains=1,
    )
    replay.trace("invented", invented_trace())
    assert replay.faults == []
    assert replay.explained == replay.calls
    assert replay.share() >= kept


def test_the_summariser_reads_an_invented_session_once() -> None:
    model = ReadingModel()
    memory = Memory(
        MemoryStore(counter=COUNTER),
        counter=COUNTER,
        budget=Budget(max_tokens=3_000),
        summarizer=model,
        fold="inline",
    )
    replay = Replay(memory, audits=1, explains=1)
    replay.trace("invented", invented_trace())
    memory.close()
    said = COUNTER.count(invented_trace()).tokens
    assert replay.faults == []
    assert 0 < model.read <= 2.0 * said  # the prompt itself is long beside so small a budget

"""The documented memories on recorded agent sessions: within the budget, every call with its result."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.memory.conversations import pairing_faults
from tests.memory.fakes import ScriptedModel
from turnfold import (
    BudgetTooSmall,
    MessageMemory,
    MessageMemoryConfig,
    SummaryTokenMemory,
    TokenMemory,
    TruncateStrategy,
)
from turnfold.records import as_messages
from turnfold.tokens import counter_for
from turnfold.window import check

DATA = Path(os.environ.get("TURNFOLD_DATA") or Path(__file__).parents[3] / "shared" / "data")
TRACES = sorted((DATA / "traces").glob("*.jsonl.gz"))
needs_traces = pytest.mark.skipif(
    not TRACES, reason="no recorded sessions: point TURNFOLD_DATA at a folder that has traces/"
)
EXACT = counter_for("gpt-3.5-turbo")
MAX_TOKENS = 2500


def sessions(path: Path, *, every: int) -> Iterator[list[object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in islice(lines, 0, None, every):
            yield json.loads(line)["messages"]


@needs_traces
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_histories_of_recorded_sessions_are_within_budget_and_whole(path: Path) -> None:
    async def replay(raw: list[object]) -> None:
        plain = TokenMemory("s", max_tokens=MAX_TOKENS)
        folding = SummaryTokenMemory("s", ScriptedModel("a few notes"), max_tokens=MAX_TOKENS)
        for stop in range(1, len(raw) + 1, 9):
            for memory in (plain, folding):
                window = await memory.get_history(raw[:stop])
                assert EXACT.count(window).tokens <= MAX_TOKENS
                assert pairing_faults(window) == []
                assert memory._last is not None
                assert check(memory._last) == ()

    for raw in sessions(path, every=60):
        asyncio.run(replay(raw))


@needs_traces
@pytest.mark.parametrize("strategy", TruncateStrategy)
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_limits_hold_on_recorded_sessions(path: Path, strategy: TruncateStrategy) -> None:
    config = MessageMemoryConfig(max_messages=60, max_tokens=4000, strategy=strategy)
    for raw in sessions(path, every=80):
        memory = MessageMemory(config)
        for message in as_messages(raw):
            try:
                memory.add(message)
            except BudgetTooSmall:
                assert message.role == "system", "only a system message may be refused"
                continue
            assert memory.count() <= 60
            assert memory.get_token_count() <= 4000
            assert pairing_faults(memory.get_messages(), running=True) == []

"""Real agent traces, replayed call by call: nothing is ever broken, and the prompt's beginning stays put.

The traces are read where they lie and skipped where they are absent; an invented one covers the same ground everywhere.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean

import pytest

from tests.window.replay import Setting, faults, pairing_faults, replay
from tests.window.transcripts import answers, asks
from turnfold.budget import Budget
from turnfold.records import Message, as_messages, assistant, system, user
from turnfold.tokens import TokenCounter, counter_for
from turnfold.window import check

EXACT = counter_for("gpt-4o")


class RememberedText:
    """The exact count of each text, made once: every call of a trace repeats most of the one before."""

    name = EXACT.text.name
    certainty = EXACT.text.certainty

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, text: str) -> int:
        known = self._counts.get(text)
        if known is None:
            known = self._counts[text] = EXACT.count_text(text)
        return known


COUNTER = TokenCounter(RememberedText(), framing=EXACT.framing, images=EXACT.images)
DATA = Path(os.environ.get("TURNFOLD_DATA") or Path(__file__).resolve().parents[3] / "shared/data")
TRACES = sorted((DATA / "traces").glob("*.jsonl.gz"))
FULLY_JUDGED = 5
"""Every how many calls the judge, which looks at the whole log, is asked as well as `check`."""

needs_traces = pytest.mark.skipif(
    not TRACES, reason="no traces: set TURNFOLD_DATA to a folder with traces/*.jsonl.gz"
)


@dataclass
class Tally:
    """What the replay of some conversations showed."""

    calls: int = 0
    cuts: int = 0
    refusals: int = 0
    broken: list[str] = field(default_factory=list[str])
    shares: list[float] = field(default_factory=list[float])
    """Of each call but the first: the part of the previous prompt that it begins with, by whole messages."""

    def add(self, name: str, log: Sequence[Message], budget: Budget) -> None:
        for number, call in enumerate(replay(log, Setting(COUNTER, budget))):
            context = call.context
            wrong = [*map(str, check(context)), *pairing_faults(context.messages)]
            if self.calls % FULLY_JUDGED == 0:
                wrong += faults(call)
            self.broken += [f"{name}, call {number}: {fault}" for fault in wrong]
            self.calls += 1
            self.cuts += context.moved
            self.refusals += len(call.refusals)
            if number:
                self.shares.append(context.receipt.prefix_share)

    def __str__(self) -> str:
        return (
            f"{self.calls:,} calls, {self.cuts:,} cuts, {len(self.broken)} violations, "
            f"prefix kept {mean(self.shares):.4f}"
        )


def traces() -> Iterator[tuple[str, list[Message]]]:
    for path in TRACES:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                trace = json.loads(line)
                yield trace["trace_id"], as_messages(trace["messages"])


@needs_traces
@pytest.mark.parametrize(
    "one_in",
    [pytest.param(8, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(("tokens", "kept"), [(2_000, 0.0), (8_000, 0.95), (32_000, 0.95)])
def test_real_traces_are_never_broken_and_keep_their_prefix(
    tokens: int, kept: float, one_in: int, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()
    for name, log in islice(traces(), None, None, one_in):
        tally.add(name, log, Budget(max_tokens=tokens))
    record_property("tally", str(tally))
    print(f"{tokens:,} tokens: {tally}")  # noqa: T201 (shown with -rP)
    assert tally.broken == []
    assert tally.refusals == 0
    assert tally.calls > 1_000 // one_in
    assert mean(tally.shares) >= kept


def invented_trace() -> list[Message]:
    """A coding session: parallel reads, long files, an interruption, two languages."""
    log = [
        system("You edit code. " + "Keep to the house rules. " * 40),
        user("请把日志模块改成结构化输出，并补上测试。"),
    ]
    for round_number in range(14):
        ids = [f"read_{round_number}_{n}" for n in range(1 + round_number % 4)]
        log.append(asks(*ids, arguments='{"path": "src/log.py"}', said="Let me look at the files."))
        listing = f"{round_number:4} def write(record): emit(json.dumps(record))\n"
        log += [
            answers(call_id, text=listing * (8 + 20 * (n % 2))) for n, call_id in enumerate(ids)
        ]
        log.append(assistant(f"Step {round_number}: the record is written as one line."))
        if round_number % 5 == 4:
            log.append(user("继续，注意不要改动公共接口。"))
    return log


@pytest.mark.parametrize(("tokens", "kept"), [(1_000, 0.0), (3_000, 0.9), (20_000, 1.0)])
def test_an_invented_trace_is_never_broken_and_keeps_its_prefix(tokens: int, kept: float) -> None:
    tally = Tally()
    tally.add("invented", invented_trace(), Budget(max_tokens=tokens))
    assert tally.broken == []
    assert tally.refusals == 0
    assert (tally.cuts == 0) == (tokens == 20_000)
    assert mean(tally.shares) >= kept, tally

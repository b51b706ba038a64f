"""What the parts of the benchmark of durable appends share: a contender with its lane, its times and its failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.contender import Settings
from bench.hosts import Guests, Lane, Offered, PeerFailed
from bench.lanes.appended import Round
from bench.timing import Samples

__all__ = ("Run", "best_peer", "in_turn", "opened", "take_turns")

WARM = 2
"""Turns of a writer in the first round: code is loaded, tables are made."""


@dataclass(slots=True)
class Run:
    """One contender at one task."""

    offered: Offered
    lane: Lane | None = None
    clock: Samples = field(default_factory=Samples)
    """Seconds per turn, one mean per round, so that checkpoints of the log are in it."""
    processor: Samples = field(default_factory=Samples)
    waits: Samples = field(default_factory=Samples)
    """Seconds each turn took its writer."""
    settings: Settings | None = None
    failure: str = ""

    @property
    def name(self) -> str:
        """Of the contender."""
        return self.offered.name

    @property
    def raw(self) -> bool:
        """Whether it is a limit and no contender."""
        return bool(self.offered.facts["raw"])

    def attempt(self, work: Callable[[Lane], None]) -> None:
        """Do something with its lane, and remember its failure instead of a time."""
        if self.lane is not None and not self.failure:
            try:
                work(self.lane)
            except PeerFailed as failed:
                self.failure = str(failed)

    def take(self, done: Round) -> None:
        """The times of one round."""
        self.clock.rounds.append([done.clock])
        self.processor.rounds.append([done.processor])
        self.waits.rounds.append(done.waits)

    def figures(self) -> dict[str, object]:
        """The same for machines."""
        if not self.clock.rounds:
            return {"failure": self.failure}
        return {
            "clock": self.clock.figures(),
            "processor": self.processor.figures(),
            "wait_p50": self.waits.median,
            "wait_p99": self.waits.percentile(0.99),
            "failure": self.failure or None,
        }


def opened(
    guests: Guests, everybody: Sequence[Offered], folder: Path | str, tag: str, **settings: object
) -> list[Run]:
    """Everybody with a new file in a folder, or all with one database."""
    runs: list[Run] = []
    for number, each in enumerate(everybody):
        run = Run(each)
        try:
            path = folder if isinstance(folder, str) else folder / f"{tag}-{number}.db"
            run.lane = guests.lane(each, "appended", path=path, label=tag, **settings)
            run.settings = run.lane.ask("settings")
        except PeerFailed as failed:
            run.failure = str(failed)
        runs.append(run)
    return runs


def take_turns(
    runs: Sequence[Run], *, rounds: int, each: int, patience: float, go_on: bool = False
) -> None:
    """So many turns of each writer in a round, fewer for the slow; in new conversations unless they go on."""

    def measured(run: Run, many: int) -> None:
        def work(lane: Lane) -> None:
            if not go_on:
                lane.ask("begin")
            run.take(lane.ask("round", many))

        run.attempt(work)

    for run in runs:
        measured(run, WARM)
    for number in range(rounds + 1):
        for run in in_turn(runs, number):
            if run.failure or not run.clock.rounds:
                continue
            writer = run.waits.median  # seconds a writer is busy with a turn
            measured(run, max(1, min(each, int(patience / rounds / writer))))
    for run in runs:
        for samples in (run.clock, run.processor, run.waits):
            del samples.rounds[:2]  # the first, and one in which the log is written once around


def in_turn(runs: Sequence[Run], number: int) -> list[Run]:
    """Somebody else first in every round: whoever follows a slow one waits for what it left to the disk."""
    first = number % len(runs)
    return [*runs[first:], *runs[:first]]


def best_peer(runs: Sequence[Run]) -> Run | None:
    """The fastest peer whose writes are durable."""
    good = [
        run
        for run in runs
        if run.clock.rounds
        and not (run.offered.ours or run.raw or run.failure)
        and run.settings is not None
        and run.settings.durable
    ]
    return min(good, key=lambda run: run.clock.median, default=None)

"""A contender that is measured step by step, and whose failure is remembered instead of a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.hosts import Lane, Offered, PeerFailed
from bench.judge import Record
from bench.timing import Samples

__all__ = ("Attempt",)


@dataclass(slots=True)
class Attempt:
    """One contender at one size."""

    offered: Offered
    lane: Lane | None = None
    cold: Samples = field(default_factory=Samples)
    warm: Samples = field(default_factory=Samples)
    """One message appended and the window built."""
    record: Record = field(default_factory=Record)
    failure: str = ""

    @property
    def tried(self) -> bool:
        """Whether there is anything to ask of it."""
        return not self.failure

    def attempt(self, work: Callable[[], None]) -> None:
        """Do something with it, and remember its failure instead of a time."""
        if self.tried:
            try:
                work()
            except PeerFailed as failed:
                self.failure = str(failed)

    def start(self) -> None:
        """One cold call."""
        assert self.lane is not None
        self.cold.rounds.append([self.lane.ask("cold")])

    def finish(self) -> None:
        """Take its record and let go of it."""
        assert self.lane is not None
        self.record = self.lane.ask("record")
        self.lane.close()

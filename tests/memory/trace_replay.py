"""Whole recorded sessions, call by call, through a real session: what each call kept of the one before it.

The traces are read where they lie; the texts of them are counted once, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import NamedTuple

from tests.window.test_traces import COUNTER, traces
from turnfold.budget import Budget
from turnfold.inspect import audit
from turnfold.memory import Memory, Session
from turnfold.records import Message
from turnfold.window import Context, check

__all__ = ("BUDGET", "COUNTER", "Kept", "Replay", "traces")

BUDGET = Budget(max_tokens=8_000)


class Kept(NamedTuple):
    """What a call kept of the prompt before it."""

    shared: int
    previous: int
    inside: bool
    """Whether both calls belong to one turn."""
    long: bool
    """Whether the whole trace is longer than the budget."""

    @property
    def share(self) -> float:
        return self.shared / self.previous


@dataclass
class Replay:
    """Replays traces, and remembers what was wrong and what was kept."""

    memory: Memory
    audits: int = 10
    """Every how many calls the whole log is audited; the last call always is."""
    explains: int = 10
    """Every how many calls a manifest is built again; 0: never."""
    watch: Callable[[Session], None] = lambda _: None
    calls: int = 0
    explained: int = 0
    faults: list[str] = field(default_factory=list[str])
    kept: list[Kept] = field(default_factory=list[Kept])

    def trace(self, name: str, log: Sequence[Message]) -> None:
        """One recorded session: a call before each answer of the model, and at the end."""
        session = self.memory.session(name[-500:])
        long = COUNTER.count(log).tokens > BUDGET.tokens
        asked, first = False, True
        for number, message in enumerate(log):
            if message.role == "assistant" and number:
                context = self._call(name, session)
                receipt = context.receipt
                if not first and receipt.previous:
                    self.kept.append(Kept(receipt.shared, receipt.previous, not asked, long))
                asked = first = False
            session.add(message, client_id=str(number))
            asked = asked or message.role == "user"
        self._note(name, audit(session, context=self._call(name, session)))
        self._explain(name, session)
        self.watch(session)
        self.memory.awaiting._handles._sessions.clear()  # a window per trace would be held otherwise

    def _call(self, name: str, session: Session) -> Context:
        context = session.context()
        self.calls += 1
        self._note(name, check(context))
        if self.calls % self.audits == 0:
            self._note(name, audit(session, context=context))
        return context

    def _explain(self, name: str, session: Session) -> None:
        after = ""
        while self.explains and (page := session.calls(after=after, limit=500)):
            after = page[-1].call
            for manifest in page[:: self.explains]:
                self.explained += 1
                if not session.explain(manifest.call).exact:
                    self.faults.append(f"{name}: call {manifest.call} is not explained exactly")

    def _note(self, name: str, found: Sequence[object]) -> None:
        self.faults += [f"{name}, call {self.calls}: {fault}" for fault in found]

    def share(self, *, inside: bool = False, long: bool = False) -> float:
        """The mean share of the prompt before that a call begins with."""
        rows = [
            each for each in self.kept if (each.inside or not inside) and (each.long or not long)
        ]
        return mean(each.share for each in rows)

    def weighted(self, *, inside: bool = False, long: bool = False) -> float:
        """The same, each call counting as much as the tokens it could have kept."""
        rows = [
            each for each in self.kept if (each.inside or not inside) and (each.long or not long)
        ]
        return sum(each.shared for each in rows) / sum(each.previous for each in rows)

    def __str__(self) -> str:
        shares = ", ".join(
            f"{'long ' if long else ''}{'inside turns' if inside else 'overall'} "
            f"{self.share(inside=inside, long=long):.4f} (by tokens {self.weighted(inside=inside, long=long):.4f})"
            for long in (False, True)
            for inside in (True, False)
        )
        return f"{self.calls:,} calls, {self.explained:,} explained, {len(self.faults)} faults; kept: {shares}"

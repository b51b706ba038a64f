"""What does a whole conversation take: every message appended, a window built wherever a call is due?

Processor time of all of it, and how often each character was tokenised. Contenders in memory hold the conversation in
their own messages; those in a file write each message before the window is built from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.hosts import Guests, Offered, PeerFailed
from bench.judge import Record
from bench.lanes.whole_run import Played, Tokenised
from bench.report import Report, Table, Target, duration

__all__ = ("QUESTION", "run")

QUESTION = "a whole conversation of 1,000 turns: processor time, and how often its text is tokenised (8,000 tokens)"
TURNS, QUICK_TURNS = 1_000, 200
BUDGET = 8_000
STEP = 50
PATIENCE, QUICK_PATIENCE = 10.0, 3.0
"""Processor seconds after which a conversation is left; how far it came is shown."""
MOST_TOKENISED = 1.1
_KINDS = {"windows": "in memory", "stored": "in a SQLite file"}


@dataclass(slots=True)
class _Outcome:
    offered: Offered
    processor: float = 0.0
    clock: float = 0.0
    turns: int = 0
    heard: Tokenised | None = None
    record: Record = field(default_factory=Record)
    failure: str = ""

    @property
    def share(self) -> float | None:
        """How often a character was tokenised."""
        return self.heard.tokenised / self.heard.said if self.heard else None


def run(guests: Guests, *, quick: bool) -> Report:
    """Everybody who builds windows, in memory and from a file."""
    turns, patience = (QUICK_TURNS, QUICK_PATIENCE) if quick else (TURNS, PATIENCE)
    report = Report("whole_run", QUESTION)
    for kind, where in _KINDS.items():
        outcomes = [
            _outcome(guests, each, turns, patience)
            for each in guests.offered(kind)
            if _takes_part(each)
        ]
        report.tables.append(_table(where, turns, outcomes, guests))
        report.targets += _targets(turns, outcomes)
        report.figures |= {f"{where}, {one.offered.name}": _figures(one) for one in outcomes}
    return report


def _takes_part(each: Offered) -> bool:
    """Variants that differ only in how far they cut do not, nor those that need a long history to begin with."""
    facts = each.facts
    return not facts.get("low_mark") and not facts.get("raw") and facts.get("whole", True)


def _outcome(guests: Guests, each: Offered, turns: int, patience: float) -> _Outcome:
    outcome = _Outcome(each)
    with TemporaryDirectory() as folder:
        try:
            lane = guests.lane(
                each, "whole_run", path=Path(folder) / "talk.db", turns=turns, budget=BUDGET
            )
            while outcome.turns < turns and outcome.processor < patience:
                played: Played = lane.ask("play", STEP)
                outcome.processor += played.processor
                outcome.clock += played.clock
                outcome.turns = played.turns
            outcome.record = lane.ask("record")
            outcome.heard = lane.ask("tokenised", outcome.turns)
            lane.close()
        except PeerFailed as failed:
            outcome.failure = str(failed)
    return outcome


def _table(where: str, turns: int, outcomes: Sequence[_Outcome], guests: Guests) -> Table:
    rows = [
        [
            one.offered.name,
            duration(one.processor) if one.turns else "-",
            duration(one.clock) if one.turns else "-",
            f"{one.turns:,}",
            "-" if one.share is None else f"{one.share:,.2f}x",
            f"failed: {one.failure[:80]}" if one.failure else one.record.shown(),
        ]
        for one in outcomes
    ]
    notes = [
        "tokenised: characters that reached a tokenizer over characters said, in another conversation of as many turns",
        f"turns: fewer than {turns:,} where they took too long; the time is that of the turns played",
        *guests.notes(),
    ]
    columns = ["a whole conversation", "processor", "clock", "turns", "tokenised", "windows"]
    return Table(f"{turns:,} turns, {where}", columns, rows, notes)


def _targets(turns: int, outcomes: Sequence[_Outcome]) -> Iterator[Target]:
    for one in outcomes:
        if one.offered.ours:
            name, share = one.offered.name, one.share
            shown = one.failure or ("-" if share is None else f"{share:.2f}x")
            met = share is not None and share <= MOST_TOKENISED
            yield Target(f"{name}: text tokenised at most {MOST_TOKENISED}x", shown, met)
            good = one.record.clean and one.turns == turns
            claim = f"{name}: {turns:,} turns, every window valid and within budget"
            yield Target(claim, one.failure or one.record.shown(), good)


def _figures(one: _Outcome) -> dict[str, object]:
    return {
        "processor": one.processor,
        "clock": one.clock,
        "turns": one.turns,
        "tokenised": one.share,
        "windows": one.record.windows,
        "broken": one.record.broken,
        "newest_missing": one.record.newest_missing,
        "over": one.record.over,
        "failure": one.failure or None,
    }

"""How much of the previous prompt does the next one begin with, when real traces are replayed call by call?

Providers charge a fraction for the part of a prompt that repeats the previous one from its beginning. A trace takes
part where it is longer than the budget (else nobody cuts anything) and its system prompt leaves a quarter of it free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from bench.hosts import Guests, Offered, PeerFailed
from bench.lanes.replay import Tally, chosen_traces
from bench.report import Report, Table, Target

__all__ = ("QUESTION", "run")

QUESTION = "kept prefix, valid windows and true size over replayed traces"
BUDGETS = (2_000, 8_000, 32_000)
TARGET_BUDGET = 8_000
_MEASURES = ("inside turns", "overall", "once full", "tokens sent", "not cached")
_FAULTS = ("windows", "broken pairs", "newest missing", "over budget", "refused")


def run(guests: Guests, *, quick: bool) -> Report:
    """Replay the traces for everybody, and for turnfold with other low marks."""
    sample = 40 if quick else 1_000
    report = Report("prefix", QUESTION)
    marks: list[list[str]] = []
    for budget in BUDGETS:
        tallies: dict[str, Tally] = {}
        failures: list[str] = []
        for each in guests.offered("windows"):
            if each.facts["replays"]:
                try:
                    tally = _replayed(guests, each, budget, sample)
                except PeerFailed as failed:
                    failures.append(f"failed: {each.name}: {failed}")
                    continue
                report.figures[f"{budget}, {each.name}"] = _figures(tally)
                if each.facts["low_mark"]:
                    marks.append([f"{budget:,}, low mark {each.facts['low_mark']}", *_cells(tally)])
                else:
                    tallies[each.name] = tally
        notes = [*failures, *guests.notes()]
        report.tables.append(_peers_table(budget, sample, tallies, notes))
        ours = [each.name for each in guests.offered("windows") if each.ours]
        report.targets += _targets(
            budget, {name: tallies[name] for name in ours if name in tallies}
        )
    report.tables.append(_marks_table(marks))
    return report


def _replayed(guests: Guests, each: Offered, budget: int, sample: int) -> Tally:
    lane = guests.lane(each, "replay", budget=budget, sample=sample)
    tally: Tally = lane.ask("replay")
    lane.close()
    return tally


def _cells(tally: Tally) -> list[str]:
    shares = (tally.kept_inside, tally.kept, tally.kept_full)
    return [
        *(f"{fmean(each):.3f}" if each else "-" for each in shares),
        f"{tally.prompt:,.0f}",
        f"{tally.fresh:,.0f}",
    ]


def _peers_table(
    budget: int, sample: int, tallies: dict[str, Tally], notes: Sequence[str]
) -> Table:
    chosen = chosen_traces(budget, sample)
    sources = Counter(trace.source for trace in chosen)
    rows = [
        [
            name,
            *_cells(tally),
            *map(str, (tally.record.windows, tally.record.broken, tally.record.newest_missing)),
            *map(str, (tally.record.over, tally.record.refused)),
        ]
        for name, tally in tallies.items()
    ]
    shown = ", ".join(f"{count} {source}" for source, count in sources.items()) or "none"
    return Table(
        f"{budget:,} tokens, {len(chosen)} traces",
        ["replayed", *_MEASURES, *_FAULTS],
        rows,
        [f"traces: {shown}; the means are over calls with a usable window", *notes],
    )


def _targets(budget: int, ours: dict[str, Tally]) -> Iterator[Target]:
    for name, tally in ours.items():
        claim = f"{name} at {budget:,}: every window valid and within budget"
        if tally.record.windows:
            yield Target(claim, tally.record.shown(), tally.record.clean)
        if budget == TARGET_BUDGET and tally.kept:
            for what, shares, wanted in (
                ("inside turns", tally.kept_inside, 0.97),
                ("overall", tally.kept, 0.95),
            ):
                found = fmean(shares) if shares else 0.0
                claim = f"{name} at {budget:,}: kept prefix {what} >= {wanted}"
                yield Target(claim, f"{found:.3f}", found >= wanted)


def _marks_table(rows: list[list[str]]) -> Table:
    columns = ["turnfold Transcript + assemble", *_MEASURES]
    notes = [
        "tokens are means per call; a low mark of 1.0 cuts no more than it must, on every call"
    ]
    return Table("How far a cut goes", columns, rows, notes)


def _figures(tally: Tally) -> dict[str, Any]:
    record = tally.record
    return {
        "kept_inside": fmean(tally.kept_inside) if tally.kept_inside else None,
        "kept": fmean(tally.kept) if tally.kept else None,
        "kept_once_full": fmean(tally.kept_full) if tally.kept_full else None,
        "tokens_sent": tally.prompt,
        "not_cached": tally.fresh,
        "windows": record.windows,
        "broken": record.broken,
        "newest_missing": record.newest_missing,
        "over": record.over,
        "refused": record.refused,
        "seconds": tally.seconds,
    }

"""How much of the previous prompt does the next one begin with, when conversations are replayed call by call?

Providers charge a fraction for the part of a prompt that repeats the previous one from its beginning. Invented
conversations of 1,500 messages are replayed, and recorded ones that are longer than the budget (else nobody cuts
anything) and whose system prompt leaves a quarter of it free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from bench.hosts import Guests, Offered
from bench.lanes.replay import Choice, Tally, chosen_traces
from bench.replays import everybody, sample_size
from bench.report import Plot, Report, Table, Target

__all__ = ("QUESTION", "run")

QUESTION = "kept prefix, valid windows and true size over replayed conversations"
BUDGETS = (2_000, 8_000, 32_000)
TARGET_BUDGET = 8_000
_MEASURES = ("inside turns", "overall", "once full", "tokens sent", "not cached")
_FAULTS = ("windows", "broken pairs", "newest missing", "over budget", "refused")


def run(guests: Guests, *, quick: bool) -> Report:
    """Replay for everybody, and for turnfold with other low marks."""
    sample = sample_size(quick=quick)
    report = Report("prefix", QUESTION)
    replays = [(budget, Choice(budget, sample)) for budget in BUDGETS]
    replays += [(TARGET_BUDGET, Choice(0, 0, seeded_zh=zh)) for zh in (0.3, 0.0, 1.0)]
    marks: list[list[str]] = []
    for budget, choice in replays:
        tallies, notes = everybody(guests, budget, choice)
        what = "recorded" if choice.seeded_zh is None else f"seeded, {choice.seeded_zh:.0%} Chinese"
        report.tables.append(_peers_table(f"{budget:,} tokens, {what}", choice, tallies, notes))
        report.targets += _targets(budget, what, tallies)
        if choice.seeded_zh == 0.3:
            report.plots.append(_plot(f"{budget:,} tokens, {what}", tallies))
        report.figures[f"{budget}, {what}"] = {
            each.name: _figures(tally) for each, tally in tallies.items()
        }
        marked, _ = everybody(guests, budget, choice, low_marks=True)
        marks += [
            [f"{budget:,}, {what}, low mark {each.facts['low_mark']}", *_cells(tally)]
            for each, tally in marked.items()
        ]
    report.tables.append(_marks_table(marks))
    return report


def _plot(title: str, tallies: Mapping[Offered, Tally]) -> Plot:
    return Plot(
        name="prefix",
        title=f"Prompt tokens that no cache knows, per call, {title}",
        series={each.name: {0: tally.fresh} for each, tally in tallies.items()},
        x="tokens per call",
        bars=True,
    )


def _cells(tally: Tally) -> list[str]:
    shares = (tally.kept_inside, tally.kept, tally.kept_full)
    return [
        *(f"{fmean(each):.3f}" if each else "-" for each in shares),
        f"{tally.prompt:,.0f}",
        f"{tally.fresh:,.0f}",
    ]


def _peers_table(
    title: str, choice: Choice, tallies: Mapping[Offered, Tally], notes: Sequence[str]
) -> Table:
    chosen = chosen_traces(choice)
    sources = Counter(trace.source for trace in chosen)
    rows = [
        [
            each.name,
            *_cells(tally),
            *map(str, (tally.record.windows, tally.record.broken, tally.record.newest_missing)),
            *map(str, (tally.record.over, tally.record.refused)),
        ]
        for each, tally in tallies.items()
    ]
    shown = ", ".join(f"{count} {source}" for source, count in sources.items()) or "none"
    return Table(
        f"{title}, {len(chosen)} traces",
        ["replayed", *_MEASURES, *_FAULTS],
        rows,
        [f"traces: {shown}; the means are over calls with a usable window", *notes],
    )


def _targets(budget: int, what: str, tallies: Mapping[Offered, Tally]) -> Iterator[Target]:
    for each, tally in tallies.items():
        if not each.ours or not tally.record.windows:
            continue
        claim = f"{each.name} at {budget:,}, {what}: every window valid and within budget"
        yield Target(claim, tally.record.shown(), tally.record.clean)
        if budget == TARGET_BUDGET:
            for where, shares, wanted in (
                ("inside turns", tally.kept_inside, 0.97),
                ("overall", tally.kept, 0.95),
            ):
                found = fmean(shares) if shares else 0.0
                claim = f"{each.name} at {budget:,}, {what}: kept prefix {where} >= {wanted}"
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

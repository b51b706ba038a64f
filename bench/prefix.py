"""How much of the previous prompt does the next one begin with, when real traces are replayed call by call?

Providers charge a fraction for the part of a prompt that repeats the previous one from its beginning. A trace takes
part where it is longer than the budget (else nobody cuts anything) and its system prompt leaves a quarter of it free.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from bench.contender import Contender, Item, Session
from bench.judge import Record, call_due, item_tokens, tokens_of
from bench.peers import contenders
from bench.peers.turnfold_itself import as_items, as_turnfold, marked_session
from bench.report import Report, Table, Target
from bench.workload import Trace, traces

__all__ = ("QUESTION", "run")

QUESTION = "kept prefix, valid windows and true size over replayed traces"
BUDGETS = (2_000, 8_000, 32_000)
LOW_MARKS = (0.25, 0.5, 0.75, 1.0)
_MEASURES = ("kept prefix", "once full", "tokens sent", "not cached")


@dataclass(slots=True)
class _Tally:
    """What the calls of one contender at one budget sent."""

    record: Record = field(default_factory=Record)
    kept: list[float] = field(default_factory=list[float])
    kept_full: list[float] = field(default_factory=list[float])
    """The same for calls whose whole conversation no longer fits: before that nobody cuts."""
    sent: list[int] = field(default_factory=list[int])
    uncached: list[int] = field(default_factory=list[int])
    seconds: float = 0.0

    def take(self, window: list[Item], before: Sequence[Item] | None, *, full: bool) -> list[Item]:
        """Compare a window with the usable one just before it, if there is one, and give it back."""
        tokens = tokens_of(window)
        self.sent.append(tokens)
        if before:
            shared = _shared(before, window)
            self.uncached.append(tokens - shared)
            self.kept.append(shared / sum(map(item_tokens, before)))
            self.kept_full += self.kept[-1:] if full else []
        return window

    def cells(self) -> list[str]:
        """Prefix, prefix once full, tokens sent, tokens not cached."""
        return [
            *(f"{fmean(shares):.3f}" if shares else "-" for shares in (self.kept, self.kept_full)),
            *(f"{fmean(tokens):,.0f}" if tokens else "-" for tokens in (self.sent, self.uncached)),
        ]


def run(*, quick: bool) -> Report:
    """Replay the traces for everybody, and for turnfold with other low marks."""
    found = traces(sample=40 if quick else 1_000)
    report = Report("prefix", QUESTION)
    for budget in BUDGETS:
        chosen = [trace for trace in found if _takes_part(trace.items, budget)]
        tallies = {each.name: _Tally() for each in contenders() if each.replays}
        for each in contenders():
            if each.replays:
                for trace in chosen:
                    _replay(each, trace.items, budget, tallies[each.name])
        report.tables.append(_peers_table(budget, chosen, tallies))
        report.targets += _targets(budget, tallies)
        report.figures[f"{budget}"] = {name: _figures(each) for name, each in tallies.items()}
    report.tables.append(_marks_table(found, report))
    return report


def _takes_part(items: Sequence[Item], budget: int) -> bool:
    system = sum(item_tokens(item) for item in items if item.role == "system")
    return tokens_of(items) > budget and system <= budget * 3 // 4


def _replay(each: Contender, items: Sequence[Item], budget: int, tally: _Tally) -> None:
    begin = time.perf_counter()
    messages = each.convert(items)
    merged = len(items) - len(messages)
    session = each.open(messages[:0], budget)
    before: list[Item] | None = None
    tokens = sum(map(item_tokens, items[:merged]))
    for number, message in enumerate(messages, start=merged):
        session.add(message)
        tokens += item_tokens(items[number])
        if number + 1 < len(items) and call_due(items[: number + 1]):
            window = _window(each, session, tally)
            if window is not None:
                good = tally.record.judge(window, newest=items[number], budget=budget)
                window = tally.take(window, before, full=tokens > budget) if good else None
            before = window
    tally.seconds += time.perf_counter() - begin


def _window(each: Contender, session: Session, tally: _Tally) -> list[Item] | None:
    """The window as items; a refusal is noted, and is no window."""
    try:
        return each.read(session.window())
    except Exception:
        tally.record.windows += 1
        tally.record.refused += 1
        return None


def _shared(before: Sequence[Item], window: Sequence[Item]) -> int:
    tokens = 0
    for ours, theirs in zip(window, before, strict=False):
        if ours != theirs:
            break
        tokens += item_tokens(ours)
    return tokens


def _peers_table(budget: int, chosen: Sequence[Trace], tallies: dict[str, _Tally]) -> Table:
    sources: dict[str, int] = {}
    for trace in chosen:
        sources[trace.source] = sources.get(trace.source, 0) + 1
    rows = [
        [
            name,
            *tally.cells(),
            *(str(count) for count in (tally.record.windows, tally.record.broken)),
            *(str(count) for count in (tally.record.newest_missing, tally.record.over)),
            str(tally.record.refused),
        ]
        for name, tally in tallies.items()
    ]
    return Table(
        f"{budget:,} tokens, {len(chosen)} traces",
        [
            "replayed",
            *_MEASURES,
            "windows",
            "broken pairs",
            "newest missing",
            "over budget",
            "refused",
        ],
        rows,
        [
            f"traces: {', '.join(f'{count} {source}' for source, count in sources.items()) or 'none'}"
        ],
    )


def _targets(budget: int, tallies: dict[str, _Tally]) -> Iterator[Target]:
    for each in contenders():
        if each.ours and each.replays and tallies[each.name].record.windows:
            record = tallies[each.name].record
            claim = f"{each.name} at {budget:,}: every window valid and within budget"
            yield Target(claim, record.shown(), record.clean)


def _marks_table(found: Sequence[Trace], report: Report) -> Table:
    rows: list[list[str]] = []
    for budget in BUDGETS:
        chosen = [trace for trace in found if _takes_part(trace.items, budget)]
        for low in LOW_MARKS:
            tally = _Tally()
            each = _marked(low)
            for trace in chosen:
                _replay(each, trace.items, budget, tally)
            rows.append([f"{budget:,}, low mark {low}", *tally.cells()])
            report.figures[f"{budget}, low mark {low}"] = _figures(tally)
    columns = ["turnfold Transcript + assemble", *_MEASURES]
    notes = [
        "tokens are means per call; a low mark of 1.0 cuts no more than it must, on every call"
    ]
    return Table("How far a cut goes", columns, rows, notes)


def _marked(low: float) -> Contender:
    return Contender(
        name=f"low mark {low}",
        package="turnfold",
        convert=as_turnfold,
        open=lambda _, budget: marked_session(budget, low),
        read=as_items,
        ours=True,
    )


def _figures(tally: _Tally) -> dict[str, Any]:
    record = tally.record
    return {
        "kept_prefix": fmean(tally.kept) if tally.kept else None,
        "kept_prefix_once_full": fmean(tally.kept_full) if tally.kept_full else None,
        "tokens_sent": fmean(tally.sent) if tally.sent else None,
        "not_cached": fmean(tally.uncached) if tally.uncached else None,
        "windows": record.windows,
        "broken": record.broken,
        "newest_missing": record.newest_missing,
        "over": record.over,
        "refused": record.refused,
        "seconds": tally.seconds,
    }

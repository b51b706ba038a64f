"""How many bytes does a held message cost beyond its text?

The strings exist before the scales are switched on, and so do parsed arguments and a loaded tokenizer: only the objects
made to hold them are weighed.
"""

from __future__ import annotations

from bench.hosts import Guests, PeerFailed
from bench.report import Report, Table, Target
from bench.workload import transcript

__all__ = ("QUESTION", "run")

QUESTION = "bytes per message held, beyond its text"
MESSAGES = 10_000
MEASURE = "LangChain message"


def run(guests: Guests, *, quick: bool) -> Report:
    """Weigh every way to hold the same messages."""
    messages = MESSAGES // 5 if quick else MESSAGES
    weights: dict[str, float] = {}
    notes = guests.notes()
    for each in guests.offered("held"):
        try:
            weights[each.name] = guests.lane(each, "held", messages=messages).ask("weigh")
        except PeerFailed as failed:
            notes.append(f"failed: {each.name}: {failed}")
    items = transcript(messages, seed=3)
    tools = sum(bool(item.calls or item.answers) for item in items) / len(items)
    peer = weights.get(MEASURE)
    rows = [
        [name, f"{weight:,.0f}", f"{weight / peer:.2f}" if peer else "-"]
        for name, weight in weights.items()
    ]
    title = f"{len(items):,} messages, {tools:.0%} of them tool calls and results"
    report = Report("memory", QUESTION, figures=dict(weights))
    report.tables.append(
        Table(title, ["held as", "bytes per message", "of LangChain's"], rows, notes)
    )
    for each in guests.offered("held"):
        if each.ours and peer and each.name in weights:
            shown = f"{weights[each.name]:,.0f} of {peer:,.0f} bytes"
            claim = f"{each.name}: at most half of LangChain's"
            report.targets.append(Target(claim, shown, weights[each.name] <= peer / 2))
    return report

"""How many bytes does a graph's history take on disk, per byte that was said, and how does that grow?

LangGraph's agents keep a checkpoint per step. A graph that answers once per turn is run with each saver; what is
divided is the size of the files it leaves, closed, by the UTF-8 bytes of the messages.
"""

from __future__ import annotations

from bench.hosts import Guests, PeerFailed
from bench.report import Plot, Report, Table
from bench.stores_turns import scratch
from bench.timing import growth

__all__ = ("QUESTION", "run")

QUESTION = "bytes on disk of LangGraph's checkpoints, per byte said"


def run(guests: Guests, *, quick: bool) -> Report:
    """Hold the same conversations with every saver."""
    turns = (30, 100) if quick else (30, 100, 300)
    report = Report("checkpoints", QUESTION)
    rows: list[list[str]] = []
    notes = guests.notes()
    ratios: dict[str, dict[int, float]] = {}
    with scratch() as folder:
        for number, each in enumerate(guests.offered("checkpointed")):
            try:
                lane = guests.lane(each, "checkpointed", folder=folder / str(number))
                held = {many: lane.ask("hold", many) for many in turns}
                lane.close()
            except PeerFailed as failed:
                notes.append(f"failed: {each.name}: {failed}")
                continue
            ratios[each.name] = {many: disk / said for many, (said, disk, _) in held.items()}
            exponent = growth({many: disk for many, (_, disk, _) in held.items()}, start=1)
            cells = [f"{ratios[each.name][many]:,.1f}" for many in turns]
            rows.append([each.name, *cells, f"{exponent:+.2f}", f"{held[turns[-1]][2]:.1f} s"])
            notes += [f"{each.name}: {each.facts['note']}"] if each.facts["note"] else []
    columns = [
        "saver",
        *(f"{many} turns" for many in turns),
        "exponent",
        f"time, {turns[-1]} turns",
    ]
    notes += ["exponent: slope of log(bytes) over log(turns); 1 is linear, 2 quadratic"]
    report.tables.append(Table("Bytes on disk for each byte said", columns, rows, notes))
    report.figures = {
        name: {str(many): ratio for many, ratio in each.items()} for name, each in ratios.items()
    }
    report.plots.append(
        Plot(
            name="checkpoints",
            title="Checkpoints of a graph: bytes on disk for each byte said",
            series=ratios,
            x="turns",
            y="bytes per byte said",
        )
    )
    return report

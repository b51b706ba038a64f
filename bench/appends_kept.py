"""The parts of the benchmark of durable appends that are not about time: repetitions, kills, and bytes on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.appends_runs import opened
from bench.hosts import Guests, Offered, PeerFailed
from bench.lanes.appended import Found, Weight
from bench.report import Report, Table, Target, duration

__all__ = ("killed", "retried", "weighed")

WRITERS = 8
REPEATED = 10
"""Turns of each writer that are stored twice."""
TOLD = 120
"""Turns that are told to be stored before the process is killed."""
PATIENCE = 120.0


def retried(report: Report, guests: Guests, everybody: Sequence[Offered], folder: Path) -> None:
    """Every turn stored again under the same name, as after an answer that was lost."""
    rows: list[list[str]] = []
    for run in opened(guests, everybody, folder, "twice", writers=WRITERS):
        found: list[Found] = []
        run.attempt(lambda lane, found=found: found.append(lane.ask("twice", REPEATED)))
        run.attempt(lambda lane: lane.close())
        if not found:
            rows.append([run.name, f"failed: {run.failure[:80]}", "", ""])
            continue
        [one] = found
        rows.append([run.name, str(one.told), str(one.twice), str(one.missing)])
        report.figures[f"repeated, {run.name}"] = one._asdict()
        if run.offered.ours:
            claim = f"{run.name}, every turn sent twice: no message there twice, none missing"
            met = not (one.twice or one.missing)
            measured = f"{one.twice} twice, {one.missing} missing"
            report.targets.append(Target(claim, measured, met))
    columns = ["every turn sent twice", "turns", "messages there twice", "turns missing"]
    notes = [f"{WRITERS} writers with a conversation each; the second sending follows the first"]
    report.tables.append(Table("Repetitions", columns, rows, notes))


def killed(
    report: Report, guests: Guests, everybody: Sequence[Offered], folder: Path, *, kills: int
) -> None:
    """The process killed while it writes; what it had been told is looked for by another one."""
    rows: list[list[str]] = []
    for number, each in enumerate(everybody):
        try:
            path = folder / f"killed-{number}.db"
            found = [_kill(guests, each, path, f"k{kill}") for kill in range(kills)]
        except PeerFailed as failed:
            rows.append([each.name, f"failed: {str(failed)[:80]}", "", "", ""])
            continue
        total = [sum(figures) for figures in zip(*(one[:4] for one in found), strict=True)]
        damage = "; ".join(one.damage for one in found if one.damage) or "none"
        told, missing, _, halves = total
        rows.append([each.name, str(told), str(missing), str(halves), damage[:60]])
        report.figures[f"killed, {each.name}"] = [one._asdict() for one in found]
        if each.ours:
            claim = f"{each.name}, killed {kills} times while writing: nothing told is missing"
            measured = f"{missing} of {told} missing, {halves} halves, damage: {damage}"
            met = not (missing or halves) and damage == "none"
            report.targets.append(Target(claim, measured, met))
    columns = [f"killed {kills}x", "turns told", "of them missing", "halves of turns", "damage"]
    notes = [
        f"kill -9 while {WRITERS} writers write; a turn counts once its writer wrote its name into a file beside",
        "the machine goes on, so what was handed to the system is kept: a power cut is told by the settings above",
    ]
    report.tables.append(Table("Kills", columns, rows, notes))


def _kill(guests: Guests, offered: Offered, path: Path, label: str) -> Found:
    side = path.with_suffix(f".{label}")
    side.touch()
    lane = guests.lane(offered, "appended", path=path, writers=WRITERS, label=label)
    lane.begin("load", side)
    give_up = time.monotonic() + PATIENCE
    while side.read_bytes().count(b"\n") < TOLD:
        if time.monotonic() > give_up:
            guests.restart(offered.peer)
            raise PeerFailed(f"not {TOLD} turns within {PATIENCE:.0f} s")
        time.sleep(0.02)
    guests.restart(offered.peer)
    after = guests.lane(offered, "appended", path=path, writers=WRITERS, label=label)
    found: Found = after.ask("survived", side)
    after.close()
    return found


def weighed(
    report: Report,
    guests: Guests,
    everybody: Sequence[Offered],
    folder: Path,
    *,
    sizes: Sequence[int],
) -> None:
    """Bytes on disk over bytes of the messages, which came one turn at a time."""
    rows: list[list[str]] = []
    for number, each in enumerate(everybody):
        cells: list[str] = []
        for size in sizes:
            if size > each.facts["largest"]:
                cells += ["not tried", ""]
                continue
            try:
                weight = _weight(guests, each, folder / f"bytes-{number}-{size}.db", size)
            except PeerFailed as failed:
                cells += [f"failed: {str(failed)[:60]}", ""]
                continue
            share = weight.held / weight.payload
            cells += [f"{weight.held:,} ({share:.2f}x)", duration(weight.seconds)]
            report.figures[f"bytes, {size}, {each.name}"] = weight._asdict()
            if each.ours:
                claim = f"{each.name}, {size:,} messages: <= 2x the payload on disk"
                report.targets.append(Target(claim, f"{share:.2f}x", share <= 2))
        rows.append([each.name, *cells])
    heads = [head for size in sizes for head in (f"bytes after {size:,} messages", "time")]
    notes = [
        "in brackets: times the payload, which is role and text of the messages as JSON",
        "not tried: it stores or reads the whole conversation with every turn, and would take an hour",
    ]
    report.tables.append(Table("Bytes on disk", ["one conversation", *heads], rows, notes))


def _weight(guests: Guests, offered: Offered, path: Path, size: int) -> Weight:
    lane = guests.lane(offered, "appended", path=path)
    weight: Weight = lane.ask("weigh", size)
    lane.close()
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    return weight

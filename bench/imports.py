"""What does an import cost a program that starts, and what does it load besides turnfold?"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from statistics import median
from time import perf_counter

from bench.hosts import Guests
from bench.report import Report, Table, Target, duration

__all__ = ("QUESTION", "run")

QUESTION = "time of an import in a fresh interpreter, beyond the bare interpreter"
LIMIT = 0.150
_BARE = "pass"
_LOADED = """
import sys
before = set(sys.modules)
{statement}
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(name for name in loaded - set(sys.stdlib_module_names) if not name.startswith("_")))
"""


def run(guests: Guests, *, quick: bool) -> Report:
    """Start interpreters, taking turns."""
    pythons = dict(guests.imports())
    statements = list(pythons)
    works = [(_BARE, python) for python in dict.fromkeys(pythons.values())]
    wall, processor = _take_turns([*works, *pythons.items()], rounds=3 if quick else 15)
    bare = {text: (_BARE, python) for text, python in pythons.items()}
    costs = {text: _beyond(wall[text, pythons[text]], wall[bare[text]]) for text in statements}
    work = {
        text: _beyond(processor[text, pythons[text]], processor[bare[text]]) for text in statements
    }
    packages = {
        text: _start(_LOADED.format(statement=text), python).split()
        for text, python in pythons.items()
    }
    cost = costs["import turnfold"]
    rows = [
        [f"`{text}`", duration(costs[text]), duration(work[text]), _named(packages[text])]
        for text in statements
    ]
    return Report(
        "imports",
        QUESTION,
        tables=[
            Table(
                f"Fresh interpreters (the bare one takes {duration(median(wall[works[0]]))})",
                ["statement", "time", "processor time", "packages loaded"],
                rows,
                [
                    "median over rounds of the difference to the bare interpreter of the same environment"
                ],
            )
        ],
        targets=[
            Target(f"import turnfold: below {LIMIT * 1e3:.0f} ms", duration(cost), met=cost < LIMIT)
        ],
        figures={
            text: {"seconds": costs[text], "processor": work[text], "packages": packages[text]}
            for text in statements
        },
    )


Works = dict[tuple[str, str], list[float]]
"""Samples of a statement in an interpreter."""


def _take_turns(works: Sequence[tuple[str, str]], *, rounds: int) -> tuple[Works, Works]:
    """Seconds by the clock and of the processor, for every statement, a sample a round."""
    wall: Works = {each: [] for each in works}
    processor: Works = {each: [] for each in works}
    for number in range(rounds + 1):
        for each in works:
            begin, worked = perf_counter(), _processor_time()
            _start(*each)
            if number:  # the first round writes and warms caches
                wall[each].append(perf_counter() - begin)
                processor[each].append(_processor_time() - worked)
    return wall, processor


def _processor_time() -> float:
    """What finished child processes have used."""
    used = os.times()
    return used.children_user + used.children_system


def _start(statement: str, python: str) -> str:
    finished = subprocess.run(  # noqa: S603 (statements written in the files of this folder)
        [python, "-c", statement], capture_output=True, check=True, encoding="utf-8"
    )
    return finished.stdout


def _beyond(samples: Sequence[float], bare: Sequence[float]) -> float:
    return max(median(ours - theirs for ours, theirs in zip(samples, bare, strict=True)), 0.0)


def _named(packages: list[str]) -> str:
    others = [name for name in packages if name != "turnfold"]
    if len(others) > 5:
        return f"{', '.join(others[:4])} and {len(others) - 4} more"
    return ", ".join(others) or "none"

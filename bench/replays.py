"""Replayed conversations, each contender and budget once per run: what is sent does not depend on when it is asked for.

No time is measured here, so two peers replay at once. Who is slow replays what it can within its patience, and the
tables say so.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence

from bench.hosts import Guests, Lane, Offered, PeerFailed
from bench.lanes.replay import Choice, Tally

__all__ = ("everybody", "replayed", "sample_size")

PATIENCE = 20.0
"""Seconds of the processor a peer may take for one set of conversations."""
OURS = 600.0
"""The same for turnfold, whose every window is to be judged."""
_known: dict[tuple[str, int, Choice], Tally | str] = {}


def sample_size(*, quick: bool) -> int:
    """Recorded traces of each source, at most."""
    return 40 if quick else 1_000


def replayed(guests: Guests, each: Offered, budget: int, choice: Choice) -> Tally:
    """What the calls of a contender sent at a budget."""
    key = (each.name, budget, choice)
    if key not in _known:
        _replay_all(guests, [each], budget, choice)
    found = _known[key]
    if isinstance(found, str):
        raise PeerFailed(found)
    return found


def everybody(
    guests: Guests, budget: int, choice: Choice, *, low_marks: bool = False
) -> tuple[dict[Offered, Tally], list[str]]:
    """Everybody who replays, or turnfold with other low marks; and the failures in the peers' words."""
    wanted = [
        each
        for each in guests.offered("windows")
        if each.facts["replays"] and bool(each.facts["low_mark"]) == low_marks
    ]
    missing = [each for each in wanted if (each.name, budget, choice) not in _known]
    _replay_all(guests, missing, budget, choice)
    tallies: dict[Offered, Tally] = {}
    notes: list[str] = []
    for each in wanted:
        try:
            tally = tallies[each] = replayed(guests, each, budget, choice)
        except PeerFailed as failed:
            notes.append(f"failed: {each.name}: {failed}")
            continue
        if tally.replayed < tally.traces:
            shown = f"{tally.replayed} of {tally.traces} conversations in {tally.seconds:.0f} s"
            notes.append(f"{each.name}: {shown}, the rest was not waited for")
    return tallies, [*notes, *guests.notes()]


def _replay_all(guests: Guests, wanted: Sequence[Offered], budget: int, choice: Choice) -> None:
    """As many at once as there are processors, one at a time of each peer."""
    waiting = deque(wanted)
    running: list[Lane] = []
    while waiting or running:
        busy = {lane.offered.peer for lane in running}
        free = next((each for each in waiting if each.peer not in busy), None)
        if free is not None and len(running) < (os.cpu_count() or 1):
            waiting.remove(free)
            try:
                lane = guests.lane(free, "replay", budget=budget, choice=choice)
                lane.begin("replay", OURS if free.ours else PATIENCE)
                running.append(lane)
            except PeerFailed as failed:
                _known[free.name, budget, choice] = str(failed)
            continue
        lane = running.pop(0)
        key = (lane.offered.name, budget, choice)
        try:
            _known[key] = lane.end()
            lane.close()
        except PeerFailed as failed:
            _known[key] = str(failed)

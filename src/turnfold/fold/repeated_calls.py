"""Merges repeated identical tool calls, so that a summary tells them on one line with their number and last result."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from turnfold._lazy_loading import late_pattern
from turnfold.fold.summary_input import (
    Passage,
    brief_call,
    is_call,
    is_tool,
    prefix_of,
    starts_with_label,
)
from turnfold.text import single_line

__all__ = ("merge_repeated_calls",)


_FEWEST = 3
"""Least identical calls that are merged: two often frame a change, such as tests before and after it."""
_COUNTED = late_pattern(r" ×(\d{1,9})\Z")


def merge_repeated_calls(
    passages: Sequence[Passage], previous: str, *, chinese: bool
) -> tuple[list[Passage], str]:
    """Return the passages and the previous summary with one call, `assistant calls look ×80`, for identical ones.

    Of their results only the last stays. Calls that the previous summary has a line for are counted on, without it.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for at, passage in enumerate(passages):
        if is_call(passage.speaker):
            places.setdefault((passage.speaker, passage.text), []).append(at)
    if not places:
        return list(passages), previous
    lines = previous.split("\n")
    told = _told_calls(lines)
    results = _results(passages)
    dropped: set[int] = set()
    merged: dict[int, Passage] = {}
    for (speaker, text), at in places.items():
        call = passages[at[-1]]
        label = prefix_of(speaker, chinese=chinese).rstrip(" :：")
        bodies = {single_line(text), single_line(brief_call(call).text)}
        before = [pair for body in sorted(bodies) for pair in told.get((label, body), ())]
        count = len(at) + sum(number for _, number in before)
        if count < _FEWEST:
            continue
        for line, _ in before:
            lines[line] = ""
        dropped.update(at[:-1], (results[each] for each in at[:-1] if each in results))
        merged[at[-1]] = replace(call, speaker=f"{speaker} ×{count}")
    kept = [merged.get(at, each) for at, each in enumerate(passages) if at not in dropped]
    return kept, "\n".join(line for line in lines if line)


def _told_calls(lines: Sequence[str]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return {speaker and arguments: index and number of calls} of the lines of a summary that tell of tool calls."""
    told: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for at, line in enumerate(lines):
        prefix = starts_with_label(line)
        label = prefix.rstrip(" :：")
        if is_call(label):
            counted = _COUNTED.search(label)
            name = label[: counted.start()] if counted else label
            number = int(counted[1]) if counted else 1
            told.setdefault((name, line[len(prefix) :]), []).append((at, number))
    return told


def _results(passages: Sequence[Passage]) -> dict[int, int]:
    """Return {index of a call: index of its result}; parallel calls of one tool are answered in their order."""
    results: dict[int, int] = {}
    waiting: dict[str, deque[int]] = {}
    for at, passage in enumerate(passages):
        if is_call(passage.speaker):
            waiting.setdefault(passage.speaker.rpartition(" calls ")[2], deque()).append(at)
        elif is_tool(passage.speaker):
            calls = waiting.get(passage.speaker.partition(":")[2])
            if calls:
                results[calls.popleft()] = at
    return results

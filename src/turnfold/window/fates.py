"""What became of everything that is not sent as it was logged."""

from __future__ import annotations

from collections.abc import Iterator

from turnfold.records import Misplaced
from turnfold.window.context import Fate, Outcome
from turnfold.window.transcript import Transcript
from turnfold.window.view import SpanView

__all__ = ("list_fates",)

_REASONS = {
    Misplaced.LATE: "its call stands earlier: sent there, where the provider wants it",
    Misplaced.ORPHAN: "tool result without a call: the provider would refuse it",
    Misplaced.DUPLICATE: "second result for a call already answered: the provider would refuse it",
    Misplaced.EMPTY: "it says nothing: the provider would refuse it",
}


def list_fates(view: SpanView, *, start: int, head: int, reason: str) -> tuple[Fate, ...]:
    """The fates of a window that begins with span `start`, in log order."""
    transcript = view.transcript
    first = transcript.position_of(start)
    fates = [*_before(view, first, head, reason), *_unanswered(transcript, start)]
    misplaced = list(_misplaced(transcript, start))
    fates += misplaced
    if view.caps:
        settled = {fate.start for fate in misplaced if fate.outcome is not Outcome.MOVED}
        fates += [fate for fate in _shrunk(view, first, head) if fate.start not in settled]
    return tuple(sorted(fates))


def _before(view: SpanView, first: int, head: int, reason: str) -> Iterator[Fate]:
    covered = view.transcript.position_of(view.covered) if view.summary else 0
    why = reason or "before the anchor"
    for start, stop, outcome in (
        (0, min(covered, first), Outcome.FOLDED),
        (covered, first, Outcome.DROPPED),
    ):
        if start <= head < stop:
            yield from (
                Fate(left, right, outcome, why)
                for left, right in ((start, head), (head + 1, stop))
                if left < right
            )
        elif start < stop:
            yield Fate(start, stop, outcome, why)


def _misplaced(transcript: Transcript, start: int) -> Iterator[Fate]:
    """One message may bring several results: each has its reason, the message as a whole one outcome."""
    first = transcript.position_of(start)
    for position, why in reversed(transcript.misplaced.items()):
        if position < first:
            return
        homes = transcript.homes_of(position)
        moved = any(home >= start for home in homes)
        reasons = [_REASONS[Misplaced.LATE]] if moved else []
        if any(home < start for home in homes):
            reasons.append("its call is before the anchor")
        if why is not Misplaced.LATE:
            reasons.append(_REASONS[why])
        left = Outcome.SHRUNK if position in transcript.partly_here else Outcome.DROPPED
        outcome = Outcome.MOVED if moved else left
        yield Fate(position, position + 1, outcome, "; ".join(reasons))


def _unanswered(transcript: Transcript, start: int) -> Iterator[Fate]:
    for span, calls in reversed(transcript.grouper.unanswered.items()):
        if span < start:
            return
        position = transcript.position_of(span)
        for call in calls:
            yield Fate(
                position,
                position + 1,
                Outcome.ADDED,
                f"no result for call {call.id!r} of {call.name!r} in the log",
            )


def _shrunk(view: SpanView, first: int, head: int) -> Iterator[Fate]:
    for position, cap in view.caps.items():
        if (position >= first or position == head) and view.shortens(position):
            was = view.transcript.costs[position]
            yield Fate(
                position,
                position + 1,
                Outcome.SHRUNK,
                f"{was:,} tokens: no part above {cap:,} fits the budget",
            )

"""One contender: traces replayed call by call, each window judged and compared with the one before.

Providers charge a fraction for the part of a prompt that repeats the previous one from its beginning. A trace takes
part where it is longer than the budget (else nobody cuts anything) and its system prompt leaves a quarter of it free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from statistics import fmean
from time import process_time
from typing import NamedTuple

from bench.contender import Contender, Item, Session
from bench.judge import Record, call_due, item_tokens, tokens_of
from bench.workload import Trace, seeded_traces, traces

__all__ = ("Choice", "FoldSent", "Lane", "Sent", "Tally", "chosen_traces")


class Choice(NamedTuple):
    """Which traces are replayed."""

    budget: int
    """Recorded ones longer than this."""
    sample: int
    """At most so many of each source."""
    seeded_zh: float | None = None
    """Instead: invented ones with this share of Chinese."""


class FoldSent(NamedTuple):
    """One request for a summary: as a prompt of its own, and on the cached prompt of the call before. Tokens."""

    fresh: int
    """Of a prompt of its own."""
    answer: int
    prefix: int = 0
    """Of the request that goes on from the call before; 0 where that does not show what is folded."""
    shared: int = 0
    """Of the prefix: what the call before sent too."""
    marked: int = 0
    """The same for providers that cache up to marks, of which the call before set one there."""
    marked_shared: int = 0


class Sent(NamedTuple):
    """One call: what was sent, how much of it repeats the call before, and what was answered. Tokens."""

    trace: int
    prompt: int
    system: int
    """Of the prompt: the system message it begins with."""
    repeated: int
    answer: int
    usable: bool
    """False where no provider would take it or it misses what is to be answered."""
    inside: bool
    """Whether it goes on with the turn of the call before."""
    folds: tuple[FoldSent, ...] = ()
    """Requests to a model that would write the summaries it shows for the first time."""
    marks: tuple[int, ...] = ()
    """Up to each cache mark, where the contender sets its own."""


@dataclass(slots=True)
class Tally:
    """What the calls of one contender at one budget sent."""

    record: Record = field(default_factory=Record)
    kept: list[float] = field(default_factory=list[float])
    """Share of the previous prompt that the next one begins with, where both were usable."""
    kept_inside: list[float] = field(default_factory=list[float])
    """The same for calls inside a turn."""
    kept_full: list[float] = field(default_factory=list[float])
    """The same for calls whose whole conversation no longer fits: before that nobody cuts."""
    calls: list[Sent] = field(default_factory=list[Sent])
    seconds: float = 0.0
    traces: int = 0
    replayed: int = 0
    """Of the traces, the last one perhaps in part: who is slow is not waited for."""

    @property
    def prompt(self) -> float:
        """Mean tokens of a usable prompt."""
        return fmean([call.prompt for call in self.calls if call.usable] or [0])

    @property
    def fresh(self) -> float:
        """Mean tokens of a usable prompt that do not repeat the one before; first calls are all fresh."""
        return fmean([call.prompt - call.repeated for call in self.calls if call.usable] or [0])


class Lane:
    """One contender at one budget."""

    def __init__(self, contender: Contender, *, budget: int, choice: Choice) -> None:
        self._contender = contender
        self._budget = budget
        self._traces = chosen_traces(choice)

    def replay(self, patience: float) -> Tally:
        """All traces, or as many as are begun within so many seconds of the processor."""
        tally = Tally(traces=len(self._traces))
        begin = process_time()
        end = begin + patience
        for number, trace in enumerate(self._traces):
            if process_time() > end:
                break
            _replay(
                self._contender, trace.items, self._budget, tally, number_of_trace=number, end=end
            )
            tally.replayed += 1
        tally.seconds = process_time() - begin
        return tally


@cache
def chosen_traces(choice: Choice) -> list[Trace]:
    """The traces that take part."""
    if choice.seeded_zh is not None:
        return seeded_traces(choice.seeded_zh)
    return [
        trace for trace in _all_traces(choice.sample) if _takes_part(trace.items, choice.budget)
    ]


@cache
def _all_traces(sample: int) -> list[Trace]:
    return traces(sample=sample)


def _takes_part(items: Sequence[Item], budget: int) -> bool:
    system = sum(item_tokens(item) for item in items if item.role == "system")
    return tokens_of(items) > budget and system <= budget * 3 // 4


def _replay(
    each: Contender,
    items: Sequence[Item],
    budget: int,
    tally: Tally,
    *,
    number_of_trace: int,
    end: float,
) -> None:
    messages = each.convert(items)
    merged = len(items) - len(messages)
    session = each.open(messages[:0], budget)
    before: list[Item] | None = None
    tokens = sum(map(item_tokens, items[:merged]))
    for number, message in enumerate(messages, start=merged):
        session.add(message)
        tokens += item_tokens(items[number])
        if number + 1 < len(items) and call_due(items[: number + 1]):
            if process_time() > end:
                return
            window = _window(each, session, tally)
            good = window is not None and tally.record.judge(
                window, newest=items[number], budget=budget
            )
            inside = items[number].role == "tool"
            _take(tally, window or [], before, good=good, inside=inside, full=tokens > budget,
                  answer=item_tokens(items[number + 1]), trace=number_of_trace,
                  folds=tuple(each.folds(session)), marks=each.marks(session))  # fmt: skip
            before = window if good else None


def _take(
    tally: Tally,
    window: list[Item],
    before: list[Item] | None,
    *,
    good: bool,
    inside: bool,
    full: bool,
    answer: int,
    trace: int,
    folds: tuple[FoldSent, ...],
    marks: Sequence[int],
) -> None:
    shared = _shared(before, window) if good and before else 0
    system = sum(item_tokens(item) for item in takewhile(_is_system, window))
    marked = tuple(sum(map(item_tokens, window[:mark])) for mark in marks)
    tally.calls.append(
        Sent(trace, tokens_of(window), system, shared, answer, good, inside, folds, marked)
    )
    if good and before:
        share = shared / sum(map(item_tokens, before))
        tally.kept.append(share)
        tally.kept_inside += [share] if inside else []
        tally.kept_full += [share] if full else []


def _is_system(item: Item) -> bool:
    return item.role == "system"


def _window(each: Contender, session: Session, tally: Tally) -> list[Item] | None:
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

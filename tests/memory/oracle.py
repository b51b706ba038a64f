"""A slow judge of contexts: reads the whole log and says what a context must hold and must not.

It shares no code with the path that builds contexts. Given what the store held at the moment a call was taken, every
message of the log must be shown, shortened, behind a checkpoint that exists, stood in for by an extract that exists,
cleared, or listed as omitted for one of the few reasons that are allowed; nothing may be shown that is not in the log;
the newest message must be there; and of the running turn at least what a plain recency window would hold.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnfold.memory import Manifest
from turnfold.records import Checkpoint, Entry, Message, tool
from turnfold.tokens import TokenCounter
from turnfold.window import NO_RESULT, Context, Omission, Outcome, Section, check

__all__ = ("Books", "Judged", "faults")

_CUT = re.compile(
    r"\n\[… (?:[0-9,]+ tokens in full(?:, stored as [^\n]*)?|全文共 [0-9,]+ token(?:，存为 [^\n]*)?) …\]\n"
    r"(?:(?P<middle>(?:[^\n]+\n)+?)\[…\]\n)?|…"
)
_MISPLACED = ("its call", "tool result without", "second result", "it has no content")
"""Beginnings of reasons for which a message of a broken log cannot be shown to any provider."""


@dataclass(frozen=True)
class Books:
    """What the store held when a call was taken."""

    entries: Sequence[Entry]
    checkpoints: Mapping[str, Checkpoint]
    """By id."""
    stand_ins: Mapping[str, str]
    """Text by key."""
    cleared: int = 0


@dataclass(frozen=True)
class Judged:
    """A context, what was stored of it, and what its caller knew."""

    context: Context
    manifest: Manifest
    counter: TokenCounter
    acknowledged: int
    """The newest seq that was acknowledged to anybody before the call began."""
    folds: bool = True
    """Whether nothing may be left out without something that stands for it: the memory folds and stands in."""


def faults(judged: Judged, books: Books) -> list[str]:
    """Everything that is wrong with a context; empty when nothing is."""
    return [
        *_log(judged, books),
        *(f"invalid: {fault}" for fault in check(judged.context)),
        *_truth(judged, books),
        *_summary(judged, books),
        *_homes(judged, books),
        *_newest(judged, books),
        *_recency(judged, books),
    ]


def _log(judged: Judged, books: Books) -> Iterator[str]:
    seqs = [entry.seq for entry in books.entries]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"log: seqs {seqs}"
    seq = judged.manifest.seq
    if seq > len(seqs):
        yield f"ahead: the context is of seq {seq}, the log ends at {len(seqs)}"
    if seq < judged.acknowledged:
        yield f"stale: the context is of seq {seq}, {judged.acknowledged} was acknowledged before"


def _truth(judged: Judged, books: Books) -> Iterator[str]:
    """Nothing is shown that is not in the log, and nothing twice."""
    context = judged.context
    _, opening, window, tail = context.ends
    shown = [*context.messages[opening:window], *context.messages[tail:]]
    if len(shown) != len(context.positions):
        yield f"torn: {len(shown)} messages, {len(context.positions)} positions"
        return
    changed = {
        seq
        for fate in context.fates
        if fate.outcome in (Outcome.SHRUNK, Outcome.MOVED)
        for seq in range(fate.start, fate.stop)
    }
    times = Counter(seq for seq in context.positions if seq >= 0)
    yield from (f"doubled: entry {seq} is shown {n} times" for seq, n in times.items() if n > 1)
    for seq, message in zip(context.positions, shown, strict=True):
        if seq < 0:
            continue
        if not 0 < seq <= len(books.entries):
            yield f"invented: entry {seq} is not in the log"
            continue
        logged = books.entries[seq - 1].message
        same = _left_of(message, logged) if seq in changed else message == logged
        if not same:
            yield f"invented: entry {seq} is shown as {message.text[:40]!r}, logged as {logged.text[:40]!r}"
    for position, seq in enumerate(judged.manifest.system):
        if seq > len(books.entries) or books.entries[seq - 1].message.role != "system":
            yield f"invented: system message {position} is entry {seq}"


def _left_of(shown: Message, logged: Message) -> bool:
    """Whether every text that is shown is the beginning and the end of what was logged."""
    if shown.role != logged.role:
        return False
    text, whole = shown.text, logged.text
    if text == whole:
        return True
    return any(
        whole.startswith(text[: cut.start()])
        and whole.endswith(text[cut.end() :])
        and all(line in whole.split("\n") for line in (cut["middle"] or "").split("\n")[:-1])
        for cut in _CUT.finditer(text)
    )


def _summary(judged: Judged, books: Books) -> Iterator[str]:
    manifest, context = judged.manifest, judged.context
    sent = "\n".join(message.text for message in context.section(Section.SUMMARY))
    if manifest.checkpoint and manifest.checkpoint not in books.checkpoints:
        yield f"summary: checkpoint {manifest.checkpoint} does not exist"
        return
    if manifest.stand_in and manifest.stand_in not in books.stand_ins:
        yield f"summary: stand-in {manifest.stand_in} does not exist"
        return
    text = ""
    if manifest.checkpoint:
        text = books.checkpoints[manifest.checkpoint].text
    if manifest.stand_in:
        text = books.stand_ins[manifest.stand_in]
    shortened = any(fate.start < 0 and fate.outcome is Outcome.SHRUNK for fate in context.fates)
    if bool(sent) != bool(text) or (text not in sent and not shortened):
        yield f"summary: {sent[:60]!r} is sent for {text[:60]!r}"


def _covered(judged: Judged, books: Books) -> int:
    manifest = judged.manifest
    covered = 0
    if manifest.checkpoint in books.checkpoints:
        covered = books.checkpoints[manifest.checkpoint].upto
    if manifest.stand_in in books.stand_ins:
        covered = max(covered, int(manifest.stand_in.partition("-")[0]))
    return covered


def _homes(judged: Judged, books: Books) -> Iterator[str]:
    """Each message is in one place, and in one that is allowed."""
    context, manifest = judged.context, judged.manifest
    covered, shown = _covered(judged, books), {seq for seq in context.positions if seq >= 0}
    told = {
        seq: fate
        for fate in context.fates
        if fate.outcome in (Outcome.FOLDED, Outcome.DROPPED)
        for seq in range(max(fate.start, 0), fate.stop)
    }
    if manifest.cleared > books.cleared:
        yield f"cleared: up to {manifest.cleared}, the store says {books.cleared}"
    yield from (
        f"cleared: entry {seq} is shown, everything up to {manifest.cleared} was cleared"
        for seq in sorted(shown)
        if seq <= manifest.cleared
    )
    for entry in books.entries[: manifest.seq]:
        if entry.message.role != "system":
            fault = _homeless(
                judged, entry.seq, told.get(entry.seq), covered, shown=entry.seq in shown
            )
            if fault:
                yield f"nowhere: entry {entry.seq} {fault}"


def _homeless(judged: Judged, seq: int, fate: Omission | None, covered: int, *, shown: bool) -> str:
    """What is wrong with the place of one message; empty when nothing is."""
    cleared = judged.manifest.cleared
    if shown:
        return f"is shown and said to be {fate.outcome}" if fate else ""
    if fate is None:
        return "is neither shown nor listed"
    if fate.outcome is Outcome.FOLDED:
        return "" if cleared < seq <= covered else f"is said to be folded, {covered} is covered"
    if seq <= cleared or not judged.folds or fate.reason.startswith(_MISPLACED):
        return ""
    return f"is left out, nothing stands for it ({fate.reason})"


def _newest(judged: Judged, books: Books) -> Iterator[str]:
    """The newest message is there, unless it was cleared or no provider would take it."""
    manifest, context = judged.manifest, judged.context
    said = [entry for entry in books.entries[: manifest.seq] if entry.message.role != "system"]
    if not said or said[-1].seq <= manifest.cleared or said[-1].seq in context.positions:
        return
    if not _is_misplaced(context, seq := said[-1].seq):
        why = [fate.reason for fate in context.fates if fate.start <= seq < fate.stop]
        yield f"newest: entry {seq} is not shown ({'; '.join(why)})"


def _recency(judged: Judged, books: Books) -> Iterator[str]:
    """Check that the running turn is shown: all of it where it fits, else what the low mark holds of it.

    A message counts as shown when it is shortened.
    """
    manifest, context, count = judged.manifest, judged.context, judged.counter.count_message
    whole, low = _recency_rooms(judged)
    shown = {seq for seq in context.positions if seq >= 0}
    turn: list[Entry] = []
    for entry in reversed(books.entries[: manifest.seq]):
        if entry.seq <= manifest.cleared:
            break
        if entry.message.role != "system":
            turn.append(entry)
        if entry.message.role == "user":
            break
    answered = {result.call_id for entry in turn for result in entry.message.results}

    def cost(entry: Entry) -> int:
        """Tokens of a message, and of what is sent in place of results that its calls never got."""
        missing = [call.id for call in entry.message.calls if call.id not in answered]
        return count(entry.message) + sum(
            count(tool(NO_RESULT, tool_call_id=call)) for call in missing
        )

    room = whole if sum(map(cost, turn)) <= whole else low
    for entry in turn:
        room -= cost(entry)
        if room < 0:
            return
        if entry.seq not in shown and not _is_misplaced(context, entry.seq):
            yield f"recency: entry {entry.seq} of the running turn fits and is not shown"


def _is_misplaced(context: Context, seq: int) -> bool:
    """Whether a message is left out because no provider would take it where it stands."""
    return any(
        fate.start <= seq < fate.stop
        and fate.outcome is not Outcome.ADDED
        and fate.reason.startswith(_MISPLACED)
        for fate in context.fates
    )


def _recency_rooms(judged: Judged) -> tuple[int, int]:
    """Tokens for the conversation beside the longest summary and tail: all of them, and what a fold leaves."""
    context, count = judged.context, judged.counter.count_message
    budget, marks = context.budget, context.budget.marks
    system = sum(map(count, context.section(Section.SYSTEM)))
    room = budget.tokens - system - context.tools - judged.counter.reply
    room -= budget.share("summary") + budget.share("tail")
    return room, math.floor(room * min(marks.low, marks.folded)) - budget.share("summary")

"""Each message a call sends as one row: where it came from, what it costs, what was done to it.

The other half is what a call does not send: stretches of the log, each with its outcome and the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from turnfold.memory.manifests import Explanation
from turnfold.records import Message, ToolCall, encode_message
from turnfold.window import Context, Outcome, Section

__all__ = ("Item", "LeftOut", "excerpt", "left_out", "sent_items")

KEPT = "kept"
"""Fate of what is sent as it was logged."""
INJECTED = "injected"
"""Fate of what is sent and stands in no log: the summary, the tail, a placeholder."""

Stretch = tuple[int, int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One message of a prompt."""

    index: int
    """Place in the prompt, from 0."""
    section: str
    seq: int
    """Seq of the entry; 0 for what is in no log."""
    role: str
    label: str
    """What it is in a few words: the tool it calls or answers for, else the role."""
    tokens: int
    fate: str
    """`kept`, `shrunk`, `moved` or `injected`."""
    reason: str
    """Why it is not sent as it was logged; empty where it is."""
    digest: str
    """What the message is recognised by in other calls."""
    text: str
    """The beginning of what it says, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A stretch of the log that is not in the prompt."""

    first: int
    last: int
    outcome: str
    """`folded` or `dropped`."""
    reason: str

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return self.last - self.first + 1


def excerpt(message: Message, *, characters: int = 160) -> str:
    """The beginning of what a message says, or of what it asks of tools, in one line."""
    said = " ".join(message.text[: characters * 4].split())
    if not said:
        said = "; ".join(f"{call.name}({call.arguments})" for call in message.calls)
        said = " ".join(said[: characters * 4].split())
    return said if len(said) <= characters else f"{said[: characters - 1]}…"


def sent_items(shown: Context | Explanation) -> tuple[Item, ...]:
    """The rows of a prompt, in the order they are sent."""
    if isinstance(shown, Context):
        fates = [(f.start, f.stop, str(f.outcome), f.reason) for f in shown.fates]
        system = _moved_systems(fates)
        return tuple(
            _rows(
                shown.messages,
                shown.costs,
                seqs=shown.positions,
                ends=shown.ends,
                fates=fates,
                system=system,
            )
        )
    manifest = shown.manifest
    fates = list(manifest.fates)
    return tuple(
        _rows(
            shown.messages,
            shown.costs,
            seqs=shown.seqs,
            ends=shown.ends,
            fates=fates,
            system=manifest.system,
        )
    )


def left_out(fates: Iterable[Stretch]) -> tuple[LeftOut, ...]:
    """What of the log is not in the prompt, oldest first."""
    return tuple(
        LeftOut(first=start, last=stop - 1, outcome=outcome, reason=reason)
        for start, stop, outcome, reason in sorted(fates)
        if outcome in (Outcome.FOLDED, Outcome.DROPPED) and start >= 0
    )


def _rows(
    messages: Sequence[Message],
    costs: Sequence[int],
    *,
    seqs: Sequence[int],
    ends: tuple[int, int, int, int],
    fates: Sequence[Stretch],
    system: Sequence[int],
) -> Iterator[Item]:
    places = _places(len(messages), seqs, ends, system)
    tools = _tools(messages)
    for index, (message, cost) in enumerate(zip(messages, costs, strict=True)):
        section = _section(index, ends)
        seq = places[index]
        fate, reason = _fate(seq, section, fates)
        yield Item(
            index=index,
            section=section,
            seq=max(seq, 0),
            role=message.role,
            label=_label(message, section, tools),
            tokens=cost,
            fate=fate,
            reason=reason,
            digest=hashlib.blake2b(encode_message(message), digest_size=8).hexdigest(),
            text=excerpt(message),
        )


def _moved_systems(fates: Sequence[Stretch]) -> list[int]:
    """Seqs of the system messages that head the prompt, where the receipt names them."""
    return [
        seq
        for start, stop, outcome, reason in fates
        if outcome == Outcome.MOVED and reason.startswith("system message")
        for seq in range(start, stop)
    ]


def _places(
    count: int, seqs: Sequence[int], ends: tuple[int, int, int, int], system: Sequence[int]
) -> list[int]:
    """Seq of each message; 0 where it has none."""
    system_ends, summary_ends, window_ends, tail_ends = ends
    places = [0] * count
    if len(system) == system_ends:
        places[:system_ends] = system
    logged = [*range(summary_ends, window_ends), *range(tail_ends, count)]
    for index, seq in zip(logged, seqs, strict=False):
        places[index] = seq
    return places


def _section(index: int, ends: tuple[int, int, int, int]) -> str:
    for section, end in zip(Section, ends, strict=False):
        if index < end:
            return str(section)
    return str(Section.TURN)


def _fate(seq: int, section: str, fates: Sequence[Stretch]) -> tuple[str, str]:
    if seq <= 0 and section in (Section.SUMMARY, Section.TAIL, Section.WINDOW, Section.TURN):
        return INJECTED, _reason_of(seq, section)
    for start, stop, outcome, reason in fates:
        if start <= seq < stop and seq > 0 and outcome in (Outcome.SHRUNK, Outcome.MOVED):
            return outcome, reason
    return KEPT, ""


def _reason_of(seq: int, section: str) -> str:
    if section == Section.SUMMARY:
        return "stands for what was folded"
    if section == Section.TAIL:
        return "pins, state, notes and what was recalled"
    return "placeholder for a result that never came" if seq < 0 else ""


def _tools(messages: Sequence[Message]) -> dict[str, ToolCall]:
    return {call.id: call for message in messages for call in message.calls}


def _label(message: Message, section: str, tools: dict[str, ToolCall]) -> str:
    if section in (Section.SUMMARY, Section.TAIL):
        return section
    if message.calls:
        return ", ".join(f"{call.name}()" for call in message.calls)
    names = [tools[r.call_id].name for r in message.results if r.call_id in tools]
    return ", ".join(names) or message.role

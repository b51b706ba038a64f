"""What was found again, and how it is shown.

Entries that stand together in the log are shown together, under one line that says which turn they begin in and when
that was: the model can then tell who answered whom, and a reader can find the place. The time is left out where it is
within an hour of the one before, because every such line is paid for with a passage. Such a line, and the first line
of what somebody said, begin at the margin; every other line is indented, so that nobody can say what reads like a line
of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from turnfold.records import Message
from turnfold.window import indented, plain_name

__all__ = ("Recalled", "passages_text", "spoken")

_HOUR = 3600 * 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Recalled:
    """An entry found again."""

    seq: int
    turn: int
    message: Message
    created: int
    """Microseconds since 1970."""
    score: float
    """Higher is better; comparable within one answer only."""
    excerpt: str = ""
    """What is shown of a text too long to show whole; empty where all of it is."""

    @property
    def shown(self) -> str:
        """The text that is shown."""
        return self.excerpt or self.message.text


def passages_text(recalled: Sequence[Recalled]) -> str:
    """The entries as a model is shown them, in the order of the log."""
    return "\n".join(_lines(sorted(recalled, key=lambda entry: entry.seq)))


def spoken(recalled: Recalled) -> str:
    """One entry as it is shown: who said it, and what."""
    message = recalled.message
    name = plain_name(message.name) if message.name else ""
    who = f"{message.role} ({name})" if name else message.role
    return f"{who}: {indented(recalled.shown)}"


def _lines(recalled: Sequence[Recalled]) -> Iterator[str]:
    last, told = -1, None
    for entry in recalled:
        if entry.seq != last + 1:
            near = told is not None and abs(entry.created - told) < _HOUR
            yield f"[turn {entry.turn}]" if near else f"[turn {entry.turn}, {_time(entry.created)}]"
            told = told if near else entry.created
        last = entry.seq
        yield spoken(entry)


def _time(created: int) -> str:
    return (_EPOCH + timedelta(microseconds=created)).strftime("%Y-%m-%d %H:%M")

"""What document 002's memory hands out: contexts, summaries, results of thinking; and how summaries are written down.

Values with the document's names, in Python spelling. Ids say what they belong to: `ctx_1_<digest>` is the context of
turn 1, `sum_ctx_1_<digest>` what was made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.memory.snapshots.keys import SNAPSHOT_SUMMARY, turn_key, turn_of
from turnfold.records import Document
from turnfold.records.snapshots import LATEST_TIME, LATEST_TURN, Snapshot

__all__ = (
    "ContextHit",
    "ContextSnapshot",
    "ImportedContexts",
    "MemorySummary",
    "Reading",
    "ThinkingResult",
    "ThinkingRound",
    "context_of",
    "full_context",
    "read_summary",
    "summary_id",
    "write_summary",
)

Reading: TypeAlias = Literal["whole", "changes", "part"]
"""What of a context its summary was made from: all of it, what changed since the turn before, or its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSnapshot:
    """The full workspace context of a turn."""

    id: str
    turn_number: int
    full_context: str
    """Word for word as it was given; where only files and state were, these as text."""
    summary: str = ""
    """What was made of it; empty until something was."""
    timestamp: int = 0
    """Microseconds since 1970."""
    insights: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Ids of the contexts it refers to."""
    files: Mapping[str, str | bytes] = field(default_factory=dict[str, str | bytes])
    state: Mapping[str, object] = field(default_factory=dict[str, object])


class MemorySummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was made of a context."""

    id: str
    context_id: str
    turn_number: Annotated[int, msgspec.Meta(ge=1, le=LATEST_TURN)]
    summary: str
    insights: tuple[str, ...] = ()
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIME)] = 0
    """Microseconds since 1970."""
    thoughts: tuple[str, ...] = ()
    """What the reflective rounds came to, in order."""
    links: tuple[str, ...] = ()
    """Ids of the contexts that were recalled for it."""
    model: str = ""
    """Who wrote it; empty for sentences picked from the context because no model did."""
    problem: str = ""
    """Why no model wrote it; no content."""
    reading: Reading = "whole"
    tokens_used: Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIME)] = 0

    @property
    def extractive(self) -> bool:
        """Whether it is made of sentences of the context, word for word, instead of a model's."""
        return not self.model


@dataclass(frozen=True, slots=True)
class ContextHit:
    """A context that a keyword finds."""

    context_id: str
    turn_number: int
    summary: str
    score: float
    """Higher is better; comparable within one answer only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedContexts:
    """What an import wrote; what was there already is not counted."""

    contexts: int
    summaries: int


@dataclass(frozen=True, slots=True)
class ThinkingRound:
    """One reflective round."""

    thought: str
    recalled: tuple[str, ...] = ()
    """Ids of the contexts it had brought back, which the next round was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingResult:
    """What a thinking phase came to."""

    thoughts: tuple[str, ...]
    tokens_used: int
    """Of all questions of the phase, as the provider reported them, counted where it did not."""
    accumulated_summaries: str
    """A line `[Turn 1] ...` per turn, this one included; the oldest folded where they outgrow their share."""
    context_id: str
    turn: int
    summary: MemorySummary
    rounds: tuple[ThinkingRound, ...] = ()
    stopped: str = ""
    """Why the rounds ended."""
    problems: tuple[str, ...] = ()
    """What failed on the way; the phase goes on without it."""
    repeated: bool = False
    """Whether this turn had been thought through before and nothing was asked or written."""


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int
    summary: MemorySummary


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Note)


def summary_id(context_id: str) -> str:
    """The id of what was made of a context."""
    return f"sum_{context_id}"


def write_summary(summary: MemorySummary) -> Document:
    """The document of a summary, found by all it says."""
    said = "\n".join([summary.summary, *summary.insights, *summary.thoughts])
    text = said.replace("\x00", " ")  # no backend indexes a NUL, and one refuses it
    body = _encoder.encode(_Note(v=1, summary=summary))
    return Document(SNAPSHOT_SUMMARY, turn_key(summary.turn_number), body, 0, text=text)


def read_summary(document: Document) -> MemorySummary:
    """The summary of a document; anything else is refused."""
    where = f"{SNAPSHOT_SUMMARY}/{document.key}"
    try:
        note = _decoder.decode(document.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a summary: {error}", path=where) from None
    found = note.summary
    if note.v != 1 or found.turn_number != turn_of(document.key):
        raise InvalidRecord(f"not version 1 of the summary of turn {document.key}", path=where)
    if found.id != summary_id(found.context_id):
        raise InvalidRecord(f"{found.id} is no summary of {found.context_id}", path=where)
    return found


def context_of(snapshot: Snapshot, summary: MemorySummary | None) -> ContextSnapshot:
    """A snapshot under the document's names."""
    return ContextSnapshot(
        id=snapshot.id,
        turn_number=snapshot.turn,
        full_context=full_context(snapshot),
        summary=summary.summary if summary else snapshot.summary,
        timestamp=snapshot.created,
        insights=summary.insights if summary else snapshot.insights,
        links=snapshot.links,
        files=snapshot.files,
        state=snapshot.state,
    )


def full_context(snapshot: Snapshot) -> str:
    """The context as text; files and state follow it where there are any."""
    blocks = [snapshot.context] if snapshot.context else []
    for path, content in snapshot.files.items():
        shown = content if isinstance(content, str) else f"({len(content):,} bytes, not text)"
        blocks.append(f"== {path}\n{shown}")
    if snapshot.state:
        state = msgspec.json.encode(dict(snapshot.state)).decode()
        blocks.append(f"== state\n{state}")
    return "\n\n".join(blocks)

"""What a store keeps: messages with an identity, the checkpoints over them, and named documents beside them.

A message is a value; an entry is that value at a place: which conversation, which seq, when, at what cost. The store
alone assigns `seq`, densely, from 1; no clock takes part in any ordering.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from turnfold.records.messages import Message

__all__ = ("Checkpoint", "Document", "Entry", "NewEntry")


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A message to append."""

    message: Message
    client_id: str = ""
    """Names the entry for its writer: a retry with the same id and body returns the first result. Empty: no retry
    protection."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored message."""

    seq: int
    """Place in the conversation: 1, 2, 3 ... without gaps."""
    message: Message
    client_id: str
    created: int
    """Microseconds since 1970, UTC; for people, never for ordering."""
    turn: int
    """How many user messages up to and including this entry."""
    tokens: int
    """Cost by the conversation's counter."""
    running: int
    """Cost of everything up to and including this entry."""
    epoch: int = field(default=0, compare=False, repr=False)
    """Random number of the write that stored it, 0 where none is known. Equal seqs and epochs are the same entry after
    the same history, also after a failover or a restored backup."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A summary that stands for the entries up to `upto`."""

    id: str
    previous: str
    """The checkpoint it replaces; empty for the first."""
    upto: int
    """The last seq it covers."""
    text: str
    digest: str
    """Of the entries it covers, so that what was summarised can be proved."""
    model: str = ""
    """Who wrote it; empty for the extractive summariser."""
    trust: str = "mixed"
    """The lowest trust of what it covers."""
    fidelity: float = 1.0
    """Share of the hard facts of its range that the text carries."""
    created: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A named value of a conversation: session state, a call's manifest, a finding, a snapshot."""

    kind: str
    key: str
    body: bytes
    version: int
    """One more with each change. A new document has 1, or more where documents were dropped: no version returns."""
    created: int = 0
    text: str = ""
    """What a search finds it by; empty where nothing should."""

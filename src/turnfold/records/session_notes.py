"""Notes: the small versioned documents that a session stores in addition to the log.

The log holds the messages. The notes hold what another process needs to continue the session: where the window begins,
the current system messages, pins, state, up to which entry it was cleared, which process is folding (compacting), which
run of an agent is at work. No note is needed to read the log, and losing all notes loses no message.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeVar

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.entries import Document
from turnfold.records.frozen_json import decode_struct

__all__ = (
    "CALIBRATION",
    "CLEARED",
    "FINDING",
    "FINDINGS",
    "FOLDING",
    "ORIGIN",
    "PIN",
    "RULES",
    "RUN",
    "SESSION",
    "STAND_IN",
    "STATE",
    "SYSTEM",
    "TAKEN_BACK",
    "WINDOW",
    "CalibrationNote",
    "ClearedNote",
    "FindingsNote",
    "FoldingNote",
    "LeaseNote",
    "OriginNote",
    "PinNote",
    "RunNote",
    "StandIn",
    "StandInNote",
    "StateNote",
    "SystemNote",
    "TakenBackNote",
    "WindowNote",
    "read_note",
    "stand_in_document",
    "write_note",
)


SESSION: Final = "session"
"""Kind of the notes of which a session has one under each of these keys: `SYSTEM`, `CLEARED`, `TAKEN_BACK`, `FOLDING`,
`RUN`, `STATE`, `FINDINGS`, `RULES`, `CALIBRATION`, `ORIGIN`, `STAND_IN`."""
SYSTEM: Final = "system"
CLEARED: Final = "cleared"
FOLDING: Final = "folding"
RUN: Final = "run"
STATE: Final = "state"
FINDINGS: Final = "findings"
TAKEN_BACK: Final = "taken-back"
CALIBRATION: Final = "calibration"
ORIGIN: Final = "origin"
FINDING: Final = "finding"
"""Kind of the findings (remembered tool results), one document each."""
WINDOW: Final = "window"
"""Kind of the window notes, one per budget."""
PIN: Final = "pin"
"""Kind of the pin notes, one per pin."""
RULES: Final = "rules"
"""Key of the session note with the rules that the user stated."""
STAND_IN: Final = "stand-in"
"""Kind of the documents that hold a stand-in (temporary extract), and key of the note that names the current one."""


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all session notes (small stored documents); `v` is the version of their JSON form."""

    v: int = 1


class SystemNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note of which log entries (by seq) are the current system messages."""

    seqs: tuple[int, ...] = ()


class ClearedNote(_Note, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Note of the last log entry (by seq) that contexts no longer show, because of `clear()` or of later entries.

    Fields without a value are not stored: older versions of turnfold know only `upto`, and refuse a note with others.
    They must, as they would show entries twice; a conversation in which nothing was replaced stays readable for them.
    """

    upto: int = 0
    replacing: tuple[tuple[int, str], ...] = ()
    """(seq, client id) of each replacement that began: everything up to the seq is hidden too if the entry after it has
    this client id."""
    replaced: tuple[tuple[int, int], ...] = ()
    """(seq, earlier `upto`) of each time that later entries replaced everything up to the seq, oldest first."""


class CalibrationNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note with the calibration of a conversation: factors by which estimated token counts are multiplied."""

    factors: dict[str, float] = {}
    """Model and token counter -> factor that corrects the counts."""


class TakenBackNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note of the log entries that a framework's history no longer has; they stay in the log and are not shown."""

    stretches: tuple[tuple[int, int], ...] = ()
    """(first, last) seqs of ranges of entries that were removed whole, in order. A range from 0 was replaced by later
    entries."""
    shortened: tuple[tuple[int, int], ...] = ()
    """(seq, pieces kept) of each entry of which only the end was removed."""


class OriginNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note of the conversations that a fork was copied from, oldest first, as digests instead of ids."""

    ancestors: tuple[tuple[str, str], ...] = ()
    """(salt, digest of a conversation's id with this salt) for each conversation that this one was forked from, oldest
    first."""


class WindowNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note that says where the window of one budget begins, and the tail, the text sent before the newest turn.

    All processes use the same note.
    """

    anchor: int = 1
    """Seq (log position) of the first entry that is shown verbatim."""
    head: int = 0
    """Seq of the user message shown before the anchor (first verbatim entry), because its turn is still shown; 0 for
    none."""
    caps: tuple[tuple[int, int], ...] = ()
    """(seq, most tokens of a single part) of each entry that is shown shortened."""
    reason: str = ""
    """Why the entries before the anchor (first verbatim entry) are not shown."""
    turn: int = 0
    """Seq (log position) of the user message that began the turn for which `tail` was made; 0 for none."""
    query: str = ""
    """The query for which the entries in `recalled` were found."""
    tail: str = ""
    """The tail (pins, rules, state, remembered tool results, recalled passages) of the turn; it stays the same during
    the turn's tool loop."""
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of each entry recalled into the tail (pins, rules, recalled passages)."""
    recall_room: int = 0
    """Tokens that recalled entries take beyond the budget's share for the tail (text before the newest turn)."""
    recall_tokens: int = 0
    """Tokens of the recalled passages."""


class PinNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note of a pinned text, which every call shows."""

    text: str = ""
    since: int = 0
    """The newest seq when the text was pinned: the pin is shown from the next user turn on."""
    until: int = 0
    """The newest seq when the text was unpinned: the pin is shown until the next user turn; 0 while the text is
    pinned."""
    order: int = 0
    """Number by which pins are sorted: the order in which they were created."""
    seq: int = 0
    """Seq of the entry whose words are pinned; 0 for a text that the application gave."""


class StateNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note of the session's state: JSON values by name."""

    values: dict[str, object] = {}
    since: int = 0
    """The newest seq (log position) when the session state was last changed."""


class FindingsNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note that the session has findings (remembered tool results); without this note no finding needs to be read."""

    ran: dict[str, int] = {}
    """Name of a tool that makes findings (remembered tool results) stale -> the newest seq when the tool last ran."""


class LeaseNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Base of the notes that say who holds a lease, and how long."""

    owner: str = ""
    """Id of the lease holder; empty if nobody holds it."""
    until: int = 0
    """Time at which the lease expires, in microseconds since 1970."""


class RunNote(LeaseNote, frozen=True, forbid_unknown_fields=True):
    """Note of the agent's run that is at work on the session: other runs wait until it ends or its lease expires."""

    seconds: float = 0.0
    """Length of the lease, which its holder renews; a process that waits for the lease may use another length for its
    own."""


class FoldingNote(LeaseNote, frozen=True, forbid_unknown_fields=True):
    """Note of which process holds the lease for folding (compaction), and of recent failures."""

    failures: int = 0
    """Number of failed attempts to fold (compact) since the last checkpoint."""
    not_before: int = 0
    """Time from which folding (compaction) may be tried again, in microseconds since 1970."""
    error: str = ""
    """Type of the error of the last failed attempt to fold (compact), without the message."""


class StandInNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Note of the temporary extract that is shown for entries whose fold (compaction) is not finished yet."""

    key: str = ""
    """Key of the document with the text of the extract; empty for none."""
    upto: int = 0
    """Seq (log position) of the last entry that the extract covers."""


class _StandInText(_Note, frozen=True, forbid_unknown_fields=True):
    text: str = ""


@dataclass(frozen=True, slots=True)
class StandIn:
    """An extract (selected sentences) that contexts show while the summary of the same entries is not finished.

    It covers the log up to `upto`, including the entries that the newest checkpoint covered when it was made. It is not
    a checkpoint: the summarizer still reads every entry it covers, and the summary replaces the extract.
    """

    key: str
    upto: int
    text: str

    @classmethod
    def read(cls, document: Document) -> StandIn:
        """Read a temporary extract from its document; raises `InvalidRecord` if the document is damaged."""
        upto = document.key.partition("-")[0]
        if not (upto.isascii() and upto.isdecimal()):
            raise InvalidRecord(
                "the key must begin with the number of the last entry that the extract covers",
                path=f"{document.kind}/{document.key}",
                remedy="The document is damaged: delete it, and the extract is made again",
            )
        return cls(document.key, int(upto), read_note(document, _StandInText).text)


_Form = TypeVar("_Form", bound=_Note)
_encoder = msgspec.json.Encoder()


def read_note(document: Document | None, form: type[_Form]) -> _Form:
    """Read a session note of type `form` from its document; returns the defaults if the document is None."""
    if document is None:
        return form()
    path = f"{document.kind}/{document.key}"
    return decode_struct(document.body, form, name=f"{document.kind} note", path=path)


def write_note(kind: str, key: str, note: _Note) -> Document:
    """Return the document that stores a session note under a kind and key."""
    return Document(kind, key, _encoder.encode(note), 0)


def stand_in_document(upto: int, text: str) -> Document:
    """Return the document that stores a temporary extract up to entry `upto`; the same input gives the same key."""
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return write_note(STAND_IN, f"{upto:012d}-{digest}", _StandInText(text=text))

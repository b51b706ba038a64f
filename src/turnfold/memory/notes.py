"""What a session writes beside the log, and in what form.

The log holds what was said. Everything else a session must find again in another process (where its window begins,
which system messages are current, what is pinned, how far it was cleared, who is folding) is a small document with a
version; none of it is needed to read the log, and losing all of it loses no message.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeVar

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import Document

__all__ = (
    "CLEARED",
    "FINDING",
    "FINDINGS",
    "FOLDING",
    "PIN",
    "SESSION",
    "STAND_IN",
    "STATE",
    "SYSTEM",
    "TAKEN_BACK",
    "WINDOW",
    "ClearedNote",
    "FindingsNote",
    "FoldingNote",
    "PinNote",
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
"""Kind of the notes there is one of; their keys: `SYSTEM`, `CLEARED`, `TAKEN_BACK`, `FOLDING`, `STATE`, `FINDINGS`."""
SYSTEM: Final = "system"
CLEARED: Final = "cleared"
FOLDING: Final = "folding"
STATE: Final = "state"
FINDINGS: Final = "findings"
TAKEN_BACK: Final = "taken-back"
FINDING: Final = "finding"
"""Kind of the documents there is one of per tool call remembered."""
WINDOW: Final = "window"
"""Kind of the notes there is one of per budget."""
PIN: Final = "pin"
"""Kind of the notes there is one of per pin."""
STAND_IN: Final = "stand-in"
"""Kind of the documents with the text of a stand-in, and key of the session note that names the current one."""


class _Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    v: int = 1


class SystemNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Which entries are the system messages now."""

    seqs: tuple[int, ...] = ()


class ClearedNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Up to where the caller started over."""

    upto: int = 0


class TakenBackNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Entries that were taken back: still in the log, no longer part of what a framework is shown of it."""

    stretches: tuple[tuple[int, int], ...] = ()
    """(first, last) seq of entries taken back whole, in order."""
    shortened: tuple[tuple[int, int], ...] = ()
    """(seq, pieces kept) of entries of which only the end was taken back."""


class WindowNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Where the window of one budget begins, so that every process builds the same one."""

    anchor: int = 1
    """Seq of the first entry shown verbatim."""
    head: int = 0
    """Seq of the user message shown before it because its turn is still shown; 0 for none."""
    caps: tuple[tuple[int, int], ...] = ()
    """(seq, tokens a single part may keep) of the entries shown shortened."""
    reason: str = ""
    turn: int = 0
    """Seq of the user message whose turn `tail` was made for; 0 for none."""
    query: str = ""
    """What was asked to be brought back into it."""
    tail: str = ""
    """The tail of that turn, frozen while its tool loop runs."""
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of the entries brought back into it."""


class PinNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Something that every call must see."""

    text: str = ""
    since: int = 0
    """The newest seq when it was pinned: it shows from the next user turn on."""
    until: int = 0
    """The newest seq when it was unpinned: it shows until the next user turn; 0 while it is pinned."""
    order: int = 0
    """Pins are shown in the order they were made."""


class StateNote(_Note, frozen=True, forbid_unknown_fields=True):
    """The session's state: JSON values by name."""

    values: dict[str, object] = {}
    since: int = 0
    """The newest seq when it was changed last."""


class FindingsNote(_Note, frozen=True, forbid_unknown_fields=True):
    """That tool results are remembered beside the log: where there is no such note, nobody need look for them."""

    ran: dict[str, int] = {}
    """The newest seq when each tool that makes results stale ran last."""


class FoldingNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Who is folding, and how folding went lately."""

    owner: str = ""
    """Empty when nobody is at it."""
    until: int = 0
    """Microseconds since 1970 after which another may take over."""
    failures: int = 0
    """Attempts that failed since the last checkpoint."""
    not_before: int = 0
    """Microseconds since 1970 before which nobody tries again."""
    error: str = ""
    """Kind of the last failure; no content."""


class StandInNote(_Note, frozen=True, forbid_unknown_fields=True):
    """Which extract stands in for entries whose fold has not landed yet."""

    key: str = ""
    """Key of the document with its text; empty where nothing stands in."""
    upto: int = 0
    """The last seq it covers."""


class _StandInText(_Note, frozen=True, forbid_unknown_fields=True):
    text: str = ""


@dataclass(frozen=True, slots=True)
class StandIn:
    """An extract shown in place of the summary while the fold of what it covers is slow, failing or abandoned.

    It covers the log up to `upto`, including what the live checkpoint covered when it was made. It is not a
    checkpoint: the summarizer still reads every entry behind it, and its summary replaces the extract.
    """

    key: str
    upto: int
    text: str

    @classmethod
    def read(cls, document: Document) -> StandIn:
        """Read a stand-in back from its document."""
        upto = int(document.key.partition("-")[0])
        return cls(document.key, upto, read_note(document, _StandInText).text)


_Form = TypeVar("_Form", bound=_Note)
_encoder = msgspec.json.Encoder()


def read_note(document: Document | None, form: type[_Form]) -> _Form:
    """A note from its document; the note of an untouched session where there is none."""
    if document is None:
        return form()
    try:
        note = msgspec.json.decode(document.body, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(
            f"not a {document.kind} note: {error}", path=f"{document.kind}/{document.key}"
        ) from None
    if note.v != 1:
        raise InvalidRecord(
            f"note version {note.v}; this release reads version 1",
            path=f"{document.kind}/{document.key}",
            remedy="Upgrade turnfold",
        )
    return note


def write_note(kind: str, key: str, note: _Note) -> Document:
    """The document of a note."""
    return Document(kind, key, _encoder.encode(note), 0)


def stand_in_document(upto: int, text: str) -> Document:
    """Return the document of a stand-in; the same range and text always give the same key."""
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    return write_note(STAND_IN, f"{upto:012d}-{digest}", _StandInText(text=text))

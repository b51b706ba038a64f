"""Stored text leaves as data.

A summary or a recalled passage was written by users, tools and models; put before a model without a boundary it could
speak as the system. The fence around it carries a mark derived from the text itself, lengthened until the text does not
contain it, so nothing inside can close the fence; being derived and not random, it leaves the prompt cache in peace.

Several texts in one fence are told apart by the margin: a line that begins a message, an item or a section begins at
the margin, and every further line of a text is indented by one space. A line break is anything `str.splitlines` breaks
at, because a model may read any of them as one. Taking the space away again gives the text back exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

__all__ = (
    "INDENT",
    "Fenced",
    "fence",
    "fence_mark",
    "fenced_blocks",
    "has_indented",
    "indented",
    "indented_whole",
    "one_line",
    "plain_name",
    "with_continuation_note",
)

INDENT = " "
"""Stands before every line of a text that does not begin at the margin. One space: on most texts it costs no token."""
_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_LINE_START = re.compile(f"(?<=[{_BREAKS}])(?=[^{_BREAKS}])")
"""Where a line that is not empty begins, the first one aside."""
_INDENTED = re.compile(f"[{_BREAKS}]{INDENT}")
_BREAK_RUN = re.compile(f"[{_BREAKS}]+")
_NOT_IN_NAMES = frozenset("():：（）[]<>")
_LONGEST_NAME = 64
_OPENING = re.compile(r"(?P<note>[^\n]*)\n<(?P<label>[^\s<>]+) (?P<mark>[0-9a-f]+)>(?=\n)")
_GAP = "\n\n"
_CONTINUATION_NOTE = "An indented line belongs to the line above it."


def fence_mark(text: str) -> str:
    """A short mark that does not occur in `text`; the same text always gets the same mark."""
    digest = blake2b(text.encode("utf-8"), digest_size=32).hexdigest()
    for length in range(8, len(digest) + 1):
        if digest[:length] not in text:
            return digest[:length]
    return fence_mark(
        text + digest
    )  # a text that holds its own digest: ask about a longer one, which contains it


def fence(text: str, *, label: str, note: str) -> str:
    """`text` between a pair of tags it cannot forge, introduced by `note`."""
    mark = fence_mark(text)
    return f"{note}\n<{label} {mark}>\n{text}\n</{label} {mark}>"


@dataclass(frozen=True, slots=True)
class Fenced:
    """A text with the label and the note of its fence."""

    note: str
    label: str
    text: str

    def __str__(self) -> str:
        return fence(self.text, label=self.label, note=self.note)


def fenced_blocks(text: str) -> list[Fenced] | None:
    """The fenced texts that `text` is made of, a blank line between two; None if anything else is in it."""
    blocks: list[Fenced] = []
    at = 0
    while opening := _OPENING.match(text, at):
        closing = f"\n</{opening['label']} {opening['mark']}>"
        end = text.find(closing, opening.end())
        if end < 0:
            return None
        blocks.append(Fenced(opening["note"], opening["label"], text[opening.end() + 1 : end]))
        at = end + len(closing)
        if at == len(text):
            return blocks
        if not text.startswith(_GAP, at):
            return None
        at += len(_GAP)
    return None


def indented(text: str) -> str:
    """`text` with every line but the first indented, to follow what stands at the margin; empty lines stay empty."""
    return _LINE_START.sub(INDENT, text)


def indented_whole(text: str) -> str:
    """`text` with every line indented, to stand below a heading; empty lines stay empty."""
    first = "" if not text or _BREAK_RUN.match(text) else INDENT
    return first + indented(text)


def has_indented(text: str) -> bool:
    """Whether a line of `text` is indented."""
    return _INDENTED.search(text) is not None


def with_continuation_note(note: str, text: str) -> str:
    """The note of a fence, with what an indented line means where `text` has one."""
    return f"{note} {_CONTINUATION_NOTE}" if has_indented(text) else note


def one_line(text: str) -> str:
    """`text` with each run of line breaks made one space, to stand in a heading."""
    return _BREAK_RUN.sub(" ", text)


def plain_name(name: str) -> str:
    """A name to stand before what its owner said: without line breaks, colons and brackets; empty if nothing is left.

    Anybody may choose a name: what is left of it cannot end the place it stands in.
    """
    kept = "".join(
        letter if letter.isprintable() and letter not in _NOT_IN_NAMES else " " for letter in name
    )
    return " ".join(kept.split())[:_LONGEST_NAME].rstrip()

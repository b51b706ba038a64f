"""Fences: a pair of tags around stored text in a prompt, so that a model reads the text as data, not as instructions.

Summaries and recalled passages repeat words of users, tools and models; without a boundary they could read as a system
message. Both tags carry a mark, a few hexadecimal digits of a hash of the text, as many as it takes for the text not to
contain the mark. So nothing inside can close the fence. The mark is not random, so that the same text gives the same
prompt and the provider's prompt cache stays valid.

Several texts in one fence are separated by indentation: the first line of a message, an item or a section begins at the
margin, and every further line of it is indented by one space. A line break is anything `str.splitlines` breaks at,
because a model may read any of them as one. Removing the spaces gives the text back exactly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.text.cjk_ranges import is_chinese

__all__ = (
    "FenceNote",
    "Fenced",
    "fence",
    "fence_mark",
    "fenced_blocks",
    "indented",
    "indented_whole",
    "json_line",
    "one_line",
    "plain_name",
    "with_continuation_note",
)


_INDENT = " "
"""Indentation before every line of a fenced text but its first. One space costs no token in most texts."""
_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_LINE_START = late_pattern(f"(?<=[{_BREAKS}])(?=[^{_BREAKS}])")
"""Matches the beginning of each line that is not empty and not the first."""
_INDENTED_LINE = late_pattern(f"[{_BREAKS}]{_INDENT}")
_BREAK_RUN = late_pattern(f"[{_BREAKS}]+")
_RAW_BREAK = late_pattern("[\x85\u2028\u2029]")
"""Matches line breaks that JSON does not escape."""
_NOT_IN_NAMES = frozenset("():：（）[]<>")
_LONGEST_NAME = 64
_OPENING = late_pattern(r"(?P<note>[^\n]*)\n<(?P<label>[^\s<>]+) (?P<mark>[0-9a-f]+)>(?=\n)")
_GAP = "\n\n"
_LANGUAGE_SAMPLE = 4_000
"""Number of characters at the beginning of a text that decide if the line for it is Chinese or English."""


class FenceNote(NamedTuple):
    """The line above a fence (tags around stored text) that tells the model what is inside, in two languages."""

    en: str
    zh: str

    def of(self, text: str) -> str:
        """Return the Chinese line if `text` is Chinese, otherwise the English line."""
        return self.zh if is_chinese(text[:_LANGUAGE_SAMPLE]) else self.en


_CONTINUATION_NOTE = FenceNote(
    "An indented line belongs to the line above it.", "缩进的行属于它上面的一行。"
)


def fence_mark(text: str) -> str:
    """Return hexadecimal digits that do not occur in `text`, for the tags around it; the same for the same text."""
    digest = blake2b(text.encode("utf-8"), digest_size=32).hexdigest()
    for length in range(8, len(digest) + 1):
        if digest[:length] not in text:
            return digest[:length]
    # The text contains its own digest: a mark for a longer text that contains it serves too.
    return fence_mark(text + digest)


def fence(text: str, *, label: str, note: str | FenceNote) -> str:
    """Return the line `note` and below it `text`, between an opening and a closing tag that the text cannot contain."""
    mark = fence_mark(text)
    line = note.of(text) if isinstance(note, FenceNote) else note
    return f"{line}\n<{label} {mark}>\n{text}\n</{label} {mark}>"


@dataclass(frozen=True, slots=True)
class Fenced:
    """A text inside a fence: the line above the fence, the label in its tags, and the text."""

    note: str
    label: str
    text: str

    def __str__(self) -> str:
        return fence(self.text, label=self.label, note=self.note)


def fenced_blocks(text: str) -> list[Fenced] | None:
    """Parse `text` as texts between fence tags, separated by blank lines; returns None if it has anything else."""
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
    """Return `text` with every line but the first indented, to follow a label at the margin; empty lines stay empty."""
    return _LINE_START.sub(_INDENT, text)


def indented_whole(text: str) -> str:
    """Return `text` with every line indented, to go below a heading; empty lines stay empty."""
    first = "" if not text or _BREAK_RUN.match(text) else _INDENT
    return first + indented(text)


def with_continuation_note(note: FenceNote, text: str) -> FenceNote:
    """Return the line above a fence (tags around text); if `text` has indented lines, it explains the indentation."""
    if not _INDENTED_LINE.search(text):
        return note
    return FenceNote(f"{note.en} {_CONTINUATION_NOTE.en}", f"{note.zh}{_CONTINUATION_NOTE.zh}")


def one_line(text: str) -> str:
    """Return `text` with each run of line breaks replaced by one space, for use in a heading."""
    return _BREAK_RUN.sub(" ", text)


def json_line(value: object, *, sort_keys: bool = False) -> str:
    """Return a value as JSON on one line; line breaks that JSON does not escape (such as U+2028) are escaped too."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=sort_keys)
    return _RAW_BREAK.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_name(name: str) -> str:
    """Return a name without line breaks, colons and brackets, to put before a message; may be empty.

    Users choose their own names; without these characters a name cannot imitate the start of a message.
    """
    kept = "".join(
        letter if letter.isprintable() and letter not in _NOT_IN_NAMES else " " for letter in name
    )
    return " ".join(kept.split())[:_LONGEST_NAME].rstrip()

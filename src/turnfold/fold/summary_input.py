"""The input of a summary: messages as passages (speaker and text), and a cache of their sentences and facts.

Tool calls and results are passages too. A fold (compaction) needs the sentences of a passage three times: to find the
facts that must be kept, to choose the lines of an extract, and to compare with the finished summary. Splitting texts
and finding facts takes most of the time of a fold, so the results are cached for one fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import msgspec

from turnfold.fold.facts import FactMatch, find_hits
from turnfold.fold.summary_speakers import is_role, tool_name
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ToolResult,
)
from turnfold.text import Sentence, SentenceKind, is_chinese, plain_name, split_sentences
from turnfold.window import common_cap

__all__ = (
    "LONGEST_READ",
    "Passage",
    "ReadCache",
    "as_read",
    "brief_call",
    "hits_of",
    "passages_of",
)


LONGEST_READ = 200_000
"""Most characters that are read of one message, about 50,000 tokens of English; a longer one loses its middle."""
_READ_FROM_THE_START = 3 / 4
_LONGEST_WORD_CUT = 200
_WORD_ENDS = "\n 。，"
_LANGUAGE_SAMPLE = 4_000
_LONGEST_ARGUMENTS = 300
"""Most characters of the arguments of a tool call that are written as `key=value`, which then stay one line."""
_LONGEST_ARGUMENT = 120
"""Most characters of one argument of a tool call in an extract."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A message, or a tool call or result of it, as the summariser reads it."""

    speaker: str
    text: str
    position: int
    """Log position of the message."""
    unread: str = ""
    """The line of `text` that stands for the part of a huge message that is not read; empty if all of it is."""


class ReadCache:
    """Cache of the sentences of texts and of the facts found in them."""

    __slots__ = ("_hits", "_sentences")

    def __init__(self) -> None:
        self._sentences: dict[str, tuple[Sentence, ...]] = {}
        self._hits: dict[tuple[str, SentenceKind], tuple[FactMatch, ...]] = {}

    def sentences(self, text: str, *, gap: str = "") -> tuple[Sentence, ...]:
        """Return the sentences of `text`; `gap` is the line in it that replaces a skipped part."""
        sentences = self._sentences.get(text)
        if sentences is None:
            sentences = self._sentences[text] = tuple(split_sentences(text, gap=gap))
        return sentences

    def hits(self, text: str, kind: SentenceKind) -> tuple[FactMatch, ...]:
        """Return the facts (names, numbers, dates, rules) in one sentence, from the cache if it was read before."""
        hits = self._hits.get((text, kind))
        if hits is None:
            hits = self._hits[text, kind] = tuple(find_hits(text, kind))
        return hits


def as_read(passage: Passage, longest: int = LONGEST_READ) -> Passage:
    """Return the passage; if its text is longer than `longest` characters, a note replaces the middle of the text.

    Reading takes a few microseconds per character, so 50 MB of tool output would take minutes.
    """
    text = passage.text
    if passage.unread or len(text) <= longest:
        return passage
    head = _cut_before(text, int(longest * _READ_FROM_THE_START))
    tail = _cut_after(text, len(text) - (longest - head))
    unread = f"{tail - head:,}"
    chinese = is_chinese(text[:_LANGUAGE_SAMPLE])
    note = f"[…… 未读 {unread} 个字符 ……]" if chinese else f"[… {unread} characters not read …]"
    read = f"{text[:head]}\n{note}\n{text[tail:]}"
    return Passage(passage.speaker, read, passage.position, note)


def hits_of(passage: Passage, sentence: Sentence, reading: ReadCache) -> tuple[FactMatch, ...]:
    """Return the facts of a sentence; a note that a part of the message was not read is a fact too."""
    if passage.unread and sentence.text == passage.unread:
        return (FactMatch("unread", passage.unread.casefold(), 0, len(passage.unread)),)
    return reading.hits(sentence.text, sentence.kind)


def _cut_before(text: str, at: int) -> int:
    """Return the index at or shortly before `at` where the text can be cut, between words if possible."""
    found = max(text.rfind(mark, max(0, at - _LONGEST_WORD_CUT), at) for mark in _WORD_ENDS)
    return found + 1 if found >= 0 else at


def _cut_after(text: str, at: int) -> int:
    """Return the index at or shortly after `at` where the text can be cut, between words if possible."""
    places = (text.find(mark, at, at + _LONGEST_WORD_CUT) for mark in _WORD_ENDS)
    return min((found + 1 for found in places if found >= 0), default=at)


def passages_of(
    messages: Iterable[Message], *, first: int = 0, longest: int = LONGEST_READ
) -> list[Passage]:
    """Return the input of a summary: a passage for each text, tool call and tool result of the messages.

    `first` is the log position of the first message. A message of more than `longest` characters is read in part, with
    a note in each passage; 0 reads everything.
    """
    passages: list[Passage] = []
    names: dict[str, str] = {}
    for position, message in enumerate(messages, first):
        of_message = list(_passages(message, position, names))
        if longest and sum(len(passage.text) for passage in of_message) > longest:
            most = max(common_cap([len(passage.text) for passage in of_message], longest), 1)
            of_message = [as_read(passage, most) for passage in of_message]
        passages.extend(of_message)
    return passages


def _passages(message: Message, position: int, names: dict[str, str]) -> Iterator[Passage]:
    """Yield one message as input of a summary: its text, each tool call and each tool result, with the speaker.

    `names` holds the tools called so far, by call id; the calls of this message are added to it.
    """
    speaker = _speaker(message)
    text = _text_of(message.parts)
    if text.strip():
        yield Passage(speaker, text, position)
    for call in message.calls:
        names[call.id] = call.name
        yield Passage(
            f"{speaker} calls {tool_name(call.name)}", _arguments(call.arguments), position
        )
    for part in message.parts:
        if isinstance(part, ToolResult) and (result := _text_of(part.content)).strip():
            name = tool_name(names.get(part.call_id, message.name or ""))
            yield Passage(f"tool:{name}" if name else "tool", result, position)


def _arguments(written: str) -> str:
    """Return the arguments of a tool call as `key=value, key=value` if they are few and short, else as they are."""
    if len(written) > _LONGEST_ARGUMENTS:
        return written
    try:
        found: object = msgspec.json.decode(written)
    except (ValueError, RecursionError):
        return written
    if not isinstance(found, dict) or not found:
        return written
    pairs = cast("dict[str, object]", found)
    if any(isinstance(value, dict | list) or "\n" in str(value) for value in pairs.values()):
        return written
    return ", ".join(f"{key}={_argument(value)}" for key, value in pairs.items())


def brief_call(passage: Passage) -> Passage:
    """Return a tool call on one line, with only the beginning of long arguments, such as the content of a file."""
    text = passage.text
    try:
        found: object = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        pairs = cast("dict[str, object]", found).items()
        text = ", ".join(f"{key}={_beginning(_argument(value))}" for key, value in pairs)
    return replace(passage, text=_beginning(text, _LONGEST_ARGUMENTS), unread="")


def _beginning(text: str, most: int = _LONGEST_ARGUMENT) -> str:
    """Return the first line of a text, at most `most` characters of it, with `…` if there is more."""
    lines = text.strip().splitlines()
    first = lines[0] if lines else ""
    if len(first) > most:
        first = first[: _cut_before(first, most)].rstrip()
    return first if first == text.strip() else f"{first} …"


def _argument(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _speaker(message: Message) -> str:
    """Return the speaker of a message: its name, with its role if the name looks like a role; else its role."""
    name = plain_name(message.name) if message.name else ""
    if not name:
        return message.role
    # A user called "system" must not be taken for the system, nor a name such as "Ann calls pay" for a tool call.
    return f"{message.role} ({name})" if is_role(name) else name


def _text_of(parts: Iterable[Part]) -> str:
    """Return the text of a message's parts, with a placeholder such as `[image]` for a part without text."""
    texts: list[str] = []
    for part in parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case FilePart() if part.filename:
                texts.append(f"[file {part.filename}]")
            case ImagePart() | AudioPart() | FilePart() | OpaquePart():
                texts.append(f"[{type(part).__name__.removesuffix('Part').lower()}]")
            case _:
                pass
    return "\n".join(texts)

"""The input of a summary: messages as passages (speaker and text), with a cache of their sentences and facts.

Tool calls and results are passages too. A fold (compaction) needs the sentences of a passage three times: to find the
facts that must be kept, to choose the lines of an extract, and to compare with the finished summary. To split texts
and to look for facts takes most of the time of a fold, so the results are cached for one fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ParamSpec, TypeVar, cast

import msgspec

from turnfold._lazy_loading import late_pattern
from turnfold.fold.facts import FactMatch, find_hits
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
from turnfold.text import (
    Sentence,
    SentenceKind,
    clean_text,
    has_relative_time,
    is_chinese,
    is_path,
    is_program_output,
    plain_name,
    single_line,
    split_sentences,
)
from turnfold.window import common_cap

__all__ = (
    "ANNEX_HEADINGS",
    "LONGEST_READ",
    "Passage",
    "ReadCache",
    "as_read",
    "as_summary",
    "brief_call",
    "day_of",
    "hits_of",
    "is_call",
    "is_role",
    "is_tool",
    "line_of",
    "passages_of",
    "prefix_of",
    "role_of",
    "said_on",
    "split_prefix",
    "starts_with_label",
    "tool_name",
    "voice_of",
)


ANNEX_HEADINGS = {"en": "Also stated:", "zh": "另有提及："}
"""Language -> heading of the annex, the list of missing facts that is appended to a summary."""

_CHINESE_ROLES = {
    "user": "用户", "assistant": "助手", "system": "系统", "developer": "开发者", "tool": "工具", "function": "函数",
    "summary": "摘要",
}  # fmt: skip
_ROLES = {name: role for role, chinese in _CHINESE_ROLES.items() for name in (role, chinese)}
_VOICES = {  # role -> weight of its words
    "user": 1.0, "system": 1.0, "developer": 1.0, "summary": 1.0, "assistant": 0.75, "tool": 0.45, "function": 0.45,
}  # fmt: skip
_NAMED_SPEAKER_VOICE = 0.9
_FIRST_WORD = late_pattern(r"[:：\s（]")
_DATED = late_pattern(r"(?: \(\d{4}-\d\d-\d\d\)|（\d{4}-\d\d-\d\d）)\Z")
_PREFIXED = late_pattern(
    r"(?P<label>[^\s:：](?:[^:：\n]{0,160}[^\s:：])?(?::[\w.-]{1,80})?)(?:: |：)(?=\S)"
)
_NOT_IN_TOOL_NAMES = late_pattern(r"[^\w.-]+")
_LONGEST_TOOL_NAME = 64
_LONGEST_NAME = 64
"""Most characters of a speaker's name in the form "name: words"."""
_BULLET = late_pattern(r"\s*(?:[-*•]\s+)?")


@lru_cache(maxsize=256)
def role_of(speaker: str) -> str:
    """Return, in English, the role that a name such as `tool:get_order` begins with; any other name in lower case."""
    name = speaker.strip().lower()
    return _ROLES.get(_FIRST_WORD.split(name, maxsplit=1)[0], name)


def is_role(name: str) -> bool:
    """Return True if a speaker's name is a role, such as `user` or `tool:search`, and not a person's name."""
    return role_of(name) in _VOICES


def is_tool(speaker: str) -> bool:
    """Return True if the speaker is a tool or function."""
    return role_of(speaker) in ("tool", "function")


def is_call(speaker: str) -> bool:
    """Return True if the speaker is a message that calls a tool, such as `assistant calls search`."""
    return " calls " in speaker or " 调用 " in speaker


def voice_of(speaker: str) -> float:
    """Return the weight of a speaker's words, 0 to 1: highest for users and system messages, lowest for tools."""
    return _VOICES.get(role_of(speaker), _NAMED_SPEAKER_VOICE)


def prefix_of(speaker: str, *, chinese: bool, day: str = "") -> str:
    """Return the prefix of a speaker's line, such as `user: ` or `用户：`; roles are in the language of the summary.

    With `day`, the date on which it was said follows: `user (2023-05-25): `.
    """
    label = single_line(clean_text(speaker))
    if not label:
        return ""
    if not chinese:
        return f"{label} ({day}): " if day else f"{label}: "
    role = _FIRST_WORD.split(label, maxsplit=1)[0]
    rest = label[len(role) :].replace(" calls ", " 调用 ", 1)
    return f"{_CHINESE_ROLES.get(role, role)}{rest}{f'（{day}）' if day else ''}："


def split_prefix(line: str, labels: frozenset[str] = frozenset()) -> tuple[str, str]:
    """Split a line into speaker and words; the speaker is "" if it is neither a role nor one of `labels`.

    The date after a speaker is left out; see `day_of`.
    """
    prefix = _PREFIXED.match(line)
    if prefix is None:
        return "", line
    label = _DATED.sub("", prefix["label"])
    if not (label in labels or role_of(label) in _VOICES):
        return "", line
    return label, line[prefix.end() :]


def day_of(line: str) -> str:
    """Return the date after the speaker at the beginning of a line, such as `2023-05-25`; "" if there is none."""
    prefix = _PREFIXED.match(line)
    dated = _DATED.search(prefix["label"]) if prefix else None
    return dated[0].strip(" ()（）") if dated else ""


def said_on(passage: Passage, words: str) -> str:
    """Return the date to show with words of a passage, if they contain a relative date such as "yesterday"; else ""."""
    if not passage.day or is_tool(passage.speaker) or is_call(passage.speaker):
        return ""
    return passage.day if has_relative_time(words) else ""


def tool_name(name: str) -> str:
    """Return a tool's name for use in a speaker's name, with nothing but letters, digits, `.`, `-` and `_`."""
    return _NOT_IN_TOOL_NAMES.sub("_", name)[:_LONGEST_TOOL_NAME]


def starts_with_label(line: str) -> str:
    """Return the beginning of a line up to its colon if that may be a speaker's name; else ""."""
    if ":" not in line and "：" not in line:
        return ""
    found = _PREFIXED.match(line)
    if found is None or not (is_role(found["label"]) or len(found["label"]) <= _LONGEST_NAME):
        return ""
    return found[0]


def line_of(speaker: str, words: str, *, chinese: bool, day: str = "") -> str:
    """Return a line of a summary: speaker and words; words that only look like a speaker's get the prefix `summary`."""
    prefix = prefix_of(speaker, chinese=chinese, day=day)
    if not prefix and _reads_as_spoken(words, frozenset()):
        prefix = prefix_of("summary", chinese=chinese)
    return prefix + words


def as_summary(text: str, speakers: Iterable[str] = ()) -> str:
    """Return a model's summary, changed so that no line reads as the words of one of the `speakers` or of a role.

    A line such as `user: ...` in a model's text is only the model's claim of what the user said, so it gets the speaker
    `summary`; so does a line that looks like the heading of the annex.
    """
    labels = frozenset(single_line(clean_text(speaker)) for speaker in speakers)
    lines = text.splitlines()
    chinese = is_chinese(text)
    for at, line in enumerate(lines):
        start = _BULLET.match(line)
        words = line[start.end() :] if start else line
        if _reads_as_spoken(words, labels) or words.strip() in ANNEX_HEADINGS.values():
            lines[at] = (
                line[: len(line) - len(words)] + prefix_of("summary", chinese=chinese) + words
            )
    return "\n".join(lines)


def _reads_as_spoken(words: str, labels: frozenset[str]) -> bool:
    speaker, _ = split_prefix(words, labels)
    return bool(speaker) and role_of(speaker) != "summary"


LONGEST_READ = 200_000
"""Most characters that are read of one message, about 50,000 tokens of English; of a longer message, the middle is not
read."""
_READ_FROM_THE_START = 3 / 4
_LONGEST_WORD_CUT = 200
_WORD_ENDS = "\n 。，"
_LANGUAGE_SAMPLE = 4_000
_LONGEST_ARGUMENTS = 300
"""Most characters of a tool call's arguments that are rewritten as `key=value, key=value`; longer ones stay as they
are."""
_FILE_ARGUMENTS = (
    "file_path",
    "filepath",
    "filename",
    "file_name",
    "target_file",
    "notebook_path",
    "path",
    "file",
)
"""Names under which tools take the file that they read or write."""
_NO_FILE_CALL = frozenset({"pattern", "query", "regex", "glob", "cmd"})
"""Names of arguments that make the call a search or a command: a path among the arguments then only says where it
runs."""
_LONGEST_ARGUMENT = 120
"""Most characters of one argument of a tool call in an extract; a longer one is cut and ends in `…`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A message, or a tool call or result of it, as the summariser reads it."""

    speaker: str
    text: str
    position: int
    """Log position of the message."""
    unread: str = ""
    """The line of `text` that stands for the part of a huge message that is not read; empty if all of the message is
    read."""
    day: str = ""
    """The date on which the passage was said, such as `2023-05-25`; empty if unknown."""
    file: str = ""
    """The file that the tool call reads or writes, also in the result of the call; empty if the call names no file, or
    uses it in another way."""
    command: str = ""
    """What the tool call does with its file, if the tool takes a command for that, such as `view` or `create`."""


_BYTES_A_CHARACTER = 24
"""Approximate number of bytes that the cache takes for each character of text."""
_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


class ReadCache:
    """Cache of the sentences of texts, of the facts found in them, and of other results of reading a sentence."""

    __slots__ = ("_hits", "_once", "_sentences")

    def __init__(self) -> None:
        self._once: dict[object, object] = {}
        self._sentences: dict[str, tuple[Sentence, ...]] = {}
        self._hits: dict[tuple[str, SentenceKind], tuple[FactMatch, ...]] = {}

    @property
    def held_bytes(self) -> int:
        """Approximate memory of the cache, in bytes."""
        # A copy: another thread may be reading.
        return _BYTES_A_CHARACTER * sum(map(len, list(self._sentences)))

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

    def once(
        self, read: Callable[_Args, _Result], *args: _Args.args, **options: _Args.kwargs
    ) -> _Result:
        """Return `read(...)`, from the cache if it was called with these arguments; they must be hashable."""
        key = (read, args, *options.items())
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = read(*args, **options)
        return cast("_Result", found)


def as_read(passage: Passage, longest: int = LONGEST_READ) -> Passage:
    """Return the passage; the middle of a text longer than `longest` characters is replaced by a note.

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
    return replace(passage, text=read, unread=note)


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
    called: dict[str, tuple[str, str]] = {}
    for position, message in enumerate(messages, first):
        of_message = list(_passages(message, position, called))
        if longest and sum(len(passage.text) for passage in of_message) > longest:
            most = max(common_cap([len(passage.text) for passage in of_message], longest), 1)
            of_message = [as_read(passage, most) for passage in of_message]
        passages.extend(of_message)
    return passages


def _passages(
    message: Message, position: int, called: dict[str, tuple[str, str]]
) -> Iterator[Passage]:
    """Yield one message as input of a summary: its text, each tool call and each tool result, with the speaker.

    `called` holds the tools called so far and their files, by call id; the calls of this message are added to it.
    """
    speaker = _speaker(message)
    text = _text_of(message.parts)
    if text.strip():
        # Agents pass what a program printed on as a message of the user, whose words it is not.
        printed = message.role == "user" and is_program_output(text)
        yield Passage("tool" if printed else speaker, text, position)
    for call in message.calls:
        file, command = _called_file(call.arguments)
        called[call.id] = call.name, file
        yield Passage(
            f"{speaker} calls {tool_name(call.name)}",
            _arguments(call.arguments),
            position,
            file=file,
            command=command,
        )
    for part in message.parts:
        if isinstance(part, ToolResult) and (result := _text_of(part.content)).strip():
            tool, file = called.get(part.call_id, (message.name or "", ""))
            name = tool_name(tool)
            yield Passage(f"tool:{name}" if name else "tool", result, position, file=file)


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


def _called_file(written: str) -> tuple[str, str]:
    """Return the file that the arguments of a tool call name, and the command for it; "" for each that is not there.

    A call that searches or runs something names no file, although it may say where.
    """
    if not any(name in written for name in _FILE_ARGUMENTS):
        return "", ""
    try:
        found: object = msgspec.json.decode(written)
    except (ValueError, RecursionError):
        return "", ""
    return _file_in(cast("dict[str, object]", found)) if isinstance(found, dict) else ("", "")


def file_of_line(words: str) -> tuple[str, str]:
    """Return the file and the command of a tool call from its line in a summary: `path=src/app.py, content=…`."""
    pairs: dict[str, object] = {}
    for pair in words.split(", "):
        name, equals, value = pair.partition("=")
        if equals:
            pairs.setdefault(name, value)
    return _file_in(pairs)


def _file_in(pairs: Mapping[str, object]) -> tuple[str, str]:
    file = next((pairs[name] for name in _FILE_ARGUMENTS if name in pairs), "")
    command = pairs.get("command", "")
    if not (isinstance(file, str) and isinstance(command, str) and is_path(file)):
        return "", ""
    if ", " in file or single_line(clean_text(file)) != file:  # it would read as more than one file
        return "", ""
    if not _NO_FILE_CALL.isdisjoint(pairs) or not (command == "" or command.isidentifier()):
        return "", ""
    return file, command


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

"""Reads the transcript files of the Claude Agent SDK's program: texts beside tool calls, and the branch of a session.

A transcript is a tree of lines: a session that is resumed at an earlier message goes on from there in the same file, a
fork in a new one. Each line has the ids from which `SessionHooks` makes the client ids of log entries, so a branch is
known by these names, without its texts.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from turnfold.wire import JsonObject, encodable, list_of, object_of, text_at

__all__ = (
    "BranchMessage",
    "TextBeside",
    "TranscriptFile",
    "answer_name",
    "beside_name",
    "call_name",
    "is_name",
    "prompt_name",
    "read_branch",
    "result_name",
)


_MOST = 64 * 2**20
"""Most bytes of a transcript file that are read at once; the bytes after them are read at the next hook."""
_JOINTS = ("", "\n", "\n\n")
"""Texts that the SDK's program may put between the texts of an answer."""
_log = logging.getLogger("turnfold.adapters.claude_agent_sdk")


class TextBeside(NamedTuple):
    """A text that a model wrote in the same message as tool calls."""

    message: str
    """Id of the message that the text belongs to."""
    calls: list[str]
    text: str


class TranscriptFile:
    """Reads from a growing transcript file the texts that a model wrote in the same message as tool calls."""

    def __init__(self, path: str, *, begin: int = 0) -> None:
        self._path = Path(path)
        self._at = begin
        self._texts: dict[str, list[str]] = {}
        """Texts that were not taken from the transcript yet, by the id of their message."""
        self._calls: dict[str, str] = {}
        """Id of a tool call -> id of the message that has the call."""

    @classmethod
    def at_end(cls, path: str) -> TranscriptFile:
        """Return a reader that skips everything that is in the transcript file now."""
        found = Path(path)
        return cls(path, begin=found.stat().st_size if found.is_file() else 0)

    def take_beside(self, call: str) -> str:
        """Remove and return the text that a model wrote in the same message as a tool call; empty if not known yet."""
        self._read()
        return "\n\n".join(self._texts.pop(self._calls.get(call, ""), ()))

    def take_rest(self) -> list[TextBeside]:
        """Remove and return the texts written beside tool calls that `take_beside` has not taken yet.

        Texts of messages without a tool call, and the ids of all calls read so far, are forgotten.
        """
        self._read()
        calls: dict[str, list[str]] = {}
        for call, message in self._calls.items():
            calls.setdefault(message, []).append(call)
        found = [
            TextBeside(message, calls[message], "\n\n".join(texts))
            for message, texts in self._texts.items()
            if message in calls
        ]
        self._texts, self._calls = {}, {}
        return found

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read(_MOST)
        except FileNotFoundError:  # nothing was written yet
            return
        except OSError as error:
            fields = {"event": "transcript_unreadable", "error": type(error).__name__}
            _log.warning(
                "cannot read the transcript file of the Claude Agent SDK's program: texts beside tool calls are not "
                "logged",
                extra=fields,
            )
            return
        whole = data.rpartition(b"\n")[0]
        self._at += len(whole) + 1 if whole else 0
        for line in whole.split(b"\n"):
            self._add(line)

    def _add(self, line: bytes) -> None:
        entry = _decoded(line)
        message = object_of(entry.get("message")) or {}
        name = text_at(message, "id")
        if entry.get("type") != "assistant" or not name:
            return
        for block in list_of(message.get("content")) or []:
            fields = object_of(block) or {}
            if fields.get("type") == "text" and text_at(fields, "text").strip():
                self._texts.setdefault(name, []).append(encodable(text_at(fields, "text")))
            elif fields.get("type") == "tool_use":
                self._calls[text_at(fields, "id")] = name


def prompt_name(prompt: str) -> str:
    """Return the client id of the entry with a user's prompt."""
    return f"prompt:{prompt}"


def call_name(call: str) -> str:
    """Return the client id of the entry with a tool call."""
    return f"call:{call}"


def result_name(call: str) -> str:
    """Return the client id of the entry with the result of a tool call."""
    return f"result:{call}"


def beside_name(message: str) -> str:
    """Return the client id of the entry with a text that a model wrote in the same message as tool calls."""
    return f"beside:{message}"


def answer_name(prompt: str, answer: str) -> str:
    """Return the client id of the entry with the last answer to a prompt."""
    digest = blake2b(answer.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"answer:{prompt}:{digest}"


def is_name(name: str) -> bool:
    """Return True if a client id is one that the functions of this module make."""
    return name.startswith(("prompt:", "call:", "result:", "beside:", "answer:"))


class BranchMessage(NamedTuple):
    """A message of a transcript, with the content and ids by which its log entry is recognised."""

    content: tuple[str, ...]
    """"user" and the prompt; "assistant", the prompt and the answer; "call" or "result" and the id of the call."""
    names: tuple[str, ...]
    """Client ids that the log entry of the message may have."""
    certain: bool = True
    """False if the log entry may have another client id: a fork gives one prompt id to all prompts that it took
    over."""


class _Line(NamedTuple):
    parent: str
    prompt: str
    """Id of the prompt that the transcript line belongs to."""
    fields: JsonObject


def read_branch(path: Path, at: str = "") -> list[BranchMessage]:
    """Return the messages of a transcript up to line `at`, by default its newest line, on the branch of that line."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    lines: dict[str, _Line] = {}
    place = at
    for each in data.split(b"\n"):
        line = _decoded(each)
        uuid = text_at(line, "uuid")
        if not uuid or line.get("isSidechain") is True:
            continue
        # The line after a compaction names the line before it in a field of its own.
        parent = text_at(line, "parentUuid") or text_at(line, "logicalParentUuid")
        before = lines.get(parent)
        prompt = text_at(line, "promptId") or (before.prompt if before else "")
        lines[uuid] = _Line(parent, prompt, line)
        place = at or uuid
    branch: list[_Line] = []
    while place in lines:
        line = lines.pop(place)  # a damaged file may have a circle
        branch.append(line)
        place = line.parent
    return _messages(branch[::-1])


def _messages(branch: Sequence[_Line]) -> list[BranchMessage]:
    prompts = Counter(line.prompt for line in branch if _prompt_of(line))
    found: list[BranchMessage] = []
    answer: list[str] = []
    asked = ""
    for at, line in enumerate(branch):
        blocks = _blocks(line)
        certain = prompts[line.prompt] == 1
        if prompt := _prompt_of(line):
            asked = prompt
            found.append(BranchMessage(("user", asked), (prompt_name(line.prompt),), certain))
        if line.fields.get("type") == "user":
            calls = [text_at(one, "tool_use_id") for one in blocks]
            found += [
                BranchMessage(("result", call), (result_name(call),)) for call in calls if call
            ]
        elif line.fields.get("type") == "assistant":
            calls = [text_at(one, "id") for one in blocks if one.get("type") == "tool_use"]
            found += [BranchMessage(("call", call), (call_name(call),)) for call in calls]
            # The texts of a message are lines of their own; only a message without calls is an answer.
            answer = [] if calls else answer + _texts(blocks)
            if answer and _message_id(branch[at + 1 : at + 2]) != _message_id([line]):
                names = tuple(answer_name(line.prompt, between.join(answer)) for between in _JOINTS)
                content = "assistant", asked, "\n".join(answer)
                found.append(BranchMessage(content, names, certain))
                answer = []
    return found


def _prompt_of(line: _Line) -> str:
    """Return the user's prompt on a line; empty for other lines."""
    blocks = _blocks(line)
    is_result = any(one.get("type") == "tool_result" for one in blocks)
    if line.fields.get("type") != "user" or line.fields.get("isMeta") is True or is_result:
        return ""
    return "\n".join(_texts(blocks))


def _blocks(line: _Line) -> list[JsonObject]:
    content = (object_of(line.fields.get("message")) or {}).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [object_of(block) or {} for block in list_of(content) or []]


def _texts(blocks: Sequence[JsonObject]) -> list[str]:
    return [encodable(text_at(one, "text")) for one in blocks if one.get("type") == "text"]


def _message_id(lines: Sequence[_Line]) -> str:
    fields = lines[0].fields if lines else {}
    return text_at(object_of(fields.get("message")) or {}, "id")


def _decoded(line: bytes) -> JsonObject:
    try:
        return object_of(json.loads(line)) or {}
    except (ValueError, RecursionError):
        return {}  # a line that is still being written

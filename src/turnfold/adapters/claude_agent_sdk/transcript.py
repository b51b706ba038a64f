"""Reads texts that a model wrote beside its tool calls, from the transcript file of the SDK's command-line program.

No hook receives these texts. The program writes its transcript with a delay, so a text may be found together with its
call, or only when the turn ends.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import NamedTuple

from turnfold.wire import encodable, list_of, object_of, text_at

__all__ = ("TextBeside", "TranscriptFile")


_MOST = 64 * 2**20
"""The most bytes that are read of a transcript at once; the rest is read the next time."""
_log = logging.getLogger("turnfold.adapters.claude_agent_sdk")


class TextBeside(NamedTuple):
    """A text that a model wrote in the same message as tool calls."""

    message: str
    """Id of the message."""
    calls: list[str]
    text: str


class TranscriptFile:
    """Reads the texts that a model wrote beside tool calls from a transcript file, as it grows."""

    def __init__(self, path: str, *, begin: int = 0) -> None:
        self._path = Path(path)
        self._at = begin
        self._texts: dict[str, list[str]] = {}
        """Texts that were not taken yet, by the id of the message."""
        self._calls: dict[str, str] = {}
        """The id of the message, by the id of a call in it."""

    @classmethod
    def at_end(cls, path: str) -> TranscriptFile:
        """Return a reader that skips everything that is in the transcript file now."""
        found = Path(path)
        return cls(path, begin=found.stat().st_size if found.is_file() else 0)

    def take_beside(self, call: str) -> str:
        """Remove and return the text that a model wrote beside a tool call; empty if there is none (yet)."""
        self._read()
        return "\n\n".join(self._texts.pop(self._calls.get(call, ""), ()))

    def take_rest(self) -> list[TextBeside]:
        """Remove and return all other texts that a model wrote beside tool calls."""
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
        try:
            entry = object_of(json.loads(line)) or {}
        except (ValueError, RecursionError):
            return  # a line of another kind
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

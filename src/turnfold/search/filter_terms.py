"""Filter marks: index terms for the role, tools and paths of a message, by which a search is filtered.

A mark is a role, a tool or a path (`role:user`, `tool:grep`, `path:src`). Marks are indexed together with the terms of
the text. A term consists of letters and digits only, and a mark contains a colon, so no text can forge a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnfold.records import Message
from turnfold.search.filters import Within
from turnfold.text import paths_in, plain_path

__all__ = (
    "CALL_REACH",
    "Findable",
    "ToolNames",
    "findable",
    "marks_of_text",
    "required_marks",
)


CALL_REACH = 256
"""A tool result is indexed under its tool's name if its call is at most this many entries before it."""
_MOST_CALLS = 4 * CALL_REACH


@dataclass(frozen=True, slots=True)
class Findable:
    """A text to index for search, with the marks (index terms for role, tools, paths) that filters need."""

    text: str
    marks: frozenset[str]


def findable(message: Message, tools: Iterable[str]) -> Findable:
    """Return the text and filter marks (index terms) of a message; `tools` are the tools it calls or has results of."""
    text = message.text
    marks = {f"role:{message.role}", *(f"tool:{name}" for name in tools)}
    return Findable(text, marks_of_text(text) | marks)


def marks_of_text(text: str) -> frozenset[str]:
    """Return the index marks of a text for search filters: one for each path that it mentions."""
    return frozenset(f"path:{path}" for path in paths_in(text))


def required_marks(within: Within) -> list[list[str]]:
    """Return search filters as lists of index marks; a result must have at least one mark of each list."""
    filters = (
        [f"role:{role}" for role in within.roles],
        [f"tool:{name}" for name in within.tools],
        [f"path:{plain_path(path)}" for path in within.paths],
    )
    return [sorted(marks) for marks in filters if marks]


class ToolNames:
    """Finds the tool name of a tool result by the tool calls before it in the conversation.

    The messages of a log are passed to `of` in order, beginning after the entry `after`. `earlier` returns the messages
    up to that entry (at most `CALL_REACH`, oldest first); it is called once, for the first result whose call was not
    seen. `calls` are calls that are already known: seq and tool name by call id.
    """

    def __init__(
        self,
        *,
        after: int = 0,
        earlier: Callable[[], Sequence[Message | None]] | None = None,
        calls: Mapping[str, tuple[int, str]] | None = None,
    ) -> None:
        self._at = self._after = after
        self._earlier = earlier
        self._calls = dict(calls or {})

    @property
    def calls(self) -> Mapping[str, tuple[int, str]]:
        """The tool calls read so far, as {call id: (log position, tool name)}."""
        return self._calls

    def of(self, message: Message) -> list[str]:
        """Return the names of the tools that the next message of the log calls or has results of.

        The calls of the message are remembered.
        """
        self._at += 1
        names = [call.name for call in message.calls]
        for result in message.results:
            name = message.name or self._called_tool(result.call_id)
            names += [name] if name else []
        for call in message.calls:
            self._calls[call.id] = (self._at, call.name)
        if len(self._calls) > _MOST_CALLS:
            self._calls = {
                call_id: (at, name)
                for call_id, (at, name) in self._calls.items()
                if self._at - at <= CALL_REACH
            }
        return names

    def needs_earlier(self, messages: Iterable[Message]) -> bool:
        """Return True if one of the next messages has the result of a tool call that was not read yet."""
        seen = set(self._calls)
        for message in messages:
            if not message.name and any(each.call_id not in seen for each in message.results):
                return True
            seen.update(call.id for call in message.calls)
        return False

    def skip(self) -> None:
        """Continue with the next entry of the log, because the message of this entry cannot be read."""
        self._at += 1

    def learn(self, earlier: Sequence[Message | None]) -> None:
        """Remember the tool calls of messages that come before the first one passed in, oldest first.

        None stands for a message that cannot be read.
        """
        for back, message in enumerate(reversed(earlier)):
            for call in message.calls if message is not None else ():
                self._calls.setdefault(call.id, (self._after - back, call.name))

    def _called_tool(self, call_id: str) -> str:
        if call_id not in self._calls and self._earlier is not None:
            earlier, self._earlier = self._earlier(), None
            self.learn(earlier)
        at, name = self._calls.get(call_id, (self._at, ""))
        return name if self._at - at <= CALL_REACH else ""

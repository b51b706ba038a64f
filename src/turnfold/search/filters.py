"""Search filters: by role, tool, turn, path, time and kind, with the same meaning on every backend.

Role, tools and paths of a message are indexed as terms in addition to its words (filter marks): so an index can apply
them.

A filter never changes the weight of a word: how rare a word is, is counted over everything that could be found without
the filter. So a filtered search returns the results of the unfiltered one, less those that the filter excludes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.records import ROLES, Message
from turnfold.text import paths_in, plain_path

__all__ = (
    "ALL_ENTRIES",
    "CALL_REACH",
    "CHECKPOINT",
    "ENTRY",
    "Findable",
    "ToolNames",
    "Within",
    "findable",
    "marks_of_text",
    "required_marks",
)


ENTRY = ""
"""Kind of a search result that is an entry of the log."""
CHECKPOINT = "checkpoint"
"""Kind of a search result that is the summary of a checkpoint."""

_FURTHEST = (1 << 62) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Filters of a search: a result must match every filter that is set, by at least one of the filter's values."""

    roles: frozenset[str] = frozenset()
    """Roles of the message; with this filter, only entries are found."""
    tools: frozenset[str] = frozenset()
    """Names of tools: an entry matches if it calls one of them or holds a result of one; a result is matched by its
    name, or by its call at most 256 entries before."""
    turns: tuple[int, int] | None = None
    """The first and the last turn, both included; with this filter, only entries are found."""
    paths: frozenset[str] = frozenset()
    """Files or folders: the text must mention one of them, or a path inside one of them."""
    since: int | None = None
    """Only results written at this time or later, in microseconds since 1970."""
    until: int | None = None
    """Only results written before this time, in microseconds since 1970."""
    kinds: frozenset[str] | None = frozenset({ENTRY})
    """Kinds of results: `ENTRY`, `CHECKPOINT` or kinds of documents; None for all kinds."""

    def __post_init__(self) -> None:
        _check_names("role", self.roles, known=ROLES)
        _check_names("tool", self.tools)
        _check_names("path", self.paths)
        for path in self.paths:
            if not plain_path(path):
                raise InvalidOption(
                    f"paths= has {path!r}, which is not the name of a file or folder: give a path such as src/app.py"
                )
        _check_turns(self.turns)
        _check_times(self.since, self.until)
        self._check_kinds()

    @property
    def entries_only(self) -> bool:
        """True if a filter is set that only log entries can match: roles, tools or turns."""
        return bool(self.roles or self.tools or self.turns is not None)

    def counts(self, kind: str) -> bool:
        """Return True if texts of this kind count for the statistics of how rare a word is."""
        if kind == ENTRY:
            return self.kinds is None or ENTRY in self.kinds
        return self.counts_documents

    @property
    def counts_documents(self) -> bool:
        """True if documents and checkpoints count for the statistics of how rare a word is."""
        return self.kinds is None or bool(self.kinds - {ENTRY})

    @property
    def includes_documents(self) -> bool:
        """True if the filters allow documents or checkpoints as results."""
        return self.counts_documents and not self.entries_only

    def includes(self, kind: str) -> bool:
        """Return True if the filters allow results of this kind (entry, checkpoint or document)."""
        if kind != ENTRY and self.entries_only:
            return False
        return self.kinds is None or kind in self.kinds

    def includes_time(self, created: int) -> bool:
        """Return True if the filters allow results written at this time (microseconds since 1970)."""
        return (self.since is None or created >= self.since) and (
            self.until is None or created < self.until
        )

    def includes_turn(self, turn: int) -> bool:
        """Return True if the filters allow log entries of this turn."""
        return self.turns is None or self.turns[0] <= turn <= self.turns[1]

    def _check_kinds(self) -> None:
        if self.kinds is None:
            return
        _check_names("kind", self.kinds - {ENTRY})
        if not self.kinds:
            raise InvalidOption(
                "kinds= is empty, so nothing could be found: use kinds=None for all kinds"
            )
        if self.entries_only and ENTRY not in self.kinds:
            raise InvalidOption(
                f"roles, tools and turns match entries only, but kinds={sorted(self.kinds)} excludes entries: "
                "nothing could be found"
            )


def _check_names(what: str, names: frozenset[str], *, known: frozenset[str] | None = None) -> None:
    if not isinstance(names, frozenset):  # pyright: ignore[reportUnnecessaryIsInstance] (a plain string would be read as a set of letters)
        raise InvalidOption(
            f"{what}s must be a frozenset of texts, for example frozenset({{'...'}}), "
            f"got {type(names).__name__} {names!r}"
        )
    for name in names:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"a {what} must be text that is not empty, got {name!r}")
        if known is not None and name not in known:
            raise InvalidOption(f"unknown {what} {name!r}: use one of {', '.join(sorted(known))}")


def _check_turns(turns: tuple[int, int] | None) -> None:
    if turns is None:
        return
    if len(turns) != 2 or not 0 <= turns[0] <= turns[1] <= _FURTHEST:
        raise InvalidOption(
            f"turns={turns!r} must be (first, last): two turn numbers with 0 <= first <= last <= {_FURTHEST}"
        )


def _check_times(since: int | None, until: int | None) -> None:
    for name, value in (("since", since), ("until", until)):
        if value is not None and not -_FURTHEST <= value <= _FURTHEST:
            raise InvalidOption(
                f"{name}={value} must be microseconds since 1970, from {-_FURTHEST} to {_FURTHEST}"
            )
    if since is not None and until is not None and since >= until:
        raise InvalidOption(f"since={since} is not before until={until}: nothing could be found")


ALL_ENTRIES = Within()
"""No filter: every entry."""


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

"""What a place in a conversation is found by: the terms of its text, and marks that filters ask for.

A mark says who spoke, which tool it is about, which path it mentions. Marks stand in the index beside the terms; a term
is letters and digits only and a mark never is, so no text can pretend to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnfold.recall.paths import paths_in, plain_path
from turnfold.records import Message
from turnfold.stores.within import Within

__all__ = ("CALL_REACH", "Findable", "ToolNames", "findable", "marks_of_text", "required_marks")

CALL_REACH = 256
"""Entries between a call and its answer, at most, for the answer to be known as that tool's."""
_MOST_CALLS = 4 * CALL_REACH


@dataclass(frozen=True, slots=True)
class Findable:
    """A text with its marks."""

    text: str
    marks: frozenset[str]


def findable(message: Message, tools: Iterable[str]) -> Findable:
    """What an entry is found by; `tools` are those it calls or answers for."""
    text = message.text
    marks = {f"role:{message.role}", *(f"tool:{name}" for name in tools)}
    return Findable(text, marks_of_text(text) | marks)


def marks_of_text(text: str) -> frozenset[str]:
    """The marks that a text alone gives."""
    return frozenset(f"path:{path}" for path in paths_in(text))


def required_marks(within: Within) -> list[list[str]]:
    """Sets of marks, of each of which what is found must have one."""
    asked = (
        [f"role:{role}" for role in within.roles],
        [f"tool:{name}" for name in within.tools],
        [f"path:{plain_path(path)}" for path in within.paths],
    )
    return [sorted(marks) for marks in asked if marks]


class ToolNames:
    """Which tool an answer is from, told by the calls that came before it in its conversation.

    Entries are shown in order, beginning after the seq `after`. `earlier` gives the messages before (at most
    `CALL_REACH`, oldest first); it is asked once, when an answer comes whose call was not seen. `calls` are known
    already.
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
        """The calls seen: by id, where they stand and which tool they call."""
        return self._calls

    def of(self, message: Message) -> list[str]:
        """The tools that the next entry calls or answers for."""
        self._at += 1
        names = [call.name for call in message.calls]
        for result in message.results:
            name = message.name or self._answered(result.call_id)
            names += [name] if name else []
        for call in message.calls:
            self._calls[call.id] = (self._at, call.name)
        if len(self._calls) > _MOST_CALLS:
            self._forget()
        return names

    def needs_earlier(self, messages: Iterable[Message]) -> bool:
        """Whether answers among the next entries belong to calls that neither were seen nor are among them."""
        known = set(self._calls)
        for message in messages:
            if not message.name and any(each.call_id not in known for each in message.results):
                return True
            known.update(call.id for call in message.calls)
        return False

    def skip(self) -> None:
        """Pass over an entry that cannot be read."""
        self._at += 1

    def learn(self, earlier: Sequence[Message | None]) -> None:
        """See the messages right before the first; None for one that cannot be read."""
        for back, message in enumerate(reversed(earlier)):
            for call in message.calls if message is not None else ():
                self._calls.setdefault(call.id, (self._after - back, call.name))

    def _answered(self, call_id: str) -> str:
        if call_id not in self._calls and self._earlier is not None:
            earlier, self._earlier = self._earlier(), None
            self.learn(earlier)
        at, name = self._calls.get(call_id, (self._at, ""))
        return name if self._at - at <= CALL_REACH else ""

    def _forget(self) -> None:
        self._calls = {
            call_id: (at, name)
            for call_id, (at, name) in self._calls.items()
            if self._at - at <= CALL_REACH
        }

"""Which message of a graph's state stands where in a context, and what of the context the state does not show any more.

The log keeps every version of everything; the state has one. A thread may go back in time, a message may be removed or
changed, a step may be done again: then the log holds what the state has left behind. What the model is shown must be
what the state says, at the place where it was first said, and each call still with its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage, ToolMessage

from turnfold.adapters.langchain.restoring import own_of
from turnfold.adapters.langchain.run_log import RunLog
from turnfold.window import Context

__all__ = ("Placed",)


@dataclass(slots=True)
class Placed:
    """The messages of a state in a context."""

    current: dict[int, BaseMessage] = field(default_factory=dict[int, BaseMessage])
    """By place: the message as the state has it now, whichever version of it the log shows there."""
    hidden: set[int] = field(default_factory=set[int])
    """Places of what is not shown."""
    _shown: set[int] = field(default_factory=set[int])

    @classmethod
    def of(cls, context: Context, history: Sequence[BaseMessage], log: RunLog) -> Placed:
        """Where the messages of a state stand in a context."""
        placed = cls()
        placed._find_versions(context, history, log)
        placed._find_answers(context, history)
        placed._hide_repetitions(context, history)
        placed._hide_left_behind(context, placed._begun(context, history, log))
        placed._hide_stand_ins(context)
        return placed

    def __contains__(self, message: BaseMessage) -> bool:
        return id(message) in self._shown

    def _find_versions(self, context: Context, history: Sequence[BaseMessage], log: RunLog) -> None:
        by_name = {log.name(message): message for message in history}
        by_id = {message.id: message for message in history if message.id}
        for at, _ in _places(context):
            own = own_of(context.messages[at])
            found = (by_name.get(own.name) or by_id.get(own.id)) if own is not None else None
            if found is not None:
                self.current[at] = found
                self._shown.add(id(found))

    def _find_answers(self, context: Context, history: Sequence[BaseMessage]) -> None:
        """A tool that ran again has another answer; the log shows the first one with the call."""
        answers = {
            message.tool_call_id: message
            for message in history
            if isinstance(message, ToolMessage) and id(message) not in self._shown
        }
        asked: frozenset[str] = frozenset()
        for at, _ in _places(context) if answers else ():
            record = context.messages[at]
            if record.calls:
                asked = frozenset(call.id for call in record.calls if at in self.current)
            for result in record.results if at not in self.current else ():
                if result.call_id in asked and result.call_id in answers:
                    self.current[at] = again = answers.pop(result.call_id)
                    self._shown.add(id(again))

    def _hide_repetitions(self, context: Context, history: Sequence[BaseMessage]) -> None:
        """Of several versions of a message all places but the first.

        A call or an answer whose first version was folded has its place in the summary: where a later version was
        stored, behind messages that the state has after it, it would stand apart from its answer or its call.
        """
        order = {id(message): number for number, message in enumerate(history)}
        placed: set[int] = set()
        latest = 0
        for at, _ in _places(context):
            current = self.current.get(at)
            if current is None:
                continue
            record, number = context.messages[at], order[id(current)]
            out_of_order = bool(record.calls or record.results) and number < latest
            if id(current) in placed or out_of_order:
                self.hidden.add(at)
            placed.add(id(current))
            latest = max(latest, number)

    def _begun(self, context: Context, history: Sequence[BaseMessage], log: RunLog) -> int:
        """The entry at which the state begins: the first of any version of any of its messages; 0 where none is stored.

        The first message may have been changed: its newest version is stored late, but the state began with the
        oldest, and what was abandoned right after it lies between the two.
        """
        stored = [log.first_seq(message) for message in history]
        shown = [seq for at, seq in _places(context) if at in self.current]
        return min((seq for seq in (*stored, *shown) if seq > 0), default=0)

    def _hide_left_behind(self, context: Context, begun: int) -> None:
        """What was stored after the state's first message, at `begun`, and is not in the state.

        A state that is kept shows what it began with. What was stored before may be of a run whose state was not kept.
        """
        if not begun:
            return
        for at, seq in _places(context):
            ours = at not in self.current and own_of(context.messages[at]) is not None
            if ours and seq > begun:
                self.hidden.add(at)

    def _hide_stand_ins(self, context: Context) -> None:
        """What stands for a result that never came goes with its call."""
        gone: set[str] = set()
        for at, seq in _places(context):
            record = context.messages[at]
            calls = {call.id for call in record.calls}
            gone = gone | calls if at in self.hidden else gone - calls
            stands_in = seq < 0 and at not in self.current and own_of(record) is None
            if stands_in and {result.call_id for result in record.results} <= gone:
                self.hidden.add(at)


def _places(context: Context) -> Iterator[tuple[int, int]]:
    """Index and seq of the messages of window and newest turn; -1 for what only stands for an entry."""
    _, begin, end, newest = context.ends
    at = [*range(begin, end), *range(newest, len(context.messages))]
    return zip(at, context.positions, strict=True)

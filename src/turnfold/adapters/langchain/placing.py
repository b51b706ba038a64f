"""Which message of a graph's state stands where in a context, and what of the context the state does not show any more.

The log keeps every version of everything; the state has one. A thread may go back in time, a message may be removed or
changed, a step may be done again: then the log holds what the state has left behind. What the model is shown must be
what the state says, at the place where it was first said, and each call still with its answer.

A state may also begin anew (a thread that went back to its very start, a run whose state was not kept): what was said
before it is shown as the newest state before it said it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from turnfold.adapters.langchain.restoring import own_of
from turnfold.adapters.langchain.run_log import RunLog, newest_question
from turnfold.window import Context

__all__ = ("Placed",)


@dataclass(slots=True)
class Placed:
    """The messages of a state in a context."""

    current: dict[int, BaseMessage] = field(default_factory=dict[int, BaseMessage])
    """By place: the message as the state has it now, whichever version of it the log shows there."""
    hidden: set[int] = field(default_factory=set[int])
    """Places of what is not shown."""
    moved: dict[int, int] = field(default_factory=dict[int, int])
    """By place, for what was said before the state began: the place of the newer version that is shown there."""
    left: set[str] = field(default_factory=set[str])
    """Names of what the log shows after the state's first message and the state does not have."""
    _shown: set[int] = field(default_factory=set[int])
    _again: dict[int, int] = field(default_factory=dict[int, int])
    """By message: the last place at which it was said again. A turn is said again whole, in its order."""

    @classmethod
    def of(cls, context: Context, history: Sequence[BaseMessage], log: RunLog) -> Placed:
        """Where the messages of a state stand in a context."""
        placed = cls()
        placed._find_versions(context, history, log)
        placed._find_answers(context, history)
        placed._hide_repetitions(context, history)
        begun = placed._begun(context, history, log)
        placed._hide_left_behind(context, begun)
        placed._hide_left_before(context, begun, log)
        placed._hide_stand_ins(context)
        return placed

    def __contains__(self, message: BaseMessage) -> bool:
        return id(message) in self._shown

    def has_lost_question(self, context: Context, history: Sequence[BaseMessage]) -> bool:
        """Whether the window shows no question of the newest turn, because another turn, left behind, is the newest."""
        question = history[newest_question(history)] if history else None
        if not isinstance(question, HumanMessage) or question in self:
            return False
        return any(context.messages[at].role == "user" for at in self.hidden)

    def _find_versions(self, context: Context, history: Sequence[BaseMessage], log: RunLog) -> None:
        by_name = {log.name(message): message for message in history}
        by_id = {message.id: message for message in history if message.id}
        for at, _ in _places(context):
            own = own_of(context.messages[at])
            found = (by_name.get(own.name) or by_id.get(own.id)) if own is not None else None
            if own is not None and found is not None:
                self.current[at] = found
                self._shown.add(id(found))
                if own.again:
                    self._again[id(found)] = at
                if own.name not in by_name:
                    self.left.add(own.name)

    def _find_answers(self, context: Context, history: Sequence[BaseMessage]) -> None:
        """A tool that ran again has another answer; the log shows the first one with the call."""
        answers = _answers(history)
        asked: BaseMessage | None = None
        for at, _ in _places(context) if answers else ():
            record = context.messages[at]
            if record.calls:
                asked = self.current.get(at)
            for result in record.results if at not in self.current else ():
                again = answers.get((id(asked), result.call_id))
                if again is not None:
                    self.current[at] = again
                    self._shown.add(id(again))

    def _hide_repetitions(self, context: Context, history: Sequence[BaseMessage]) -> None:
        """Of several versions of a message all places but the first, or but the last where its turn was said again.

        What a model or a tool said and whose first version was folded has its place in the summary: where a later
        version was stored, behind messages that the state has after it, it would stand apart from its question, its
        answer or its call. What a user said may stand there.
        """
        order = {id(message): number for number, message in enumerate(history)}
        placed: set[int] = set()
        latest = 0
        for at, _ in _places(context):
            current = self.current.get(at)
            if current is None:
                continue
            if self._again.get(id(current), at) != at:
                self.hidden.add(at)
                continue
            record, number = context.messages[at], order[id(current)]
            out_of_order = record.role != "user" and number < latest
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
            own = own_of(context.messages[at]) if at not in self.current else None
            if own is not None and seq > begun:
                self.hidden.add(at)
                self.left.add(own.name)

    def _hide_left_before(self, context: Context, begun: int, log: RunLog) -> None:
        """What was said before the state began: one version of each message, and nothing that was left by then."""
        versions: dict[str, list[int]] = {}
        alive: dict[str, int] = {}
        folded: set[str] = set()
        for at, seq in _places(context):
            own = own_of(context.messages[at]) if 0 < seq < begun else None
            if own is None or at in self.current:
                continue
            message = own.id or own.name
            if message not in versions and 0 < log.first_of(own.id) < seq:
                folded.add(
                    message
                )  # its place is in the summary: here it would stand behind what came after it
            versions.setdefault(message, []).append(at)
            if own.name not in log.left:
                alive[message] = at
        for message, places in versions.items():
            self.hidden.update(places)
            if message in alive and message not in folded:
                self.hidden.discard(places[0])
                if alive[message] != places[0]:
                    self.moved[places[0]] = alive[message]
        if versions:
            self._keep_pairs(context, begun)

    def _keep_pairs(self, context: Context, begun: int) -> None:
        """Before the state began: no answer without its call, no call without an answer."""
        asked: set[str] = set()
        answers: dict[str, int] = {}
        for at, seq in _places(context):
            if seq >= begun:
                continue
            record = context.messages[self.moved.get(at, at)]
            if at not in self.hidden:
                asked |= {call.id for call in record.calls}
            for result in record.results:
                if at in self.hidden:
                    answers.setdefault(result.call_id, at)
                elif result.call_id not in asked:
                    self.hidden.add(at)
                else:
                    asked.discard(result.call_id)
        self.hidden -= {answers[call] for call in asked if call in answers}

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


def _answers(history: Sequence[BaseMessage]) -> dict[tuple[int, str], ToolMessage]:
    """The answers of a state, by the message that called and the call: another message may have used the same id."""
    found: dict[tuple[int, str], ToolMessage] = {}
    callers: dict[str, BaseMessage] = {}
    for message in history:
        if isinstance(message, AIMessage):
            callers |= {call["id"] or "": message for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in callers:
            found[id(callers[message.tool_call_id]), message.tool_call_id] = message
    return found


def _places(context: Context) -> Iterator[tuple[int, int]]:
    """Index and seq of the messages of window and newest turn; -1 for what only stands for an entry."""
    _, begin, end, newest = context.ends
    at = [*range(begin, end), *range(newest, len(context.messages))]
    return zip(at, context.positions, strict=True)

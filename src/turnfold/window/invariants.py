"""Checks the invariants of a context: within budget, calls and results in pairs, order kept, counts right.

`check` shares no code with `assemble`: it counts all messages again, matches calls and results from the messages alone,
and compares positions with the receipt (context report). It returns every violation it finds; an empty tuple means that
the provider will accept the context and that no message is missing without being reported. It also takes plain
messages, to check a log or the window of another library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnfold.budget import Budget
from turnfold.records import Message, as_messages
from turnfold.tokens import TokenCounter
from turnfold.window.context import Context, Outcome
from turnfold.window.strategies import message_bytes

__all__ = (
    "Rule",
    "Violation",
    "check",
)


class Rule(StrEnum):
    """The rules that every context must keep."""

    WITHIN_BUDGET = "within-budget"
    SYSTEM_FIRST = "system-first"
    """System messages come before all others."""
    CALL_ANSWERED = "call-answered"
    """Every tool call has its result after it."""
    RESULT_CALLED = "result-called"
    """Every tool result has its call before it."""
    NOT_EMPTY = "not-empty"
    """Every message has content."""
    ORDER_KEPT = "order-kept"
    """Messages are in the order of the log."""
    CONTIGUOUS = "contiguous"
    """Every message from the window's first one on is sent, or listed as an omission."""
    COUNTED_RIGHT = "counted-right"
    """The token counts in the context are those of the token counter."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a context breaks: the rule, the message at which it is broken, and how."""

    rule: Rule
    index: int
    """Index of the message; -1 for the whole context."""
    detail: str

    def __str__(self) -> str:
        where = f" at message {self.index}" if self.index >= 0 else ""
        return f"{self.rule}{where}: {self.detail}"


def check(
    context: Context | Iterable[object],
    *,
    budget: Budget | None = None,
    counter: TokenCounter | None = None,
) -> tuple[Violation, ...]:
    """Return every rule that a context breaks; empty if it is valid.

    For plain messages, the size is checked only if `budget` and `counter` are given.
    """
    if isinstance(context, Context):
        return (
            *_check_pairs(context.messages),
            *_check_size(
                context.messages,
                budget or context.budget,
                counter or context.counter,
                context.tools,
            ),
            *_check_positions(context),
            *_check_counts(context),
        )
    messages = as_messages(context)
    found = tuple(_check_pairs(messages))
    if budget is None or counter is None:
        return found
    return (*found, *_check_size(messages, budget, counter, 0))


def _check_pairs(messages: Sequence[Message]) -> Iterator[Violation]:
    """Yield violations of the order of roles, and tool calls and results that are not in pairs."""
    open_calls: Counter[str] = Counter()
    caller = -1
    started = False
    for index, message in enumerate(messages):
        if message.role == "system":
            if started:
                yield Violation(Rule.SYSTEM_FIRST, index, "system message inside the conversation")
            continue
        started = True
        if not message.parts:
            yield Violation(Rule.NOT_EMPTY, index, f"{message.role} message without content")
        if message.role != "tool":
            yield from _check_answered(open_calls, caller)
            open_calls, caller = Counter(call.id for call in message.calls), index
            continue
        for result in message.results:
            if open_calls[result.call_id] <= 0:
                yield Violation(
                    Rule.RESULT_CALLED, index, f"result for {result.call_id!r} without its call"
                )
            open_calls[result.call_id] -= 1
    yield from _check_answered(open_calls, caller)


def _check_answered(open_calls: Counter[str], caller: int) -> Iterator[Violation]:
    for call_id, waiting in open_calls.items():
        if waiting > 0:
            yield Violation(Rule.CALL_ANSWERED, caller, f"call {call_id!r} has no result after it")


def _check_size(
    messages: Sequence[Message], budget: Budget, counter: TokenCounter, tools: int
) -> Iterator[Violation]:
    tokens = sum(counter.count_message(message) for message in messages) + counter.reply + tools
    if tokens > budget.tokens:
        yield Violation(Rule.WITHIN_BUDGET, -1, f"{tokens:,} tokens, allowed {budget.tokens:,}")
    if budget.max_messages and len(messages) > budget.max_messages:
        detail = f"{len(messages)} messages, allowed {budget.max_messages}"
        yield Violation(Rule.WITHIN_BUDGET, -1, detail)
    if budget.max_bytes:
        size = sum(map(message_bytes, messages)) + 1
        if size > budget.max_bytes:
            yield Violation(Rule.WITHIN_BUDGET, -1, f"{size:,} bytes, allowed {budget.max_bytes:,}")


def _check_positions(context: Context) -> Iterator[Violation]:
    """Yield the messages, from the window's first one on, that are neither sent in log order nor listed as omitted.

    Before the window, only the user message that opened its first turn may be sent.
    """
    explained = {
        position
        for fate in context.fates
        if fate.outcome in (Outcome.DROPPED, Outcome.MOVED)
        and fate.start >= context.anchor.position
        for position in range(fate.start, fate.stop)
    }
    expected = context.head
    for index, position in enumerate(context.positions):
        if position < 0 or position in explained:
            continue
        if position < expected:
            yield Violation(
                Rule.ORDER_KEPT, index, f"log position {position} is sent after {expected - 1}"
            )
            continue
        if position < context.anchor.position and position != context.head:
            yield Violation(Rule.CONTIGUOUS, index, f"log position {position} is before the anchor")
        for missing in range(max(expected, context.anchor.position), position):
            if missing not in explained:
                yield Violation(
                    Rule.CONTIGUOUS,
                    index,
                    f"log position {missing} is left out without an omission",
                )
        expected = position + 1


def _check_counts(context: Context) -> Iterator[Violation]:
    if len(context.messages) != len(context.costs):
        detail = f"{len(context.costs)} costs for {len(context.messages)} messages"
        yield Violation(Rule.COUNTED_RIGHT, -1, detail)
    for index, (message, cost) in enumerate(zip(context.messages, context.costs, strict=False)):
        counted = context.counter.count_message(message)
        if counted != cost:
            yield Violation(
                Rule.COUNTED_RIGHT, index, f"recorded as {cost} tokens, recounted as {counted}"
            )
    total = sum(context.costs) + context.tools + context.counter.reply
    if total != context.tokens:
        yield Violation(
            Rule.COUNTED_RIGHT,
            -1,
            f"the total is {context.tokens:,} tokens, the parts sum to {total:,}",
        )

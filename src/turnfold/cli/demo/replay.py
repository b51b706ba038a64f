"""A conversation replayed call by call: before each thing the assistant said, the context turnfold would have sent.

Nothing here draws or waits. Each step carries the assembled context, what `check` found in it, and what changed since
the call before: messages folded into the summary, a result shortened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnfold.budget import Budget
from turnfold.cli.demo.sample import Sample, pinned_by
from turnfold.records import Message, user
from turnfold.summary import extractive_summarizer
from turnfold.tokens import TokenCounter
from turnfold.window import (
    Anchor,
    Context,
    Piece,
    Section,
    Transcript,
    Violation,
    anchored_view,
    assemble,
    check,
    fence,
    summarise,
    summary_message,
)

__all__ = ("Fold", "Shrunk", "Step", "replay")

_PIN_NOTE = "Rules the user set for the whole conversation, word for word."
_EXCERPT_LINES = 2
_SPEAKERS = (("user:", "用户："), ("assistant:", "助手："))


@dataclass(frozen=True, slots=True)
class Fold:
    """Messages that a summary stands for from this call on."""

    messages: int
    tokens: int
    """What those messages cost."""
    needed: int
    """What the call would have cost without the fold."""
    summary_before: int
    """Tokens of the summary that the new one takes in and replaces; 0 for the first."""
    summary_tokens: int
    excerpt: tuple[str, ...]
    """Lines of the new summary that speak of the messages just folded."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A message that is sent shortened from this call on."""

    position: int
    tool: str
    """The tool whose result it is; empty for any other message."""
    tokens: int
    sent: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call."""

    number: int
    turn: int
    question: str
    """What the user asked in the newest turn."""
    logged: int
    """Messages in the log so far, system messages aside."""
    context: Context
    violations: tuple[Violation, ...]
    fold: Fold | None
    shrunk: tuple[Shrunk, ...]
    """What this call shortens and the one before did not."""


def replay(sample: Sample, budget: Budget, counter: TokenCounter) -> Iterator[Step]:
    """One step before each message of the assistant, in order."""
    log = Transcript(counter)
    strategy = summarise(extractive_summarizer(counter.count_text))
    previous: Context | None = None
    rules: list[str] = []
    question, number, turn = "", 0, 0
    for message in sample.messages:
        if message.role == "assistant":
            number += 1
            before = previous.anchor if previous is not None else Anchor()
            context = assemble(
                log,
                budget,
                anchor=before,
                strategy=strategy,
                tail=_pinned(rules),
                tools=sample.tools,
                previous=previous,
            )
            yield Step(
                number=number,
                turn=turn,
                question=question,
                logged=len(log.messages),
                context=context,
                violations=check(context),
                fold=_fold(log, before, context),
                shrunk=tuple(_newly_shrunk(log, before, context)),
            )
            previous = context
        elif message.role == "user":
            turn += 1
            question = message.text
        log.add(message)
        rules += pinned_by(message)


def _pinned(rules: list[str]) -> tuple[Message, ...]:
    return (user(fence("\n".join(rules), label="rules", note=_PIN_NOTE)),) if rules else ()


def _fold(log: Transcript, before: Anchor, context: Context) -> Fold | None:
    after = context.anchor
    if after.covered == before.covered:
        return None
    sections = context.receipt.sections
    view = anchored_view(log, before)
    summary_before = log.counter.count_text(before.summary)
    return Fold(
        messages=after.covered - before.covered,
        tokens=sum(log.costs[before.covered : after.covered]),
        needed=context.tokens
        - sum(sections[part] for part in (Section.SUMMARY, Section.WINDOW, Section.TURN))
        + sum(map(log.counter.count_message, _summary_section(before)))
        + view.tokens(view.start),
        summary_before=summary_before,
        summary_tokens=log.counter.count_text(after.summary),
        excerpt=_excerpt(after.summary, before.summary),
    )


def _summary_section(anchor: Anchor) -> tuple[Message, ...]:
    return (summary_message(anchor.summary),) if anchor.summary else ()


def _excerpt(summary: str, before: str) -> tuple[str, ...]:
    """The first new lines, what the user said before what the assistant said, rows of tables last."""
    known = set(before.splitlines())
    new = [line for line in summary.splitlines() if line not in known]

    def rank(line: str) -> tuple[bool, int]:
        speakers = (at for at, names in enumerate(_SPEAKERS) if line.startswith(names))
        return "|" in line, next(speakers, len(_SPEAKERS))

    return tuple(sorted(new, key=rank)[:_EXCERPT_LINES])


def _newly_shrunk(log: Transcript, before: Anchor, context: Context) -> Iterator[Shrunk]:
    known = dict(before.caps)
    for position, cap in context.anchor.caps:
        if known.get(position) != cap:
            message, cost = log.messages[position], log.costs[position]
            sent = log.shrunk(Piece(message, cost, position), cap).tokens
            yield Shrunk(position, _tool_of(log, position), cost, sent)


def _tool_of(log: Transcript, position: int) -> str:
    answered = {result.call_id for result in log.messages[position].results}
    called = (call for message in log.messages[:position] for call in message.calls)
    return next((call.name for call in called if call.id in answered), "")

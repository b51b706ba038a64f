"""Replays a log call by call, and judges each context by the log alone.

The judge shares nothing with `turnfold.window.check`: it knows the log that went in and the messages that came out,
and says what is wrong between them, in words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall
from turnfold.records import Message
from turnfold.tokens import TokenCounter
from turnfold.window import Context, Outcome, Strategy, Transcript, assemble, oldest_first

__all__ = ("Call", "Setting", "faults", "pairing_faults", "refusal_faults", "replay")

_LEFT_OUT = (Outcome.DROPPED, Outcome.FOLDED)
_MOST_REFUSALS = 12
"""Each limit and each share may refuse a call once or twice; more would mean that errors ask for too little."""


@dataclass(frozen=True)
class Setting:
    """Everything about a call but the log."""

    counter: TokenCounter
    budget: Budget
    strategy: Strategy = oldest_first
    tools: Sequence[Mapping[str, object]] = ()
    tail: Sequence[Message] = ()

    def call(self, transcript: Transcript, previous: Context | None) -> Context:
        """One call after another: the anchor of the previous context is carried on."""
        return assemble(
            transcript,
            self.budget,
            anchor=previous.anchor if previous else None,
            strategy=self.strategy,
            tools=self.tools,
            tail=self.tail,
            previous=previous,
        )

    def obeying(self, refusal: BudgetTooSmall) -> Setting:
        """The setting with its budget raised as the error asks: to twice what it says is needed."""
        budget, (needed, allowed) = self.budget, (2 * refusal.needed, refusal.allowed)
        if refusal.unit == "messages":
            return replace(self, budget=replace(budget, max_messages=needed))
        if refusal.unit == "bytes":
            return replace(self, budget=replace(budget, max_bytes=needed))
        # A section's share is a part of the tokens: both grow alike. -(-a // b) rounds up.
        tokens = -(-budget.tokens * needed // max(allowed, 1))
        return replace(self, budget=replace(budget, context_window=0, max_tokens=tokens))


class Call(NamedTuple):
    """One call: what was logged before it, what it sends, under which setting, after which refusals."""

    log: list[Message]
    context: Context
    setting: Setting
    refusals: list[BudgetTooSmall]


def replay(log: Sequence[Message], setting: Setting) -> Iterator[Call]:
    """Every call of a conversation: before each assistant message, and at the end.

    A budget that is refused is raised as the error asks, until the call succeeds.
    """
    transcript = Transcript(setting.counter)
    previous: Context | None = None
    for index in range(len(log) + 1):
        ends = index == len(log)
        if index and (ends or log[index].role == "assistant"):
            call = _insist(transcript, setting, previous)
            previous, setting = call.context, call.setting
            yield call._replace(log=list(log[:index]))
        if not ends:
            transcript.add(log[index])


def _insist(transcript: Transcript, setting: Setting, previous: Context | None) -> Call:
    refusals: list[BudgetTooSmall] = []
    while True:
        try:
            return Call([], setting.call(transcript, previous), setting, refusals)
        except BudgetTooSmall as refusal:
            refusals.append(refusal)
            if len(refusals) > _MOST_REFUSALS:
                raise
            setting = setting.obeying(refusal)


def refusal_faults(refusal: BudgetTooSmall) -> Iterator[str]:
    """What is wrong with the arithmetic of an error."""
    if refusal.needed <= refusal.allowed:
        yield f"refuses what fits: {refusal}"
    if sum(refusal.parts.values()) != refusal.needed:
        yield f"does not add up: {refusal}"


def faults(call: Call) -> list[str]:
    """Everything wrong with a call; empty when it keeps every promise."""
    log, context, setting, refusals = call
    said = [message for message in log if message.role != "system"]
    return [
        *(fault for refusal in refusals for fault in refusal_faults(refusal)),
        *size_faults(context, setting),
        *pairing_faults(context.messages),
        *place_faults(said, context),
        *account_faults(said, context),
        *system_faults(log, context),
    ]


def size_faults(context: Context, setting: Setting) -> Iterator[str]:
    budget = setting.budget
    tokens = setting.counter.count(context.messages, tools=setting.tools).tokens
    if tokens > budget.tokens:
        yield f"{tokens} tokens of {budget.tokens}"
    if tokens != context.tokens:
        yield f"says {context.tokens} tokens, has {tokens}"
    if budget.max_messages and len(context.messages) > budget.max_messages:
        yield f"{len(context.messages)} messages of {budget.max_messages}"
    if budget.max_bytes:
        dumped = [message.model_dump() for message in context.messages]
        size = len(json.dumps(dumped, ensure_ascii=False, separators=(",", ":")).encode())
        if size > budget.max_bytes:
            yield f"{size} bytes of {budget.max_bytes}"


def pairing_faults(messages: Sequence[Message]) -> Iterator[str]:
    """What a provider would refuse: calls and results that do not stand together, empty messages."""
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if message.role == "tool":
            yield f"result without a call before message {index}"
        if message.role != "system" and not message.parts:
            yield f"message {index} is empty"
        if not message.calls:
            continue
        answers: list[str] = []
        while index < len(messages) and messages[index].role == "tool":
            answers += [result.call_id for result in messages[index].results]
            index += 1
        if Counter(answers) != Counter(call.id for call in message.calls):
            yield f"calls {[call.id for call in message.calls]} answered by {answers}"


def place_faults(said: Sequence[Message], context: Context) -> Iterator[str]:
    """The newest question is there, the order is the log's, and every message is what the log says."""
    shown = _shown(context)
    if len(shown) != len(context.positions):
        yield f"{len(shown)} messages for {len(context.positions)} positions"
    questions = [at for at, message in enumerate(said) if message.role == "user" and message.parts]
    if questions and questions[-1] not in context.positions:
        yield f"newest user message {questions[-1]} is missing"
    in_order = [at for at in context.positions if at >= 0 and said[at].role != "tool"]
    if in_order != sorted(set(in_order)):
        yield f"order {in_order}"
    moved, shrunk = _positions(context, Outcome.MOVED), _positions(context, Outcome.SHRUNK)
    placeholders = 0
    for at, message in zip(context.positions, shown, strict=False):
        if at < 0:
            placeholders += 1
            continue
        if (message is not said[at]) != (at in shrunk) and at not in moved:
            yield f"log position {at} changed without a word, or said to be and is not"
        if not _comes_from(message, said[at]):
            yield f"log position {at} is shown as something else"
    if placeholders != context.receipt.count(Outcome.ADDED):
        yield f"{placeholders} placeholders, receipt says {context.receipt.count(Outcome.ADDED)}"


def account_faults(said: Sequence[Message], context: Context) -> Iterator[str]:
    """Every logged message is sent or its absence explained, and not both."""
    sent = {at for at in context.positions if at >= 0}
    absent = _positions(context, *_LEFT_OUT)
    if unexplained := set(range(len(said))) - sent - absent:
        yield f"unexplained: {sorted(unexplained)}"
    if both := sent & absent:
        yield f"sent, though the receipt says otherwise: {sorted(both)}"
    receipt = context.receipt
    if sum(receipt.sections.values()) + receipt.tools + receipt.reply != receipt.tokens:
        yield f"receipt does not add up: {receipt}"


def system_faults(log: Sequence[Message], context: Context) -> Iterator[str]:
    wanted = sum(message.role == "system" for message in log)
    roles = [message.role for message in context.messages]
    if roles[:wanted] != ["system"] * wanted or "system" in roles[wanted:]:
        yield f"{wanted} system messages first, got {roles}"


def _shown(context: Context) -> list[Message]:
    """The messages of window and newest turn: what `positions` speaks of."""
    _, opening, window, tail = context.ends
    return [*context.messages[opening:window], *context.messages[tail:]]


def _positions(context: Context, *outcomes: Outcome) -> set[int]:
    return {
        at
        for fate in context.fates
        if fate.outcome in outcomes
        for at in range(max(fate.start, 0), fate.stop)
    }


def _comes_from(shown: Message, logged: Message) -> bool:
    """Whether a message, shortened or in part, says nothing the logged one does not."""
    if shown is logged:
        return True
    results = Counter(result.call_id for result in logged.results)
    results.subtract(result.call_id for result in shown.results)
    calls = [(call.id, call.name) for call in shown.calls]
    roles = (logged.role, "user") if logged.role == "tool" else (logged.role,)
    return (
        shown.role in roles
        and min(results.values(), default=0) >= 0
        and calls == [(call.id, call.name) for call in logged.calls]
        and len(shown.parts) <= len(logged.parts)
    )

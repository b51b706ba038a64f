"""Measures of contexts, as pure functions: evidence, recall, rules, hard facts, kept prefix, usable calls, price.

A hard fact, called an *atom* in names and in the results, is one that `turnfold.fold` finds: a number, an amount, a
date or time, a name, path, address, version or identifier. A rule or a piece of evidence counts only if the context
contains it word for word; a hard fact may be written in another way ("4,200" and 4200).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from turnfold.fold import ReadCache, SourceFacts, check_fidelity, passages_of, source_facts
from turnfold.records import Message
from turnfold.tokens import Charge, PriceTable
from turnfold.window import check, shared_messages

__all__ = (
    "AtomIndex",
    "MeasuredCall",
    "call_positions",
    "call_prices",
    "context_text",
    "evidence_share",
    "fold_indexes",
    "is_usable",
    "mean",
    "normal_space",
    "recall_scores",
    "rules_in",
    "shared_tokens",
    "spread",
    "stale_rules_in",
)


_RECOGNISABLE = 8
"""Number of first characters by which the newest message is recognised in a prompt, because a memory may shorten the
rest."""
_NOT_ATOMS = ("constraint", "decision", "unread")


class MeasuredCall(NamedTuple):
    """Figures of one call of a replayed conversation."""

    seq: int
    """Number of messages logged when the call was made."""
    tokens: int
    """Tokens of the whole prompt; 0 if the memory raised an error instead of building one."""
    marks: tuple[int, ...]
    """Tokens before each cache breakpoint, for providers that need breakpoints."""
    shared: int
    """Tokens at the beginning of the prompt that the previous call also sent."""
    previous: int
    """Tokens of the previous call's messages; 0 if there is no previous call."""
    answer: int
    """Tokens of the answer that was recorded in the conversation."""
    usable: bool
    """True if a provider would accept the messages and they include the message to be answered."""
    full: bool
    """True if the whole log does not fit the budget."""


def normal_space(text: str) -> str:
    """Return the text with every run of white space replaced by one space."""
    return " ".join(text.split())


def mean(values: Iterable[float]) -> float | None:
    """Return the mean of the values; None if there are no values."""
    found = list(values)
    return fmean(found) if found else None


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of the indexes 0 to `count` - 1, evenly spaced; the last index is always among them."""
    if count <= most:
        return list(range(count))
    return [(step + 1) * count // most - 1 for step in range(most)]


def call_positions(messages: Sequence[Message]) -> list[int]:
    """Return, for each model call, the number of messages before it; consecutive assistant messages are one call."""
    return [
        at
        for at in range(1, len(messages))
        if messages[at].role == "assistant" and messages[at - 1].role != "assistant"
    ]


def context_text(messages: Iterable[Message]) -> str:
    """Return the text of all messages joined, including tool calls and results."""
    return "\n".join(passage.text for passage in passages_of(messages, longest=0))


def evidence_share(sent: Sequence[Message], evidence: Sequence[Message]) -> float:
    """Return the share of the evidence messages whose whole text is in the sent messages."""
    text = normal_space(context_text(sent))
    return fmean(normal_space(context_text([each])) in text for each in evidence)


def recall_scores(found: Sequence[int], evidence: frozenset[int]) -> tuple[float, float]:
    """Return recall (share of the evidence that was found) and precision (share of the results that is evidence)."""
    hits = len(evidence.intersection(found))
    return hits / len(evidence), hits / len(found) if found else 0.0


def rules_in(sent: Sequence[Message], rules: Iterable[str]) -> int:
    """Return how many of the rules the sent messages contain, word for word."""
    text = normal_space(context_text(sent))
    return sum(normal_space(rule) in text for rule in rules)


def stale_rules_in(sent: Sequence[Message], replaced: Iterable[tuple[str, Sequence[str]]]) -> int:
    """Return how many replaced rules the sent messages contain without the words that replaced them.

    `replaced` has pairs: an old rule, and the texts that replaced it. If the messages contain one of these texts, the
    rule is not stale.
    """
    text = normal_space(context_text(sent))
    return sum(
        normal_space(old) in text and not any(normal_space(new) in text for new in later if new)
        for old, later in replaced
    )


class AtomIndex:
    """The hard facts (names, numbers, dates) of a conversation, each with the first message that states it.

    System messages are not searched for facts.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._reading = ReadCache()
        said = [
            (seq, graded)
            for seq, message in enumerate(messages, 1)
            if message.role != "system"
            for graded in source_facts(passages_of([message]), reading=self._reading).graded
            if graded[0].kind not in _NOT_ATOMS
        ]
        # Read backwards, so that of equal facts the first stays.
        self._first = {(each[0].kind, each[0].key): (seq, each) for seq, each in reversed(said)}

    def kept(self, sent: Sequence[Message], seq: int) -> tuple[int, int]:
        """Return how many hard facts of the first `seq` messages `sent` states, and how many there are in all."""
        known = tuple(graded for first, graded in self._first.values() if first <= seq)
        text = context_text(sent)
        lost = check_fidelity(SourceFacts(known), text, reading=self._reading).missing
        return len(known) - len(lost), len(known)


def shared_tokens(
    before: Sequence[Message], after: Sequence[Message], cost: Callable[[Message], int]
) -> int:
    """Return the tokens of the messages at the beginning that both contexts have in common."""
    return sum(map(cost, after[: shared_messages(tuple(after), tuple(before))]))


def fold_indexes(contexts: Sequence[Sequence[Message] | None], log: Sequence[Message]) -> list[int]:
    """Return the indexes of the calls that drop or shorten a message of the log which the previous call sent."""
    logged = frozenset(log)
    found: list[int] = []
    shown: frozenset[Message] = frozenset()
    for index, context in enumerate(contexts):
        if context is None:
            continue
        now = logged.intersection(context)
        if not shown <= now:
            found.append(index)
        shown = now
    return found


def is_usable(sent: Sequence[Message], newest: Message) -> bool:
    """Return True if a provider would accept the messages, and `newest` comes after the last assistant message."""
    if check(sent):
        return False
    answers = [at for at, message in enumerate(sent) if message.role == "assistant"]
    unanswered = sent[answers[-1] + 1 if answers else 0 :]
    if newest.role == "tool":
        ids = {result.call_id for result in newest.results}
        return ids <= {result.call_id for message in unanswered for result in message.results}
    beginning = newest.text[:_RECOGNISABLE]
    return any(each.role == newest.role and beginning in each.text for each in unanswered)


def call_prices(calls: Iterable[MeasuredCall], model: str, prices: PriceTable) -> list[float]:
    """Return the list price of each usable call of one conversation; calls that are not usable are left out.

    The prefix shared with the previous call is priced as read from the provider's cache, where its rules allow that.
    """
    price = prices.price(model)
    rule = prices.rule(price)
    charged: list[float] = []
    marks: tuple[int, ...] = ()
    for call in calls:
        if not call.usable:
            marks = ()
            continue
        read = rule.read(call.shared, marks)
        written = rule.written(read, call.marks)
        fresh = call.tokens - read - written
        charge = Charge(read=read, written=written, fresh=fresh, output=call.answer)
        charged.append(price.of(charge))
        marks = call.marks
    return charged

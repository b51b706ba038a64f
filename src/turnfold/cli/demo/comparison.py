"""Comparison of turnfold with two simple methods: sending the last N messages, and sending everything.

One function measures the messages that each method would send. It does not read turnfold's receipts (context reports),
so its figures are an independent check of the receipts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from turnfold.budget import Budget
from turnfold.cli.demo.replay import Step
from turnfold.cli.demo.sample import Sample
from turnfold.records import Message
from turnfold.tokens import TokenCounter
from turnfold.window import Rule, check

__all__ = (
    "Comparison",
    "Tally",
    "cached_tokens",
    "compare",
    "newest",
    "tally",
)


_SMALLEST_CACHED = 1024
_CACHE_STEP = 128
_BROKEN_PAIR = (Rule.CALL_ANSWERED, Rule.RESULT_CALLED)


@dataclass(frozen=True, slots=True)
class Tally:
    """Totals of one method of choosing messages, over all calls of the demo."""

    calls: int
    tokens_sent: int
    largest_call: int
    calls_over_budget: int
    broken_pairs: int
    """Tool calls without their result, or results without their call, over all calls."""
    calls_with_broken_pairs: int
    """Number of calls that a provider would reject because of broken pairs."""
    mean_prefix: float
    """Average share of the previous prompt that a call repeats at its beginning; the first call is not counted."""
    cached_share: float
    """Share of the sent tokens that could have come from a provider's prompt cache."""
    rules_in_last_call: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of turnfold and two simple methods for the same conversation."""

    turnfold: Tally
    sliding: Tally
    sliding_messages: int
    """Number of messages in the sliding window: as many as turnfold sent on average."""
    everything: Tally


def compare(
    sample: Sample, steps: Sequence[Step], budget: Budget, counter: TokenCounter
) -> Comparison:
    """Measure the prompts of turnfold, and those that the two simple methods would have sent."""
    shown = round(sum(len(step.context.positions) for step in steps) / len(steps))

    def measure(prompts: Iterable[Sequence[Message]]) -> Tally:
        return tally(prompts, budget=budget, counter=counter, sample=sample)

    return Comparison(
        turnfold=measure(step.context.messages for step in steps),
        sliding=measure(newest(sample, shown)),
        sliding_messages=shown,
        everything=measure(newest(sample, len(sample.messages))),
    )


def newest(sample: Sample, count: int) -> Iterator[Sequence[Message]]:
    """Yield the prompt of each call with a sliding window: system messages and the newest `count` messages."""
    system: list[Message] = []
    talk: list[Message] = []
    for message in sample.messages:
        if message.role == "assistant":
            yield [*system, *talk[-count:]]
        (system if message.role == "system" else talk).append(message)


def tally(
    prompts: Iterable[Sequence[Message]], *, budget: Budget, counter: TokenCounter, sample: Sample
) -> Tally:
    """Compute the totals (tokens, broken tool pairs, shared prefix) of a sequence of prompts."""
    tools = counter.count_tools(sample.tools)
    known: dict[Message, int] = {}

    def cost(message: Message) -> int:
        if message not in known:
            known[message] = counter.count_message(message)
        return known[message]

    sizes: list[int] = []
    broken: list[int] = []
    prefixes: list[float] = []
    cached = 0
    previous: Sequence[Message] = ()
    for prompt in prompts:
        sizes.append(sum(map(cost, prompt)) + tools + counter.reply)
        broken.append(sum(found.rule in _BROKEN_PAIR for found in check(prompt)))
        if previous:
            shared = sum(map(cost, _common(previous, prompt)))
            prefixes.append(shared / sum(map(cost, previous)))
            cached += cached_tokens(shared + tools)
        previous = prompt
    last_text = "\n".join(message.text for message in previous)
    return Tally(
        calls=len(sizes),
        tokens_sent=sum(sizes),
        largest_call=max(sizes, default=0),
        calls_over_budget=sum(size > budget.tokens for size in sizes),
        broken_pairs=sum(broken),
        calls_with_broken_pairs=sum(count > 0 for count in broken),
        mean_prefix=sum(prefixes) / len(prefixes) if prefixes else 1.0,
        cached_share=cached / sum(sizes) if sizes else 0.0,
        rules_in_last_call=sum(rule in last_text for rule in sample.rules),
    )


def cached_tokens(prefix: int) -> int:
    """Return how many tokens of a repeated prefix, tool schemas included, OpenAI's prompt cache can serve for gpt-4o.

    The cache is not used below 1,024 tokens and counts in steps of 128. The provider decides when its entries expire,
    so this is an upper bound.
    """
    return prefix // _CACHE_STEP * _CACHE_STEP if prefix >= _SMALLEST_CACHED else 0


def _common(before: Sequence[Message], after: Sequence[Message]) -> Iterator[Message]:
    for ours, theirs in zip(before, after, strict=False):
        if ours != theirs:
            return
        yield theirs

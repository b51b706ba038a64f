"""Whatever the log, the strategy and the budget: every context keeps every promise.

Thousands of random conversations are replayed call by call, each carrying the anchor of the one before. Each context
is judged twice: by `check`, which ships with the library, and by the judge in `replay.py`, which knows only the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import CONTEXT_BLOCKS, examples
from tests.window.replay import Setting, faults, pairing_faults, replay
from tests.window.transcripts import (
    CharacterText,
    logs,
    random_budget,
    random_counter,
    random_log,
    random_tail,
    random_tools,
)
from turnfold.fold import extractive_summarizer
from turnfold.records import Message
from turnfold.tokens import TokenCounter
from turnfold.window import (
    Choice,
    Room,
    Section,
    SpanView,
    Strategy,
    check,
    compose,
    oldest_first,
    shrink_results,
    sliding_window,
    summarise,
)

BLOCK = 125
SLOW_BLOCK = 1_000


def terse(messages: Sequence[Message], *, previous: str, limit: int) -> str:
    return f"{previous[-limit:]} +{len(messages)}".strip()


def overlong(messages: Sequence[Message], *, previous: str, limit: int) -> str:
    """A model that does not listen: three times what was asked for, and it tries to leave its fence."""
    return f"{previous}</summary> {'words ' * 3 * limit}{len(messages)}"


def hostile(rng: random.Random) -> Strategy:
    """Begins anywhere, shortens anything, claims to have summarised what it likes."""

    def choose(view: SpanView, _: Room) -> Choice:
        spans = view.transcript.spans
        positions = range(len(view.transcript.messages))
        caps = {at: rng.randint(8, 40) for at in positions if rng.random() < 0.2}
        summary = rng.choice((view.summary, "", "nothing happened"))
        start, covered = rng.randint(-5, spans + 5), rng.randint(-5, spans + 5)
        return Choice(start, rng.choice(("", "a whim")), caps, summary, covered)

    return choose


def shrinking(rng: random.Random) -> Strategy:
    return shrink_results(cap=rng.randint(8, 60))


STRATEGIES: dict[str, Callable[[random.Random, TokenCounter], Strategy]] = {
    "oldest first": lambda *_: oldest_first,
    "newest messages": lambda rng, _: sliding_window(messages=rng.randint(1, 12)),
    "newest turns": lambda rng, _: sliding_window(turns=rng.randint(1, 4)),
    "summarise, terse": lambda *_: summarise(terse),
    "summarise, overlong": lambda *_: summarise(overlong),
    "shrink results, then oldest first": lambda rng, _: compose(shrinking(rng), oldest_first),
    "shrink results, then summarise": lambda rng, _: compose(shrinking(rng), summarise(terse)),
    "hostile": lambda rng, _: hostile(rng),
    "summarise, extractive": lambda _, counter: summarise(
        extractive_summarizer(counter.count_text)
    ),
}
NAMES = tuple(STRATEGIES)
# The extractive summariser reads and ranks every sentence: a fifth of the share of the others.
TURNS = (*NAMES[:-1] * 5, NAMES[-1])


def scenario(seed: int, name: str) -> tuple[list[Message], Setting]:
    rng = random.Random(seed)  # noqa: S311 (the same transcripts on every run)
    log = random_log(rng)
    counter = random_counter(rng)
    budget, tools, tail = random_budget(rng), random_tools(rng), random_tail(rng)
    return log, Setting(counter, budget, STRATEGIES[name](rng, counter), tools, tail)


def problems(seeds: range, names: Sequence[str] = TURNS) -> Iterator[str]:
    """What is wrong in the replays of these seeds, by the judge and by `check`."""
    for seed in seeds:
        name = names[seed % len(names)]
        for call in replay(*scenario(seed, name)):
            wrong = [*faults(call), *map(str, check(call.context))]
            if wrong:
                yield f"seed {seed}, {name}, {len(call.log)} messages: {wrong}"
                break


@pytest.mark.parametrize("block", range(CONTEXT_BLOCKS.default))
def test_every_context_keeps_every_promise(block: int) -> None:
    assert list(problems(range(block * BLOCK, (block + 1) * BLOCK))) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(CONTEXT_BLOCKS.slow))
def test_every_context_keeps_every_promise_at_length(block: int) -> None:
    first = 1_000_000 + block * SLOW_BLOCK
    assert list(problems(range(first, first + SLOW_BLOCK))) == []


@pytest.mark.parametrize("name", NAMES)
def test_each_strategy_keeps_every_promise_on_the_same_logs(name: str) -> None:
    assert list(problems(range(60), [name])) == []


@pytest.mark.parametrize("name", NAMES[:-1])
@examples(30)
@given(log=logs(), rng=st.randoms(use_true_random=False))
def test_no_small_log_breaks_a_promise(name: str, log: list[Message], rng: random.Random) -> None:
    counter = random_counter(rng)
    strategy = STRATEGIES[name](random.Random(len(log)), counter)  # noqa: S311 (as above)
    setting = Setting(counter, random_budget(rng), strategy, random_tools(rng), random_tail(rng))
    for call in replay(log, setting):
        assert faults(call) == []
        assert check(call.context) == ()


class RemoteCounter(TokenCounter):
    """Counts whole messages otherwise than their parts, as a model's own endpoint does."""

    def count_message(self, message: Message) -> int:
        return super().count_message(message) * 13 // 10 + 7


def test_a_counter_that_knows_only_whole_messages_is_obeyed_too() -> None:
    for seed in range(200):
        log, setting = scenario(seed, TURNS[seed % len(TURNS)])
        for call in replay(log, replace(setting, counter=RemoteCounter(CharacterText()))):
            assert faults(call) == []
            assert check(call.context) == ()


def test_a_window_that_did_not_move_only_grows() -> None:
    """What a prompt cache lives on: until the anchor moves, each call begins with all of the one before."""
    compared = 0
    for seed in range(400):
        log, setting = scenario(seed, "oldest first")
        if any(pairing_faults([message for message in log if message.role != "system"])):
            continue
        calls = [call.context for call in replay(log, replace(setting, tail=()))]
        for before, after in pairwise(calls):
            same_system = after.section(Section.SYSTEM) == before.section(Section.SYSTEM)
            if after.anchor == before.anchor and same_system:
                assert after.messages[: len(before.messages)] == before.messages
                assert after.receipt.prefix_share == 1.0
                compared += 1
    assert compared > 200


def test_the_generator_makes_what_it_promises() -> None:
    """Without the hard cases in it, passing would prove little."""
    seen: dict[str, int] = dict.fromkeys(
        ("moved", "dropped", "shrunk", "added", "folded", "refused", "cut", "head", "tail"), 0
    )
    for seed in range(150):
        for call in replay(*scenario(seed, TURNS[seed % len(TURNS)])):
            for outcome in {fate.outcome.value for fate in call.context.fates}:
                seen[outcome] += 1
            seen["refused"] += len(call.refusals)
            seen["cut"] += call.context.moved
            seen["head"] += call.context.head >= 0
            seen["tail"] += call.context.ends[2] < call.context.ends[3]
    assert min(seen.values()) > 20, seen

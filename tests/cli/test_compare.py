"""The yardstick of the comparison, on a conversation small enough to measure by hand."""

from __future__ import annotations

from typing import Any

import pytest

from turnfold import Budget, Message, assistant, system, tool, user
from turnfold.cli.demo.replay import (
    Sample,
    cached_tokens,
    compare,
    load_sample,
    newest,
    replay,
    tally,
)
from turnfold.records import as_message
from turnfold.tokens import counter_for

COUNTER = counter_for("gpt-4o")
CALLED: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
SMALL = Sample(
    messages=(
        system("Be brief."),
        user("不要动生产库。", name=None),
        assistant("Understood, I leave the production database alone."),
        user("And now?"),
        as_message(CALLED),
        tool("done", tool_call_id="a"),
        assistant("All done."),
    ),
    tools=(),
)


def cost(*messages: Message) -> int:
    return sum(map(COUNTER.count_message, messages))


def test_a_sliding_window_is_the_system_and_the_newest_messages() -> None:
    be_brief, rule, understood, now, called, done, _ = SMALL.messages
    assert list(newest(SMALL, 2)) == [
        [be_brief, rule],
        [be_brief, understood, now],
        [be_brief, called, done],
    ]
    assert list(newest(SMALL, 99))[-1] == [be_brief, rule, understood, now, called, done]


def test_prefix_sizes_and_broken_pairs_are_measured() -> None:
    be_brief, rule, understood, now, _, done, _ = SMALL.messages
    prompts = [[be_brief, rule], [be_brief, rule, understood, now], [be_brief, now, done]]
    sizes = [cost(*prompt) + COUNTER.reply for prompt in prompts]
    budget = Budget(max_tokens=max(sizes) - 1)
    figures = tally(prompts, budget=budget, counter=COUNTER, sample=SMALL)
    kept = cost(be_brief) / cost(be_brief, rule, understood, now)
    assert figures.tokens_sent == sum(sizes)
    assert figures.largest_call == max(sizes)
    assert figures.calls_over_budget == 1
    assert figures.mean_prefix == pytest.approx((1 + kept) / 2)
    assert (figures.broken_pairs, figures.calls_with_broken_pairs) == (1, 1)
    assert figures.cached_share == 0


def test_rules_are_looked_for_in_the_last_call_only() -> None:
    pinned = Message("user", "不要动生产库。好吗？", metadata={"pin": ["不要动生产库。"]})
    sample = Sample(messages=(SMALL.messages[0], pinned, *SMALL.messages[2:]), tools=())
    wide = Budget(max_tokens=1_000)

    def kept(count: int) -> int:
        prompts = newest(sample, count)
        return tally(prompts, budget=wide, counter=COUNTER, sample=sample).rules_in_last_call

    assert (kept(2), kept(99)) == (0, 1)


@pytest.mark.parametrize(
    ("prefix", "cached"), [(0, 0), (1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152)]
)
def test_the_cache_serves_from_1024_tokens_in_steps_of_128(prefix: int, cached: int) -> None:
    assert cached_tokens(prefix) == cached


def test_the_second_count_agrees_with_the_receipts() -> None:
    sample, budget = load_sample(), Budget(max_tokens=6_000)
    steps = list(replay(sample, budget, COUNTER))
    ours = compare(sample, steps, budget, COUNTER).turnfold
    receipts = [step.context.receipt for step in steps]
    shares = [receipt.prefix_share for receipt in receipts[1:]]
    repeated = sum(cached_tokens(receipt.shared + receipt.tools) for receipt in receipts[1:])
    sent = sum(receipt.tokens for receipt in receipts)
    assert ours.tokens_sent == sent
    assert ours.largest_call == max(receipt.tokens for receipt in receipts)
    assert ours.mean_prefix == pytest.approx(sum(shares) / len(shares))
    assert ours.cached_share == pytest.approx(repeated / sent)

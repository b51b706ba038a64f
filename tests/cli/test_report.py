"""`turnfold demo --json` says what a short program of one's own would find.

The program below uses the public parts of turnfold and none of the demo's modules; the sliding window is measured on
plain dictionaries, without turnfold's check.
"""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.house.source_tree import PACKAGE
from turnfold import Budget, Memory
from turnfold.cli.app import app
from turnfold.cli.demo.replay import fixed_clock
from turnfold.records import as_messages
from turnfold.tokens import counter_for
from turnfold.window import Context, check

FOLDER = PACKAGE / "cli" / "demo"
RAW: list[dict[str, Any]] = [
    json.loads(line)
    for line in (FOLDER / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
]
TOOLS: list[dict[str, Any]] = json.loads((FOLDER / "tools.json").read_text(encoding="utf-8"))
COUNTER = counter_for("gpt-4o")
CALL_FIELDS = {
    "call", "turn", "tokens", "allowed", "certainty", "sections", "tools", "reply", "free", "logged", "messages",
    "folded", "dropped", "shrunk", "moved", "added", "shared", "prefix", "violations", "fold", "newly_shrunk",
}  # fmt: skip


def text_of(*options: str) -> str:
    result = CliRunner().invoke(app, ["demo", "--json", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


text_of_one_run = cache(text_of)


def reported(*options: str) -> dict[str, Any]:
    return json.loads(text_of_one_run(*options))


@cache
def contexts(tokens: int) -> tuple[Context, ...]:
    """The contexts of the conversation, as a reader of the documentation would make them."""
    made: list[Context] = []
    budget = Budget(max_tokens=tokens)
    with Memory(model="gpt-4o", budget=budget, clock=fixed_clock()) as memory:
        session = memory.session("mine")
        for raw in RAW:
            if raw["role"] == "assistant":
                made.append(session.context(tools=TOOLS))
            session.add(raw)
            for rule in raw.get("metadata", {}).get("pin", []):
                session.pin(rule)
    return tuple(made)


@pytest.mark.parametrize("tokens", [3_000, pytest.param(6_000, marks=pytest.mark.slow)])
def test_every_call_is_reported_as_it_is_computed_again(tokens: int) -> None:
    calls = reported("--budget", str(tokens))["calls"]
    assert [call["call"] for call in calls] == list(range(1, len(calls) + 1))
    for call, context in zip(calls, contexts(tokens), strict=True):
        receipt = context.receipt
        assert set(call) == CALL_FIELDS
        assert call["tokens"] == receipt.tokens
        assert call["allowed"] == tokens == call["tokens"] + call["free"]
        assert call["sections"] == {section.value: n for section, n in receipt.sections.items()}
        assert call["tokens"] == sum(call["sections"].values()) + call["tools"] + call["reply"]
        assert call["messages"] == len(context.messages)
        assert call["prefix"] == pytest.approx(receipt.prefix_share, abs=1e-4)
        assert call["violations"] == list(map(str, check(context)))


def test_the_totals_are_those_of_the_calls() -> None:
    found = reported()
    calls, summary = found["calls"], found["summary"]
    ours = summary["turnfold"]
    assert found["budget"]["tokens"] == 6_000
    assert summary["messages_logged"] == len(RAW)
    assert summary["tokens_logged"] == sum(map(COUNTER.count_message, as_messages(RAW)))
    assert summary["folds"] == sum(call["fold"] is not None for call in calls) >= 3
    assert summary["violations"] == sum(len(call["violations"]) for call in calls) == 0
    assert ours["calls"] == len(calls)
    assert ours["tokens_sent"] == sum(call["tokens"] for call in calls)
    assert ours["largest_call"] == max(call["tokens"] for call in calls) <= 6_000
    assert ours["rules_in_last_call"] == summary["rules_pinned"] == 6


def test_the_sliding_window_is_measured_honestly() -> None:
    found = reported()["summary"]["sliding_window"]
    prompts = sliding_prompts(found["last_messages"])
    shown = [len(context.positions) for context in contexts(6_000)]
    assert found["last_messages"] == round(sum(shown) / len(shown))
    assert found["broken_pairs"] == sum(map(broken_pairs, prompts)) > 0
    assert found["calls_with_broken_pairs"] == sum(broken_pairs(p) > 0 for p in prompts)
    sizes = [COUNTER.count(as_messages(prompt), tools=TOOLS).tokens for prompt in prompts]
    assert found["tokens_sent"] == sum(sizes)
    assert found["calls_over_budget"] == sum(size > 6_000 for size in sizes)
    shares = [prefix(*pair) for pair in itertools.pairwise(prompts)]
    assert found["mean_prefix"] == pytest.approx(sum(shares) / len(shares), abs=1e-4)


def sliding_prompts(count: int) -> list[list[dict[str, Any]]]:
    return [
        [RAW[0], *RAW[1:place][-count:]]
        for place, message in enumerate(RAW)
        if message["role"] == "assistant"
    ]


def broken_pairs(prompt: list[dict[str, Any]]) -> int:
    called = {call["id"] for message in prompt for call in message.get("tool_calls", [])}
    answered = {message["tool_call_id"] for message in prompt if message["role"] == "tool"}
    return len(called ^ answered)


def prefix(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> float:
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    costs = list(map(COUNTER.count_message, as_messages(before)))
    return sum(costs[:same]) / sum(costs)


def test_sending_everything_keeps_every_prefix_and_overflows() -> None:
    found = reported()["summary"]["everything"]
    assert (found["mean_prefix"], found["broken_pairs"]) == (1.0, 0)
    assert found["calls_over_budget"] > 0


def test_two_runs_give_the_same_text() -> None:
    assert text_of() == text_of_one_run()

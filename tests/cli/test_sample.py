"""The shipped conversation is one a provider would accept, and holds what the demo is about.

Read as plain JSON: a fault of turnfold's own reading must not hide a fault of the file.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from tests.house.source_tree import PACKAGE
from turnfold.cli.demo.replay import load_sample, pinned_by
from turnfold.tokens import counter_for

FOLDER = PACKAGE / "cli" / "demo"
LINES = (FOLDER / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
MESSAGES: list[dict[str, Any]] = [json.loads(line) for line in LINES]
TOOLS: list[dict[str, Any]] = json.loads((FOLDER / "tools.json").read_text(encoding="utf-8"))
CALLS = [call for message in MESSAGES for call in message.get("tool_calls", [])]
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def faults(messages: list[dict[str, Any]]) -> list[str]:
    """What a provider would refuse: a call without its results right behind it, a result without its call."""
    found: list[str] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                found.append(f"{index}: result without a call")
            continue
        found += [f"{index}: {call} not answered" for call in waiting]
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        if not (message["content"] or waiting):
            found.append(f"{index}: says nothing")
    return found + [f"end: {call} not answered" for call in waiting]


def test_every_call_is_answered_and_every_result_was_called() -> None:
    assert faults(MESSAGES) == []


def test_the_rule_sees_a_broken_conversation() -> None:
    called = next(i for i, message in enumerate(MESSAGES) if message.get("tool_calls"))
    assert len(faults(MESSAGES[: called + 1])) == len(MESSAGES[called]["tool_calls"])
    assert faults(MESSAGES[called + 1 :])[0] == "0: result without a call"


def test_roles_follow_one_another() -> None:
    assert [message["role"] for message in MESSAGES].count("system") == 1
    assert MESSAGES[0]["role"] == "system"
    assert MESSAGES[-1]["role"] == "assistant"
    assert {message["role"] for message in MESSAGES} == {"system", "user", "assistant", "tool"}
    for before, after in itertools.pairwise(MESSAGES):
        if after["role"] == "user":
            assert before["role"] in {"system", "assistant"}
            assert not before.get("tool_calls")


def test_it_is_long_enough_to_be_folded_and_small_enough_to_ship() -> None:
    counter = counter_for("gpt-4o")
    costs = [counter.count_message(message) for message in load_sample().messages]
    assert 150 <= len(MESSAGES) <= 200
    assert 25 <= sum(message["role"] == "user" for message in MESSAGES) <= 40
    assert 20_000 <= sum(costs) <= 30_000
    assert 3_000 <= max(costs) <= 5_000
    assert sorted(costs)[-2] < 1_000, "one oversized result, not several"


def test_both_languages_are_spoken_by_both_sides() -> None:
    for role in ("user", "assistant"):
        said = [m["content"] for m in MESSAGES if m["role"] == role and m["content"]]
        chinese = sum(len(CHINESE.findall(text)) > len(text) / 4 for text in said)
        english = sum(not CHINESE.search(text) for text in said)
        assert min(chinese, english) >= 10, (role, chinese, english)


def test_it_holds_what_makes_memory_hard() -> None:
    parallel = [m for m in MESSAGES if len(m.get("tool_calls", [])) > 1]
    errors = [m for m in MESSAGES if m["role"] == "tool" and '"error"' in m["content"]]
    assert len(parallel) >= 8
    assert len(errors) == 1
    assert len({call["id"] for call in CALLS}) == len(CALLS)


def test_nothing_is_said_twice() -> None:
    said = [m["content"] for m in MESSAGES if m["role"] in {"user", "assistant"} and m["content"]]
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call["id"])
def test_calls_keep_to_the_schemas(call: dict[str, Any]) -> None:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    schema = schemas[call["function"]["name"]]
    arguments = json.loads(call["function"]["arguments"])
    assert set(schema["required"]) <= set(arguments) <= set(schema["properties"])
    for name, value in arguments.items():
        allowed = schema["properties"][name].get("enum", [value])
        assert value in allowed


def test_pinned_rules_are_the_words_of_the_user() -> None:
    sample = load_sample()
    assert 4 <= len(TOOLS) <= 6
    assert len(sample.rules) >= 5
    assert any(rule.startswith("Never ") for rule in sample.rules)
    assert any("不要" in rule for rule in sample.rules)
    for message in sample.messages:
        for rule in pinned_by(message):
            assert message.role == "user"
            assert rule in message.text

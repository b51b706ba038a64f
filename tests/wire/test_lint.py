"""Each rule of each provider, broken once: exactly that is found, with the source it is known from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.formats import FORMATS
from turnfold import wire
from turnfold.wire import RULES, lint, repair
from turnfold.wire import lint_and_repair as linting
from turnfold.wire import openai_chat_lint_and_repair as lint_openai_chat
from turnfold.wire.provider_rules import FaultCollector

GO: dict[str, Any] = {"role": "user", "content": "go"}
OK: dict[str, Any] = {"type": "text", "text": "ok"}
USE: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "s"}
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
CALL: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOLD: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": "x"}
ITEM: dict[str, Any] = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "a", "output": "x"}
ASK: dict[str, Any] = {"role": "user", "parts": [{"text": "go"}]}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def heard(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def called(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def told(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def function(name: str = "f", **rest: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **rest}}


def response(name: str = "f", **rest: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **rest}}


BROKEN: list[tuple[str, str, Any]] = [
    ("anthropic", "shape", [GO, said({"text": "no type"})]),
    ("anthropic", "role", [{"role": "tool", "content": "x"}]),
    ("anthropic", "some-message", []),
    ("anthropic", "first-role", [said(OK)]),
    ("anthropic", "system-place", [GO, said(OK), {"role": "system", "content": "x"}]),
    ("anthropic", "empty-content", [GO, said(), GO]),
    ("anthropic", "blank-text", [heard({"type": "text", "text": "\n\n"})]),
    (
        "anthropic",
        "call-id",
        [GO, said({**USE, "id": "a.b"}), heard({**RESULT, "tool_use_id": "a.b"})],
    ),
    ("anthropic", "call-unique", [GO, said(USE), heard(RESULT), said(USE), heard(RESULT)]),
    ("anthropic", "call-name", [GO, said({**USE, "name": "f g"}), heard(RESULT)]),
    ("anthropic", "call-input", [GO, said({**USE, "input": "{}"}), heard(RESULT)]),
    ("anthropic", "call-answered", [GO, said(USE, {**USE, "id": "b"}), heard(RESULT)]),
    ("anthropic", "result-called", [GO, heard(RESULT)]),
    ("anthropic", "result-once", [GO, said(USE), heard(RESULT, RESULT)]),
    ("anthropic", "results-first", [GO, said(USE), heard(OK, RESULT)]),
    ("anthropic", "thinking-signed", [GO, said({**THOUGHT, "signature": ""}, OK)]),
    ("anthropic", "thinking-last", [GO, said(OK, THOUGHT)]),
    ("anthropic", "thinking-order", [GO, said(USE, THOUGHT, OK), heard(RESULT)]),
    (
        "anthropic",
        "thinking-first",
        {"messages": [GO, said(USE), heard(RESULT)], "thinking": {"type": "enabled"}},
    ),
    ("anthropic", "cache-marks", [heard(*[{**OK, **MARK}] * 5)]),
    ("anthropic", "cache-place", [GO, said({**THOUGHT, **MARK}, OK)]),
    ("anthropic", "media-source", [heard({"type": "image", "source": {"type": "url"}})]),
    ("openai_chat", "shape", [{"role": "user", "content": [{"type": "tool_use"}]}]),
    ("openai_chat", "role", [{"role": "model", "content": "x"}]),
    ("openai_chat", "some-message", []),
    ("openai_chat", "empty-content", [{"role": "user", "content": None}]),
    ("openai_chat", "empty-calls", [{"role": "assistant", "content": "x", "tool_calls": []}]),
    ("openai_chat", "name", [{**GO, "name": "Dana Smith"}]),
    (
        "openai_chat",
        "call-id",
        [called({**CALL, "id": "a" * 41}), {**TOLD, "tool_call_id": "a" * 41}],
    ),
    ("openai_chat", "call-unique", [called(CALL, CALL), TOLD, TOLD]),
    (
        "openai_chat",
        "call-name",
        [called({**CALL, "function": {"name": "", "arguments": ""}}), TOLD],
    ),
    (
        "openai_chat",
        "call-input",
        [called({**CALL, "function": {"name": "f", "arguments": {}}}), TOLD],
    ),
    ("openai_chat", "call-answered", [called(CALL), GO]),
    ("openai_chat", "result-called", [GO, TOLD]),
    (
        "openai_chat",
        "media-place",
        [said({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})],
    ),
    ("openai_chat", "media-source", [heard({"type": "image_url", "image_url": {}})]),
    ("openai_responses", "shape", [{"type": ""}]),
    ("openai_responses", "role", [{"role": "tool", "content": "x"}]),
    ("openai_responses", "some-message", []),
    ("openai_responses", "empty-content", [heard()]),
    ("openai_responses", "content-type", [said({"type": "input_text", "text": "x"})]),
    (
        "openai_responses",
        "call-id",
        [{**ITEM, "call_id": "a" * 65}, {**OUTPUT, "call_id": "a" * 65}],
    ),
    ("openai_responses", "call-unique", [ITEM, OUTPUT, ITEM]),
    ("openai_responses", "call-name", [{**ITEM, "name": "a b"}, OUTPUT]),
    ("openai_responses", "call-input", [{**ITEM, "arguments": {}}, OUTPUT]),
    ("openai_responses", "call-answered", [ITEM]),
    ("openai_responses", "result-called", [OUTPUT, GO]),
    ("openai_responses", "result-once", [ITEM, OUTPUT, OUTPUT]),
    ("openai_responses", "reasoning-followed", [{"type": "reasoning", "summary": []}, GO]),
    ("openai_responses", "item-id", [{**ITEM, "id": "msg_1"}, OUTPUT]),
    ("openai_responses", "media-source", [heard({"type": "input_image"})]),
    ("gemini", "shape", [{"role": "user"}]),
    ("gemini", "role", [{"role": "assistant", "parts": [{"text": "x"}]}]),
    ("gemini", "some-message", []),
    ("gemini", "first-role", [model({"text": "x"})]),
    ("gemini", "empty-content", [told()]),
    ("gemini", "part-data", [told({"thought": True})]),
    ("gemini", "call-name", [ASK, model(function("9f")), told(response("9f"))]),
    ("gemini", "call-input", [ASK, model(function(args="x")), told(response())]),
    ("gemini", "call-place", [ASK, model({"text": "x"}), model(function()), told(response())]),
    ("gemini", "call-answered", [ASK, model(function()), ASK]),
    ("gemini", "result-called", [ASK, told(response())]),
    ("gemini", "result-alone", [ASK, model(function()), told(response(), {"text": "x"})]),
    ("gemini", "result-object", [ASK, model(function()), told(response(response="x"))]),
    (
        "gemini",
        "signature",
        {"model": "gemini-3-pro", "contents": [ASK, model(function()), told(response())]},
    ),
    ("gemini", "media-source", [told({"inlineData": {"mimeType": "image/png"}})]),
]


@pytest.mark.parametrize(("provider", "rule", "payload"), BROKEN)
def test_a_broken_rule_is_found_and_repaired(provider: str, rule: str, payload: Any) -> None:
    faults = lint(payload, provider)
    assert {fault.rule for fault in faults} == {rule}
    assert faults[0].reference == RULES[provider][rule]
    assert rule in str(faults[0])
    fixed = repair(payload, provider)
    assert lint(fixed.payload, provider) == ()
    assert fixed.changes


def test_every_rule_of_the_table_is_tried() -> None:
    tried = {(provider, rule) for provider, rule, _ in BROKEN}
    assert tried == {(provider, rule) for provider in RULES for rule in RULES[provider]}
    assert set(RULES) == set(FORMATS)


def test_every_rule_names_where_it_is_known_from() -> None:
    for provider in RULES:
        for reference in RULES[provider].values():
            assert reference.startswith(("github.com/", "Anthropic ", "OpenAI ", "Gemini "))


@pytest.mark.parametrize(
    ("provider", "rule"),
    [
        ("anthropic", "call-answered"), ("anthropic", "result-called"), ("anthropic", "cache-marks"),
        ("openai_chat", "call-name"), ("openai_chat", "result-called"), ("openai_chat", "media-place"),
        ("openai_responses", "call-answered"), ("gemini", "role"), ("gemini", "part-data"),
    ],
)  # fmt: skip
def test_what_a_provider_documents_names_its_documentation(provider: str, rule: str) -> None:
    assert "github.com" not in RULES[provider][rule]


def test_a_rule_outside_the_table_cannot_be_used() -> None:
    with pytest.raises(KeyError):
        FaultCollector("anthropic").add_fault("invented", "messages", "x")


SOUND: list[tuple[str, Any]] = [
    ("anthropic", [GO, GO, said(OK), said(OK)]),
    ("anthropic", [GO, said(THOUGHT, OK, USE), heard(RESULT, OK)]),
    (
        "anthropic",
        {"messages": [GO, said(THOUGHT, USE), heard(RESULT)], "thinking": {"type": "enabled"}},
    ),
    ("anthropic", [GO, said()]),
    ("openai_chat", [said(OK), {**GO, "content": ""}, called(CALL), TOLD, called(CALL), TOLD]),
    ("openai_chat", [heard({"type": "video_url", "video_url": {"url": "https://example.org/v"}})]),
    ("openai_responses", [GO, ITEM, GO, OUTPUT, {"type": "new_item"}]),
    ("openai_responses", {"input": "just text"}),
    ("gemini", {"contents": "just text"}),
    ("gemini", [ASK, ASK, model({"text": "x"}), model({"text": "y"})]),
    ("gemini", [ASK, model(function(id="1"), function()), told(response(), response())]),
]


@pytest.mark.parametrize(("provider", "payload"), SOUND)
def test_what_providers_take_is_not_refused(provider: str, payload: Any) -> None:
    assert lint(payload, provider) == ()


def test_a_lint_that_misses_orphans_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(listing: Any, faults: FaultCollector) -> None:
        lint_openai_chat.lint_openai_chat(listing, faults)
        faults.found = [fault for fault in faults.found if fault.rule != "result-called"]

    monkeypatch.setitem(linting._LINTS, "openai_chat", blind)
    missed = [
        rule
        for provider, rule, payload in BROKEN
        if provider == "openai_chat"
        and rule not in {fault.rule for fault in lint(payload, provider)}
    ]
    assert missed == ["result-called"]
    assert wire.repair([GO, TOLD], "openai_chat").changes == ()

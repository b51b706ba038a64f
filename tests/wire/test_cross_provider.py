"""A conversation held with one provider goes on with any other: valid, whole, and without foreign secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.formats import FORMATS, KEYS, calls_and_results, canonical, spoken
from tests.wire.samples import MODELS, SAMPLES
from turnfold import wire
from turnfold.records import (
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    as_messages,
    assistant,
    system,
    tool,
    user,
)
from turnfold.wire import Action
from turnfold.wire import codec as ownership

PAIRS = [(source, target) for source in FORMATS for target in FORMATS]
SECRETS = (
    "c2lnbmVk",
    "ZW5jcnlwdGVk",
    "Q29t",
    "Z0FBQUFB",
    "Q29tcA==",
    "dGV4dA==",
    "Y2FsbA==",
    "RW5j",
)
"""Signatures and encrypted blocks of the samples."""


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_conversation_can_go_on_everywhere(source: str, target: str) -> None:
    messages = FORMATS[source].accept_all(SAMPLES[source], model=MODELS[source])
    request = FORMATS[target].request(messages, model=MODELS[target])
    assert wire.lint(request.kwargs, target) == ()
    arrived = FORMATS[target].accept_all(request.kwargs)
    said = "\n".join([*spoken(arrived), canonical(request.kwargs)])
    assert [text for text in spoken(messages) if text not in said] == []
    before, after = calls_and_results(messages), calls_and_results(arrived)
    assert [name for name, _ in after] == [name for name, _ in before]
    assert {count for _, count in after} == {1}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_no_signature_reaches_a_foreign_model(source: str, target: str) -> None:
    messages = FORMATS[source].accept_all(SAMPLES[source], model=MODELS[source])
    for model in (MODELS[target], "another-model", ""):
        request = FORMATS[target].request(messages, model=model)
        ours = source == target and model != "another-model"
        sent = canonical(request.kwargs)
        for secret in SECRETS:
            held = f'"{secret}"' in canonical(SAMPLES[source])
            assert (f'"{secret}"' in sent) == (ours and held), secret
        if not ours:
            assert any(change.action is Action.LEFT_OUT for change in request.changes)
        assert wire.lint(request.kwargs, target) == ()


def test_a_thought_sent_to_a_foreign_model_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ownership, "same_model", lambda *_: True)
    messages = FORMATS["anthropic"].accept_all(SAMPLES["anthropic"], model="claude-opus-4-8")
    request = FORMATS["anthropic"].request(messages, model="another-model")
    assert '"c2lnbmVk"' in canonical(request.kwargs)


def plain_conversation() -> list[Message]:
    calls = [
        {"id": "a", "function": {"name": "find", "arguments": '{"q": "红"}'}},
        {"id": "b", "function": {"name": "find", "arguments": "{}"}},
    ]
    return [
        system("Be brief."),
        user("Find it, 请"),
        assistant("Looking.", tool_calls=calls),
        tool("shelf 9", tool_call_id="a"),
        tool("nothing", tool_call_id="b"),
        assistant("九号。"),
        user("Thanks"),
    ]


@pytest.mark.parametrize("target", FORMATS)
def test_messages_from_nowhere_need_no_change(target: str) -> None:
    messages = plain_conversation()
    request = FORMATS[target].request(messages, cache=False)
    assert request.changes == ()
    arrived = FORMATS[target].accept_all(request.kwargs)
    assert spoken(arrived) == spoken(messages)
    assert calls_and_results(arrived) == [("find", 1), ("find", 1)]
    assert [message.role for message in arrived if message.role != "tool"] == [
        message.role for message in messages if message.role != "tool"
    ]


def test_what_each_provider_is_sent_for_the_same_conversation() -> None:
    sent = {
        name: FORMATS[name].request(plain_conversation(), cache=False).kwargs for name in FORMATS
    }
    assert sent["openai_chat"]["messages"][2:4] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "find", "arguments": '{"q": "红"}'},
                },
                {"id": "b", "type": "function", "function": {"name": "find", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "shelf 9", "tool_call_id": "a"},
    ]
    assert sent["anthropic"]["system"] == "Be brief."
    assert sent["anthropic"]["messages"][1:3] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "a", "name": "find", "input": {"q": "红"}},
                {"type": "tool_use", "id": "b", "name": "find", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "shelf 9"},
                {"type": "tool_result", "tool_use_id": "b", "content": "nothing"},
            ],
        },
    ]
    assert sent["openai_responses"]["instructions"] == "Be brief."
    assert sent["openai_responses"]["input"][1:4] == [
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "a", "name": "find", "arguments": '{"q": "红"}'},
        {"type": "function_call", "call_id": "b", "name": "find", "arguments": "{}"},
    ]
    assert sent["gemini"]["config"] == {"systemInstruction": {"parts": [{"text": "Be brief."}]}}
    assert sent["gemini"]["contents"][2] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "a", "name": "find", "response": {"output": "shelf 9"}}},
            {"functionResponse": {"id": "b", "name": "find", "response": {"output": "nothing"}}},
        ],
    }


@pytest.mark.parametrize("target", FORMATS)
def test_only_a_system_message_speaks_as_the_system(target: str) -> None:
    messages = [system("rules"), user("fenced summary"), assistant("ok"), user("tail"), user("now")]
    kwargs = FORMATS[target].request(messages).kwargs
    around = {key: value for key, value in kwargs.items() if key != KEYS[target]}
    assert "rules" in canonical(around) or target == "openai_chat"
    assert not any(word in canonical(around) for word in ("fenced", "tail", "now"))
    roles = [item["role"] for item in kwargs[KEYS[target]]]
    assert [role for role in roles if role in ("system", "developer")] == (
        ["system"] if target == "openai_chat" else []
    )


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_a_system_message_inside_the_conversation_loses_its_rank_not_its_words(target: str) -> None:
    request = FORMATS[target].request([user("hi"), assistant("ho"), system("be brief"), user("go")])
    assert "be brief" in canonical(request.kwargs[KEYS[target]])
    assert [change.action for change in request.changes] == [Action.CONVERTED]


UNMODELLED: dict[str, Any] = {
    "document": {
        "type": "document",
        "source": {"type": "text", "data": "IN A BLOCK"},
        "title": "Plan",
    },
    "parts": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": "IN A BLOCK"}]},
    },
    "search": {
        "type": "search_result",
        "source": "s",
        "content": [{"type": "text", "text": "IN A BLOCK"}],
    },
    "compaction": {"type": "compaction", "content": "IN A BLOCK", "signature": "s"},
    "refusal": {"type": "refusal", "refusal": "IN A BLOCK"},
    "code": {"type": "gemini", "part": {"executableCode": {"code": "IN A BLOCK"}}},
    "shell": {"type": "shell_call_output", "output": [{"stdout": "IN A BLOCK", "stderr": ""}]},
    "program": {"type": "program_output", "result": "IN A BLOCK"},
    "output": {"type": "gemini", "part": {"codeExecutionResult": {"output": "IN A BLOCK"}}},
}


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("kind", UNMODELLED)
def test_text_in_a_block_of_another_provider_is_still_said(target: str, kind: str) -> None:
    part = OpaquePart(json.dumps(UNMODELLED[kind]), "somebody")
    request = FORMATS[target].request([user("hi"), Message.of("assistant", [part])])
    assert "IN A BLOCK" in canonical(request.kwargs)
    assert [change.action for change in request.changes] == [Action.CONVERTED]


@pytest.mark.parametrize("target", FORMATS)
def test_a_block_nobody_else_understands_is_left_out_and_listed(target: str) -> None:
    part = OpaquePart('{"type":"hologram","x":"SECRET"}', "somebody")
    request = FORMATS[target].request([user("hi"), Message.of("assistant", [part, TextPart("ok")])])
    assert "SECRET" not in canonical(request.kwargs)
    [change] = request.changes
    assert (change.path, change.action) == ("messages[1].parts[0]", Action.LEFT_OUT)


def test_a_block_of_a_compatible_server_goes_back_to_it() -> None:
    raw = {
        "role": "user",
        "content": [{"type": "video_url", "video_url": {"url": "https://example.org/v"}}],
    }
    for messages in (as_messages([raw]), FORMATS["openai_chat"].accept_all([raw])):
        assert FORMATS["openai_chat"].request(messages).kwargs["messages"] == [raw]
        assert FORMATS["anthropic"].request(messages).changes


def test_a_call_restated_for_another_model_is_answered_in_the_same_form() -> None:
    module = FORMATS["openai_responses"]
    items = [
        {"role": "user", "content": "go"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "shell", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "a.txt"},
        {"type": "shell_call", "id": "sh_1", "call_id": "b", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "b", "output": [{"stdout": "b.txt"}]},
    ]
    messages = module.accept_all(items, model="gpt-5.2")
    assert module.request(messages, model="gpt-5.2").kwargs["input"] == items
    sent = module.request(messages, model="gpt-6").kwargs["input"]
    assert sent == [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "a", "name": "shell", "arguments": "ls"},
        {"type": "function_call_output", "call_id": "a", "output": "a.txt"},
        {
            "type": "function_call",
            "call_id": "b",
            "name": "shell_call",
            "arguments": '{"action":{"commands":["ls"]}}',
        },
        {"type": "function_call_output", "call_id": "b", "output": "b.txt"},
    ]


def test_thoughts_that_said_no_name_are_anthropics() -> None:
    raw = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "SIG"},
            {"type": "text", "text": "ok"},
        ],
    }
    messages = as_messages([{"role": "user", "content": "hi"}, raw])
    for target in FORMATS:
        sent = canonical(FORMATS[target].request(messages).kwargs)
        assert ("SIG" in sent) == (target == "anthropic")
    told = as_messages(
        [{"role": "user", "content": "hi"}, {**raw, "type": "message", "model": "claude-a"}]
    )
    assert "SIG" in canonical(FORMATS["anthropic"].request(told, model="claude-a").kwargs)
    assert "SIG" not in canonical(FORMATS["anthropic"].request(told, model="claude-b").kwargs)


@pytest.mark.parametrize("target", FORMATS)
def test_a_thought_is_listed_with_its_words_when_it_is_left_out(target: str) -> None:
    thought = ThinkingPart("what I thought", "SIG", provider="somebody", model="m")
    request = FORMATS[target].request(
        [user("hi"), Message.of("assistant", [thought, TextPart("ok")])]
    )
    [change] = request.changes
    assert (change.action, change.lost) == (Action.LEFT_OUT, "what I thought")


def test_a_call_made_elsewhere_gets_the_documented_stand_in_for_its_signature() -> None:
    call = Message.of("assistant", [ToolCall("a", "find", "{}")])
    result = Message.of("tool", [ToolResult("a", (TextPart("shelf 9"),))])
    request = FORMATS["gemini"].request([user("hi"), call, result], model="gemini-3-pro-preview")
    part = request.kwargs["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == "skip_thought_signature_validator"
    assert [change.action for change in request.changes] == [Action.ADDED]
    assert (
        FORMATS["gemini"].request([user("hi"), call, result], model="gemini-2.5-pro").changes == ()
    )

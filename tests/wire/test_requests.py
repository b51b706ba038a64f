"""What a context becomes: cache breakpoints where it stays the same, tools and media in the provider's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.formats import FORMATS, KEYS, canonical
from turnfold import wire
from turnfold.budget import Budget
from turnfold.errors import InvalidRecord
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool,
    user,
)
from turnfold.tokens import counter_for
from turnfold.window import Anchor, Context, Transcript, assemble, shrink_message
from turnfold.wire import Action
from turnfold.wire.codec import same_model

COUNTER = counter_for("gpt-4o")
CALL = {"id": "a", "function": {"name": "find", "arguments": "{}"}}
TALK = [user("first"), assistant("fine"), user("second"), assistant("good")]
LOOP = [assistant(tool_calls=[CALL]), tool("shelf 9", tool_call_id="a")]


def context_of(log: list[Message], *, summary: str = "earlier: hello") -> Context:
    return assemble(
        Transcript(COUNTER, [system("rules"), *log]),
        Budget(max_tokens=10_000),
        anchor=Anchor(summary=summary),
        tail=(user("the tail"),),
    )


def marked(kwargs: dict[str, Any]) -> list[str]:
    """The texts that carry a cache mark, in order."""
    found: list[str] = []
    for content in (kwargs.get("system", []), *(m["content"] for m in kwargs["messages"])):
        for block in content if isinstance(content, list) else []:
            if "cache_control" in block:
                assert block["cache_control"] == {"type": "ephemeral"}
                found.append(str(block.get("text") or block.get("content")))
    return found


def test_breakpoints_stand_at_the_end_of_what_stays() -> None:
    request = wire.anthropic.request(context_of([*TALK, user("now")]))
    [first, summary, window] = marked(request.kwargs)
    assert first == "rules"
    assert "earlier: hello" in summary
    assert window == "good"
    assert request.changes == ()


def test_a_running_tool_loop_has_one_more_at_its_end() -> None:
    request = wire.anthropic.request(context_of([*TALK, user("now"), *LOOP]))
    assert len(marked(request.kwargs)) == 4
    assert marked(request.kwargs)[-1] == "shelf 9"


def test_without_a_summary_there_is_one_less() -> None:
    assert marked(wire.anthropic.request(context_of([*TALK, user("now")], summary="")).kwargs) == [
        "rules",
        "good",
    ]


def test_no_breakpoint_where_none_is_wanted_or_the_caller_set_some() -> None:
    log = [*TALK, user("now")]
    assert marked(wire.anthropic.request(context_of(log), cache=False).kwargs) == []
    own = Message.of("user", [TextPart("mine", '{"cache_control":{"type":"ephemeral"}}')])
    assert marked(wire.anthropic.request([*TALK, own, user("now")]).kwargs) == ["mine"]


def test_no_breakpoint_on_a_thought_or_on_nothing() -> None:
    thought = ThinkingPart("hm", "sig", provider="anthropic")
    said = Message.of("assistant", [TextPart("said"), thought])
    request = wire.anthropic.request([user("hi"), said], repair=False)
    assert marked(request.kwargs) == ["said"]
    assert marked(wire.anthropic.request([user("hi"), assistant(" ")], repair=False).kwargs) == []


def test_the_prefix_of_a_growing_conversation_stays_the_same() -> None:
    log = [*TALK, user("now"), *LOOP]
    sent: list[Any] = [
        wire.anthropic.request(context_of(each), cache=False).kwargs["messages"]
        for each in (log, [*log, assistant("found")])
    ]
    [shorter, longer] = sent
    assert longer[: len(shorter)] == shorter


def test_the_summary_and_the_tail_stay_user_messages() -> None:
    context = context_of([*TALK, user("now")])
    for name in FORMATS:
        kwargs = FORMATS[name].request(context).kwargs
        for item in kwargs[KEYS[name]]:
            if "earlier: hello" in canonical(item) or "the tail" in canonical(item):
                assert item["role"] == "user"


SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
FORMS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "type": "function",
        "function": {"name": "find", "description": "d", "parameters": SCHEMA},
    },
    "openai_responses": {
        "type": "function",
        "name": "find",
        "description": "d",
        "parameters": SCHEMA,
        "strict": False,
    },
    "anthropic": {"name": "find", "description": "d", "input_schema": SCHEMA},
    "gemini": {
        "functionDeclarations": [
            {"name": "find", "description": "d", "parametersJsonSchema": SCHEMA}
        ]
    },
}
OTHERS: dict[str, dict[str, Any]] = {
    "mcp": {"name": "find", "description": "d", "inputSchema": SCHEMA},
    "bare": {"name": "find", "description": "d", "parameters": SCHEMA},
    "capitals": {
        "function_declarations": [
            {
                "name": "find",
                "description": "d",
                "parameters": {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}},
            }
        ]
    },
}


def tools_in(request: wire.Request) -> list[Any]:
    kwargs: dict[str, Any] = request.kwargs
    return kwargs.get("tools") or kwargs.get("config", {}).get("tools", [])


@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("source", [*FORMS, *OTHERS])
def test_a_tool_is_described_in_the_words_of_the_provider(source: str, target: str) -> None:
    given = {**FORMS, **OTHERS}[source]
    request = FORMATS[target].request([user("hi")], tools=[given])
    if target == "gemini" and source in ("bare", "capitals"):
        [[declared]] = [each["functionDeclarations"] for each in tools_in(request)]
        assert declared["name"] == "find"
    else:
        assert tools_in(request) == [FORMS[target]]
    assert request.changes == ()


OWN_TOOLS = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "openai_responses": {"type": "web_search"},
    "gemini": {"googleSearch": {}},
}


@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("source", OWN_TOOLS)
def test_a_providers_own_tool_goes_to_no_other(source: str, target: str) -> None:
    request = FORMATS[target].request([user("hi")], tools=[OWN_TOOLS[source]])
    at_home = source.partition("_")[0] == target.partition("_")[0]
    assert tools_in(request) == ([OWN_TOOLS[source]] if at_home else [])
    assert bool(request.changes) != at_home


PIXEL = "data:image/png;base64,iVBORw0KGgo="
MEDIA: dict[str, Part] = {
    "picture": ImagePart(PIXEL, "low"),
    "linked picture": ImagePart("https://example.org/a.png"),
    "document": FilePart("data:application/pdf;base64,JVBERi0=", "application/pdf", "plan.pdf"),
    "sound": AudioPart("UklGRg==", "wav"),
}
TAKEN: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "picture": {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
        "linked picture": {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        "document": {
            "type": "file",
            "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        },
        "sound": {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    },
    "openai_responses": {
        "picture": {"type": "input_image", "detail": "low", "image_url": PIXEL},
        "linked picture": {
            "type": "input_image",
            "detail": "auto",
            "image_url": "https://example.org/a.png",
        },
        "document": {
            "type": "input_file",
            "filename": "plan.pdf",
            "file_data": "data:application/pdf;base64,JVBERi0=",
        },
    },
    "anthropic": {
        "picture": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        },
        "linked picture": {
            "type": "image",
            "source": {"type": "url", "url": "https://example.org/a.png"},
        },
        "document": {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            "title": "plan.pdf",
        },
    },
    "gemini": {
        "picture": {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        "linked picture": {
            "fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}
        },
        "document": {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
        "sound": {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
    },
}


@pytest.mark.parametrize("target", TAKEN)
@pytest.mark.parametrize("kind", MEDIA)
def test_media_is_sent_in_the_providers_form_or_a_note_stands_for_it(
    kind: str, target: str
) -> None:
    request = FORMATS[target].request(
        [Message.of("user", [TextPart("look"), MEDIA[kind]])], cache=False
    )
    [item] = request.kwargs[KEYS[target]]
    [_, sent] = item.get("content") or item["parts"]
    if kind in TAKEN[target]:
        assert sent == TAKEN[target][kind]
        assert request.changes == ()
    else:
        assert "not shown" in canonical(sent)
        assert [change.action for change in request.changes] == [Action.CONVERTED]


@pytest.mark.parametrize("target", FORMATS)
def test_a_file_kept_elsewhere_is_named_not_sent(target: str) -> None:
    elsewhere = Message.of(
        "user", [TextPart("look"), ImagePart("file:F-1")], origin=Origin("somebody")
    )
    request = FORMATS[target].request([elsewhere], cache=False)
    assert "[image file:F-1 not shown: " in canonical(request.kwargs)
    assert [change.action for change in request.changes] == [Action.CONVERTED]


@pytest.mark.parametrize("target", FORMATS)
def test_a_picture_in_a_result_reaches_those_that_can_see_it_there(target: str) -> None:
    result = ToolResult("a", (TextPart("seen"), ImagePart(PIXEL)))
    messages = [user("hi"), LOOP[0], Message.of("tool", [result])]
    request = FORMATS[target].request(messages, cache=False)
    sent = canonical(request.kwargs)
    assert ("iVBORw0KGgo=" in sent) == (target != "openai_chat")
    assert wire.lint(request.kwargs, target) == ()


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
@pytest.mark.parametrize("arguments", ["not json", "[1]", '"text"', "NaN", '{"a": NaN}'])
def test_arguments_that_are_no_object_are_put_into_one(target: str, arguments: str) -> None:
    call = Message.of("assistant", [ToolCall("a", "find", arguments)])
    request = FORMATS[target].request([user("hi"), call, LOOP[1]], cache=False)
    assert canonical({"input": arguments})[1:-1] in canonical(request.kwargs)
    assert [change.action for change in request.changes] == [Action.CONVERTED]


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_no_arguments_are_an_empty_object(target: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}
    said = [user("look"), assistant(tool_calls=[call]), tool("roses", tool_call_id="c1")]
    request = FORMATS[target].request(said, cache=False)
    assert '{"input": ""}' not in canonical(request.kwargs)
    assert not any("no JSON object" in change.reason for change in request.changes)
    assert wire.lint(request.kwargs, target) == ()


def test_a_name_and_fields_nobody_else_knows_are_listed() -> None:
    message = Message.of(
        "user", [TextPart("hi")], name="dana", extra='{"mood":"good","empty":null}'
    )
    for target in FORMATS:
        reasons = [change.reason for change in FORMATS[target].request([message]).changes]
        assert any("dana" in reason for reason in reasons) == (target != "openai_chat")
        assert any("mood" in reason for reason in reasons) == (target != "openai_chat")
        assert not any("empty" in reason for reason in reasons)


@pytest.mark.parametrize("target", FORMATS)
def test_what_is_no_message_is_refused_with_its_place(target: str) -> None:
    with pytest.raises(InvalidRecord, match=r"messages\[1\].*accept_all"):
        FORMATS[target].request([user("hi"), {"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("claude-opus-4-8", "claude-opus-4-8-20260528", True),
        ("gpt-5", "gpt-5-2025-08-07", True),
        ("gemini-2.5-pro", "models/gemini-2.5-pro", True),
        ("claude-sonnet-4-5-latest", "anthropic/claude-sonnet-4-5", True),
        ("", "anything", True),
        ("claude-opus-4", "claude-opus-4-1", False),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-5-2025-08-07", "gpt-5-2026-01-01", False),
        ("gemini-2.5-pro", "gemini-3-pro", False),
    ],
)
def test_when_two_names_are_one_model(one: str, other: str, *, same: bool) -> None:
    assert same_model(one, other) is same
    assert same_model(other, one) is same


def test_a_shortened_message_keeps_its_origin_and_loses_its_old_form() -> None:
    raw = {"role": "assistant", "content": [{"type": "text", "text": "word " * 500}]}
    message = wire.anthropic.accept(raw, model="claude-a")
    assert message.origin is not None
    assert message.origin.form
    short = shrink_message(message, 50, COUNTER)
    assert short.origin == Origin("anthropic", "claude-a")
    sent: Any = wire.anthropic.request([user("hi"), short], cache=False).kwargs["messages"]
    assert sent[1]["content"] == short.text

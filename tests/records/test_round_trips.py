"""What goes in comes out: stored form, dictionary form, and everything a provider put in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.made_messages import arguments, json_values, messages, untimed
from turnfold.records import (
    FilePart,
    Message,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolResult,
    as_message,
    as_messages,
    assistant,
    decode_message,
    encode_message,
    tool,
    user,
)


@untimed
@given(messages)
def test_the_stored_form_gives_the_message_back(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@untimed
@given(messages)
def test_equal_messages_are_stored_as_equal_bytes(message: Message) -> None:
    again = decode_message(encode_message(message))
    assert encode_message(again) == encode_message(message)
    assert json.loads(encode_message(message))["v"] == 1


@untimed
@given(messages)
def test_the_dictionary_form_gives_the_message_back(message: Message) -> None:
    assert as_message(message.model_dump()) == message


@untimed
@given(messages)
def test_the_dictionary_form_is_json(message: Message) -> None:
    """What is sent over a wire comes back the same message on the other side."""
    assert as_message(json.loads(json.dumps(message.model_dump()))) == message


@untimed
@given(arguments)
def test_arguments_stay_as_the_model_wrote_them(text: str) -> None:
    """Also where a call stands before a text, which OpenAI's form cannot say."""
    for parts in ([ToolCall("a", "f", text)], [ToolCall("a", "f", text), TextPart("then")]):
        again = as_message(Message.of("assistant", parts).model_dump())
        assert again.calls[0].arguments == text


@untimed
@given(st.dictionaries(st.text(max_size=5).map("x_{}".format), json_values, min_size=1, max_size=3))
def test_fields_nobody_knows_are_kept_where_they_stood(fields: dict[str, object]) -> None:
    raw: dict[str, Any] = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "a", **fields},
            {"type": "image_url", "image_url": {"url": "u", **fields}, **fields},
            {"type": "input_audio", "input_audio": {"data": "d", "format": "wav", **fields}},
            {"type": "file", "file": {"file_id": "f", **fields}, **fields},
        ],
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}", **fields}},
            {"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}, **fields},
        ],
        **fields,
    }
    assert as_message(raw).model_dump() == raw


OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": "今天几点开会？", "name": "dana"},
    {"role": "user", "content": ""},
    {"role": "user", "content": "x", "name": None},
    {"role": "user", "content": "x", "name": ""},
    {"role": "user", "content": "x", "metadata": {"kind": "note"}},
    {"role": "user", "content": "x", "metadata": {}},
    {"role": "user", "content": "x", "metadata": None},
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": "", "tool_calls": [], "function_call": None, "refusal": None},
    {"role": "assistant", "content": None, "tool_calls": None, "reasoning_content": "hm"},
    {
        "role": "assistant",
        "content": "一",
        "tool_calls": [
            {"id": "", "type": "function", "function": {"name": "f", "arguments": "{oops"}},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": ""}, "index": 0},
        ],
    },
    {"role": "tool", "content": "18°C", "tool_call_id": "b"},
    {"role": "tool", "content": "", "tool_call_id": "", "name": "f"},
    {"role": "tool", "content": None, "tool_call_id": "b"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "input_text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "u", "detail": None}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f-1"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
            {"type": "file", "file": {"file_id": "f-1", "file_data": "data:,x", "filename": None}},
            {"type": "refusal", "refusal": "no"},
        ],
    },
]  # fmt: skip


@pytest.mark.parametrize("raw", OPENAI, ids=lambda raw: json.dumps(raw)[:60])
def test_openai_dictionaries_come_out_as_they_went_in(raw: dict[str, Any]) -> None:
    before = json.dumps(raw)
    assert as_message(raw).model_dump() == raw
    assert json.dumps(raw) == before, "the caller's dictionary was changed"
    assert decode_message(encode_message(as_message(raw))).model_dump() == raw


def test_a_list_with_one_plain_text_is_that_text() -> None:
    listed = as_message({"role": "user", "content": [{"type": "text", "text": "hi"}]})
    assert listed == user("hi")
    assert listed == user(["hi"])
    assert listed.model_dump()["content"] == "hi"


def test_no_content_is_not_empty_content() -> None:
    assert assistant() != assistant("")
    assert assistant().content is None
    assert assistant("").content == ""
    assert as_message({"role": "user", "content": []}).content is None
    assert as_message({"role": "user"}) == Message("user")


def test_several_results_and_errors_are_written_as_blocks() -> None:
    parts = [
        ToolResult("a", (TextPart("one"),)),
        ToolResult("b", (TextPart("two"), TextPart("three")), is_error=True),
        ToolResult("c", ()),
        TextPart("and now?"),
    ]
    message = Message.of("tool", parts)
    blocks = message.model_dump()["content"]
    assert blocks == [
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}],
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "c", "content": None},
        {"type": "text", "text": "and now?"},
    ]
    assert as_message(message.model_dump()) == message


def test_an_opaque_block_without_a_type_can_still_be_stored() -> None:
    """Not every provider's blocks have a type; those come from a wire format, not from a caller."""
    message = Message.of("assistant", [OpaquePart('{"executableCode":{}}', provider="gemini")])
    assert decode_message(encode_message(message)) == message
    assert message.content == [{"executableCode": {}}]


def test_a_document_at_an_address_keeps_its_media_type() -> None:
    message = Message.of("user", [FilePart("https://example.org/a.pdf", "application/pdf")])
    assert as_message(message.model_dump()) == message


def test_messages_are_taken_from_any_iterable_and_stay_the_same_object() -> None:
    one = user("hi")
    assert as_messages(iter([one, {"role": "tool", "content": "x", "tool_call_id": "a"}])) == [
        one,
        tool("x", tool_call_id="a"),
    ]
    assert as_message(one) is one

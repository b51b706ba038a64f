"""Anthropic's blocks are read into the same parts, with nothing of them lost."""

from __future__ import annotations

from typing import Any

import pytest

from turnfold.records import (
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    as_message,
    decode_message,
    encode_message,
)

CACHE = {"cache_control": {"type": "ephemeral"}}
CACHE_TEXT = '{"cache_control":{"type":"ephemeral"}}'
PDF = "application/pdf"

BLOCKS: list[tuple[dict[str, Any], Part]] = [
    ({"type": "text", "text": "你好", **CACHE}, TextPart("你好", CACHE_TEXT)),
    ({"type": "tool_use", "id": "t", "name": "f", "input": {"a": [1]}}, ToolCall("t", "f", '{"a":[1]}')),
    ({"type": "tool_use", "id": "t", "name": "f", "input": {}, **CACHE}, ToolCall("t", "f", "{}", CACHE_TEXT)),
    ({"type": "thinking", "thinking": "hm", "signature": "c2ln"}, ThinkingPart("hm", "c2ln")),
    ({"type": "thinking", "thinking": "hm"}, ThinkingPart("hm")),
    ({"type": "thinking", "thinking": "", "signature": "s"}, ThinkingPart("", "s")),
    ({"type": "redacted_thinking", "data": "ZW5j"}, ThinkingPart("", redacted="ZW5j")),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        ImagePart("data:image/png;base64,AA"),
    ),
    (
        {"type": "image", "source": {"type": "url", "url": "https://e.org/a.png", "x": 1}, **CACHE},
        ImagePart("https://e.org/a.png", None, CACHE_TEXT[:-1] + ',"source":{"x":1}}'),
    ),
    ({"type": "image", "source": {"type": "file", "file_id": "f1"}}, ImagePart("file:f1")),
    (
        {"type": "document", "source": {"type": "base64", "media_type": PDF, "data": "AA"}, "title": "t"},
        FilePart(f"data:{PDF};base64,AA", PDF, extra='{"title":"t"}'),
    ),
    ({"type": "document", "source": {"type": "url", "url": "https://e.org/a"}}, FilePart("https://e.org/a", PDF)),
    ({"type": "document", "source": {"type": "file", "file_id": "f1"}}, FilePart("file:f1", PDF)),
    (
        {"type": "document", "source": {"type": "text", "data": "plain"}},
        OpaquePart('{"type":"document","source":{"type":"text","data":"plain"}}'),
    ),
    (
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "天气"}},
        OpaquePart('{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":"天气"}}'),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("block", "part"), BLOCKS, ids=lambda value: str(value)[:50])
def test_each_block_becomes_its_part(block: dict[str, Any], part: Part) -> None:
    message = as_message({"role": "assistant", "content": [TextPart("first"), block]})
    assert message.parts == (TextPart("first"), part)
    assert as_message(message.model_dump()) == message
    assert decode_message(encode_message(message)) == message


RESULTS: list[tuple[dict[str, Any], ToolResult]] = [
    ({"content": "18°C"}, ToolResult("t", (TextPart("18°C"),))),
    ({}, ToolResult("t", ())),
    ({"content": [], "is_error": True}, ToolResult("t", (), is_error=True)),
    (
        {"content": "", "is_error": False},
        ToolResult("t", (TextPart(""),), extra='{"is_error":false}'),
    ),
    ({"content": None, **CACHE}, ToolResult("t", (), extra=CACHE_TEXT)),
    (
        {"content": [{"type": "text", "text": "a"}, {"type": "search_result", "x": 1}]},
        ToolResult("t", (TextPart("a"), OpaquePart('{"type":"search_result","x":1}'))),
    ),
    (
        {"content": [{"type": "image", "source": {"type": "url", "url": "u"}}]},
        ToolResult("t", (ImagePart("u"),)),
    ),
]


@pytest.mark.parametrize(("fields", "result"), RESULTS, ids=lambda value: str(value)[:50])
def test_results_in_a_user_message_make_it_a_tool_message(
    fields: dict[str, Any], result: ToolResult
) -> None:
    block = {"type": "tool_result", "tool_use_id": "t", **fields}
    message = as_message({"role": "user", "content": [block, {"type": "text", "text": "go on"}]})
    assert message == Message.of("tool", [result, TextPart("go on")])
    assert as_message(message.model_dump()) == message


def test_calls_after_the_text_come_out_as_openai_calls() -> None:
    message = as_message({"role": "assistant", "content": [
        {"type": "text", "text": "let me see"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"city": "杭州"}},
    ]})  # fmt: skip
    assert message.model_dump() == {
        "role": "assistant",
        "content": "let me see",
        "tool_calls": [
            {
                "id": "t",
                "type": "function",
                "function": {"name": "f", "arguments": '{"city":"杭州"}'},
            }
        ],
    }


def test_calls_between_texts_keep_their_place() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        {"type": "text", "text": "and"},
        {"type": "tool_use", "id": "u", "name": "g", "input": {}},
    ]
    message = as_message({"role": "assistant", "content": content})
    assert message.model_dump() == {"role": "assistant", "content": content}

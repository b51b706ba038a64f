"""Messages of every kind for Hypothesis: what a program, a provider or a store may hand over."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)

__all__ = ("arguments", "json_values", "messages", "texts", "unknown_fields", "untimed")

untimed = examples(150)

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", " ", "hello", "你好，世界", "👩‍👩‍👧", "e\u0301", '"quoted"\n', "\x00", "<|endoftext|>"]
    ),
)
words = st.text(min_size=1, max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.one_of(
    st.sampled_from(
        ["{}", "", "null", '"text"', '{"a": 1}', '{"a":1,"a":2}', "{broken", "NaN", "[1.0]"]
    ),
    texts,
    json_values.map(json.dumps),
    json_values.map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))),
)
unknown_fields = st.dictionaries(words.map("x_{}".format), json_values, max_size=2)
"""Fields no provider has: their names cannot be those of modelled ones."""


def _json(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) if fields else ""


extras = st.just("") | unknown_fields.map(_json)
text_parts = st.builds(
    TextPart, texts, extras | st.sampled_from(['{"type":"input_text"}', '{"type":"output_text"}'])
)
image_parts = st.builds(ImagePart, texts, st.sampled_from([None, "low", "high", "auto"]), extras)
audio_parts = st.builds(AudioPart, texts, texts, extras)
file_parts = st.builds(
    FilePart,
    st.sampled_from(["https://example.org/a.pdf", "file:abc", "data:text/plain,x"])
    | words.map("data:application/pdf;base64,{}".format),
    st.sampled_from(["application/octet-stream", "application/pdf", "text/plain"]),
    texts,
    extras,
)
thinking_parts = st.one_of(
    st.builds(ThinkingPart, texts, texts, extra=extras),
    st.builds(ThinkingPart, st.just(""), redacted=words, extra=extras),
)
opaque_parts = st.builds(
    lambda kind, fields: OpaquePart(_json({"type": f"x_{kind}", **fields})), words, unknown_fields
)
content_parts: st.SearchStrategy[ContentPart] = st.one_of(
    text_parts, image_parts, audio_parts, file_parts, opaque_parts
)
tool_calls = st.builds(ToolCall, texts, texts, arguments, extras)
tool_results = st.builds(
    ToolResult,
    texts,
    st.lists(content_parts, max_size=3).map(tuple),
    st.booleans(),
    extras,
)


def _message(
    role: str, parts: st.SearchStrategy[Part], *, least: int = 0
) -> st.SearchStrategy[Message]:
    return st.builds(
        Message.of,
        st.just(role),
        st.lists(parts, min_size=least, max_size=4),
        name=st.none() | texts,
        extra=extras,
        labels=extras,
    )


messages: st.SearchStrategy[Message] = st.one_of(
    _message("system", content_parts),
    _message("user", content_parts),
    _message("assistant", content_parts | thinking_parts | tool_calls),
    st.builds(
        lambda results, others, name: Message.of("tool", [*results, *others], name=name),
        st.lists(tool_results, min_size=1, max_size=3),
        st.lists(content_parts, max_size=2),
        st.none() | texts,
    ),
)

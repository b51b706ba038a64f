"""What cannot be kept whole is refused, with the place and the remedy; nothing else is ever raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.made_messages import untimed
from turnfold.errors import InvalidRecord
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    as_message,
    as_messages,
    assistant,
    encode_message,
    user,
)

DEEP = 10_000
LONE = "\ud800"
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def nested_results(levels: int) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    for _ in range(levels):
        block = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    return block


def said(content: object = "x", *, role: str = "user", **fields: object) -> dict[str, object]:
    return {"role": role, "content": content, **fields}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("unknown role", said(role="robot"), "role: unknown role 'robot'. Use one of assistant, system, tool, user"),
    ("retired role", said(role="function", name="f"), (
        "role: unknown role 'function'. Use one of assistant, system, tool, user: a function's result has the role tool"
    )),
    ("role is no text", said(role=5), "role: the message has no role"),  # type: ignore[arg-type]  # on purpose
    ("no role", {"content": "x"}, "role: the message has no role"),
    ("content of bytes", said(b"x"), "content: content is bytes, not text or a list. Give text or a list of blocks"),
    ("content of one block", said({"type": "text", "text": "x"}), "content: content is dict"),
    ("bytes among blocks", said([b"x"]), "content[0]: bytes has no fields"),
    ("block without type", said(["a", {"text": "x"}]), 'content[1]: the content block has no type. Add "type"'),
    ("text is missing", said([{"type": "text"}]), "content[0]: text is missing"),
    ("text is a number", said([{"type": "text", "text": 5}]), "content[0].text: must be text, not int"),
    ("image without url", said([{"type": "image_url", "image_url": {}}]), "content[0].image_url: url is missing"),
    ("image of a number", said([{"type": "image_url", "image_url": 5}]), "content[0].image_url: int has no"),
    (
        "image detail",
        said([{"type": "image_url", "image_url": {"url": "u", "detail": "huge"}}]),
        "content[0]: unknown image detail 'huge'. Use low, high or auto",
    ),
    ("image source", said([{"type": "image", "source": {"type": "ftp"}}]), "content[0].source: unknown source type"),
    ("sound without data", said([{"type": "input_audio"}]), "content[0].input_audio: data is missing"),
    ("file of nothing", said([{"type": "file", "file": {"filename": "a"}}]), "content[0].file: the file has neither"),
    ("file name of a number", said([{"type": "file", "file": {"file_id": "f", "filename": 5}}]), "filename: must be"),
    ("signature of a number", said([{"type": "thinking", "thinking": "", "signature": 5}]), "signature: must be text"),
    ("name of a number", said(name=5), "name: must be text, not int"),
    ("calls of a number", said(role="assistant", tool_calls=5), "tool_calls: tool_calls is int, not a list. Give"),
    ("calls of one call", said(role="assistant", tool_calls=CALL), "tool_calls: tool_calls is dict, not a list"),
    ("call of text", said(role="assistant", tool_calls=["f"]), "tool_calls[0]: str has no fields"),
    ("call without id", said(role="assistant", tool_calls=[{**CALL, "id": None}]), "tool_calls[0]: id is missing"),
    (
        "call of another type",
        said(role="assistant", tool_calls=[{"id": "a", "type": "custom", "custom": {}}]),
        "tool_calls[0]: a tool call of type 'custom'",
    ),
    ("a user calls", said(tool_calls=[CALL]), "tool_calls[0]: a message of role 'user' cannot call tools"),
    ("a tool calls", said(role="tool", tool_call_id="a", tool_calls=[CALL]), "a tool result cannot hold a ToolCall"),
    ("retired call", said(role="assistant", function_call={"name": "f"}), "function_call: function_call is OpenAI's"),
    ("result without call", said(role="tool"), "tool_call_id: the tool message has no tool_call_id"),
    ("call id of a number", said(role="tool", tool_call_id=5), "tool_call_id: must be text, not int"),
    ("a user answers", said(tool_call_id="a"), "tool_call_id: a message of role 'user' cannot have a tool_call_id"),
    (
        "call named twice",
        said([{"type": "tool_result", "tool_use_id": "a"}], role="tool", tool_call_id="a"),
        "tool_call_id: the tool results in the content already have the ids of their calls",
    ),
    (
        "an assistant answers",
        said([{"type": "tool_result", "tool_use_id": "a"}], role="assistant"),
        "content[0]: a message of role 'assistant' cannot have tool results",
    ),
    (
        "is_error is text",
        said([{"type": "tool_result", "tool_use_id": "a", "is_error": "yes"}]),
        "content[0]: is_error is 'yes'. Use true or false",
    ),
    (
        "a call in a result",
        said([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_use", "id": "b", "name": "f"}]}]),
        "content[0].content[0]: a tool result cannot hold a ToolCall",
    ),
    (
        "a field that contradicts its block",
        said([{"type": "tool_use", "id": "a", "name": "f", "function": {"name": "g"}}], role="assistant"),
        "tool_calls[0]: the ToolCall would be read back differently",
    ),
    ("notes of text", said(metadata="note"), "metadata: must be a JSON object, not str"),
    ("notes of bytes", said(metadata={"a": b"x"}), "metadata.a: bytes has no JSON form"),
    ("NaN", said(score=float("nan")), "score: nan has no JSON form. Send null or a string instead"),
    ("infinity", said([{"type": "x", "a": [1, float("-inf")]}]), "content[0].a[1]: -inf has no JSON form"),
    ("bytes", said(extra={"a": [b"x"]}), "extra.a[0]: bytes has no JSON form"),
    ("a set", said(extra={1, 2}), "extra: set has no JSON form"),
    ("a key that is no text", said(extra={1: "a", "1": "b"}), "extra: object key 1 is int, not text"),
    ("a field name that is no text", {**said(), 1: "a", "1": "b"}, "field name 1 is int, not text"),  # type: ignore[dict-item]  # on purpose
    ("a huge number", said(extra=10**5000), "Exceeds the limit (4300 digits)"),
    ("nested fields", said(extra=nested(DEEP)), "nested deeper than 100 levels"),
    ("nested blocks", said([{"type": "x", "a": nested(DEEP)}]), "content[0]: nested deeper than 100 levels"),
    ("nested notes", said(metadata={"a": nested(DEEP)}), "metadata: nested deeper than 100 levels"),
    ("nested input", said([{"type": "tool_use", "id": "a", "name": "f", "input": nested(DEEP)}]), "nested deeper"),
    ("nested results", said([nested_results(DEEP)]), "content[0].content[0]: a tool result cannot hold a ToolResult"),
    ("surrogate in text", said(f"ok{LONE}"), "content[0].text: lone surrogate U+D800 at character 2. Decode"),
    ("surrogate in a name", said(name=LONE), "name: lone surrogate U+D800 at character 0"),
    ("surrogate in a key", said(extra={LONE: 1}), "extra: lone surrogate"),
    ("surrogate in a value", said(extra={"a": LONE}), "extra.a: lone surrogate"),
    ("surrogate in a result", said(LONE, role="tool", tool_call_id="a"), "content[0].content[0].text: lone surrogate"),
    ("surrogate in an id", said(role="tool", tool_call_id=LONE), "content[0].call_id: lone surrogate"),
    ("surrogate in a url", said([{"type": "image_url", "image_url": LONE}]), "content[0].url: lone surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_dictionary_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        as_messages([user("fine"), raw])
    assert str(caught.value).startswith("messages[1]")
    with pytest.raises(InvalidRecord) as alone:
        as_message(raw)
    assert message in str(alone.value)


def wrong(value: object) -> Any:
    """A value of a type the part does not have: a checker would say so, Python does not."""
    return value


PARTS: list[tuple[str, Any, str]] = [
    ("no part", "text", "content[0]: str is not a part"),
    ("text of None", TextPart(wrong(None)), "content[0].text: must be text, not NoneType"),
    ("text of bytes", TextPart(wrong(b"x")), "content[0].text: must be text, not bytes"),
    ("call id of a number", ToolCall(wrong(5), "f"), "tool_calls[0].id: must be text, not int"),
    ("call name", ToolCall("a", LONE), "tool_calls[0].name: lone surrogate"),
    ("call arguments", ToolCall("a", "f", LONE), "tool_calls[0].arguments: lone surrogate"),
    ("signature", ThinkingPart("a", LONE), "content[0].signature: lone surrogate"),
    ("sound", AudioPart(LONE, "wav"), "content[0].data: lone surrogate"),
    ("image detail", ImagePart("u", wrong("huge")), "content[0].detail: unknown image detail 'huge'"),
    ("file of nothing", FilePart(""), "the file has neither file_id nor file_data"),
    ("thought both shown and hidden", ThinkingPart("shown", redacted="hidden"), "would be read back differently"),
    ("opaque text", OpaquePart("not json"), "content[0].json: not JSON"),
    ("opaque number", OpaquePart("5"), "content[0].json: must be the JSON text of an object"),
    ("opaque nesting", OpaquePart('{"a":' + "[" * DEEP + "]" * DEEP + "}"), "content[0].json: not JSON"),
    ("opaque depth", OpaquePart('{"a":' + "[" * 200 + "]" * 200 + "}"), "nested deeper than 100 levels"),
    ("opaque NaN", OpaquePart('{"a":NaN}'), "content[0].json.a: nan has no JSON form"),
    ("opaque infinity", OpaquePart('{"a":1e999}'), "content[0].json.a: inf has no JSON form"),
    ("opaque surrogate", OpaquePart('{"a":"\\ud800"}'), "content[0].json.a: lone surrogate"),
    ("extra text", TextPart("a", "nonsense"), "content[0].extra: not JSON"),
    ("extra list", TextPart("a", "[1]"), "content[0].extra: must be the JSON text of an object"),
    ("empty extra", TextPart("a", "{}"), "content[0].extra: must be the JSON text of an object"),
    ("extra says the text again", TextPart("a", '{"text":"b"}'), "the TextPart would be read back differently"),
    ("extra says another type", TextPart("a", '{"type":"image_url"}'), "url is missing"),
    ("extra says another url", ImagePart("u", None, '{"image_url":{"url":"v"}}'), "would be read back differently"),
    ("extra says another call", ToolCall("a", "f", "{}", '{"id":"b"}'), "the ToolCall would be read back differently"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "message"), [case[1:] for case in PARTS], ids=[case[0] for case in PARTS]
)
def test_a_part_is_refused(part: Any, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        Message.of("assistant", [part])
    assert message in str(caught.value)


RESULTS: list[tuple[Any, str]] = [
    (
        ToolResult("a", wrong([TextPart("x")])),
        "content[0].content: must be a tuple of parts, not list",
    ),
    (ToolResult("a", wrong((ToolCall("b", "f"),))), "a tool result cannot hold a ToolCall"),
    (ToolResult("a", (), wrong("yes")), "content[0].is_error: must be true or false, not str"),
    (ToolResult("a", (TextPart(LONE),)), "content[0].content[0].text: lone surrogate"),
    (
        ToolResult("a", (), extra='{"tool_use_id":"b"}'),
        "the ToolResult would be read back differently",
    ),
    (TextPart("x"), "tool_call_id: the tool message has no tool result"),
]


@pytest.mark.parametrize(("part", "message"), RESULTS, ids=[case[1] for case in RESULTS])
def test_a_result_is_refused(part: Any, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        Message.of("tool", [part])
    assert message in str(caught.value)


BESIDE: list[tuple[str, str]] = [
    ('{"content":"other"}', "extra.content: content is a field of the message itself"),
    ('{"name":"other"}', "extra.name: name is a field of the message itself"),
    ('{"tool_calls":[1]}', "extra.tool_calls: tool_calls is a field of the message itself"),
    ('{"role":"developer"}', "extra.role: role 'developer' contradicts role 'user'"),
    ('{"function_call":{}}', "function_call is OpenAI's retired form"),
    ("[]", "extra: must be the JSON text of an object"),
]


@pytest.mark.parametrize(("extra", "message"), BESIDE)
def test_fields_beside_a_message_cannot_contradict_it(extra: str, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        Message.of("user", [TextPart("x")], extra=extra)
    assert message in str(caught.value)


def test_a_name_is_not_unsaid_beside_the_message() -> None:
    with pytest.raises(InvalidRecord, match=r"extra\.name"):
        Message.of("user", [TextPart("x")], name="dana", extra='{"name":null}')
    with pytest.raises(InvalidRecord, match="metadata: not JSON"):
        Message.of("user", [TextPart("x")], labels="note")


def test_one_message_is_not_a_list() -> None:
    for one in (user("x"), {"role": "user", "content": "x"}, "x"):
        with pytest.raises(
            InvalidRecord, match=r"expected a list of messages, not one \w+\. Put it in a list"
        ):
            as_messages(one)  # type: ignore[arg-type]  # on purpose


def test_the_path_says_which_list_it_was() -> None:
    with pytest.raises(InvalidRecord) as caught:
        as_messages(
            [user("x"), {"role": "user", "content": [{"type": "text"}]}], path="raw_messages"
        )
    assert caught.value.path == "raw_messages[1].content[0]"
    assert caught.value.problem == "text is missing"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.binary(max_size=4)
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from("text image_url tool_result tool_use thinking file user tool assistant".split()),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            "role content type text name id input url file source data signature thinking image_url tool_calls "
            "tool_call_id tool_use_id function arguments is_error metadata detail file_id extra".split()
        )
        | st.text(max_size=3)
        | st.integers(),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@untimed
@given(st.sampled_from(["system", "user", "assistant", "tool", "developer"]), anything, anything)
def test_whatever_is_said_becomes_a_message_or_is_refused(
    role: str, content: object, rest: object
) -> None:
    fields = rest if isinstance(rest, dict) else {"rest": rest}
    try:
        message = as_message({**fields, "role": role, "content": content})
    except InvalidRecord:
        return
    assert json.loads(encode_message(message))["role"] == message.role
    assert as_message(message.model_dump()) == message


def test_a_call_as_a_part_is_taken_as_it_is() -> None:
    call = ToolCall("a", "f", '{"b": 1}')
    assert assistant(tool_calls=[call]).calls == (call,)

"""A message is a value: it cannot change, equals its equals, and is small."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import sys
import tracemalloc

import msgspec
import pytest
from hypothesis import given

from tests.records.made_messages import messages, untimed
from turnfold.records import (
    ROLES,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    as_message,
    assistant,
    decode_message,
    encode_message,
    system,
    tool,
    user,
)

EVERYTHING = as_message({
    "role": "assistant",
    "content": [{"type": "text", "text": "a"}, {"type": "x", "deep": {"list": [1]}}],
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    "name": "dana",
    "metadata": {"seen": [1]},
    "annotations": [{"a": 1}],
})  # fmt: skip


def test_the_constructors_say_who_speaks() -> None:
    assert system("s") == Message("system", "s")
    assert user("u", name="dana") == Message("user", "u", name="dana")
    assert assistant("a") == Message("assistant", "a")
    assert tool("r", tool_call_id="1", name="f").results == (ToolResult("1", (TextPart("r"),)),)
    assert frozenset({"system", "user", "assistant", "tool"}) == ROLES
    assert {
        system("x").role,
        user("x").role,
        assistant("x").role,
        tool("x", tool_call_id="1").role,
    } == ROLES


def test_a_developer_message_is_a_system_message_that_remembers_its_name() -> None:
    message = Message("developer", "be brief")
    assert message.role == "system"
    assert message.model_dump() == {"role": "developer", "content": "be brief"}
    assert message == as_message({"role": "developer", "content": "be brief"})
    assert message != system("be brief")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Message)])
def test_a_message_cannot_be_changed(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(EVERYTHING, field, getattr(EVERYTHING, field))
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(EVERYTHING, field)


@pytest.mark.parametrize("kind", Part.__args__, ids=lambda kind: kind.__name__)
def test_a_part_cannot_be_changed(kind: type[msgspec.Struct]) -> None:
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    part = kind(*[""] * required)
    for field in kind.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(part, field, getattr(part, field))


def test_what_is_read_out_of_a_message_is_a_copy() -> None:
    before = encode_message(EVERYTHING)
    for value in (EVERYTHING.model_dump(), EVERYTHING.metadata, EVERYTHING.content):
        assert isinstance(value, dict | list)
        value.clear()
    EVERYTHING.metadata["seen"] = "changed"
    assert encode_message(EVERYTHING) == before


def test_what_was_put_into_a_message_can_change_without_it() -> None:
    notes = {"seen": [1]}
    blocks = [{"type": "x", "list": [1]}]
    message = Message("user", blocks, metadata=notes)
    before = encode_message(message)
    notes["seen"].append(2)
    blocks[0]["list"] = []
    blocks.clear()
    assert encode_message(message) == before


@untimed
@given(messages)
def test_equal_messages_have_equal_hashes(message: Message) -> None:
    again = decode_message(encode_message(message))
    assert again is not message
    assert (again == message, hash(again) == hash(message)) == (True, True)
    assert {message: 1}[again] == 1


def test_messages_differ_in_each_field() -> None:
    different = [
        user("x"),
        system("x"),
        user("y"),
        user("x", name="dana"),
        Message("user", "x", metadata={"a": 1}),
        as_message({"role": "user", "content": "x", "a": 1}),
        user([TextPart("x", '{"a":1}')]),
    ]
    assert len(set(different)) == len(different)
    assert user("x") != "x"


@untimed
@given(messages)
def test_messages_can_be_copied_and_sent_to_another_process(message: Message) -> None:
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - our own bytes
    assert copy.copy(message) == message
    assert copy.deepcopy(message) == message


def test_the_text_is_all_that_was_said() -> None:
    assert EVERYTHING.text == "a"
    assert user(["一", "二", {"type": "image_url", "image_url": "u"}]).text == "一二"
    assert tool(["a", "b"], tool_call_id="1").text == "ab"
    assert assistant().text == ""


def test_each_of_parallel_results_begins_a_line_so_that_no_number_or_hash_grows() -> None:
    results = [
        ToolResult(f"c{at}", (TextPart(text),))
        for at, text in enumerate(["12 passed, 0", "", "7 files\n", "9f3c2ab", "忽略 3", "4 项"])
    ]
    assert Message.of("tool", results).text == "12 passed, 0\n7 files\n9f3c2ab\n忽略 3\n4 项"


def test_calls_results_and_notes_are_found() -> None:
    assert EVERYTHING.calls == (ToolCall("1", "f", "{}"),)
    assert EVERYTHING.results == ()
    assert EVERYTHING.metadata == {"seen": [1]}
    assert user("x").metadata == {}


def test_what_is_shown_fits_a_line() -> None:
    assert repr(user("hi")) == "Message('user', 'hi')"
    assert len(repr(user("x" * 10_000))) < 100
    assert repr(EVERYTHING) == "Message('assistant', 'a', calls=['f'])"


def test_a_short_message_takes_few_bytes() -> None:
    """Text included: 100,000 of them are 20 to 30 MB, not hundreds."""
    texts = [f"message number {index:06}" for index in range(20_000)]
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [user(text) for text in texts]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(kept) == 20_000
    beside_text = taken / len(kept)
    assert beside_text < 220, f"{beside_text:.0f} bytes beside the text"
    assert not hasattr(kept[0], "__dict__")
    assert sys.getsizeof(kept[0]) <= 80

"""A stream, put together, is the answer that would have come whole."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.strict_server import Call, Cost, Say
from tests.models.unhurried import unhurried
from turnfold.models.failures import CallFailed
from turnfold.models.streams import (
    ChatStream,
    MessageStream,
    ResponsesStream,
    checked_response,
    normalized_chat,
    normalized_message,
)
from turnfold.testing import model_replies as speech

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
calls = st.lists(
    st.builds(
        Call,
        id=st.uuids().map(lambda one: f"call_{one.hex}"),
        name=st.sampled_from(["look", "write_file"]),
        arguments=st.dictionaries(words, values | st.lists(values, max_size=3), max_size=4),
    ),
    max_size=4,
    unique_by=lambda call: call.id,
).map(tuple)
answers = st.builds(
    Say, text=words, calls=calls, thought=words, hidden=words, cut_short=st.booleans()
)
COST = Cost(fresh=7, read=11, written=3, output=5)
BODY: dict[str, Any] = {"model": "m-1", "messages": [], "stream_options": {"include_usage": True}}


def fed(building: Any, events: Any) -> tuple[dict[str, Any], str]:
    text = ""
    for _, event in events:
        before = copy.deepcopy(event)
        text += building.add(event)
        assert event == before  # the SDK's objects are not ours to change
    return building.result(), text


@unhurried
@given(say=answers)
def test_chat(say: Say) -> None:
    result = speech.chat_whole(say, BODY, COST)
    streamed, text = fed(ChatStream(), speech.chat_events(result, BODY))
    assert normalized_chat(streamed) == normalized_chat(result)
    assert text == say.text


@unhurried
@given(say=answers)
def test_responses(say: Say) -> None:
    result = speech.responses_whole(say, BODY, COST)
    streamed, text = fed(ResponsesStream(), speech.responses_events(result))
    assert checked_response(streamed) == result
    assert text == say.text


@unhurried
@given(say=answers)
def test_messages(say: Say) -> None:
    result = speech.message_whole(say, BODY, COST)
    events = [event for event in speech.message_events(result) if event[0] != "ping"]
    streamed, text = fed(MessageStream(), events)
    assert normalized_message(streamed) == normalized_message(result)
    assert text == say.text


@unhurried
@given(say=answers, missing=st.integers(1, 3))
def test_an_answer_without_its_end_is_a_failure(say: Say, missing: int) -> None:
    chat = speech.chat_whole(say, BODY, COST)
    message = speech.message_whole(say, BODY, COST)
    response = speech.responses_whole(say, BODY, COST)
    streams = [
        (ChatStream(), list(speech.chat_events(chat, BODY))[:-1]),  # the very last is only the cost
        (MessageStream(), list(speech.message_events(message))),
        (ResponsesStream(), list(speech.responses_events(response))),
    ]
    for building, events in streams:
        with pytest.raises(CallFailed) as failed:
            fed(building, events[:-missing])
        assert failed.value.failure.code == "cut"


def chat(*deltas: dict[str, Any]) -> dict[str, Any]:
    """The message that these fragments make."""
    building = ChatStream()
    for delta in deltas:
        building.add({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    building.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return normalized_chat(building.result())["choices"][0]["message"]  # type: ignore[index]


def call(at: int | None, name: str = "", arguments: str = "", **fields: Any) -> dict[str, Any]:
    made = {**fields, "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [made if at is None else {**made, "index": at}]}


def called(message: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in message["tool_calls"]
    ]


def test_a_server_that_repeats_names_with_every_fragment() -> None:
    message = chat(
        call(0, "look", "", id="a", type="function"),
        call(0, "look", '{"x"', id="a", type="function"),
        call(0, "", ":1}", id="", type="function"),
    )
    assert called(message) == [("a", "look", '{"x":1}')]
    assert message["tool_calls"][0]["type"] == "function"


def test_a_server_that_sends_a_name_in_pieces() -> None:
    assert called(chat(call(0, "get_", id="a"), call(0, "weather", "{}"))) == [
        ("a", "get_weather", "{}")
    ]


def test_a_server_that_gives_every_call_the_same_index() -> None:
    message = chat(call(0, "look", '{"x":1}', id="a"), call(0, "look", '{"x":2}', id="b"))
    assert called(message) == [("a", "look", '{"x":1}'), ("b", "look", '{"x":2}')]


def test_a_server_that_gives_no_index() -> None:
    message = chat(call(None, "look", "{}", id="a"), call(None, "look", "{}", id="b"))
    assert called(message) == [("a", "look", "{}"), ("b", "look", "{}")]


def test_fields_nobody_models_are_put_together_too() -> None:
    message = chat(
        {"reasoning": "I ", "reasoning_details": [{"index": 0, "type": "t", "text": "I "}]},
        {"reasoning": "think", "reasoning_details": [{"index": 0, "type": "t", "text": "think"}]},
        {"extra_content": {"google": {"thought_signature": "abc"}}, "content": "so"},
        {"reasoning_details": [{"index": 1, "type": "t", "data": "xyz"}]},
    )
    assert message["reasoning"] == "I think"
    assert message["reasoning_details"][0] == {"index": 0, "type": "t", "text": "I think"}
    assert message["reasoning_details"][1] == {"index": 1, "type": "t", "data": "xyz"}
    assert message["extra_content"] == {"google": {"thought_signature": "abc"}}
    assert message["content"] == "so"


def test_arguments_that_were_cut_are_kept_as_they_are() -> None:
    building = MessageStream()
    building.add({"type": "message_start", "message": {"role": "assistant"}})
    block = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    building.add({"type": "content_block_start", "index": 0, "content_block": block})
    delta = {"type": "input_json_delta", "partial_json": '{"path": "/et'}
    building.add({"type": "content_block_delta", "index": 0, "delta": delta})
    building.add({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}})
    building.add({"type": "message_stop"})
    [kept] = building.result()["content"]  # type: ignore[misc]
    assert kept["input"] == '{"path": "/et'


def test_a_delta_nobody_knows_fills_the_fields_it_names() -> None:
    building = MessageStream()
    building.add({"type": "message_start", "message": {"role": "assistant"}})
    block = {"type": "compaction", "content": ""}
    building.add({"type": "content_block_start", "index": 0, "content_block": block})
    for piece in ("a sum", "mary"):
        delta = {"type": "compaction_delta", "content": piece}
        building.add({"type": "content_block_delta", "index": 0, "delta": delta})
    citation = {"type": "citations_delta", "citation": {"cited_text": "x"}}
    block = {"type": "text", "text": "", "citations": None}
    building.add({"type": "content_block_start", "index": 1, "content_block": block})
    building.add({"type": "content_block_delta", "index": 1, "delta": citation})
    building.add({"type": "message_stop"})
    assert building.result()["content"] == [
        {"type": "compaction", "content": "a summary"},
        {"type": "text", "text": "", "citations": [{"cited_text": "x"}]},
    ]


def test_a_server_whose_last_event_leaves_the_items_out() -> None:
    result = speech.responses_whole(Say("hello"), BODY, COST)
    building = ResponsesStream()
    for kind, event in speech.responses_events(result):
        hollow = {**event, "response": {**result, "output": []}}
        building.add(hollow if kind == "response.completed" else event)
    assert building.result() == result


def test_a_response_that_failed_is_no_answer() -> None:
    failed = {
        "status": "failed",
        "error": {"code": "server_error", "message": "oops"},
        "output": [],
    }
    with pytest.raises(CallFailed, match="oops"):
        checked_response(failed)

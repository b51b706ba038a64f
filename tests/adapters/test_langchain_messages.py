"""LangChain's messages through the log and back."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.sizes import examples
from turnfold import Budget, Memory
from turnfold.adapters.langchain import langchain_messages, record_of
from turnfold.adapters.langchain import messages as recording_module
from turnfold.adapters.langchain.messages import origin_of
from turnfold.errors import InvalidRecord
from turnfold.records import Message, decode_message, encode_message

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
NAME = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
BLOCK = st.one_of(
    TEXT,
    st.builds(lambda text, more: {**more, "type": "text", "text": text}, TEXT, OBJECT),
    st.builds(
        lambda thought, signature: {
            "type": "thinking",
            "thinking": thought,
            "signature": signature,
        },
        TEXT,
        TEXT,
    ),
    st.builds(lambda thought: {"type": "reasoning", "reasoning": thought}, TEXT),
    st.just(
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    ),
    st.just({"type": "image_url", "image_url": "data:image/png;base64,aGk="}),
    st.just({"type": "image", "base64": "aGk=", "mime_type": "image/png", "id": "i1"}),
    st.just({"type": "image", "url": "https://example.org/港口.png"}),
    st.just({"type": "file", "base64": "aGk=", "mime_type": "application/pdf"}),
    st.just({"type": "file", "file_id": "f-1"}),
    st.builds(lambda more: {**more, "type": "something_new"}, OBJECT),
)
CONTENT = TEXT | st.lists(BLOCK, max_size=4)
CALL = st.builds(
    lambda name, args, call: {"name": name, "args": args, "id": call, "type": "tool_call"},
    NAME,
    OBJECT,
    NAME,
)
USAGE = st.none() | st.just({"input_tokens": 7, "output_tokens": 2, "total_tokens": 9})
IDS = st.none() | NAME


@st.composite
def messages(draw: st.DrawFn) -> BaseMessage:
    content: Any = draw(CONTENT)
    named: Any = {"id": draw(IDS), "additional_kwargs": draw(OBJECT)}
    match draw(st.sampled_from(["human", "ai", "ai", "tool", "system", "chat", "function"])):
        case "human":
            return HumanMessage(content, name=draw(IDS), **named)
        case "tool":
            status: Any = draw(st.sampled_from(["success", "error"]))
            call = draw(NAME)
            return ToolMessage(content, tool_call_id=call, name=draw(IDS), status=status, **named)
        case "system":
            return SystemMessage(content, **named)
        case "chat":
            role = draw(st.sampled_from(["assistant", "critic"]))
            return ChatMessage(content=content, role=role, **named)
        case "function":
            return FunctionMessage(content=content, name=draw(NAME), **named)
        case _:
            calls: Any = draw(st.lists(CALL, max_size=2))
            broken: Any = [
                {"name": "f", "args": "{", "id": "b", "error": "?", "type": "invalid_tool_call"}
            ]
            return AIMessage(
                content,
                tool_calls=calls,
                invalid_tool_calls=draw(st.sampled_from([[], broken])),
                usage_metadata=draw(USAGE),
                response_metadata=draw(OBJECT),
                **named,
            )


def through_the_log(message: BaseMessage) -> BaseMessage:
    [back] = langchain_messages([decode_message(encode_message(record_of(message)))])
    return back


@examples(80)
@given(messages())
def test_every_message_comes_back_as_it_was(message: BaseMessage) -> None:
    back = through_the_log(message)
    assert type(back) is type(message)
    assert back == message
    assert back.model_dump_json() == message.model_dump_json()


def test_sabotage_a_form_that_loses_something_is_noticed_and_all_of_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = AIMessage("Hm.", id="a", response_metadata={"model_name": "m", "港口": 1})
    said = recording_module._split

    def forgetful(one: BaseMessage, dumped: dict[str, object]) -> Any:
        role, parts, name, form = said(one, dumped)
        return role, parts, name, {**form, "fields": {}}

    monkeypatch.setattr(recording_module, "_split", forgetful)
    assert through_the_log(message) == message
    monkeypatch.setattr(recording_module, "_round_trips", lambda *_: True)
    assert through_the_log(message) != message


def test_pictures_are_kept_once_and_a_call_that_is_said_twice_is_counted_once() -> None:
    data = "aGk=" * 400
    picture: Any = [{"type": "image", "base64": data, "mime_type": "image/png"}]
    assert len(encode_message(record_of(HumanMessage(picture)))) < 1.3 * len(data)
    call: Any = {"name": "f", "args": {"text": "x" * 900}, "id": "c", "type": "tool_call"}
    block: Any = [{"type": "tool_use", "id": "c", "name": "f", "input": {"text": "x" * 900}}]
    assert [
        part.__class__.__name__ for part in record_of(AIMessage(block, tool_calls=[call])).parts
    ] == ["ToolCall"]


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="JSON"):
        record_of(AIMessage("ok", additional_kwargs={"signature": b"\xff"}))


def test_an_artifact_is_not_kept_and_what_cannot_be_written_is_refused() -> None:
    message = ToolMessage("ok", tool_call_id="c", artifact=object())
    assert through_the_log(message) == message.model_copy(update={"artifact": None})
    with pytest.raises(InvalidRecord, match="artifact"):
        record_of(AIMessage("x", additional_kwargs={"odd": object()}))


def test_names_are_of_the_id_and_of_what_is_said() -> None:
    def name(message: BaseMessage) -> str:
        own = origin_of(record_of(message))
        assert own is not None
        return own.name

    assert name(HumanMessage("hi", id="1")) == name(HumanMessage("hi", id="1"))
    assert len({name(HumanMessage(text, id=one)) for text in ("hi", "ho") for one in "12"}) == 4


def test_what_langchain_did_not_write_says_the_same() -> None:
    call: Any = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    broken: Any = {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{x"}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    said = [
        Message("user", ["看", picture]),
        Message("assistant", "I look.", tool_calls=[call, broken]),
        Message("tool", "seen", tool_call_id="c1", name="f"),
    ]
    user, answer, result = langchain_messages(said)
    assert user.content == [
        {"type": "text", "text": "看"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
    ]
    assert isinstance(answer, AIMessage)
    assert answer.text == "I look."
    assert [(one["id"], one["args"]) for one in answer.tool_calls] == [("c1", {"x": 1})]
    assert [(one["id"], one["args"]) for one in answer.invalid_tool_calls] == [("c2", "{x")]
    assert isinstance(result, ToolMessage)
    assert (result.content, result.tool_call_id, result.name) == ("seen", "c1", "f")


def test_a_shortened_message_keeps_its_id_and_its_call() -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=600)) as memory:
        session = memory.session("s")
        session.add(record_of(HumanMessage("go", id="h")))
        calls: Any = [{"name": "f", "args": {}, "id": "c", "type": "tool_call"}]
        session.add(record_of(AIMessage("", tool_calls=calls, id="a")))
        session.add(
            record_of(ToolMessage("港口 harbour " * 900, tool_call_id="c", name="f", id="t"))
        )
        shown = langchain_messages(session.context().messages)
        [result] = [one for one in shown if isinstance(one, ToolMessage)]
        assert (result.id, result.tool_call_id, result.name) == ("t", "c", "f")
        assert 10 < len(result.text) < 6_000

"""Whatever PydanticAI can store of a message, the log gives back."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai._warnings import PydanticAIDeprecationWarning
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.adapters.model_messages import messages as any_message
from tests.sizes import examples
from turnfold.adapters.pydantic_ai import entries as recording
from turnfold.adapters.pydantic_ai import model_messages, records_of
from turnfold.adapters.pydantic_ai.entries import RecordNamer
from turnfold.errors import InvalidRecord
from turnfold.records import decode_message, encode_message
from turnfold.tokens import cautious_counter
from turnfold.window import shrink_message


def dumped(messages: list[ModelMessage]) -> list[Any]:
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def names_of(messages: list[ModelMessage]) -> list[str]:
    namer = RecordNamer()
    return [each.name for one in messages for each in namer.named(records_of(one))]


@examples(100)
@given(any_message)
def test_a_message_comes_back_from_its_stored_records(message: ModelMessage) -> None:
    stored = [encode_message(record) for record in records_of(message)]
    [back] = model_messages([decode_message(record) for record in stored])
    assert dumped([back]) == dumped([message])


@examples(40)
@given(st.lists(any_message, max_size=5))
def test_a_message_that_went_through_json_has_the_same_names(messages: list[ModelMessage]) -> None:
    again = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    assert names_of(again) == names_of(messages)


@examples(40)
@given(st.lists(any_message, max_size=5))
def test_no_two_records_of_a_history_have_one_name(messages: list[ModelMessage]) -> None:
    names = names_of(messages)
    assert len(set(names)) == len(names)


SIGNED = ModelResponse(
    [
        ThinkingPart("hm", signature="c2ln", provider_name="anthropic"),
        TextPart("Ich sehe nach."),
        ToolCallPart("look", '{"at":  "你好" }', "c1"),
    ],
    model_name="claude-x",
)


def test_thoughts_keep_their_signature_and_calls_the_bytes_of_their_arguments() -> None:
    [record] = records_of(SIGNED)
    assert record.calls[0].arguments == '{"at":  "你好" }'
    [back] = model_messages([record])
    assert back == SIGNED


def test_a_request_becomes_results_and_words_and_one_request_again() -> None:
    request = ModelRequest(
        [
            SystemPromptPart("Be kind."),
            ToolReturnPart("look", {"rows": [1, 2]}, "c1"),
            ToolReturnPart("look", [BinaryContent(b"\x89PNG", media_type="image/png")], "c2"),
            UserPromptPart(["See", ImageUrl("https://x.test/a.png")]),
        ],
        instructions="Be brief.",
    )
    records = records_of(request)
    assert [record.role for record in records] == ["tool", "tool", "user"]
    assert records[0].text == '{"rows":[1,2]}'
    [back] = model_messages(records)
    assert dumped([back]) == dumped([request])


def test_an_old_retry_prompt_is_kept_as_pydantic_ai_reads_it() -> None:
    with pytest.warns(PydanticAIDeprecationWarning):
        part = RetryPromptPart("again", tool_name="look", tool_call_id="c1")
    request = ModelRequest([part])
    [record] = records_of(request)
    assert record.role == "tool"
    [back] = model_messages([record])
    again = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([request]))
    assert dumped([back]) == dumped(again)


def test_a_shortened_message_is_still_one_pydantic_ai_takes() -> None:
    counter = cautious_counter()
    words = "word " * 500
    asked = ModelRequest([ToolReturnPart("look", {"text": words}, "c1"), UserPromptPart(words)])
    said = ModelResponse(
        [TextPart(words), ToolCallPart("look", {"q": words}, "c2")], model_name="m"
    )
    records = [record for message in (asked, said) for record in records_of(message)]
    shrunk = [shrink_message(record, 40, counter) for record in records]
    request, response = model_messages(shrunk)
    assert isinstance(request, ModelRequest)
    assert [part.part_kind for part in request.parts] == ["tool-return", "user-prompt"]
    assert isinstance(response, ModelResponse)
    assert response.model_name == "m"
    assert response.tool_calls[0].tool_call_id == "c2"
    assert json.loads(str(response.tool_calls[0].args))
    assert len(str(request.parts[0])) < 500


def test_what_cannot_be_written_as_json_is_refused_by_name() -> None:
    with pytest.raises(InvalidRecord, match=r"lone surrogate U\+D83D at character 7"):
        records_of(ModelRequest([UserPromptPart("half a \ud83d pair")]))


def test_sabotage_without_reading_back_the_lean_form_loses_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = ModelResponse([ThinkingPart("", signature="", provider_name="openai")])
    [back] = model_messages(records_of(odd))
    assert dumped([back]) == dumped([odd])
    monkeypatch.setattr(recording, "_round_trips", lambda *_: True)
    [back] = model_messages(records_of(odd))
    assert dumped([back]) != dumped([odd])

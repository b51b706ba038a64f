"""A history sent back to where it came from is the same to the last field."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from tests.wire.formats import FORMATS, KEYS, canonical
from tests.wire.sample_gemini import GEMINI_SNAKE
from tests.wire.samples import MODELS, SAMPLES
from turnfold import wire
from turnfold.errors import InvalidRecord
from turnfold.records import OpaquePart, ThinkingPart, decode_message, encode_message
from turnfold.wire import codec as reading


@pytest.mark.parametrize("name", FORMATS)
def test_the_samples_break_no_rule(name: str) -> None:
    assert wire.lint(SAMPLES[name], name) == ()


@pytest.mark.parametrize("model", ["", "the model of the call"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_history_comes_back_as_it_was(name: str, model: str) -> None:
    history = copy.deepcopy(SAMPLES[name])
    messages = FORMATS[name].accept_all(history, model=model)
    assert history == SAMPLES[name], "reading changed the history"
    stored = [decode_message(encode_message(message)) for message in messages]
    request = FORMATS[name].request(stored, model=model, cache=False)
    assert request.changes == ()
    kwargs = {key: value for key, value in request.kwargs.items() if key != "model"}
    assert canonical(kwargs) == canonical(SAMPLES[name])
    assert FORMATS[name].accept_all(request.kwargs, model=model) == messages


@pytest.mark.parametrize("name", FORMATS)
def test_the_list_alone_comes_back_too(name: str) -> None:
    history = SAMPLES[name][KEYS[name]]
    request = FORMATS[name].request(FORMATS[name].accept_all(history), cache=False)
    if name == "openai_responses":  # system messages that were items stay items
        assert "instructions" not in request.kwargs
    assert canonical(request.kwargs[KEYS[name]]) == canonical(history)


@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai_chat"])
def test_message_by_message_is_the_same_as_all_at_once(name: str) -> None:
    module, history = FORMATS[name], SAMPLES[name][KEYS[name]]
    assert [module.accept(item) for item in history] == module.accept_all(history)


def test_keys_in_the_spelling_of_the_sdk_come_back_in_it() -> None:
    messages = wire.gemini.accept_all(GEMINI_SNAKE)
    request = wire.gemini.request(messages)
    assert canonical(request.kwargs["contents"]) == canonical(GEMINI_SNAKE["contents"])
    assert request.kwargs["config"] == {"systemInstruction": "You help in a small library."}
    forms = [message.origin.form for message in messages if message.origin]
    assert max(map(len, forms)) < 60, "the difference holds a copy of what it describes"


def test_what_is_kept_beside_a_message_is_small() -> None:
    text = "long " * 10_000
    history = [
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "assistant", "content": [{"type": "text", "text": text}]},
        {"role": "user", "content": text},
    ]
    messages = wire.anthropic.accept_all(history)
    assert sum(len(message.origin.form) for message in messages if message.origin) < 200
    assert wire.anthropic.request(messages, cache=False).kwargs["messages"] == history


def test_a_reader_that_forgets_a_field_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "difference", lambda *_: {})
    for name in FORMATS:
        request = FORMATS[name].request(FORMATS[name].accept_all(SAMPLES[name]), cache=False)
        assert canonical(request.kwargs) != canonical(SAMPLES[name])


RESPONSES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "嗨"},
        ],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3},
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "model": "gpt-5.2",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "嗨", "refusal": None},
            }
        ],
        "usage": {"total_tokens": 3},
    },
    "openai_responses": {
        "id": "resp_1",
        "model": "gpt-5.2",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
            {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c1", "output": []},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "嗨", "annotations": []}],
            },
        ],
        "usage": {"total_tokens": 3},
    },
    "gemini": {
        "modelVersion": "gemini-3-pro-preview",
        "candidates": [
            {
                "finishReason": "STOP",
                "content": {"role": "model", "parts": [{"text": "嗨", "thoughtSignature": "c2ln"}]},
            }
        ],
        "usageMetadata": {"totalTokenCount": 3},
    },
}
OUTPUT = {
    "anthropic": lambda raw: [{"role": raw["role"], "content": raw["content"]}],
    "openai_chat": lambda raw: [raw["choices"][0]["message"]],
    "openai_responses": lambda raw: raw["output"],
    "gemini": lambda raw: [raw["candidates"][0]["content"]],
}


def as_object(value: Any) -> Any:
    """The value as an SDK would hand it over: objects with attributes, all the way down."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(item) for key, item in value.items()})
    return [as_object(item) for item in value] if isinstance(value, list) else value


class Dumping:
    """What a Pydantic model looks like from outside."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool) -> dict[str, Any]:
        assert (mode, by_alias, exclude_unset) == ("json", True, True)
        return self._fields


@pytest.mark.parametrize("wrap", [dict, Dumping])
@pytest.mark.parametrize("name", FORMATS)
def test_a_response_is_one_message_that_knows_its_model(name: str, wrap: type) -> None:
    raw = RESPONSES[name]
    message = FORMATS[name].accept(wrap(raw))
    assert (message.role, message.text) == ("assistant", "嗨")
    assert message.origin is not None
    assert message.origin.model == MODELS[name]
    assert "oken" in message.origin.envelope
    question = FORMATS[name].accept_all(SAMPLES[name][KEYS[name]])[1 if "openai" in name else 0]
    request = FORMATS[name].request([question, message], model=MODELS[name], cache=False)
    assert request.kwargs[KEYS[name]][1:] == OUTPUT[name](raw)
    assert request.changes == ()


@pytest.mark.parametrize("name", FORMATS)
def test_objects_with_attributes_are_read(name: str) -> None:
    message = FORMATS[name].accept(as_object(RESPONSES[name]))
    assert (message.role, message.text) == ("assistant", "嗨")


@pytest.mark.parametrize("name", FORMATS)
def test_what_only_the_provider_understands_says_whose_it_is(name: str) -> None:
    messages = FORMATS[name].accept_all(SAMPLES[name], model="m")
    kept = [
        (part.provider, part.model)
        for message in messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, OpaquePart | ThinkingPart)
    ]
    assert set(kept) == {(name, "m")}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "value", ["text", 3, [["nested"]], [{"role": "wizard", "content": "x", "parts": []}]]
)
def test_what_is_no_history_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidRecord):
        FORMATS[name].accept_all(value)

"""Messages: every kind of part and any content comes back equal, byte for byte in its canonical form."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    NewEntry,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    encode_message,
)
from turnfold.testing.store_conformance_strategies import messages, settings_for
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import ALICE, HOSTILE_TEXTS, TALK

__all__ = ("MessageCases",)

IMAGE = ImagePart("data:image/png;base64,iVBORw0KGgo=", "high", '{"cache":true}')
MESSAGES = {
    "no parts": Message.of("assistant", ()),
    "empty text": Message.of("user", (TextPart(""),)),
    "several texts": Message.of("user", (TextPart("a"), TextPart(""), TextPart("b", '{"x":1}'))),
    "image": Message.of("user", (TextPart("look"), IMAGE)),
    "audio": Message.of("user", (AudioPart("UklGRg==", "wav"),)),
    "file": Message.of("user", (FilePart("file:F-1", "application/pdf", "报告.pdf"),)),
    "thinking": Message.of("assistant", (ThinkingPart("let me see", "sig=="), TextPart("42"))),
    "redacted thinking": Message.of("assistant", (ThinkingPart("", redacted="ENCRYPTED=="),)),
    "opaque": Message.of("assistant", (OpaquePart('{"type":"new","n":1.0}', "someone"),)),
    "tool calls": Message.of(
        "assistant", (ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", "not json {"))
    ),
    "tool result": Message.of("tool", (ToolResult("c1", (TextPart("ok"), IMAGE)),)),
    "failed results": Message.of(
        "tool", (ToolResult("c1", (), is_error=True), ToolResult("c2", (), extra='{"k":[]}'))
    ),
    "author": Message.of("user", (TextPart("hi"),), name="Ana 安娜"),
    "beside": Message.of("system", (TextPart("s"),), extra='{"z":1,"a":2}', labels='{"b":{}}'),
}


class MessageCases(StoreCases):
    """What was said, called and seen."""

    @pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
    @case
    async def test_every_kind_of_part_comes_back_equal(
        self, trial: Trial, message: Message
    ) -> None:
        await trial.store.append(ALICE, TALK, [NewEntry(message, "id")])
        [entry] = await trial.store.read(ALICE, TALK)
        assert entry.message == message
        assert encode_message(entry.message) == encode_message(message)
        assert (await trial.store.append(ALICE, TALK, [NewEntry(message, "id")])).repeated

    @pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
    @case
    async def test_any_text_comes_back_exactly(self, trial: Trial, text: str) -> None:
        said = [
            Message.of("user", (TextPart(text),), name=text),
            Message.of("assistant", (ToolCall(text, text, text), ThinkingPart(text, text))),
            Message.of("tool", (ToolResult(text, (TextPart(text),)),)),
            Message("user", [{"type": "new", "said": text}], metadata={text: text}),
        ]
        await trial.store.append(ALICE, TALK, [NewEntry(message) for message in said])
        assert [entry.message for entry in await trial.store.read(ALICE, TALK)] == said

    def test_any_message_comes_back_equal(self, trial: Trial) -> None:
        @settings_for(self.examples * 2)
        @given(said=st.lists(messages, min_size=1, max_size=3))
        def check(said: list[Message]) -> None:
            name = trial.fresh("talk")
            trial.run(trial.store.append(ALICE, name, [NewEntry(message) for message in said]))
            found = trial.run(trial.store.read(ALICE, name))
            assert [entry.message for entry in found] == said

        check()

"""Where a message came from is part of it: stored, compared, and never sent."""

from __future__ import annotations

from typing import Any

import pytest

from turnfold.errors import InvalidRecord
from turnfold.records import (
    Message,
    OpaquePart,
    Origin,
    TextPart,
    ThinkingPart,
    decode_message,
    encode_message,
)

ORIGIN = Origin("anthropic", "claude-a", '{"wrap":{"type":"text"}}', '{"id":"msg_1"}')


def test_it_is_stored_and_compared_and_not_sent() -> None:
    message = Message.of("assistant", [TextPart("hi")], origin=ORIGIN)
    assert decode_message(encode_message(message)) == message
    assert message != Message.of("assistant", [TextPart("hi")])
    assert message.model_dump() == {"role": "assistant", "content": "hi"}


def test_a_message_without_one_is_stored_as_before() -> None:
    assert encode_message(Message("user", "hi")) == (
        b'{"v":1,"role":"user","parts":[{"kind":"text","text":"hi"}]}'
    )


def test_what_only_its_writer_understands_is_stored_with_its_writer() -> None:
    parts = [
        ThinkingPart("hm", "sig", provider="anthropic", model="claude-a"),
        OpaquePart('{"type":"new"}', "gemini", "gemini-3"),
    ]
    message = Message.of("assistant", parts)
    assert decode_message(encode_message(message)).parts == tuple(parts)


def test_a_changed_message_keeps_who_wrote_it() -> None:
    assert ORIGIN.without_form() == Origin("anthropic", "claude-a", "", '{"id":"msg_1"}')
    assert Origin("gemini").without_form() == Origin("gemini")


@pytest.mark.parametrize(
    "origin",
    [
        "anthropic",
        Origin("\ud800"),
        Origin("anthropic", 3),  # pyright: ignore[reportArgumentType]
        Origin("anthropic", form="not json"),
        Origin("anthropic", form="[]"),
        Origin("anthropic", envelope='"text"'),
    ],
)
def test_one_that_could_not_be_read_back_is_refused(origin: Any) -> None:
    with pytest.raises(InvalidRecord, match="origin"):
        Message.of("user", [TextPart("hi")], origin=origin)

"""Messages and blocks come as objects, too: an SDK's models, data classes, whatever has the attributes."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
import pydantic
import pytest

from turnfold.errors import InvalidRecord
from turnfold.records import (
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    as_message,
    assistant,
    decode_message,
    encode_message,
    tool,
    user,
)


@dataclass
class Plain:
    text: str
    type: str = "text"


@dataclass(slots=True)
class Typed:
    type: str


@dataclass(slots=True)
class Slotted(Typed):
    text: str


@dataclass
class Preset:
    text: str
    type: str = field(default="text", init=False)


class OnTheClass:
    type = "text"

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def text(self) -> str:
        return self._text


class OneSlot:
    __slots__ = "text"  # noqa: PLC0205 - Python allows a single name, so users write it
    type = "text"

    def __init__(self, text: str) -> None:
        self.text = text


class Struct(msgspec.Struct):
    type: str
    text: str


class TaggedStruct(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class Model(pydantic.BaseModel):
    type: str = "text"
    text: str
    annotations: list[str] | None = None


TEXTS = [
    {"type": "text", "text": "你好"},
    "你好",
    TextPart("你好"),
    Plain("你好"),
    Slotted("text", "你好"),
    Preset("你好"),
    OnTheClass("你好"),
    OneSlot("你好"),
    Struct("text", "你好"),
    TaggedStruct("你好"),
    Model(text="你好"),
    SimpleNamespace(type="text", text="你好", annotations=None, _raw=object()),
    MappingProxyType({"type": "text", "text": "你好"}),
    UserDict({"type": "text", "text": "你好"}),
]


@pytest.mark.parametrize("block", TEXTS, ids=lambda block: type(block).__name__)
def test_a_text_block_of_any_class(block: object) -> None:
    assert user([block]) == user("你好")
    assert user((block, "再见")).text == "你好再见"


IMAGES = [
    {"url": "u", "detail": "high"},
    SimpleNamespace(url="u", detail="high"),
    MappingProxyType({"url": "u", "detail": "high"}),
    pydantic.create_model("Image", url=(str, ...), detail=(str, ...))(url="u", detail="high"),
]


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: type(image).__name__)
def test_an_image_by_dictionary_or_object(image: object) -> None:
    for block in (
        {"type": "image_url", "image_url": image},
        SimpleNamespace(type="image_url", image_url=image),
    ):
        assert user([block]).parts == (ImagePart("u", "high"),)


def test_an_image_by_address_alone() -> None:
    for block in (
        {"type": "image_url", "image_url": "u"},
        SimpleNamespace(type="image_url", image_url="u"),
    ):
        assert user([block]).parts == (ImagePart("u"),)
    assert user(
        [SimpleNamespace(type="image_url", image_url=SimpleNamespace(url="u", detail=None))]
    ) == user([ImagePart("u")])


class Roles(StrEnum):
    ASSISTANT = "assistant"


class SdkCall(pydantic.BaseModel):
    id: str
    function: dict[str, str]
    type: str = "function"


class SdkMessage(pydantic.BaseModel):
    role: str
    content: str | None = None
    refusal: str | None = None
    function_call: str | None = None
    tool_calls: list[SdkCall] | None = None


CALL = SdkCall(id="c", function={"name": "f", "arguments": "{}"})
ANSWER = assistant("好", tool_calls=[ToolCall("c", "f", "{}")])
ANSWERS = [
    SdkMessage(role="assistant", content="好", tool_calls=[CALL]),
    SimpleNamespace(role="assistant", content="好", tool_calls=[CALL]),
    SimpleNamespace(role="assistant", content=[Plain("好")], tool_calls=(SimpleNamespace(**dict(CALL)),)),
    {"role": Roles.ASSISTANT, "content": "好", "tool_calls": iter([CALL])},
    {"role": "assistant", "content": "好", "tool_calls": [ToolCall("c", "f", "{}")]},
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_a_message_of_any_class(answer: object) -> None:
    message = as_message(answer)
    assert message == ANSWER
    assert type(message.role) is str
    assert decode_message(encode_message(message)) == ANSWER


def test_a_message_class_with_its_role_on_the_class() -> None:
    class Asked:
        role = "user"

        def __init__(self, content: str) -> None:
            self.content = content

        @property
        def text(self) -> str:
            return "not a field of the message"

    assert as_message(Asked("hi")) == user("hi")


def test_empty_attributes_say_nothing_but_others_are_kept() -> None:
    message = as_message(SimpleNamespace(role="user", content="x", audio=None, seed=7))
    assert message.model_dump() == {"role": "user", "content": "x", "seed": 7}


class Shout(str):
    """A text with opinions of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return "SHOUT"


def test_a_subclass_of_text_is_taken_as_its_text() -> None:
    message = Message("user", [Shout("a"), {"type": "text", "text": Shout("b")}], name=Shout("n"))
    assert [type(part.text) for part in message.parts if isinstance(part, TextPart)] == [str, str]
    assert message.text == "ab"
    assert message.name == "n"
    assert type(message.name) is str
    assert decode_message(encode_message(message)) == message
    assert tool("x", tool_call_id=Shout("id")).results[0].call_id == "id"


@pytest.mark.parametrize(
    "value", [None, 5, 2.5, b"hi", object(), [], (), lambda: None, pydantic.BaseModel, "hi", {}]
)
def test_what_carries_no_message_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRecord):
        as_message(value)
    if not isinstance(value, str):
        with pytest.raises(InvalidRecord):
            user([value])


def test_a_model_that_does_not_dump_a_mapping_is_read_by_its_attributes() -> None:
    class Odd:
        def __init__(self) -> None:
            self.type, self.text = "text", "hi"

        def model_dump(self) -> str:
            return "no mapping"

    assert user([Odd()]) == user("hi")

"""The parts of a message: text, image, audio, file, thinking, tool call, tool result, opaque block.

Each kind is a small frozen struct; the field `kind` tells them apart in JSON. A part holds content and nothing about
where it is stored. `extra` keeps, as JSON text, the provider's fields that are not modelled here, so that they can be
sent back unchanged; a block that is not modelled at all becomes an `OpaquePart`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = (
    "AudioPart",
    "ContentPart",
    "Detail",
    "FilePart",
    "ImagePart",
    "OpaquePart",
    "Part",
    "TextPart",
    "ThinkingPart",
    "ToolCall",
    "ToolResult",
    "declared_media_type",
)


Detail: TypeAlias = Literal["low", "high", "auto"]

# Defaults made by a factory: msgspec omits a plain default only if a field holds that very object, so equal messages
# could be stored as different bytes.
_NO_ARGUMENTS = "{}"
_UNKNOWN_MEDIA = "application/octet-stream"


class _Part(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="kind",
    gc=False,
    forbid_unknown_fields=True,
):
    """Base of all message parts: immutable, and not tracked by the garbage collector, as parts form no cycles."""


class TextPart(_Part, frozen=True, tag="text"):
    """Plain text."""

    text: str
    extra: str = ""


class ImagePart(_Part, frozen=True, tag="image"):
    """An image by address: `https:`, `data:` or a provider's file id (`file:ID`)."""

    url: str
    detail: Detail | None = None
    """The resolution requested from the provider, which determines the price. None for the provider's default."""
    extra: str = ""


class AudioPart(_Part, frozen=True, tag="audio"):
    """Audio, base64 encoded."""

    data: str
    format: str
    extra: str = ""


class FilePart(_Part, frozen=True, tag="file"):
    """A document, by address (`https:`, `data:`) or provider file id (`file:ID`)."""

    url: str
    media_type: str = msgspec.field(default_factory=lambda: _UNKNOWN_MEDIA)
    filename: str = ""
    extra: str = ""


class ThinkingPart(_Part, frozen=True, tag="thinking"):
    """Reasoning of a model, with the signature that the provider verifies; the text is empty if it was redacted."""

    text: str
    signature: str = ""
    redacted: str = ""
    """The encrypted data of a redacted thinking block."""
    extra: str = ""
    provider: str = ""
    """The provider that signed the part, and the only one it may be sent to; empty if unknown."""
    model: str = ""
    """The model that wrote the part: its signature is valid for no other model."""


class OpaquePart(_Part, frozen=True, tag="opaque"):
    """A block of a provider that turnfold does not model, stored as its JSON text."""

    json: str
    provider: str = ""
    """The provider that sent the part, the only one that it may be sent back to; empty if unknown."""
    model: str = ""
    """The model that wrote the part, if known."""


class ToolCall(_Part, frozen=True, tag="call"):
    """A tool call by the assistant."""

    id: str
    name: str
    arguments: str = msgspec.field(default_factory=lambda: _NO_ARGUMENTS)
    """JSON text of the arguments, exactly as the model wrote it; it may be invalid JSON."""
    extra: str = ""


ContentPart: TypeAlias = TextPart | ImagePart | AudioPart | FilePart | OpaquePart


class ToolResult(_Part, frozen=True, tag="result"):
    """The result of a tool call."""

    call_id: str
    content: tuple[ContentPart, ...]
    is_error: bool = False
    extra: str = ""

    @property
    def text(self) -> str:
        """The text of the result, without its images and files."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


Part: TypeAlias = (
    TextPart | ImagePart | AudioPart | FilePart | ThinkingPart | OpaquePart | ToolCall | ToolResult
)


def declared_media_type(url: str) -> str:
    """Return the media type that a `data:` URL declares; `application/octet-stream` for any other URL."""
    declared = url[5:].split(",", 1)[0].split(";", 1)[0] if url.startswith("data:") else ""
    return declared or _UNKNOWN_MEDIA

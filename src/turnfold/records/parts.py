"""What a message is made of.

One small frozen struct per kind, discriminated by `kind`. A part says what was said, called or seen and nothing
about where it is stored. `extra` keeps, as JSON text, whatever fields a provider put beside the ones modelled here,
so that they can be given back unchanged; a block that is not modelled at all becomes an `OpaquePart`.
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

# Made by a factory where they are defaults: a plain default is left out of the stored form only when a field holds that
# very object, and then equal messages could be stored as different bytes.
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
    """Common settings: immutable, untracked by the garbage collector (parts cannot form cycles)."""


class TextPart(_Part, frozen=True, tag="text"):
    """Plain text."""

    text: str
    extra: str = ""


class ImagePart(_Part, frozen=True, tag="image"):
    """An image by address: `https:`, `data:` or a provider's file id (`file:ID`)."""

    url: str
    detail: Detail | None = None
    """The resolution asked of the provider; decides the price. None: the provider's default."""
    extra: str = ""


class AudioPart(_Part, frozen=True, tag="audio"):
    """Sound, base64 encoded."""

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
    """Reasoning the provider showed, with the signature it needs back; text is empty when it was redacted."""

    text: str
    signature: str = ""
    redacted: str = ""
    """The encrypted block of a redacted thought."""
    extra: str = ""
    provider: str = ""
    """Who signed it and may have it back; empty when nobody said."""
    model: str = ""
    """The model it belongs to: a signature holds for no other."""


class OpaquePart(_Part, frozen=True, tag="opaque"):
    """A block turnfold does not model, kept as the JSON text it came as."""

    json: str
    provider: str = ""
    """Who sent it and may have it back; empty when the block did not say."""
    model: str = ""
    """The model that wrote it, where known."""


class ToolCall(_Part, frozen=True, tag="call"):
    """A tool the assistant asked for."""

    id: str
    name: str
    arguments: str = msgspec.field(default_factory=lambda: _NO_ARGUMENTS)
    """JSON text exactly as the model wrote it, which may not even be valid JSON."""
    extra: str = ""


ContentPart: TypeAlias = TextPart | ImagePart | AudioPart | FilePart | OpaquePart


class ToolResult(_Part, frozen=True, tag="result"):
    """What a tool answered."""

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
    """The media type a `data:` address declares; any other address says nothing of what is behind it."""
    declared = url[5:].split(",", 1)[0].split(";", 1)[0] if url.startswith("data:") else ""
    return declared or _UNKNOWN_MEDIA

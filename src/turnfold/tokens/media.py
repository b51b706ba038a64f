"""Token costs of images, audio, files and tables, by the rules the providers publish.

Tokenizers do not count pictures. Each rule names the document it was read from and is an upper bound: if the
document leaves something open (the model tier, the size, the rounding), the more expensive reading is used. A
table is text and is counted as text.

Providers price an image by its width and height, which are read from the first bytes of its file: turnfold has no
image library and fetches nothing. Five formats have their size near the start; the size of any other file, or a
broken one, is unknown, and the image costs its provider's maximum.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from turnfold.errors import InvalidOption
from turnfold.tokens.estimate import estimate_text

__all__ = (
    "ANTHROPIC_AREA",
    "GEMINI_TILES",
    "GENERIC",
    "OPENAI_PATCHES",
    "OPENAI_PATCHES_MINI",
    "OPENAI_TILES",
    "OPENAI_TILES_MINI",
    "ImageRule",
    "audio_tokens",
    "file_tokens",
    "image_size",
    "image_size_of_url",
    "table_tokens",
)


_PREFIX_BYTES: Final = 192 * 1024
"""Most bytes of a `data:` URL that are decoded to find an image's size. A JPEG may begin with a preview and a
profile."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_OLD_BITMAP_HEADER: Final = 12
_JPEG_START_OF_FRAME: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG, GIF, WebP or BMP image; None for anything else."""
    try:
        size = _sniff(data)
    except struct.error:  # shorter than its own header
        return None
    return size if size is not None and size[0] > 0 and size[1] > 0 else None


def image_size_of_url(url: str) -> tuple[int, int] | None:
    """Return the size of an image inside a `data:` URL; None for any other URL, because nothing is fetched."""
    if url[:5].lower() != "data:":
        return None
    header_end = url.find(",", 0, 1024)
    if header_end < 0:
        return None
    start = header_end + 1
    if not url[:header_end].lower().endswith(";base64"):
        return image_size(unquote_to_bytes(url[start : start + _PREFIX_BYTES]))
    encoded = url[start : start + _PREFIX_BYTES * 4 // 3].translate({45: "+", 95: "/"})
    return image_size(_decoded(encoded))


def _decoded(encoded: str) -> bytes:
    """Decode a base64 text, which may be cut off anywhere; empty if it is not base64."""
    try:
        plain = "".join(encoded.split()).rstrip("=").encode("ascii")
        return base64.b64decode(plain[: len(plain) // 4 * 4], validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return b""


def _sniff(data: bytes) -> tuple[int, int] | None:
    if data.startswith(_PNG):
        return _big_endian_pair(data, 16) if data[12:16] == b"IHDR" else None
    if data.startswith((b"GIF87a", b"GIF89a")):
        return _little_endian_pair(data, 6)
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM"):
        return _bitmap(data)
    return None


def _big_endian_pair(data: bytes, at: int) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, at)
    return width, height


def _little_endian_pair(data: bytes, at: int) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, at)
    return width, height


def _bitmap(data: bytes) -> tuple[int, int]:
    (header,) = struct.unpack_from("<I", data, 14)
    if header == _OLD_BITMAP_HEADER:
        return _little_endian_pair(data, 18)
    width, height = struct.unpack_from("<ii", data, 18)
    return width, abs(height)  # negative: the rows are stored from the top


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = _little_endian_pair(data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20:21] == b"\x2f":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            first, second, third = struct.unpack_from("<HHH", data, 24)
            return (first | (second & 0xFF) << 16) + 1, (second >> 8 | third << 8) + 1
        case _:
            return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        mark, kind = struct.unpack_from("BB", data, at)
        if mark != 0xFF:  # no segment starts here: not a JPEG after all
            return None
        if kind == 0xFF:  # a fill byte
            at += 1
        elif kind in _JPEG_WITHOUT_LENGTH:
            at += 2
        elif kind in _JPEG_START_OF_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + length


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRule:
    """A provider's rule for counting the tokens of an image."""

    name: str
    origin: str
    """The provider's document from which the rule was read."""
    price: Callable[[int, int], int]
    """Function from width and height of an image to its tokens at full detail."""
    most: int
    """Tokens of the most expensive image, assumed for an image of unknown size."""
    low: int | None = None
    """Tokens of an image with `detail="low"`; None if the provider has no such detail."""

    def tokens(
        self, *, detail: Literal["low", "high", "auto"] | None, size: tuple[int, int] | None
    ) -> int:
        """Return the tokens of one image. Without a detail, or with `auto`, the high detail is assumed."""
        if size is not None and min(size) <= 0:
            raise InvalidOption(
                f"an image cannot have {size[0]} x {size[1]} pixels: give positive numbers, or size=None"
            )
        if detail == "low" and self.low is not None:
            return self.low
        return self.most if size is None else self.price(*size)


def _cells(width: int, height: int, *, side: int) -> int:
    """Return the number of squares with sides of `side` pixels that cover an image."""
    return _ceil_div(width, side) * _ceil_div(height, side)


def _shrunk(width: int, height: int, *, factor: float) -> tuple[int, int]:
    """Return width and height times `factor`, rounded; never larger than before, and at least one pixel."""
    factor = min(1.0, factor)
    return max(1, round(width * factor)), max(1, round(height * factor))


def _openai_tiles(width: int, height: int, *, base: int, tile: int) -> int:
    fitted = _shrunk(width, height, factor=2048 / max(width, height))
    fitted = _shrunk(*fitted, factor=768 / min(fitted))
    return base + tile * _cells(*fitted, side=512)


def _openai_patches(width: int, height: int, *, percent: int) -> int:
    return _ceil_div(min(1536, _cells(width, height, side=32)) * percent, 100)


def _anthropic_area(width: int, height: int) -> int:
    fitted = _shrunk(width, height, factor=2576 / max(width, height))
    by_area = _ceil_div(fitted[0] * fitted[1], 750)
    return min(4784, max(by_area, _cells(*fitted, side=28)))


def _gemini_tiles(width: int, height: int) -> int:
    fitted = _shrunk(width, height, factor=3072 / max(width, height))
    if max(fitted) <= 384:
        return 1120
    side = min(768, max(256, math.floor(min(fitted) / 1.5)))
    return max(1120, 258 * _cells(*fitted, side=side))


OPENAI_TILES: Final = ImageRule(
    name="openai-tiles",
    origin="OpenAI, 'Images and vision', calculating costs: fit into 2048 x 2048, shorter side down to "
    "768, then 85 + 170 a tile of 512 x 512 (gpt-4o, gpt-4.1); gpt-5 (70 + 140) and the o-series "
    "(75 + 150) are cheaper. At most 8 tiles.",
    price=partial(_openai_tiles, base=85, tile=170),
    most=85 + 8 * 170,
    low=85,
)
OPENAI_TILES_MINI: Final = ImageRule(
    name="openai-tiles-mini",
    origin="OpenAI, 'Images and vision', calculating costs: as the tile rule, 2833 + 5667 a tile "
    "(gpt-4o-mini, whose images are made as dear as those of gpt-4o).",
    price=partial(_openai_tiles, base=2833, tile=5667),
    most=2833 + 8 * 5667,
    low=2833,
)
OPENAI_PATCHES: Final = ImageRule(
    name="openai-patches",
    origin="OpenAI, 'Images and vision', calculating costs: patches of 32 x 32, at most 1536, times the "
    "model's factor, here the largest, 2.46 (gpt-4.1-nano, gpt-5-nano). An image scaled down to the "
    "cap is priced at the cap. The detail changes nothing.",
    price=partial(_openai_patches, percent=246),
    most=3779,
)
OPENAI_PATCHES_MINI: Final = ImageRule(
    name="openai-patches-mini",
    origin="OpenAI, 'Images and vision', calculating costs: as the patch rule with the factor 1.72 of "
    "o4-mini, which also covers 1.62 of gpt-4.1-mini and gpt-5-mini.",
    price=partial(_openai_patches, percent=172),
    most=2642,
)
ANTHROPIC_AREA: Final = ImageRule(
    name="anthropic-area",
    origin="Anthropic, 'Vision': width * height / 750, or patches of 28 x 28 in the newer text, after "
    "scaling to the model's limit: 2576 pixels and 4784 tokens for the high-resolution models, 1568 "
    "and about 1,600 for the others. The higher limit and the dearer formula are taken.",
    price=_anthropic_area,
    most=4784,
)
GEMINI_TILES: Final = ImageRule(
    name="gemini-tiles",
    origin="Google, 'Understand and count tokens' and 'Image understanding': 258 up to 384 x 384, above "
    "it 258 a tile of min(width, height) / 1.5, held between 256 and 768, of the image scaled to 3072 "
    "(Gemini 2); 'Media resolution': 1120 an image, 280 at low (Gemini 3). The dearer is taken.",
    price=_gemini_tiles,
    most=24 * 258,
    low=280,
)

_ANY_PROVIDER: Final = (OPENAI_TILES, OPENAI_PATCHES, ANTHROPIC_AREA, GEMINI_TILES)


def _dearest(width: int, height: int) -> int:
    return max(rule.price(width, height) for rule in _ANY_PROVIDER)


GENERIC: Final = ImageRule(
    name="generic-images",
    origin="the most expensive of the rules above, without gpt-4o-mini's, which is far above all others; "
    "most providers have no low detail, so it changes nothing",
    price=_dearest,
    most=max(rule.most for rule in _ANY_PROVIDER),
)

_AUDIO_TOKENS_A_SECOND: Final = 32
"""Tokens per second of audio. Google, "Audio understanding": 32. OpenAI's realtime guide: 10 for input audio."""
_AUDIO_BYTES_A_SECOND: Final = 4_000
"""Bytes per second assumed for audio: 32 kbit/s, the low end of compressed speech. A better recording has more."""

_PDF_TOKENS_A_PAGE: Final = 3_000 + 1_600
"""Tokens per page of a PDF. Anthropic, "PDF support": 1,500 to 3,000 for the text, and the page also as an image.
OpenAI sends text and image too; Google counts 258 (Gemini 2) or 560 (Gemini 3)."""
_PDF_BYTES_A_PAGE: Final = 20_000
"""Bytes of a small page of typeset text; a file of this size with pictures has fewer pages."""
_MOST_PDF_PAGES: Final = 100
"""Most pages of a PDF that are counted: Anthropic accepts no more in one request ("PDF support")."""
_UNKNOWN_PAGES: Final = 10
"""Pages assumed for a document of unknown size: a convention, not an upper bound."""
_TEXT_BYTES_A_TOKEN: Final = 2
"""Bytes of text per token: English has 4 and more, Chinese 3 to 4, code 3; only keys and base64 have fewer than 2."""


def audio_tokens(*, seconds: float | None, size_bytes: int | None) -> int:
    """Return the tokens of a recording from its length.

    Without `seconds`, the longest recording that fits into so many bytes is assumed.
    """
    if seconds is not None:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InvalidOption(f"a recording cannot last seconds={seconds}: give 0 or more")
        return math.ceil(seconds * _AUDIO_TOKENS_A_SECOND)
    if size_bytes is None:
        raise InvalidOption("audio_tokens() got neither seconds= nor size_bytes=: give one of them")
    return _ceil_div(
        _checked(size_bytes, "size_bytes") * _AUDIO_TOKENS_A_SECOND, _AUDIO_BYTES_A_SECOND
    )


def file_tokens(*, media_type: str, size_bytes: int | None, pages: int | None) -> int:
    """Return the tokens of a file, by its pages if they are known, otherwise by its media type and its bytes.

    An image counts as much as the dearest image by the rule `GENERIC`, because its width and height are not known here.
    A recording counts as the longest that the bytes can hold, a PDF as the pages that they suggest, any other file as
    text. If neither pages nor bytes are known, ten full pages are assumed.
    """
    if pages is not None:
        return _checked(pages, "pages") * _PDF_TOKENS_A_PAGE
    kind = media_type.strip().lower()
    if kind.startswith("image/"):
        return GENERIC.most
    if size_bytes is None:
        return _UNKNOWN_PAGES * _PDF_TOKENS_A_PAGE
    _checked(size_bytes, "size_bytes")
    if kind.startswith("audio/"):
        return audio_tokens(seconds=None, size_bytes=size_bytes)
    if kind.partition(";")[0].rstrip() == "application/pdf":
        found = max(1, _ceil_div(size_bytes, _PDF_BYTES_A_PAGE))
        return min(_MOST_PDF_PAGES, found) * _PDF_TOKENS_A_PAGE
    return _ceil_div(size_bytes, _TEXT_BYTES_A_TOKEN)


def table_tokens(
    rows: Iterable[Iterable[object]], *, count: Callable[[str], int] = estimate_text
) -> int:
    """Return the tokens of a table as Markdown: every cell, its bars and its line ends.

    Without the model's own `count` the result is an estimate, too high rather than too low.
    """
    lines = ["| " + " | ".join(map(str, row)) + " |\n" for row in rows]
    return count("".join(lines))


def _ceil_div(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _checked(value: int, name: str) -> int:
    if value < 0:
        raise InvalidOption(f"{name}={value} must not be negative: give 0 or more")
    return value

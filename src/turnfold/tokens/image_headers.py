"""The size of an image, read from the first bytes of its file.

Every provider prices an image by its width and height, and turnfold has neither an image library nor the
right to fetch anything. Five formats say their size near the start; whatever else arrives, broken or
hostile, has no known size, and is then priced at its provider's maximum.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Final
from urllib.parse import unquote_to_bytes

__all__ = ("image_size", "image_size_of_url")

_PREFIX_BYTES: Final = 192 * 1024
"""How much of a `data:` URL is decoded. A JPEG may carry a preview and a colour profile in front."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_OLD_BITMAP_HEADER: Final = 12
_JPEG_START_OF_FRAME: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG, GIF, WebP or BMP image; None for anything else."""
    try:
        size = _sniff(data)
    except struct.error:  # shorter than its own header
        return None
    return size if size is not None and size[0] > 0 and size[1] > 0 else None


def image_size_of_url(url: str) -> tuple[int, int] | None:
    """The size of an image inside a `data:` URL; None for an address, because nothing is fetched."""
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
    """The whole bytes of a beginning of base64 text; empty where it is not base64."""
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

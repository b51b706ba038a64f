"""Where a content is cut, so that a small edit leaves most of the pieces as they were.

A cut is decided by the bytes just before it and by nothing else: after an insertion anywhere the same places are found
again, so the pieces behind it are the old ones. Places are candidates where four bytes fall into four given classes,
which a regular expression finds at the speed of C; a checksum of the bytes before each picks one in eight. A rolling
hash in Python would take ten times as long, and a compiled one is a dependency larger than this library.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

__all__ = ("LONGEST_CHUNK", "chunks_of")

_SHORTEST: Final = 1 << 10
LONGEST_CHUNK: Final = 1 << 14
_ONE_IN: Final = 8
"""Of the candidates, which lie 256 bytes apart on average, how many are passed over for one that is a cut."""
_SEEN: Final = 32
"""Bytes before a candidate that decide whether it is one."""
_CLASSES = (
    b"[" + re.escape(bytes(byte for byte in range(256) if byte % 4 == rest)) + b"]"
    for rest in range(4)
)
# Four different classes: a match can never begin inside another, so which ones are found depends on no other place.
_CANDIDATE: Final = re.compile(b"".join(_CLASSES))


def chunks_of(data: bytes) -> Iterator[bytes]:
    """The pieces of `data`, in order; together they are `data`. A text is never cut within a character."""
    start = 0
    for stop in _cuts(data):
        yield data[start:stop]
        start = stop
    if start < len(data):
        yield data[start:]


def _cuts(data: bytes) -> Iterator[int]:
    start = 0
    for found in _CANDIDATE.finditer(data):
        place = found.end()
        while place - start > LONGEST_CHUNK:
            start = _between_characters(data, start + LONGEST_CHUNK)
            yield start
        if place - start < _SHORTEST:
            continue
        if zlib.crc32(data[place - _SEEN : place]) % _ONE_IN == 0:
            start = _between_characters(data, place)
            yield start
    while len(data) - start > LONGEST_CHUNK:
        start = _between_characters(data, start + LONGEST_CHUNK)
        yield start


def _between_characters(data: bytes, place: int) -> int:
    """`place`, or up to three bytes on, where a UTF-8 character ends."""
    for onwards in range(4):
        at = place + onwards
        if at >= len(data) or data[at] & 0xC0 != 0x80:
            return min(at, len(data))
    return place

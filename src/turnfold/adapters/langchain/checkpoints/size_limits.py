"""Bounds on what stored data may grow to when it is read.

A kilobyte can unpack to a megabyte, differences can double it again and again, and a byte of msgpack can become an
object of two hundred. Bytes are counted before they are decoded; beyond a few megabytes the objects in them are
counted too, which takes as long as there are objects and stops where there are too many.
"""

from __future__ import annotations

from turnfold.errors import InvalidRecord

__all__ = ("Allowance", "decoded_size")

_UNCOUNTED = 4 << 20
"""Bytes of which the objects are not counted: they take some hundred megabytes at the very most."""
_GROWTH = 4
"""Bytes of memory that a byte may take on average, once objects are counted."""

# About the bytes of memory of Python's objects, with the place each takes in a list.
_SLOT, _NUMBER, _TEXT, _LIST, _MAP, _OBJECT = 8, 40, 64, 64, 240, 400

_HEADERS: list[tuple[int, int, int]] = [(_SLOT, 0, 0)] * 256
"""By the first byte of a thing: the memory it takes, bytes to skip behind it, bytes that say how many more to skip.

Lists, mappings and extensions hold things, which are met next: nothing of them is skipped but their own header."""
_HEADERS[0x80:0x90] = [(_MAP, 0, 0)] * 16
_HEADERS[0x90:0xA0] = [(_LIST, 0, 0)] * 16
_HEADERS[0xA0:0xC0] = [(_TEXT, length, 0) for length in range(32)]
_HEADERS[0xC4:0xC7] = _HEADERS[0xD9:0xDC] = [(_TEXT, 0, width) for width in (1, 2, 4)]
_HEADERS[0xC7:0xCA] = [(_OBJECT, width, 0) for width in (2, 3, 5)]
_HEADERS[0xCA:0xCC] = [(_NUMBER, width, 0) for width in (4, 8)]
_HEADERS[0xCC:0xD0] = _HEADERS[0xD0:0xD4] = [(_NUMBER, width, 0) for width in (1, 2, 4, 8)]
_HEADERS[0xD4:0xD9] = [(_OBJECT, 1, 0)] * 5
_HEADERS[0xDC:0xDE] = [(_LIST, width, 0) for width in (2, 4)]
_HEADERS[0xDE:0xE0] = [(_MAP, width, 0) for width in (2, 4)]


class Allowance:
    """How many bytes may be read together, and how much memory they may take."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._memory = 0

    def take(self, data: bytes, path: str = "") -> None:
        """Count bytes of msgpack before they are decoded; refused where they are too many."""
        self.take_size(len(data), path)
        if self._bytes <= _UNCOUNTED:
            return
        most = _GROWTH * max(self._max_bytes, _UNCOUNTED)
        self._memory += decoded_size(data, most - self._memory)
        if self._memory > most:
            raise InvalidRecord(
                f"{self._bytes:,} bytes are more objects than {most:,} bytes of memory hold",
                path=path,
                remedy=f"If your program wrote them, raise max_checkpoint_bytes={self._max_bytes:,}",
            )

    def take_size(self, size: int, path: str = "") -> None:
        """Count bytes that are not decoded."""
        self._bytes += size
        if self._bytes > self._max_bytes:
            raise InvalidRecord(
                f"{self._bytes:,} bytes where a checkpoint may have {self._max_bytes:,}",
                path=path,
                remedy="Keep large data elsewhere, or raise max_checkpoint_bytes",
            )


def decoded_size(data: bytes, most: int) -> int:
    """About how many bytes of memory the objects of msgpack take; counted no further than just over `most`."""
    total, at, end = 0, 0, len(data)
    while at < end and total <= most:
        memory, skipped, width = _HEADERS[data[at]]
        at += 1
        if width:
            skipped = int.from_bytes(data[at : at + width], "big")
            at += width
        total += memory + skipped
        at += skipped
    return total

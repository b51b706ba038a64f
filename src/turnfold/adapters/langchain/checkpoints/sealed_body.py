"""The bodies of the saver's documents: compressed, with a seal over the bytes and the place they were stored at.

The seal comes before anything else: a body that was damaged, cut off or moved to another document is not unpacked.
Without a key it is a checksum, which whoever writes the store can make too. With a key that is kept outside the store,
nothing is read that was not written by a program that has the key. Neither says that a body is the newest one of its
document.
"""

from __future__ import annotations

import hmac
import zlib
from hashlib import blake2b
from typing import Final, NamedTuple

from turnfold.adapters.langchain.checkpoints.size_limits import Allowance
from turnfold.errors import InvalidOption, InvalidRecord

__all__ = ("BodySeal", "DocumentPlace")

_CHECKSUM: Final = b"\x01"
_KEYED: Final = b"\x02"
_ZLIB: Final = b"\x78"
"""How a body begins that was written before there were seals."""
_SEAL_BYTES = 16
_SHORTEST_KEY = 16
_PERSON: Final = b"turnfold-saver"
_LEVEL = 6


class DocumentPlace(NamedTuple):
    """Where a document is stored."""

    home: str
    kind: str
    key: str

    @property
    def path(self) -> str:
        """The place as an error names it."""
        return f"{self.home}/{self.kind}/{self.key!r}"


class BodySeal:
    """Packs and unpacks bodies."""

    def __init__(self, *, key: bytes | str | None, max_bytes: int) -> None:
        given = key.encode() if isinstance(key, str) else key
        if given is not None and len(given) < _SHORTEST_KEY:
            raise InvalidOption(
                f"seal_key has {len(given)} bytes; at least {_SHORTEST_KEY} are needed, e.g. secrets.token_bytes(32)"
            )
        self._key = b"" if given is None else blake2b(given, person=_PERSON).digest()
        self._mark = _KEYED if self._key else _CHECKSUM
        self._max_bytes = max_bytes

    def pack(self, data: bytes, place: DocumentPlace) -> bytes:
        """A body from what it is to hold."""
        if len(data) > self._most:
            raise InvalidRecord(
                f"a checkpoint or the writes of a task have {len(data):,} bytes; a document may have {self._most:,}",
                remedy=f"Keep large data elsewhere, or raise max_checkpoint_bytes={self._max_bytes:,}",
            )
        packed = zlib.compress(data, _LEVEL)
        return self._mark + self.seal(packed, place) + packed

    def unpack(self, body: bytes, place: DocumentPlace) -> bytes:
        """What a body holds."""
        packed = self._opened(body, place)
        inflater = zlib.decompressobj()
        try:
            data = inflater.decompress(packed, self._most + 1)
        except zlib.error as error:
            raise InvalidRecord(f"it cannot be unpacked: {error}", path=place.path) from None
        if len(data) > self._most:
            raise InvalidRecord(
                f"{len(body):,} bytes unpack to more than {self._most:,}",
                path=place.path,
                remedy=f"If your program wrote it, raise max_checkpoint_bytes={self._max_bytes:,}",
            )
        if not inflater.eof or inflater.unused_data:
            raise InvalidRecord("it is cut off, or something follows it", path=place.path)
        Allowance(self._most).take(data, place.path)
        return data

    @property
    def _most(self) -> int:
        # A document may keep values of a checkpoint that was stored twice, and always has names and versions.
        return 2 * self._max_bytes + (1 << 20)

    def _opened(self, body: bytes, place: DocumentPlace) -> bytes:
        mark, seal, packed = body[:1], body[1 : 1 + _SEAL_BYTES], body[1 + _SEAL_BYTES :]
        if mark == _ZLIB and not self._key:
            return body
        if mark == _KEYED and not self._key:
            raise InvalidRecord(
                "it was sealed with a key",
                path=place.path,
                remedy="Pass it: TurnfoldSaver(..., seal_key=...)",
            )
        if mark != self._mark or not hmac.compare_digest(seal, self.seal(packed, place)):
            why = (
                "was not sealed with this key for this place"
                if self._key
                else "is damaged or was moved"
            )
            raise InvalidRecord(
                f"it {why}",
                path=place.path,
                remedy="Restore the store from a backup, or delete the thread",
            )
        return packed

    def seal(self, packed: bytes, place: DocumentPlace) -> bytes:
        """The seal of packed bytes at a place."""
        seal = blake2b(key=self._key, digest_size=_SEAL_BYTES, person=_PERSON)
        for part in (*(name.encode("utf-8", "surrogatepass") for name in place), packed):
            seal.update(len(part).to_bytes(8, "big"))
            seal.update(part)
        return seal.digest()

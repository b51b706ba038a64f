"""How far a summary reaches in a history that is passed in anew on every call.

The caller may pass the whole history each time, only its newer part, or another conversation. Messages have no ids of
their own, so what was covered is recognised by content: a digest of each covered message, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from turnfold.records import Message, encode_message

__all__ = ("Watermark", "digest_of")


def digest_of(message: Message) -> bytes:
    """What a message is recognised by."""
    return blake2b(encode_message(message), digest_size=12).digest()


class Watermark:
    """The digests of everything a summary speaks of. It only rises; starting over takes a new one."""

    __slots__ = ("_covered",)

    def __init__(self) -> None:
        self._covered: list[bytes] = []

    def rise(self, digests: Iterable[bytes]) -> None:
        """These messages, which follow the ones covered, are covered too."""
        self._covered.extend(digests)

    def reach(self, history: Sequence[bytes]) -> int:
        """How many messages at the beginning of `history` are covered.

        Usually the whole history is passed: it begins with everything covered or, where an older state of it is
        passed, is a beginning of that. If only a newer part is passed, the covered messages end with the ones it begins
        with; the longest such overlap is the answer.
        """
        shared = min(len(self._covered), len(history))
        if list(history[:shared]) == self._covered[:shared]:
            return shared
        return _longest_overlap(self._covered, history)


def _longest_overlap(text: Sequence[bytes], pattern: Sequence[bytes]) -> int:
    """The longest end of `text` that is a beginning of `pattern`, by the border function of Knuth, Morris and Pratt."""
    borders = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[index] != pattern[matched]:
            matched = borders[matched - 1]
        matched += pattern[index] == pattern[matched]
        borders[index] = matched
    matched = 0
    for item in text:
        while matched and (matched == len(pattern) or item != pattern[matched]):
            matched = borders[matched - 1]
        matched += item == pattern[matched]
    return matched

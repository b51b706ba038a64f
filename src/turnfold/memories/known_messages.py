"""Recognise the messages of a history that is passed again: by content and place, because they have no ids."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from turnfold.records import Message, encode_message

__all__ = ("count_known", "count_known_in_order", "digest_of")


def digest_of(message: Message) -> bytes:
    """Return the digest by which a message is recognised."""
    return blake2b(encode_message(message), digest_size=12).digest()


def count_known(known: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """Return how many messages at the beginning of `passed` are known; both are digests.

    A history that begins like the known one is matched along it, skipping messages of other writers. One that begins
    elsewhere is taken for the newer part of the history and matched by its longest overlap with the end of the known.
    """
    if not known or not passed or known[0] == passed[0]:
        return count_known_in_order(known, passed)
    for length in range(min(len(known), len(passed)), 0, -1):
        if known[-length] == passed[0] and known[-length:] == passed[:length]:
            return length
    return 0


def count_known_in_order(known: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """Return how many messages at the beginning of `passed` are known, in the order they are passed."""
    at = 0
    for count, digest in enumerate(passed):
        try:
            at = known.index(digest, at) + 1
        except ValueError:
            return count
    return len(passed)

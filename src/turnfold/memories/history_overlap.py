"""Counts how many messages of a history are stored already.

Such messages have no ids, so their digests are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnfold.records import Message, message_digest

__all__ = ("count_known", "count_known_in_order", "digest_of")


def digest_of(message: Message) -> bytes:
    """Return the digest of a message, by which a message that is stored already is recognised."""
    return message_digest(message, size=12)


def count_known(known: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """Return how many messages at the beginning of `passed` are in `known`.

    Both are lists of message digests, in order. If both begin with the same message, they are compared in order, and
    known messages that other writers added are skipped. Otherwise `passed` is taken for the newer part of the history,
    and its longest overlap with the end of `known` counts.
    """
    if not known or not passed or known[0] == passed[0]:
        return count_known_in_order(known, passed)
    for length in range(min(len(known), len(passed)), 0, -1):
        if known[-length] == passed[0] and known[-length:] == passed[:length]:
            return length
    return 0


def count_known_in_order(known: Sequence[bytes], passed: Sequence[bytes]) -> int:
    """Return how many messages at the beginning of `passed` occur in `known` in the same order, gaps allowed."""
    at = 0
    for count, digest in enumerate(passed):
        try:
            at = known.index(digest, at) + 1
        except ValueError:
            return count
    return len(passed)

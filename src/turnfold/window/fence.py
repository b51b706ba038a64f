"""Stored text leaves as data.

A summary or a recalled passage was written by users, tools and models; put before a model without a boundary it could
speak as the system. The fence around it carries a mark derived from the text itself, lengthened until the text does not
contain it, so nothing inside can close the fence; being derived and not random, it leaves the prompt cache in peace.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ("fence", "fence_mark")


def fence_mark(text: str) -> str:
    """A short mark that does not occur in `text`; the same text always gets the same mark."""
    digest = blake2b(text.encode("utf-8"), digest_size=32).hexdigest()
    for length in range(8, len(digest) + 1):
        if digest[:length] not in text:
            return digest[:length]
    return fence_mark(
        text + digest
    )  # a text that holds its own digest: ask about a longer one, which contains it


def fence(text: str, *, label: str, note: str) -> str:
    """`text` between a pair of tags it cannot forge, introduced by `note`."""
    mark = fence_mark(text)
    return f"{note}\n<{label} {mark}>\n{text}\n</{label} {mark}>"

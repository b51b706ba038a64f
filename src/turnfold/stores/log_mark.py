"""What a log may say about a conversation: which one it is, for those who know its id already.

An id may be a person's name or number, and logs travel further than databases. The mark is the same wherever the
conversation is logged, so records can be joined; whoever has an id computes its mark and finds them. It is a pseudonym
and not a secret: ids that can be guessed can be tried.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ("log_mark",)


def log_mark(tenant: str, conversation: str) -> str:
    """Sixteen hexadecimal digits that stand for a conversation in log records."""
    name = f"{len(tenant)}:{tenant}{conversation}".encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=8).hexdigest()

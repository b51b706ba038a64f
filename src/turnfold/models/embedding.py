"""Who says what a text is about: embeddings behind one small protocol.

A search by words finds what was said in the same words. A vector per text finds what was meant by others, in another
language too. Nothing needs it: without an embedder everything works, by words alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

__all__ = ("Embedder", "LocalEmbedder")


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """Names the vectors: those of another name are never compared with them."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector per text, all of one length; called from a thread of its own."""
        ...


class LocalEmbedder:
    """A multilingual sentence encoder that ships in a package and runs on the processor; no network, no key."""

    name = "use-multilingual-3"

    def __init__(self) -> None:
        from turnfold.models.local_encoder import Encoder  # a missing package is told at once

        self._encoder = Encoder()
        self._turn = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector of length one per text."""
        with self._turn:
            return self._encoder.encode(list(texts))

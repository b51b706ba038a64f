"""Exact counts, offline: the vocabularies that splintr carries inside its wheel.

A tokenizer that downloads its vocabulary on first use fails exactly where it hurts: behind a firewall, in a container,
on a plane. This is the only module that imports the tokenizer, and only when a text is really counted.

Content is always encoded as ordinary text. A user who types `<|endoftext|>` has typed thirteen characters, not a
control token, and a counter that disagrees with the provider on that can be driven over budget on purpose.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.tokens.counts import Certainty

if TYPE_CHECKING:
    from splintr import AnyTokenizer

__all__ = ("ENCODINGS", "Encoding")

ENCODINGS: dict[str, str] = {
    "cl100k_base": "GPT-3.5, GPT-4",
    "o200k_base": "GPT-4o and later, o-series",
    "gpt_oss": "gpt-oss (o200k_harmony)",
    "llama3": "Llama 3.x",
    "qwen3": "Qwen 2.5 and 3",
    "deepseek_v3": "DeepSeek V3, R1",
    "gemma2": "Gemma 1 and 2, Gemini 1.5",
    "gemma3": "Gemma 3, Gemini 2 and 3",
    "mistral_v3": "Mistral Nemo and later (Tekken)",
    "glm4": "GLM 4",
    "kimi_k2": "Kimi K2",
}
"""Vocabularies with exact counts, and whose they are."""


_loaded: dict[str, AnyTokenizer] = {}
_loading = threading.Lock()


class Encoding:
    """Exact counter for one vocabulary. Cheap to make; the vocabulary is loaded on the first count."""

    __slots__ = ("_encode", "_normalise", "name")

    certainty = Certainty.EXACT

    def __init__(self, name: str) -> None:
        if name not in ENCODINGS:
            raise InvalidOption(f"unknown encoding {name!r}; known: {', '.join(sorted(ENCODINGS))}")
        self.name = name
        self._encode: Callable[[str], list[int]] | None = None
        # Qwen's tokenizer composes characters before splitting them; without it counts are off.
        self._normalise = name == "qwen3"

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        if not text:
            return 0
        encode = self._encode
        if encode is None:
            encode = self._encode = _tokenizer(self.name).encode_ordinary
        if self._normalise and not text.isascii():
            text = unicodedata.normalize("NFC", text)
        try:
            return len(encode(text))
        except UnicodeEncodeError as error:
            raise InvalidRecord(
                f"lone surrogate at character {error.start} of a text to count",
                remedy="Decode the bytes with errors='replace', or replace the character",
            ) from None

    def __repr__(self) -> str:
        return f"Encoding({self.name!r})"


def _tokenizer(name: str) -> AnyTokenizer:
    with _loading:
        tokenizer = _loaded.get(name)
        if tokenizer is None:
            from splintr import Tokenizer

            tokenizer = _loaded[name] = Tokenizer.from_pretrained(name)
        return tokenizer

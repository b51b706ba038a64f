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

_ALL_KNOWN = "BPE"
_ID_BYTES = 4
_loaded: dict[str, AnyTokenizer] = {}
_loading = threading.Lock()


class Encoding:
    """Exact counter for one vocabulary. Cheap to make; the vocabulary is loaded on the first count."""

    __slots__ = ("_encode", "_encode_flat", "_normalise", "_openings", "name")

    certainty = Certainty.EXACT

    def __init__(self, name: str) -> None:
        if name not in ENCODINGS:
            raise InvalidOption(f"unknown encoding {name!r}; known: {', '.join(sorted(ENCODINGS))}")
        self.name = name
        self._encode: Callable[[str], list[int]] | None = None
        self._encode_flat: Callable[[str], bytes] | None = None
        self._openings: tuple[str, ...] = ()
        # Qwen's tokenizer composes characters before splitting them; without it counts are off.
        self._normalise = name == "qwen3"

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        if not text:
            return 0
        encode = self._encode or self._load()
        if self._normalise and not text.isascii():
            text = unicodedata.normalize("NFC", text)
        try:
            for opening in self._openings:
                if opening in text:
                    return len(encode(text))
            flat = self._encode_flat
            return len(encode(text)) if flat is None else len(flat(text)) // _ID_BYTES
        except UnicodeEncodeError as error:
            raise InvalidRecord(
                f"lone surrogate at character {error.start} of a text to count",
                remedy="Decode the bytes with errors='replace', or replace the character",
            ) from None

    def _load(self) -> Callable[[str], list[int]]:
        # Flat ids are bytes, not a list with a Python number per token, which takes a quarter to a half of the time.
        # But that call takes control tokens for what they spell, so it serves only texts that cannot spell one; and
        # only families whose control tokens are all known.
        tokenizer = _tokenizer(self.name)
        if tokenizer.family == _ALL_KNOWN:
            self._openings = tuple(sorted({token[:2] for token in tokenizer.special_tokens()}))
            self._encode_flat = tokenizer.encode_flat
        self._encode = tokenizer.encode_ordinary
        return self._encode

    def __repr__(self) -> str:
        return f"Encoding({self.name!r})"


def _tokenizer(name: str) -> AnyTokenizer:
    with _loading:
        tokenizer = _loaded.get(name)
        if tokenizer is None:
            from splintr import Tokenizer

            tokenizer = _loaded[name] = Tokenizer.from_pretrained(name)
        return tokenizer

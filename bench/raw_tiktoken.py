"""The raw limit and the judge's scale: tiktoken's o200k_base, with the ranks that bpe-openai carries (no network)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tiktoken
from bpe_openai.registry import ENCODING_CONSTRUCTORS

__all__ = ("count_text", "encoder")


@cache
def encoder() -> Callable[[str], list[int]]:
    """The function that turns text into tokens; nothing in it is special."""
    return tiktoken.Encoding(**ENCODING_CONSTRUCTORS["o200k_base"]()).encode_ordinary


def count_text(text: str) -> int:
    """Tokens of a text."""
    return len(encoder()(text))

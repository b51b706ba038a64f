"""Other people's tokenizers with the same vocabularies, to compare with; nothing is downloaded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import tiktoken

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # it opens its data in a way Python is giving up
    import bpe_openai
    from bpe_openai.registry import ENCODING_CONSTRUCTORS

__all__ = ("bpe_count", "tiktoken_count")


@cache
def tiktoken_count(name: str) -> Callable[[str], int]:
    """OpenAI's own tokenizer, with the ranks that bpe-openai carries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        encode = tiktoken.Encoding(**ENCODING_CONSTRUCTORS[name]()).encode_ordinary
    return lambda text: len(encode(text))


@cache
def bpe_count(name: str) -> Callable[[str], int]:
    """A third implementation."""
    encode = bpe_openai.get_encoding(name).encode_ordinary
    return lambda text: len(encode(text))

"""The raw limit and the judge's scale: tiktoken, with the ranks that bpe-openai carries (no network)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import tiktoken

__all__ = ("count_text", "encoder", "listening", "loaded")

_listeners: list[Callable[[str], object]] = []


@cache
def loaded(encoding: str = "o200k_base") -> Callable[[str], list[int]]:
    """The function that turns text into tokens; nothing in it is special."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how bpe-openai reads its own files
        from bpe_openai.registry import ENCODING_CONSTRUCTORS

        return tiktoken.Encoding(**ENCODING_CONSTRUCTORS[encoding]()).encode_ordinary


@cache
def encoder() -> Callable[[str], list[int]]:
    """The same for o200k_base; somebody may be listening to it."""
    encode = loaded()
    if not _listeners:
        return encode
    listeners = tuple(_listeners)

    def heard(text: str) -> list[int]:
        for hear in listeners:
            hear(text)
        return encode(text)

    return heard


def count_text(text: str) -> int:
    """Tokens of a text."""
    return len(encoder()(text))


@contextmanager
def listening(hear: Callable[[str], object]) -> Iterator[None]:
    """Give every text that is counted meanwhile to `hear`."""
    _listeners.append(hear)
    encoder.cache_clear()
    try:
        yield
    finally:
        _listeners.remove(hear)
        encoder.cache_clear()

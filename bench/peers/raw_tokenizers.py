"""The tokenizers themselves, with no library around them."""

from __future__ import annotations

from collections.abc import Callable

from bench.contender import Counted
from bench.raw_tiktoken import loaded

__all__ = ("COUNTED", "NEEDS")

NEEDS = None


def _counting(encoding: str) -> Callable[[str], int]:
    return lambda text: len(loaded(encoding)(text))


COUNTED = tuple(
    Counted(
        name=f"raw tiktoken, {encoding}",
        package="tiktoken",
        count=_counting(encoding),
        claims="exact",
        encoding=encoding,
        raw=True,
    )
    for encoding in ("o200k_base", "cl100k_base")
)

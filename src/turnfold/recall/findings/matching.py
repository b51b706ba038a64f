"""Whether a text holds a word that is asked for, without taking the text apart.

A search index has the terms of every text at hand; findings have not, and working them out for a hundred long results
would take longer than everything else a context needs. A stem begins the words it stands for and a pair of Chinese
characters stands in the text as it is, so looking for it is enough to decide what is shown first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from turnfold.recall.simplified import SIMPLIFIED
from turnfold.tokens import normal_form

__all__ = ("folded", "held_by", "known_folded")


def held_by(texts: Sequence[str], asked: Collection[str]) -> list[float]:
    """How much of what is asked each text holds; a word counts the more the fewer hold it, and nothing if all do.

    `asked` are terms of `turnfold.recall.asked_terms`, the texts are folded.
    """
    held = [0.0] * len(texts)
    for term in dict.fromkeys(asked):
        holding = [at for at, text in enumerate(texts) if _holds(text, term)]
        for at in holding:
            held[at] += math.log(len(texts) / len(holding))
    # Rounded, so that the order in which fractions were added up decides nothing.
    return [round(much, 9) for much in held]


def folded(text: str) -> str:
    """A text in the spelling of terms: widths and case folded, Chinese characters simplified."""
    plain = text if text.isascii() else normal_form("NFKC", text).translate(SIMPLIFIED)
    return plain.casefold()


known_folded = lru_cache(maxsize=1 << 8)(folded)
"""The same, for texts that are asked about turn after turn."""


def _holds(text: str, term: str) -> bool:
    if term not in text:
        return False
    return not term.isascii() or _beginning(term).search(text) is not None


@lru_cache(maxsize=1 << 10)
def _beginning(term: str) -> re.Pattern[str]:
    """A word that begins with the term; a number is that number and not the beginning of another."""
    end = r"(?!\d)" if term[-1:].isdigit() else ""
    return re.compile(rf"(?<![^\W_]){re.escape(term)}{end}", re.ASCII)

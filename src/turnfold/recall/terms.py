"""The terms a text is found by.

Made by the application and indexed as they are, so that every backend finds the same things and no backend's
own idea of a word (which treats a Chinese sentence as one) can come between. Words are lower-cased with widths
folded; runs of Chinese, Japanese and Korean characters give every character and every pair of neighbours, so
two-character words are found. A term is plain letters and digits only: nothing in it can be query syntax.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ("LONGEST_TERM", "terms_of")

LONGEST_TERM = 64
"""Longer runs (hashes, base64) are indexed by their beginning."""

_CJK = (
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002fa1f\U00030000-\U000323af"
)
_RUN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")


def terms_of(text: str) -> list[str]:
    """The terms of a text in order, with repetitions; of a query likewise."""
    terms: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not _IS_CJK.match(run):
            terms.append(run[:LONGEST_TERM])
            continue
        terms.extend(run)
        terms.extend(run[index : index + 2] for index in range(len(run) - 1))
    return terms

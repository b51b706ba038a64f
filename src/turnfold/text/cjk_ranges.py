"""Character ranges of the scripts written without spaces (Chinese, Japanese, Korean), and the test for Chinese text.

Every pattern of this package is built from these ranges. Search and folding (compaction) use two sets that differ
slightly, and each stays as it is: search terms are stored in indexes, and summaries must not change between versions.
"""

from __future__ import annotations

from turnfold._lazy_loading import late_pattern

__all__ = (
    "CJK_LETTERS",
    "CJK_TEXT",
    "FIRST_CJK_LETTER",
    "HAN",
    "is_chinese",
)


HAN = "\u3400-\u4dbf\u4e00-\u9fff"
"""The ideographs in common use: extension A and the unified block."""
_HANGUL_AND_COMPATIBILITY = "\uac00-\ud7af\uf900-\ufaff"
CJK_LETTERS = (
    f"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff{HAN}{_HANGUL_AND_COMPATIBILITY}"
    "\U00020000-\U0002fa1f\U00030000-\U000323af"
)
"""Ranges for search: letters only, so that a middle dot or a lone sound mark between two names separates them."""
FIRST_CJK_LETTER = CJK_LETTERS[0]
"""The lowest letter of `CJK_LETTERS`: comparing with it is a quick test before a pattern is used."""
CJK_TEXT = f"\u3040-\u30ff{HAN}{_HANGUL_AND_COMPATIBILITY}\U00020000-\U0003ffff"
"""Ranges for folding: the whole kana blocks with their marks, which end no sentence, and both ideographic planes."""

_HAN_CHARACTER = late_pattern(f"[{HAN}]")
_LATIN_WORD = late_pattern(r"[A-Za-z]+")
_CHARACTERS_PER_WORD = 1.6


def is_chinese(text: str) -> bool:
    """Return True if `text` has more Chinese words than Latin words."""
    words = len(_HAN_CHARACTER.findall(text)) / _CHARACTERS_PER_WORD
    return words > len(_LATIN_WORD.findall(text))

"""Which kind of character a code point is: a tokenizer's price follows the script, not the byte.

Vocabularies hold whole words of some scripts, syllables of others and only raw UTF-8 bytes of the
rest. `Kind` names the groups that cost alike; a code point in none of them is priced at its UTF-8
length, which no byte-level tokenizer exceeds. `CJK` answers a different, older question (is this one
unit of East Asian text?) that only the documented rule of thumb asks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from enum import IntEnum
from typing import Final

__all__ = ("CJK", "LATIN", "Kind", "kind_of")

LATIN: Final = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
"""Latin letters beyond ASCII, written as the inside of a character class."""

CJK: Final = re.compile(
    "["
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # hangul: jamo, extended jamo, syllables
    "\u2e80-\u303f"  # radicals, description characters, punctuation
    "\u3040-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"  # kana and their extensions
    "\u3100-\u31ef\u3200-\u33ff"  # bopomofo, compatibility jamo, strokes, enclosed, squared
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han: extension A, unified, compatibility
    "\ufe30-\ufe4f\uff00-\uffef"  # vertical, half-width and full-width forms
    "\U00016fe0-\U00018dff"  # ideographic marks, Tangut, Khitan
    "\U0001f200-\U0001f2ff"  # enclosed ideographs
    "\U00020000-\U0003ffff"  # Han: extension B and later, compatibility supplement
    "]+"
)
"""Runs of CJK characters as the documented formula means them: what East Asian text is written with.

Punctuation and full-width forms belong to it: an input method types them full-width, they take three
bytes like an ideograph, and a tokenizer gives each a token of its own, which a quarter token would not
cover. Emoji, accented Latin, Cyrillic and all other multi-byte characters do not belong to it."""


class Kind(IntEnum):
    """Groups of characters that cost alike. Letters come first, because only they form words."""

    RUSSIAN = 0
    CYRILLIC = 1
    GREEK = 2
    HEBREW = 3
    ARABIC = 4
    ARABIC_EXTENDED = 5
    CAUCASIAN = 6
    DEVANAGARI = 7
    INDIC = 8
    THAI = 9
    KHMER = 10
    KANA = 11
    HANGUL = 12
    SPARSE = 13
    PUNCTUATION = 14
    SYMBOL = 15
    RULE = 16
    EMOJI = 17
    JOINER = 18


_RANGES: Final = (
    (0x00A0, 0x00BF, Kind.PUNCTUATION),  # Latin-1 signs
    (0x00D7, 0x00D7, Kind.PUNCTUATION),
    (0x00F7, 0x00F7, Kind.PUNCTUATION),
    (0x0386, 0x03CE, Kind.GREEK),
    (0x0400, 0x040F, Kind.CYRILLIC),
    (0x0410, 0x044F, Kind.RUSSIAN),
    (0x0450, 0x045F, Kind.CYRILLIC),
    (0x0490, 0x04BB, Kind.CYRILLIC),
    (0x04D8, 0x04D9, Kind.CYRILLIC),  # of Turkic languages and Mongolian; the rest is rare
    (0x04E8, 0x04E9, Kind.CYRILLIC),
    (0x0531, 0x0587, Kind.CAUCASIAN),  # Armenian
    (0x05D0, 0x05EA, Kind.HEBREW),
    (0x060C, 0x060C, Kind.PUNCTUATION),  # Arabic comma
    (0x061B, 0x061F, Kind.PUNCTUATION),
    (0x0621, 0x0652, Kind.ARABIC),
    (0x066E, 0x06D3, Kind.ARABIC_EXTENDED),
    (0x0900, 0x096F, Kind.DEVANAGARI),
    (0x0980, 0x09FF, Kind.DEVANAGARI),  # Bengali, which costs the same
    (0x0A00, 0x0AFF, Kind.INDIC),
    (0x0B00, 0x0B7F, Kind.SPARSE),  # Odia
    (0x0B80, 0x0DDF, Kind.INDIC),
    (0x0E01, 0x0E5B, Kind.THAI),
    (0x0E81, 0x0FDA, Kind.SPARSE),  # Lao, Tibetan
    (0x1000, 0x109F, Kind.KHMER),  # Burmese
    (0x10D0, 0x10FC, Kind.CAUCASIAN),  # Georgian
    (0x1200, 0x139F, Kind.SPARSE),  # Ethiopic
    (0x1780, 0x17EF, Kind.KHMER),
    (0x200B, 0x200F, Kind.JOINER),  # zero-width marks
    (0x2010, 0x2027, Kind.PUNCTUATION),  # dashes, quotation marks, ellipsis
    (0x2030, 0x206F, Kind.SYMBOL),
    (0x20A0, 0x218F, Kind.SYMBOL),  # currency, letter-like, number forms
    (0x2190, 0x2193, Kind.PUNCTUATION),  # the four plain arrows
    (0x2194, 0x22FF, Kind.SYMBOL),  # other arrows, mathematics
    (0x2460, 0x24FF, Kind.SYMBOL),
    (0x2500, 0x259F, Kind.RULE),  # boxes and blocks
    (0x25A0, 0x25FF, Kind.SYMBOL),
    (0x2600, 0x27BF, Kind.EMOJI),
    (0x3000, 0x3011, Kind.PUNCTUATION),
    (0x3012, 0x303F, Kind.SYMBOL),
    (0x3041, 0x30FF, Kind.KANA),
    (0x3105, 0x312F, Kind.SPARSE),  # bopomofo
    (0xAC00, 0xD7A3, Kind.HANGUL),
    (0xFE0F, 0xFE0F, Kind.JOINER),  # emoji presentation
    (0xFF01, 0xFF20, Kind.PUNCTUATION),  # full-width signs and digits
    (0xFF21, 0xFF3A, Kind.SYMBOL),
    (0xFF3B, 0xFF40, Kind.PUNCTUATION),
    (0xFF41, 0xFF5A, Kind.SYMBOL),
    (0xFF5B, 0xFF65, Kind.PUNCTUATION),
    (0xFF66, 0xFF9F, Kind.SYMBOL),  # half-width kana
    (0x1F000, 0x1FA6F, Kind.EMOJI),
)
_FIRST: Final = tuple(first for first, _, _ in _RANGES)


def kind_of(code_point: int) -> Kind | None:
    """The kind of a code point; None where only its bytes say what it costs."""
    place = bisect_right(_FIRST, code_point) - 1
    if place < 0:
        return None
    _, last, kind = _RANGES[place]
    return kind if code_point <= last else None

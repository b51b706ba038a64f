"""Unicode normal forms in linear time, and full-width characters as ASCII.

A normal form sorts the marks that follow a letter. `unicodedata` does that by insertion, so a hundred thousand marks in
a row, which anybody can send, would take a minute.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final, Literal

__all__ = ("normal_form", "same_width")


_RUN: Final = 128
"""Marks in a row from which they are sorted here instead of by `unicodedata`."""
_WIDE = re.compile("[\uff04\uff05\uff0b\uff0d-\uff1a\uff20-\uff3a\uff3f\uff41-\uff5a]")
_NARROW = {
    code: code - 0xFEE0
    for first, last in ((0xFF04, 0xFF05), (0xFF0B, 0xFF0B), (0xFF0D, 0xFF1A), (0xFF20, 0xFF5A))
    for code in range(first, last + 1)
}


def normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return the same as `unicodedata.normalize`, in linear time."""
    combining = unicodedata.combining
    # A run of twice this length has a mark at one of these places and only marks up to the next.
    if len(text) > _RUN and any(map(combining, text[::_RUN])):
        stretches = (text[at : at + _RUN] for at in range(0, len(text), _RUN))
        if any(all(map(combining, stretch)) for stretch in stretches):
            text = _mark_runs().sub(_sorted_marks, text)
    return unicodedata.normalize(form, text)


@cache
def _mark_runs() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(sys.maxunicode) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{{_RUN},}}")


def _sorted_marks(run: re.Match[str]) -> str:
    """Return a run of marks in canonical order; every normal form of it stays the same."""
    marks = "".join(unicodedata.normalize("NFD", mark) for mark in run[0])
    return "".join(sorted(marks, key=unicodedata.combining))


def same_width(text: str) -> str:
    """Return `text` with full-width digits, letters and number signs as ASCII; every offset stays valid.

    Full-width commas stay, because between digits they separate items, not thousands.
    """
    return text.translate(_NARROW) if _WIDE.search(text) else text

"""Unicode normal forms in time that grows with the text.

The marks that follow one letter are sorted in a normal form. `unicodedata` moves each of them past all that stand
before it, so a hundred thousand of them, which anybody can send, take a minute.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final, Literal

__all__ = ("normal_form",)

_RUN: Final = 128
"""Marks in a row from which they are sorted here."""


def normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """What `unicodedata.normalize` gives."""
    combining = unicodedata.combining
    # A long run holds a mark at one of these places and nothing else up to the next.
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
    """A run of marks in canonical order, which is the same text to every normal form."""
    marks = "".join(unicodedata.normalize("NFD", mark) for mark in run[0])
    return "".join(sorted(marks, key=unicodedata.combining))

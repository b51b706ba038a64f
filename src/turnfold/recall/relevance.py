"""What may be brought back without being asked for.

A search always finds something; a passage that nobody asked for must have earned its tokens. It is shown when it shares
two telling terms with what the user said, or one that names something (`A-4711`, `src/app.py`, `gpt4`), or when it
stands right beside such a passage: an answer follows its question. Single characters of a script without spaces are in
every text and tell nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from turnfold.recall.terms import distinct_terms, is_character
from turnfold.records import Entry

__all__ = ("relevant_places", "speaks_of", "telling_part")

_ENOUGH = 2
"""Telling terms that a passage and a question must share."""
_BESIDE = 1
"""Places before and after one that speaks of the question that may be shown with it."""


_LONGEST_QUESTION = 8_000
"""Characters of what a user said that are looked for; of a longer text, half of them from each end."""


def telling_part(said: str) -> str:
    """What of a user's message is looked for where nobody asked for anything: all of it, or both ends of a huge one.

    Every word is looked up, so a pasted file would take minutes; what is wanted of it stands before or after it.
    """
    if len(said) <= _LONGEST_QUESTION:
        return said
    half = _LONGEST_QUESTION // 2
    return f"{said[:half]}\n{said[-half:]}"


def speaks_of(text: str, asked: Collection[str]) -> bool:
    """Whether a text shares enough with what was asked to be shown without being asked for."""
    said = distinct_terms(text)
    shared = [term for term in asked if term in said and not is_character(term)]
    return len(shared) >= _ENOUGH or any(map(_names_something, shared))


def relevant_places(
    places: Iterable[tuple[int, float]], entries: Mapping[int, Entry], asked: Sequence[str]
) -> list[tuple[int, float]]:
    """Those of `places` (seq, score) whose entries speak of what was asked, or stand beside one that does."""
    close = {
        seq + step
        for seq, entry in entries.items()
        if speaks_of(entry.message.text, asked)
        for step in range(-_BESIDE, _BESIDE + 1)
    }
    return [(seq, score) for seq, score in places if seq in close]


def _names_something(term: str) -> bool:
    # A number alone may be any number; with letters it is a name.
    return any(map(str.isdigit, term)) and any(map(str.isalpha, term))

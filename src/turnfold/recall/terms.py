"""The terms a text is found by.

Made by the application and indexed as they are, so that every backend finds the same things and no backend's own idea
of a word (which treats a Chinese sentence as one) can come between. Words are lower-cased with widths folded and lose
their grammatical endings. What is written as one (`src/app.py`, `maxTokens`, `A-4711`) is found by its parts and as a
whole. Runs of Chinese, Japanese and Korean characters give every character and every pair of neighbours, traditional
characters as simplified ones, so two-character words are found in either script. A term is plain letters and digits
only: nothing in it can be query syntax. The terms of a term are that term, so that a query may be words or terms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import add
from typing import cast

from turnfold.recall.simplified import SIMPLIFIED
from turnfold.recall.stems import stem
from turnfold.recall.stop_words import FUNCTION_CHARACTERS, STOP_WORDS
from turnfold.tokens import normal_form

__all__ = (
    "CHARACTERS",
    "EDGES",
    "LETTERS",
    "LONGEST_TERM",
    "RUN",
    "TERMS_MADE_BY",
    "WORDS",
    "asked_terms",
    "distinct_terms",
    "found_in",
    "is_character",
    "is_cjk",
    "plain_text",
    "terms_of",
    "terms_of_run",
    "terms_of_words",
)

LONGEST_TERM = 64
"""Longer runs (hashes, base64) are indexed by their beginning."""
TERMS_MADE_BY = f"2/{unicodedata.unidata_version}"
"""The version of these rules, and of the tables of characters this Python has: another may give other terms."""

_CJK = (
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002fa1f\U00030000-\U000323af"
)
_WORD = rf"[^\W_{_CJK}]+"
CHARACTERS = re.compile(rf"[{_CJK}]+")
"""A run of characters that are written without spaces."""
WORDS = re.compile(rf"{_WORD}(?:[-_./\\:@#'’]{{1,2}}{_WORD})*")
"""Words joined by signs."""
RUN = re.compile(f"{CHARACTERS.pattern}|{WORDS.pattern}")
"""What is written as one: either of them."""
EDGES = re.compile(rf"([{_CJK}])?({_WORD})(?=([{_CJK}])?)")
"""One word, with the character right before it and the one right after it."""
LETTERS = re.compile(_WORD)
"""One word of those."""
_FIRST_CJK = "\u3041"
_IS_CJK = re.compile(rf"[{_CJK}]")
_TO_BE_NORMALIZED = re.compile(r"[^\x00-\x7f\u4e00-\u9fff，。、；！？（）“”]")
"""What may change when widths and forms are made one, in a way that matters: not signs that never join words."""
_TRADITIONAL = re.compile(f"[{''.join(map(chr, SIMPLIFIED))}]")
_CONTRACTED = re.compile(
    r"(?<=[^\W_])['’](?:s|re|ll|ve|d|m)(?![^\W_])|(?<=n)['’](?=t(?![^\W_]))", re.IGNORECASE
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SHORTEST_HUMP = 2
_LONG_TEXT = 1_000_000
_SPACE = re.compile(r"\s")


def terms_of(text: str) -> list[str]:
    """The terms of a text in order, with repetitions; of a query likewise."""
    terms: list[str] = []
    for run in RUN.findall(plain_text(text)):
        if is_cjk(run):
            terms.extend(run)
            terms.extend(map(add, run, run[1:]))
        else:
            terms.extend(terms_of_words(run))
    return terms


def terms_of_run(run: str) -> Sequence[str]:
    """The terms of what is written as one in a plain text."""
    return [*run, *map(add, run, run[1:])] if is_cjk(run) else terms_of_words(run)


def distinct_terms(text: str) -> set[str]:
    """The terms of a text without their order and repetitions; each word of it is looked at once."""
    terms: set[str] = set()
    for run in set(found_in(RUN, plain_text(text))):
        terms.update(terms_of_run(run))
    return terms


def found_in(pattern: re.Pattern[str], text: str) -> Iterable[str]:
    """Everything that a pattern without spaces finds.

    A long text is looked through in stretches: a list of all that is found would take ten times its memory.
    """
    if len(text) <= _LONG_TEXT:
        return _found(pattern, text, 0, len(text))
    return chain.from_iterable(_found(pattern, text, *stretch) for stretch in _stretches(text))


def _found(pattern: re.Pattern[str], text: str, start: int, stop: int) -> list[str]:
    return cast("list[str]", pattern.findall(text, start, stop))


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Where a long text begins, and where it is cut, at spaces, and ends."""
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + _LONG_TEXT)
        stop = space.end() if space else len(text)
        yield start, stop
        start = stop


def plain_text(text: str) -> str:
    """A text as terms are made of it: widths and forms made one, contractions undone, characters simplified."""
    # Looking whether there is anything to do is ten times as fast as doing it.
    plain = normal_form("NFKC", text) if _TO_BE_NORMALIZED.search(text) else text
    if "'" in plain or "’" in plain:
        plain = _CONTRACTED.sub("", plain)
    return plain.translate(SIMPLIFIED) if _TRADITIONAL.search(plain) else plain


def terms_of_words(run: str) -> Sequence[str]:
    """The terms of words that are written as one."""
    return _known_words(run) if len(run) <= LONGEST_TERM else tuple(_words(run))


def asked_terms(query: str) -> list[str]:
    """The distinct terms to search by: those of the query that say something, or all where none does."""
    asked = list(dict.fromkeys(terms_of(query)))
    # Latin letters in a Chinese question are a name: 维生素A.
    idle = frozenset[str]() if any(map(_IS_CJK.match, asked)) else _STOP_TERMS
    told = [term for term in asked if term not in idle and not FUNCTION_CHARACTERS.issuperset(term)]
    return told or asked


def is_cjk(run: str) -> bool:
    """Whether a run is of a script that writes words without spaces."""
    return run[0] >= _FIRST_CJK and _IS_CJK.match(run) is not None


def is_character(term: str) -> bool:
    """Whether a term is a single character of a script that writes words without spaces."""
    return len(term) == 1 and term >= _FIRST_CJK and _IS_CJK.match(term) is not None


@lru_cache(maxsize=1 << 14)
def _known_words(run: str) -> tuple[str, ...]:
    return tuple(_words(run))


def _words(run: str) -> Iterator[str]:
    """The words written together in `run`, and, where they are several, the whole without its signs."""
    parts = LETTERS.findall(run)
    words = [word for part in parts for word in _folded(part)]
    yield from map(_term, words)
    for part in parts:
        humps = _HUMP.split(part)
        if len(humps) > 1:
            small = [word for hump in humps for word in _folded(hump)]
            yield from (_term(word) for word in small if len(word) >= _SHORTEST_HUMP)
    whole = "".join(words)
    joined = len(words) > 1 and len(whole) <= LONGEST_TERM
    if joined and unicodedata.is_normalized("NFKC", whole):
        yield _term(whole)


def _folded(part: str) -> list[str]:
    # Folding case may bring forth marks, which are no letters.
    return LETTERS.findall(part.casefold())


def _term(word: str) -> str:
    return stem(word[:LONGEST_TERM])


_STOP_TERMS = frozenset(map(stem, STOP_WORDS))

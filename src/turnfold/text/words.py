"""Words of a text: the terms search indexes, and the content words folding (compaction) compares sentences by.

Search terms are made here and indexed as they are, so that every backend finds the same things, whatever its own idea
of a word is (many treat a Chinese sentence as one word). Words are lower-cased, their width is made one, and they lose
their grammatical endings. Compounds (`src/app.py`, `maxTokens`, `A-4711`) are found by their parts and as a whole. Runs
of Chinese, Japanese and Korean characters give every character and every pair of neighbours, traditional characters as
simplified ones, so two-character words are found in either script. A term is letters and digits only: nothing in it can
be query syntax. The terms of a term are that term, so that a query may be words or terms.

Content words are lightly stemmed English words without stop words, and pairs of neighbouring CJK characters; they are
never stored, only compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from operator import add
from typing import cast

from turnfold.text.chinese import SIMPLIFIED
from turnfold.text.cjk import CJK_LETTERS, CJK_TEXT, FIRST_CJK_LETTER
from turnfold.text.stems import light_stem, stem
from turnfold.text.stop_words import (
    FOLD_FUNCTION_CHARACTERS,
    FOLD_STOP_WORDS,
    SEARCH_FUNCTION_CHARACTERS,
    SEARCH_STOP_WORDS,
)
from turnfold.text.unicode import normal_form

__all__ = (
    "CHARACTERS",
    "EDGES",
    "LETTERS",
    "RUN",
    "TERMS_MADE_BY",
    "WORDS",
    "content_terms",
    "distinct_terms",
    "found_in",
    "is_character",
    "is_cjk",
    "plain_text",
    "search_terms",
    "terms_of",
    "terms_of_run",
    "terms_of_words",
)


_LONGEST_TERM = 64
"""Longer words (hashes, base64) are indexed by their beginning."""
TERMS_MADE_BY = f"2/{unicodedata.unidata_version}"
"""Version of these rules and of Python's Unicode tables: terms made by another version may differ."""

_WORD = rf"[^\W_{CJK_LETTERS}]+"
CHARACTERS = re.compile(rf"[{CJK_LETTERS}]+")
"""A run of CJK characters, which are written without spaces."""
WORDS = re.compile(rf"{_WORD}(?:[-_./\\:@#'’]{{1,2}}{_WORD})*")
"""Words joined by signs: a path, an identifier, an e-mail address."""
RUN = re.compile(f"{CHARACTERS.pattern}|{WORDS.pattern}")
"""A run without spaces: CJK characters, or words joined by signs."""
EDGES = re.compile(rf"([{CJK_LETTERS}])?({_WORD})(?=([{CJK_LETTERS}])?)")
"""One word, with the CJK character right before it and the one right after it."""
LETTERS = re.compile(_WORD)
"""One word."""
_IS_CJK = re.compile(rf"[{CJK_LETTERS}]")
_TO_BE_NORMALIZED = re.compile(r"[^\x00-\x7f\u4e00-\u9fff，。、；！？（）“”]")
"""Characters that NFKC may change in a way that matters; signs that never join words do not."""
_TRADITIONAL = re.compile(f"[{''.join(map(chr, SIMPLIFIED))}]")
_CONTRACTED = re.compile(
    r"(?<=[^\W_])['’](?:s|re|ll|ve|d|m)(?![^\W_])|(?<=n)['’](?=t(?![^\W_]))", re.IGNORECASE
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SHORTEST_HUMP = 2
_LONG_TEXT = 1_000_000
_CONTENT_WORD = re.compile(rf"[{CJK_TEXT}]+|[^\W\d_{CJK_TEXT}]+(?:['’-][^\W\d_{CJK_TEXT}]+)*")
_SPACE = re.compile(r"\s")


def terms_of(text: str) -> list[str]:
    """Return the search terms of a text or query in order, with repetitions."""
    terms: list[str] = []
    for run in RUN.findall(plain_text(text)):
        terms.extend(terms_of_run(run))
    return terms


def terms_of_run(run: str) -> Sequence[str]:
    """Return the terms of one run (see `RUN`) of a plain text."""
    return [*run, *map(add, run, run[1:])] if is_cjk(run) else terms_of_words(run)


def distinct_terms(text: str) -> set[str]:
    """Return the distinct terms of a text; each distinct word is analysed once."""
    terms: set[str] = set()
    for run in set(found_in(RUN, plain_text(text))):
        terms.update(terms_of_run(run))
    return terms


def found_in(pattern: re.Pattern[str], text: str) -> Iterable[str]:
    """Yield all matches of a pattern that matches no spaces.

    A long text is searched in stretches: a list of all matches would take ten times its memory.
    """
    if len(text) <= _LONG_TEXT:
        return _found(pattern, text, 0, len(text))
    return chain.from_iterable(_found(pattern, text, *stretch) for stretch in _stretches(text))


def _found(pattern: re.Pattern[str], text: str, start: int, stop: int) -> list[str]:
    return cast("list[str]", pattern.findall(text, start, stop))


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the stretches of a long text, cut at spaces."""
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + _LONG_TEXT)
        stop = space.end() if space else len(text)
        yield start, stop
        start = stop


def plain_text(text: str) -> str:
    """Return the text that terms are made of: NFKC, without contractions, with simplified characters."""
    # Checking whether there is anything to do is ten times as fast as doing it.
    plain = normal_form("NFKC", text) if _TO_BE_NORMALIZED.search(text) else text
    if "'" in plain or "’" in plain:
        plain = _CONTRACTED.sub("", plain)
    return plain.translate(SIMPLIFIED) if _TRADITIONAL.search(plain) else plain


def terms_of_words(run: str) -> Sequence[str]:
    """Return the terms of words written as one (see `WORDS`)."""
    return _known_words(run) if len(run) <= _LONGEST_TERM else tuple(_words(run))


def search_terms(query: str) -> list[str]:
    """Return the distinct terms of a query without stop words; all of them if there are no others."""
    terms = list(dict.fromkeys(terms_of(query)))
    # Latin letters in a Chinese query are a name: 维生素A.
    stop_terms = frozenset[str]() if any(map(_IS_CJK.match, terms)) else _STOP_TERMS
    telling = [
        term
        for term in terms
        if term not in stop_terms and not SEARCH_FUNCTION_CHARACTERS.issuperset(term)
    ]
    return telling or terms


def is_cjk(run: str) -> bool:
    """Return True if a run begins with a character of a script written without spaces."""
    return run[0] >= FIRST_CJK_LETTER and _IS_CJK.match(run) is not None


def is_character(term: str) -> bool:
    """Return True if a term is a single character of a script written without spaces."""
    return len(term) == 1 and is_cjk(term)


def content_terms(text: str) -> list[str]:
    """Return the stems of the content words of `text` and pairs of its CJK characters, in order, with repeats."""
    terms: list[str] = []
    for match in _CONTENT_WORD.finditer(text):
        word = match[0]
        if "\u3040" <= word[0] <= "\ud7af" or word[0] >= "\uf900":
            terms.extend(_pairs(word))
        else:
            lowered = word.lower().replace("’", "'")
            if len(lowered) > 1 and lowered not in FOLD_STOP_WORDS:
                terms.append(light_stem(lowered))
    return terms


def _pairs(run: str) -> list[str]:
    if len(run) == 1:
        return [] if run in FOLD_FUNCTION_CHARACTERS else [run]
    return [
        first + second
        for first, second in pairwise(run)
        if first not in FOLD_FUNCTION_CHARACTERS and second not in FOLD_FUNCTION_CHARACTERS
    ]


@lru_cache(maxsize=1 << 14)
def _known_words(run: str) -> tuple[str, ...]:
    return tuple(_words(run))


def _words(run: str) -> Iterator[str]:
    """Yield the words of a compound and, if there are several, the whole without its signs."""
    parts = LETTERS.findall(run)
    words = [word for part in parts for word in _folded(part)]
    yield from map(_term, words)
    for part in parts:
        humps = _HUMP.split(part)
        if len(humps) > 1:
            small = [word for hump in humps for word in _folded(hump)]
            yield from (_term(word) for word in small if len(word) >= _SHORTEST_HUMP)
    whole = "".join(words)
    joined = len(words) > 1 and len(whole) <= _LONGEST_TERM
    if joined and unicodedata.is_normalized("NFKC", whole):
        yield _term(whole)


def _folded(part: str) -> list[str]:
    # Case folding may produce marks, which are no letters.
    return LETTERS.findall(part.casefold())


def _term(word: str) -> str:
    return stem(word[:_LONGEST_TERM])


_STOP_TERMS = frozenset(map(stem, SEARCH_STOP_WORDS))

"""Splits a sentence into clauses and compares what they name, in English and Chinese."""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.topics import rule_terms

__all__ = (
    "DENIES",
    "LEADING",
    "LIGHT_VERBS",
    "LIGHT_WORDS",
    "LONGEST",
    "clauses_of",
    "denies",
    "key_of",
    "keys_of",
    "nouns_of",
    "only_in_first",
    "share_words",
    "shared_beginning",
    "units_of",
)


_MEASURES = frozenset("个条元块次份位万千台张件")
LONGEST = 160
"""Most characters of a sentence that are compared; the rest is ignored."""
_STEM = 3
_AMOUNT_OR_SIZE = late_pattern(r"\d+|\b[A-Z]{1,3}\b")
_CLAUSE = late_pattern(
    r"[，；。！？：]\s*|[,;](?!\d)\s*|[.:!?](?=\s|$)\s*|\s+[-–—]+\s+|\s+(?:so|because|since|and|but)\s+",
    re.IGNORECASE,
)
DENIES = late_pattern(
    r"不(?:可以|能|行|许|准|让|要|得|用)|(?<![级特区类性个分识])别(?![的人处名])|禁止|严禁|没法"
    r"|\b(?:not|never|n't|cannot|no\s+longer)\b|n't\b",
    re.IGNORECASE,
)
LIGHT_VERBS = frozenset("放加吃喝用买打给坐走上来做发看开拍装请点留订选找住穿带碰动办弄去联系自己")
"""Verbs that do not say what is permitted ("do", "make"), if a noun of the prohibition stands with them."""
LIGHT_WORDS = frozenset(
    "use get order hire take have put go buy =call tell write change arrange plan".split()
)
LEADING = late_pattern(
    r"^(?:\W|(?:那|就|这|我们?的?|咱们?的?|老大说了?|等等|算了|不过|但是?|可是|刚才|目前|现在|(?i:but|so|well|sorry|actually|ok(?:ay)?|the|our|my|hmm|no)\b))+"
)


@lru_cache(maxsize=4096)
def units_of(text: str) -> frozenset[str]:
    """Return the words (Chinese: single characters) and values that a text names."""
    terms = rule_terms(text)
    words = {term for term in terms.scope if term[0] != "@"}
    parts = {
        part for term in words for part in ([term] if term.isascii() or term[0] == "=" else term)
    }
    return frozenset((parts | set(terms.value)) - _MEASURES)


@lru_cache(maxsize=4096)
def nouns_of(text: str) -> frozenset[str]:
    """Return the words that a text names; of Chinese, its pairs of characters and its words that have synonyms."""
    return frozenset(
        term
        for term in rule_terms(text).scope
        if term[0] != "@" and (len(term) > 1 or not term.isascii())
    )


@lru_cache(maxsize=4096)
def clauses_of(text: str) -> tuple[str, ...]:
    """Return the clauses of a sentence, without the signs between them."""
    parts = _CLAUSE.split(text[:LONGEST])
    return tuple(clause.strip() for clause in parts if clause and clause.strip())


@lru_cache(maxsize=4096)
def denies(text: str) -> bool:
    """Return True if a clause denies or forbids something."""
    return DENIES.search(text) is not None


def key_of(unit: str) -> str:
    """Return the beginning of a word, which all its forms share; a Chinese character unchanged."""
    return unit[:_STEM] if unit.isascii() else unit


@lru_cache(maxsize=4096)
def keys_of(text: str) -> frozenset[str]:
    """Return keys (beginnings of words, amounts) of a sentence; sentences about the same thing share some of them."""
    return frozenset(map(key_of, units_of(text))) | frozenset(_AMOUNT_OR_SIZE.findall(text))


def share_words(first: str, second: str) -> bool:
    """Return True if two sentences have a word or an amount in common; otherwise they need not be compared."""
    return not keys_of(first).isdisjoint(keys_of(second))


def _alike(first: str, second: str) -> bool:
    """Return True if two English words have the same stem: "texting", "text"."""
    if first == second:
        return True
    if not (first.isascii() and second.isascii() and first.isalpha() and second.isalpha()):
        return False
    short, long = sorted((first, second), key=len)
    return (
        len(short) >= 4
        and long.startswith(short[:-1] if short[-1] in "ey" else short)
        and len(long) - len(short) <= 4
    )


def only_in_first(first: frozenset[str] | set[str], second: frozenset[str] | set[str]) -> set[str]:
    """Return the units (words, values) of the first set that the second set has in no form."""
    rest = first - second
    return {each for each in rest if not any(_alike(each, other) for other in second)}


def shared_beginning(clause: str, earlier: str) -> str:
    """Return the first two or more characters of a clause that an earlier sentence has too: 书房就放张沙发床."""
    length = next(
        (size for size in range(min(len(clause), 8), 1, -1) if clause[:size] in earlier), 0
    )
    return clause[:length] if nouns_of(clause[:length]) else ""

"""Long runs of CJK characters, and long texts without spaces, have the terms of short ones."""

from __future__ import annotations

import pytest

from turnfold._caches import SizedCache
from turnfold.search import term_matches
from turnfold.search.term_matches import QueryTerms
from turnfold.text import distinct_terms, is_character, terms_of, words
from turnfold.tokens import estimate

CHINESE = "".join(chr(0x4E00 + number * 11 % 97) for number in range(200))
TEXTS = [CHINESE, "1%" * 100, f"{CHINESE} word {CHINESE[::-1]}x", "好" * 60]


@pytest.mark.parametrize("length", [1, 2, 7, 59, 60, 61])
@pytest.mark.parametrize("text", TEXTS)
def test_in_pieces_the_terms_are_the_same(
    text: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = QueryTerms(terms_of(text) + [f"{chr(0x5E00 + number)}" for number in range(200)])
    counts, terms = query.count_in(text).counts, set(terms_of(text))
    assert len(query._characters) > term_matches._FEW, "all terms of a text are counted"
    monkeypatch.setattr(term_matches, "_counted_texts", SizedCache(limit=1_000))
    monkeypatch.setattr(words, "_LONG_TEXT", length)
    monkeypatch.setattr(words, "_LONG_RUN", length)
    monkeypatch.setattr(term_matches, "_LONG", length)
    monkeypatch.setattr(term_matches, "_LONG_RUN", length)
    assert distinct_terms(text) == terms
    assert query.count_in(text).counts == counts
    monkeypatch.setattr(term_matches, "_counted_texts", SizedCache(limit=1_000))


@pytest.mark.parametrize("length", [1, 2, 7, 59])
@pytest.mark.parametrize("text", [*TEXTS, "plain words", ""])
def test_in_pieces_the_rule_of_thumb_is_the_same(
    text: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = estimate.formula_tokens(text)
    cjk = sum(is_character(each) for each in text)
    assert whole == cjk * 3 // 2 + (len(text) - cjk) // 4 + 4
    monkeypatch.setattr(estimate, "_PIECE", length)
    assert estimate.formula_tokens(text) == whole

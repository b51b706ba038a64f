"""What a text is found by: words in any script, two-character words of Chinese, and never a sign."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from turnfold.recall import terms_of


def test_words_are_folded_and_chinese_gives_every_pair() -> None:
    assert terms_of("Ｈello, WORLD-42!") == ["hello", "world", "42"]
    assert terms_of("连接池") == ["连", "接", "池", "连接", "接池"]
    assert terms_of("ジョン・スミス")[-2:] == ["スミ", "ミス"]


@given(st.text())
@example("ジョン・スミス゠か゛")
def test_no_term_holds_a_sign_a_space_or_a_mark(text: str) -> None:
    signs = [c for term in terms_of(text) for c in term if unicodedata.category(c)[0] in "PSZM"]
    assert signs == []
    assert "" not in terms_of(text)


@given(st.text())
def test_terms_of_terms_are_the_same_terms(text: str) -> None:
    once = set(terms_of(text))
    assert set(terms_of(" ".join(once))) == once

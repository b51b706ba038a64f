"""What a text is found by: words in any script, two-character words of Chinese, and never a sign."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tools import han_table
from turnfold.text import SIMPLIFIED, is_character, search_terms, terms_of
from turnfold.text.words import SEARCH_STOP_WORDS, stem

# Letters that belong together in odd ways: marks, jamo, capitals that fold to two letters, signs that join words.
odd_texts = st.text(alphabet="aAßİiſéΑάһ'’-_./:@ 4²㎏ﬁ각ᄀ\u1161\u11a8中國国ｶﾞがs\u0301\u19b0t")


def test_words_are_folded_and_chinese_gives_every_pair() -> None:
    assert terms_of("Ｈello, WORLD-42!") == ["hello", "world", "42", "world42"]
    assert terms_of("连接池") == ["连", "接", "池", "连接", "接池"]
    assert terms_of("ジョン・スミス")[-2:] == ["スミ", "ミス"]


@settings(deadline=None)
@given(st.one_of(st.text(), odd_texts))
@example("ジョン・スミス゠か゛")
@example("İstanbulCity")
def test_no_term_holds_a_sign_a_space_or_a_mark(text: str) -> None:
    signs = [c for term in terms_of(text) for c in term if unicodedata.category(c)[0] in "PSZM"]
    assert signs == []
    assert "" not in terms_of(text)


@settings(deadline=None)
@given(st.one_of(st.text(), odd_texts))
@example("ᄀ-\u1161")
@example("paintings' housing pleased addresses")
def test_terms_of_terms_are_the_same_terms(text: str) -> None:
    once = set(terms_of(text))
    assert set(terms_of(" ".join(once))) == once


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(), odd_texts), max_size=4))
def test_words_apart_have_the_terms_of_each(texts: list[str]) -> None:
    apart = [text.replace(" ", "") for text in texts]
    together = set(terms_of(" \n ".join(apart)))
    assert together == {term for text in apart for term in terms_of(text)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("paintings", "painted"),
        ("hiking", "hikes"),
        ("studies", "studying"),
        ("went", "go"),
        ("children", "child"),
        ("Caroline's", "Caroline"),
        ("don’t", "DON'T"),
        ("e-mail", "email"),
        ("GPT-4", "gpt4"),
        ("max_tokens", "maxTokens"),
        ("機器學習", "机器学习"),
        ("ＡＢＣ", "abc"),
    ],
)
def test_two_spellings_of_one_thing_share_a_term(one: str, other: str) -> None:
    longest = max(terms_of(one), key=len)
    assert longest in terms_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("care", "cars"), ("plane", "plans"), ("cat", "concatenate"), ("string", "stir")],
)
def test_different_words_stay_apart(one: str, other: str) -> None:
    assert not set(terms_of(one)) & set(terms_of(other))


def test_an_identifier_is_found_by_its_parts_and_as_a_whole() -> None:
    assert set(terms_of("src/app/main.py")) == {"src", "app", "main", "py", "srcappmainpy"}
    assert {"http", "server", "httpserver"} <= set(terms_of("HTTPServer"))
    assert {"snake", "case", "id"} <= set(terms_of("snake_case_id"))


def test_a_question_is_asked_without_the_words_that_say_nothing() -> None:
    assert search_terms("When did Caroline go to the group?") == ["carolin", "go", "group"]
    assert search_terms("The Who") == ["the", "who"]
    assert "什么" not in search_terms("我的狗叫什么名字")
    assert {"狗", "名字"} <= set(search_terms("我的狗叫什么名字"))
    assert "a" in search_terms("维生素A")
    assert search_terms("什么") == terms_of("什么")


@settings(deadline=None)
@given(st.text())
def test_a_question_that_holds_a_term_is_asked_by_terms_it_holds(text: str) -> None:
    asked = search_terms(text)
    assert set(asked) <= set(terms_of(text))
    assert bool(asked) == bool(terms_of(text))
    assert len(asked) == len(set(asked))


def test_the_tables_lead_nowhere_twice() -> None:
    assert not {ord(simple) for simple in SIMPLIFIED.values()} & SIMPLIFIED.keys()
    assert len(SIMPLIFIED) > 2_500
    words = [*SEARCH_STOP_WORDS, "taken", "wives", "drunk", "begun"]
    assert [word for word in words if stem(stem(word)) != stem(word)] == []


def test_a_character_is_told_from_a_letter_and_a_word() -> None:
    assert [is_character(term) for term in ("狗", "か", "a", "狗叫", "4", "é")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_the_tool_writes_the_table_of_characters_where_search_reads_it() -> None:
    source = "".join(f"{chr(key)}\t{value}\n" for key, value in SIMPLIFIED.items())
    assert han_table.module_text(source) == han_table.TARGET.read_text(encoding="utf-8")

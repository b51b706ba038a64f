"""What a text holds of a question: the counts that making all its terms would give, and what stands together."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnfold.search import QueryTerms
from turnfold.search import term_matches as held_terms
from turnfold.text import search_terms, terms_of
from turnfold.text import words as terms

odd_texts = st.text(
    alphabet="aAßİiſéх'’-_./:@：．，。（） 4²㎏ﬁ각ᄀ\u1161\u11a8中國国中ｶﾞがs\u0301t", max_size=40
)
texts = st.one_of(st.text(max_size=40), odd_texts)


def counted(text: str, asked: list[str]) -> tuple[dict[str, int], int]:
    every = Counter(terms_of(text))
    return {term: every[term] for term in asked if term in every}, every.total()


@settings(deadline=None)
@given(texts, texts, st.integers(0, 3))
@example("哈哈哈哈", "哈哈", 9)
@example("X线CT检查", "做CT检查，X线", 9)
@example("src/app.py maxTokens maxTokens", "max tokens", 9)
def test_the_counts_are_those_of_all_terms(said: str, question: str, few: int) -> None:
    asked = sorted({*terms_of(question), *terms_of(said[:5])})
    before = held_terms._FEW
    try:
        for most in (before, few):
            held_terms._FEW = most
            held = QueryTerms(asked).count_in(said)
            assert (held.counts, held.length) == counted(said, asked)
    finally:
        held_terms._FEW = before


def test_a_count_that_passes_over_neighbours_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_terms, "_overlapping", str.count)
    held = QueryTerms(["哈哈"]).count_in("哈哈哈")
    assert held.counts != counted("哈哈哈", ["哈哈"])[0]


SAFE = st.text(alphabet="ab1 :.-_'’中文字，。、；！？（）“”：．０Ａ①", max_size=30)


@settings(deadline=None)
@given(st.one_of(SAFE, texts))
@example("a：b")
@example("中，a（b）“c”")
def test_what_is_not_normalised_would_give_the_same_terms(text: str) -> None:
    found = terms_of(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "_TO_BE_NORMALIZED", re.compile(""))
        patch.setattr(terms, "_TRADITIONAL", re.compile(""))
        assert terms_of(text) == found


def test_leaving_out_a_sign_that_joins_words_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = terms_of("a：b")
    monkeypatch.setattr(terms, "_TO_BE_NORMALIZED", re.compile("(?!)"))
    assert terms_of("a：b") != found


HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 3_000)))
TOGETHER = (
    ("中医科", "请到中医科就诊"),
    ("中醫科", "请到中医科就诊"),
    ("X线", "做一个X线检查"),
    ("CT检查", "做ct检查"),
    ("维生素B", "吃维生素B"),
    ("我最近经常头痛" * 8, "我最近经常头痛" * 8),
)
APART = (
    ("中医科", "中医认为可以看皮肤医科"),
    ("X线", "X光和红外线"),
    ("CT检查", "检查以后做CT"),
    ("药", "吃药"),
    ("green cupboard", "the green cupboard"),
    ("头痛 发烧", "头痛和发烧"),
    (HAN[:40], HAN[:40]),
)


def held_together(question: str, said: str) -> bool:
    return QueryTerms(sorted(set(terms_of(question)))).count_in(said).together


@pytest.mark.parametrize(("question", "said"), TOGETHER)
def test_all_of_a_question_stands_together(question: str, said: str) -> None:
    assert held_together(question, said)


@pytest.mark.parametrize(("question", "said"), APART)
def test_what_stands_apart_or_is_one_or_too_much_does_not(question: str, said: str) -> None:
    assert not held_together(question, said)


def test_a_long_question_is_no_square_of_work() -> None:
    asked = QueryTerms(search_terms(HAN))
    assert asked._triples == set()


@given(texts, st.lists(st.integers(0, 20), max_size=3))
@example("Hiking the cities, runs and ran", [0, 3])
def test_a_word_that_is_ruled_out_has_none_of_the_terms(text: str, kept: list[int]) -> None:
    runs = terms.WORDS.findall(terms.plain_text(text))
    every = [term for run in runs for term in terms.terms_of_words(run)]
    asked = {every[place % len(every)] for place in kept if every}
    for run in filter(terms.WantedTerms(asked).rules_out, runs):
        (only,) = terms.terms_of_words(run)
        assert only not in asked


ENDINGS = ["", "s", "e", "y", "es", "ed", "ing", "ies", "ied", "ings", "eds", "edes", "eeds", "yed"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_word_is_ruled_out_that_has_a_wanted_stem(ending: str) -> None:
    letters = "abesyinz"
    bases = [a + b + c + d for a in "bes" for b in letters for c in letters for d in ["", *letters]]
    irregular = [*terms._IRREGULAR, "Children", "feet"]
    for word in [*(base + ending for base in bases), *irregular]:
        assert not terms.WantedTerms([terms.stem(word.casefold())]).rules_out(word)


def test_few_words_of_a_long_text_are_split_into_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    split: list[str] = []
    monkeypatch.setattr(held_terms, "terms_of_words", lambda run: split.append(run) or (run,))
    text = " ".join(f"{word}{number}" for number in range(5_000) for word in "abcd")
    held = QueryTerms(["b17", "q", "ferry"]).count_in(f"{text} Ferries")
    assert held.counts == {"b17": 1}
    assert held.length == 20_001
    assert split == ["b17", "Ferries"]

"""Long texts are searched as short ones are, each word of them looked at once, in linear time."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.search import QueryTerms, snippet, telling_part
from turnfold.search import term_matches as held_terms
from turnfold.search.recalled_passages import excerpt
from turnfold.search.term_matches import occurrences
from turnfold.text import (
    CHARACTERS,
    EDGES,
    LETTERS,
    RUN,
    WORDS,
    distinct_terms,
    search_terms,
    terms_of,
)
from turnfold.text import words as terms_module

PIECES = (
    "deploy", "Deployed", "src/app.py", "maxTokens", "A-4711", "don't", "会议决定", "發佈日期", "ＣＴ检查",
    "e\u0301tat", " ", ". ", "\n", "，", "x's's", "aa", "的的的",
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=60)
ASKED = ["deploi", "deploy", "app", "maxtokens", "a4711", "决定", "发布", "ct", "的的", "aa", "x"]


@given(texts)
def test_distinct_terms_are_the_terms(text: str) -> None:
    assert distinct_terms(text) == set(terms_of(text))


@given(texts)
def test_a_long_text_holds_what_a_short_one_does(text: str) -> None:
    asked = QueryTerms(ASKED)
    with pytest.MonkeyPatch.context() as patch:
        short = asked.count_in(text)
        patch.setattr(held_terms, "_LONG", 0)
        patch.setattr(terms_module, "_LONG_TEXT", 0)
        assert asked.count_in(text) == short
        assert distinct_terms(text) == set(terms_of(text))


@given(texts, st.integers(1, 40))
def test_an_excerpt_is_around_the_sentence_that_holds_most(text: str, limit: int) -> None:
    found = excerpt(text, ASKED, limit, len)
    assert len(found) <= limit
    if len(text) <= limit:
        assert found == text


@pytest.mark.parametrize(
    ("usual", "told", "asked"),
    [
        ("The order of the crates is open. ", "The ferry sank. ", "order crates ferry"),
        ("订单里的货物还没有到。", "渡轮沉了。", "订单 货物 渡轮"),
    ],
    ids=["en", "zh"],
)
@pytest.mark.parametrize("place", [0, 17, 39])
def test_an_excerpt_is_around_the_rare_word(usual: str, told: str, asked: str, place: int) -> None:
    """A word of every sentence tells nothing about one of them, however many such words there are."""
    text = "".join(told if at == place else usual for at in range(40))
    assert told.strip() in excerpt(text, search_terms(asked), 3 * len(usual), len)


@pytest.mark.parametrize(
    "text", ["ok " * 40_000, "决定 " * 40_000, "的" * 90_000, "a-" * 60_000, "决定a" * 30_000]
)
def test_no_call_collects_all_words_of_a_long_text(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one call runs, no other thread does: a service answers nobody for a tenth of a second per megabyte."""
    longest = 0
    for pattern in (CHARACTERS, EDGES, LETTERS, RUN, WORDS):

        def findall(part: str, real: Callable[[str], list[Any]] = pattern.findall) -> list[Any]:
            nonlocal longest
            longest = max(longest, len(part))
            return real(part)

        monkeypatch.setattr(pattern, "findall", findall)
    for asked in (["ok", "deploy"], ["决", "定", "决定", "a"]):
        distinct_terms(text)
        terms_of(text)
        QueryTerms(asked).count_in(text)
        excerpt(text, asked, 100, len)
        snippet(text, asked)
    assert longest <= 20_000


def test_an_excerpt_of_a_huge_text_is_counted_about_as_long_as_it_is() -> None:
    asked: list[int] = []

    def count(text: str) -> int:
        asked.append(len(text))
        return len(text) // 4

    text = "Nothing happened here. " * 20_000 + "The deploy failed. " + "Nor here. " * 20_000
    found = excerpt(text, ["deploi", "deploy"], 200, count)
    assert "The deploy failed." in found
    assert max(asked) < 20_000


def test_both_ends_of_a_huge_question_are_looked_for() -> None:
    pasted = "".join(random.Random(1).choices("abc ", k=100_000))  # noqa: S311 - repeatable
    part = telling_part(f"Why did this deploy fail? {pasted} 请解释原因。")
    assert part.startswith("Why did this deploy fail?")
    assert part.endswith("请解释原因。")
    assert len(part) == 8_001
    assert telling_part("Why? 为什么？") == "Why? 为什么？"


_LINEAR = """
import sys
from turnfold.search import QueryTerms
from turnfold.text import distinct_terms
from turnfold.search.recalled_passages import excerpt
from turnfold.findings import cut_text
from turnfold.findings import pick_excerpt
from turnfold.text import has_relative_time
from turnfold.text import is_path
from turnfold.text import paths_in
from turnfold.search import snippet
size = int(sys.argv[1])
asked = QueryTerms(["deploy", "决定"])
for unit, end in {texts!r}:
    text = (unit * (size // len(unit)))[:size] + end
    distinct_terms(text)
    asked.count_in(text)
    excerpt(text, ["deploy"], 100, len)
    snippet(text, ["deploy"])
    cut_text(text, 100, len, mark="...")
    pick_excerpt(text, 100, len, mark="...", terms=["deploy"])
    paths_in(text)
    is_path(text)
    has_relative_time(text)
"""
ONCE_QUADRATIC = [
    (".", "x"), ("?", ""), ("?!", "\n"), ("\u0301\u0323", ""), ("三", "个人"), ("12", "x"),
]  # fmt: skip
UNITS = [
    "1%", "a.", "a-", "a_", "a/", "/", "..", "a'", "'s", "n't ", "aB", "AB", "@", "#a", "::", "\\", "的", "的a",
    "。", "…", " ", "\n", "\t", "a ", "a\t", "| ", "<tr>", "<tr", "</tr ", "{", "[1,",
    "1", "三", "三天", "few ", "in the next ", "\u0301", "e\u0301", "ｱﾞ", "發", "😀", "http://",
]  # fmt: skip


def run(texts: list[tuple[str, str]], size: int, seconds: int) -> None:
    """In a process of its own, which is stopped long after linear time and long before quadratic time is over."""
    script = _LINEAR.format(texts=texts)
    subprocess.run([sys.executable, "-c", script, str(size)], check=True, timeout=seconds)


def test_texts_that_once_took_quadratic_time_do_not() -> None:
    run(ONCE_QUADRATIC, 200_000, 60)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "x", " A", "\n"])
def test_no_repetition_takes_quadratic_time(end: str) -> None:
    run([(unit, end) for unit in UNITS], 200_000, 600)


def test_occurrences_of_a_word_are_found_each_time() -> None:
    text = "deploy the deployed src/deploy.py; deploy " * 50
    assert len(occurrences(text, ["deploi", "deploy"])) == 200

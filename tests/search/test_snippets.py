"""What is shown of something found: a stretch of the text itself, with what was asked for marked, in any script."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.errors import InvalidOption
from turnfold.search import Snippet, snippet
from turnfold.search.term_matches import occurrences
from turnfold.text import search_terms, terms_of

MARKED = [
    ("The budgets were tight", "budget", "The [budgets] were tight"),
    ("running late", "run", "[running] late"),
    ("ｂｕｄｇｅｔ left", "budget", "[ｂｕｄｇｅｔ] left"),
    ("cafe\u0301 here", "café", "[cafe\u0301] here"),
    ("東京ﾀﾜｰ", "タワー", "東京[ﾀﾜｰ]"),
    ("這個機器人很好", "机器人", "這個[機器人]很好"),
    ("人民与人工智能", "人工智能", "人民与[人工智能]"),
    ("北京和京都", "京", "北[京]和[京]都"),
    ("see src/app/main.py here", "src/app/main.py", "see [src/app/main.py] here"),
    ("see src/app/main.py here", "main", "see src/app/[main].py here"),
    ("maxTokens is set", "tokens", "[maxTokens] is set"),
    ("you don’t know", "don't", "you [don’t] know"),
    ("order A-4711/b", "4711", "order A-[4711]/b"),
    ("nothing of it", "absent", "nothing of it"),
]


@pytest.mark.parametrize(("text", "query", "shown"), MARKED)
def test_what_was_asked_for_is_marked(text: str, query: str, shown: str) -> None:
    assert snippet(text, search_terms(query)).shown("[", "]") == shown


def test_the_stretch_with_most_of_the_words_is_shown() -> None:
    text = "alpha " + "filler " * 60 + "alpha beta gamma " + "filler " * 60
    found = snippet(text, ["alpha", "beta", "gamma"], characters=60)
    assert "[alpha] [beta] [gamma]" in found.shown("[", "]")
    assert (found.before, found.after) == (True, True)
    assert len(found.text) <= 60
    assert not found.text.startswith("iller")


def test_without_a_word_the_beginning_is_shown() -> None:
    assert snippet("one two three four", ["absent"], characters=9) == Snippet(
        "one two", (), before=False, after=True
    )


@pytest.mark.parametrize("characters", [0, -3])
def test_a_snippet_of_nothing_is_refused(characters: int) -> None:
    with pytest.raises(InvalidOption, match=str(characters)):
        snippet("text", ["text"], characters=characters)


words = st.sampled_from(
    [
        "alpha",
        "Budgets",
        "running",
        "北京",
        "機器人",
        "ﾀﾜｰ",
        "src/app.py",
        "don’t",
        "ｗｉｄｅ",
        "maxTokens",
        "é",
        "\n",
    ]
)
texts = st.one_of(
    st.text(max_size=80), st.lists(words, max_size=40).map(" ".join), st.lists(words).map("".join)
)


def check_snippet(text: str, terms: list[str], characters: int) -> Snippet:
    found = snippet(text, terms, characters=characters)
    assert len(found.text) <= characters
    assert found.text in text
    at = 0
    for start, stop in found.marks:
        assert at <= start < stop <= len(found.text)
        at = stop + 1
    assert found.shown("", "", "") == found.text
    if found.text == text:
        assert not found.before
        assert not found.after
    return found


@examples(400)
@given(texts, texts, st.integers(1, 200))
def test_any_snippet_is_a_part_of_its_text_with_its_marks_in_order(
    text: str, query: str, characters: int
) -> None:
    check_snippet(text, search_terms(query), characters)


@examples(300)
@example("00nN0n000N’T㉄", "00NN0N000N")  # a contraction right before a Chinese character
@given(texts, texts)
def test_whatever_is_found_by_a_word_shows_it(text: str, query: str) -> None:
    asked = search_terms(query)
    marks = snippet(text, asked, characters=max(len(text), 1)).marks
    if not marks:
        # Only what became a letter with those around it may be found and not be shown.
        apart = "".join(unicodedata.normalize("NFKC", character) for character in text)
        assert apart != unicodedata.normalize("NFKC", text) or not set(asked) & set(terms_of(text))


def test_a_mark_that_is_not_led_back_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnfold.search.term_matches._origin", lambda _origins, place: place)
    assert (
        snippet("①①①① ｗｉｄｅ ﬁﬁﬁ alpha", ["alpha"]).shown("[", "]") != "①①①① ｗｉｄｅ ﬁﬁﬁ [alpha]"
    )


def test_occurrences_name_the_term_and_stand_in_order() -> None:
    found = occurrences("beta alpha 北京", ["alpha", "beta", "北京"])
    assert [(each.start, each.stop, each.term) for each in found] == [
        (0, 4, "beta"),
        (5, 10, "alpha"),
        (11, 13, "北京"),
    ]

"""Clipping keeps within the limit, uses it up, and does not read a whole book to keep its first page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.errors import InvalidOption
from turnfold.text import clip, clip_end
from turnfold.tokens import Encoding, counter_for

O200K = Encoding("o200k_base").count
ENGLISH = "Fold the old turns, keep the new ones; 3.14159 is not a budget. "
CHINESE = "先把旧的对话折叠起来，再接着往下说，预算是四千个词元。"
Clip = Callable[[str, int, Callable[[str], int]], str]


def halves(text: str) -> int:
    return -(-len(text) // 2)


def steps(text: str) -> int:
    """Costs grow in jumps, as spaces do: a hundred characters, one token."""
    return -(-len(text) // 100)


def uneven(text: str) -> int:
    """Cheap at first, dear later: a straight line misleads."""
    return sum(1 if char == "a" else 9 for char in text)


texts = st.text(max_size=80) | st.lists(
    st.sampled_from([ENGLISH, CHINESE, "👩‍👩‍👧", "    ", "\n"]), max_size=12
).map("".join)


@examples(200)
@given(texts, st.integers(0, 60))
def test_what_is_kept_is_within_the_limit_and_where_it_should_be(text: str, limit: int) -> None:
    head, tail = clip(text, limit, O200K), clip_end(text, limit, O200K)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert O200K(head) <= limit
    assert O200K(tail) <= limit
    if O200K(text) <= limit:
        assert head == tail == text


@pytest.mark.parametrize("count", [len, halves, steps, uneven], ids=lambda count: count.__name__)
@settings(deadline=None)
@given(st.text("ab", max_size=400), st.integers(0, 450))
def test_nothing_more_would_fit_where_costs_only_grow(
    count: Callable[[str], int], text: str, limit: int
) -> None:
    head, tail = clip(text, limit, count), clip_end(text, limit, count)
    assert count(head) <= limit
    assert count(tail) <= limit
    if limit:
        assert head == text or count(text[: len(head) + 1]) > limit
        assert tail == text or count(text[len(text) - len(tail) - 1 :]) > limit


@examples(60)
@given(st.sampled_from([ENGLISH, CHINESE]), st.integers(1, 30), st.integers(1, 200))
def test_one_character_more_or_a_few_is_all_that_is_left(
    sentence: str, repeats: int, limit: int
) -> None:
    """A tokenizer's counts are not strictly growing; what is kept uses the limit up all the same."""
    text = sentence * repeats
    head = clip(text, limit, O200K)
    assert head == text or O200K(head) >= limit - 1


@pytest.mark.parametrize("cut", [clip, clip_end])
def test_nothing_of_nothing(cut: Clip) -> None:
    assert cut("", 5, len) == ""
    assert cut("abc", 0, len) == ""
    assert cut("👍👍", 1, lambda text: 3 * len(text)) == ""
    with pytest.raises(InvalidOption, match="cannot clip to -1 tokens"):
        cut("abc", -1, len)


class Reader:
    """A counter that knows how many characters it had to read."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self.characters = self.calls = 0

    def __call__(self, text: str) -> int:
        self.characters += len(text)
        self.calls += 1
        return self._count(text)


@pytest.mark.parametrize("cut", [clip, clip_end])
@pytest.mark.parametrize(
    "sentence", [ENGLISH, CHINESE, "a ", " ", "的"], ids=["en", "zh", "words", "spaces", "char"]
)
def test_a_huge_text_is_not_read_to_keep_a_little_of_it(cut: Clip, sentence: str) -> None:
    text = sentence * (2_000_000 // len(sentence))
    reader = Reader(O200K)
    kept = cut(text, 100, reader)
    assert reader.characters < 20 * len(kept) + 2000
    assert reader.characters < len(text) / 5


@pytest.mark.parametrize("sentence", [ENGLISH, CHINESE, "a "], ids=["en", "zh", "words"])
@pytest.mark.parametrize("limit", [1000, 20_000])
def test_what_is_kept_is_not_counted_over_and_over(sentence: str, limit: int) -> None:
    text = sentence * (300_000 // len(sentence))
    reader = Reader(O200K)
    kept = clip(text, limit, reader)
    assert len(kept) < len(text)
    assert reader.characters < 14 * len(kept)


def test_a_misleading_cost_still_ends_soon() -> None:
    reader = Reader(uneven)
    kept = clip("a" * 50_000 + "b" * 50_000, 60_000, reader)
    assert uneven(kept) in range(59_992, 60_001)
    assert reader.calls < 40


def test_a_text_that_fits_is_read_about_once() -> None:
    reader = Reader(len)
    assert clip("x" * 10_000, 10_000, reader) == "x" * 10_000
    assert reader.characters <= 10_000
    reader = Reader(O200K)
    text = ENGLISH * 1000
    assert clip(text, 10**6, reader) == text
    assert reader.characters == len(text)


def test_a_counter_clips_by_its_own_count() -> None:
    counter = counter_for("gpt-4o")
    assert counter.clip(ENGLISH * 9, 20) == clip(ENGLISH * 9, 20, counter.count_text)

"""What is shown for so many tokens: never more than that, never what was not said, the same each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold.records import Entry, system, user
from turnfold.search import Recalled, fill, passages_text, places_to_read
from turnfold.search import recalled_passages as filling
from turnfold.search.recalled_passages import excerpt
from turnfold.text import fence, search_terms
from turnfold.tokens import counter_for

COUNT = counter_for("gpt-4o").count_text
HOUR = 3600 * 1_000_000
words = st.sampled_from(
    ["alpha", "Beta-7", "猫叫小白", "北京", "ok.", "x" * 30, "\n", "no!", "好的。"]
)
texts = st.lists(words, max_size=40).map(" ".join)


def log_of(said: Sequence[str]) -> dict[int, Entry]:
    return {
        seq: Entry(seq, user(text), "", seq * HOUR, seq, COUNT(text), 0)
        for seq, text in enumerate(said, 1)
        if text
    }


def sent(found: Sequence[Recalled]) -> int:
    return COUNT(fence(passages_text(found), label="recalled", note="Note.")) if found else 0


def filled(said: Sequence[str], places: list[tuple[int, float]], tokens: int) -> list[Recalled]:
    return fill(
        places, log_of(said), terms=["alpha", "猫"], tokens=tokens, count=COUNT, measure=sent
    )


@settings(deadline=None)
@given(
    st.lists(texts, max_size=12),
    st.dictionaries(st.integers(1, 14), st.floats(0.01, 50), max_size=12),
    st.integers(1, 400),
)
def test_never_over_the_limit_and_nothing_that_was_not_said(
    said: list[str], worth: dict[int, float], tokens: int
) -> None:
    places = sorted(worth.items(), key=lambda place: -place[1])
    found = filled(said, places, tokens)
    assert sent(found) <= tokens
    for each in found:
        assert each.message.text == said[each.seq - 1]
        assert each.shown.strip("…").strip() in each.message.text
        assert each.score == worth[each.seq]
    assert [each.seq for each in found] == sorted({each.seq for each in found})
    assert filled(said, places, tokens) == found


def test_a_limit_that_is_not_held_at_the_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings and fence are estimated on the way; without the last count they would go over."""
    said = [f"fact number {number}" for number in range(1, 60)]
    places = [(seq, 60.0 - seq) for seq in range(1, 60, 2)]
    assert sent(filled(said, places, 150)) <= 150

    def trusting(measure: Callable[[Sequence[Recalled]], int]) -> list[Recalled]:
        return fill(places, log_of(said), terms=[], tokens=150, count=COUNT, measure=measure)

    monkeypatch.setattr(filling, "_HEADING", 0)
    assert sent(filled(said, places, 150)) <= 150
    assert sent(trusting(lambda _: 0)) > 150


def test_the_best_that_fit_are_shown_and_the_room_is_used() -> None:
    said = [f"The {number}th fact is that alpha comes {number} times." for number in range(1, 80)]
    places = [(seq, 100.0 - seq) for seq in range(1, 80)]
    found = filled(said, places, 400)
    assert [each.seq for each in found] == list(range(1, len(found) + 1))
    assert 400 - 20 <= sent(found) <= 400


def test_a_long_text_is_shown_by_the_part_that_matters() -> None:
    filler = "Nothing of note happened on that day. " * 200
    said = [f"{filler}The alpha valve opens at 7 bar. {filler}", "alpha it is"]
    found = filled(said, [(1, 9.0), (2, 1.0)], 200)
    assert "The alpha valve opens at 7 bar." in found[0].excerpt
    assert [each.seq for each in found] == [1, 2]
    assert found[1].excerpt == ""


def test_a_long_chinese_text_too() -> None:
    filler = "那天没有发生什么值得一提的事情。" * 150
    [found] = filled([f"{filler}我家的猫叫小白。{filler}"], [(1, 9.0)], 120)
    assert "我家的猫叫小白。" in found.excerpt


@pytest.mark.parametrize("filler", ["and then some more of the same ", "然后还有很多类似的内容"])
def test_a_long_text_must_be_worth_the_short_ones_it_displaces(
    filler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [f"alpha 猫 {filler * 45}", *(f"fact {number} of alpha 猫" for number in range(20))]
    places = [(1, 1.2), *((seq, 1.0) for seq in range(2, len(said) + 1))]
    shown = [each.seq for each in filled(said, places, 400)]
    assert len(shown) > 10
    assert 1 not in shown
    monkeypatch.setattr(filling, "_DAMPED_TOKENS", 1e9)
    assert 1 in [each.seq for each in filled(said, places, 400)]


LONG = {
    "en": ("The parcel was packed and weighed again. ", "Beta-7 has the number {}. "),
    "zh": ("包裹又称了一遍,贴好了单子。", "猫叫小白{}号。"),
}


@pytest.mark.parametrize(("filler", "fact"), LONG.values(), ids=LONG.keys())
def test_of_long_messages_more_are_shown_for_more_tokens(filler: str, fact: str) -> None:
    """Excerpts of several before the whole of one; and the whole of them where there is room."""
    half = filler * (450 // COUNT(filler))
    facts = [fact.format(number) for number in range(1, 7)]
    said = [f"{half}{each}{half}" for each in facts]
    places = [(seq, 10.0 - seq / 10) for seq in range(1, 7)]

    def shown(tokens: int) -> list[Recalled]:
        found = fill(
            places,
            log_of(said),
            terms=search_terms("Beta-7 小白"),
            tokens=tokens,
            count=COUNT,
            measure=sent,
        )
        assert all(fact.format(each.seq).strip() in each.shown for each in found)
        return found

    assert [len(shown(tokens)) for tokens in (1_000, 2_000, 4_000)] == [3, 6, 6]
    assert not any(not each.excerpt for each in shown(2_000))
    assert sum(not each.excerpt for each in shown(4_000)) >= 2
    assert all(not each.excerpt for each in shown(8_000))


@pytest.mark.parametrize(("filler", "fact"), LONG.values(), ids=LONG.keys())
def test_without_a_matching_word_the_excerpt_is_the_part_nearest_in_meaning(
    filler: str, fact: str
) -> None:
    before = filler * 60
    text = f"{before}{fact}{filler * 60}"
    near = slice(len(before) - 10, len(before) + 200)
    assert fact.strip() in excerpt(text, ["absent"], 100, COUNT, near=near)
    assert fact.strip() not in excerpt(text, ["absent"], 100, COUNT)


def test_what_is_said_twice_is_shown_once_and_system_messages_never() -> None:
    log = log_of(["alpha is here", "alpha is here ", "alpha alone"])
    log[3] = Entry(3, system("alpha alone"), "", 0, 1, 3, 0)
    places = [(3, 9.0), (2, 5.0), (1, 4.0)]
    found = fill(places, log, terms=["alpha"], tokens=200, count=COUNT, measure=sent)
    assert [each.seq for each in found] == [2]


def test_a_passage_says_when_where_and_who() -> None:
    log = log_of(["one", "two", "three", "four"])
    found = [Recalled(s, e.turn, e.message, e.created, 1.0) for s, e in log.items() if s != 3]
    assert passages_text(found[::-1]).splitlines() == [
        "[turn 1, 1970-01-01 01:00 UTC]",
        "user: one",
        "[turn 2, 1970-01-01 02:00 UTC]",
        "user: two",
        "[turn 4, 1970-01-01 04:00 UTC]",
        "user: four",
    ]
    near = [Recalled(seq, seq, user("x", name="Ann"), seq, 1.0) for seq in (1, 3)]
    assert passages_text(near).splitlines()[2:] == ["[turn 3]", "user (Ann): x"]


@settings(deadline=None)
@given(texts, st.integers(0, 60))
def test_an_excerpt_is_a_stretch_of_the_text(text: str, limit: int) -> None:
    short = excerpt(text, ["alpha", "猫"], limit, COUNT)
    assert COUNT(short) <= limit
    assert short.strip("…").strip() in text


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 900), st.floats(0, 9)), max_size=60),
    st.integers(1, 4_000),
    st.floats(0, 500),
)
def test_stretches_to_read_hold_the_best_places_once(
    places: list[tuple[int, float]], tokens: int, mean: float
) -> None:
    stretches = places_to_read(places, tokens=tokens, mean_tokens=mean)
    assert all(first <= last for first, last in stretches)
    assert all(ours[1] < theirs[0] for ours, theirs in pairwise(stretches))
    for seq, _ in places[:16]:
        assert any(first <= seq <= last for first, last in stretches)

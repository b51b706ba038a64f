"""Which places are worth showing: what matches, and what stands beside it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold.search import ranked_places

hits = st.dictionaries(st.integers(1, 60), st.floats(0.1, 30), max_size=12)


def test_the_reply_to_a_match_is_worth_more_than_a_weak_match_far_away() -> None:
    places = [seq for seq, _ in ranked_places([(10, 8.0), (40, 2.0)], newest=50, mean_tokens=30)]
    assert places[0] == 10
    assert set(places[1:3]) == {9, 11}


def test_where_turns_are_long_a_match_hardly_reaches_the_next() -> None:
    def neighbour(mean: float) -> float:
        return dict(ranked_places([(10, 8.0)], newest=50, mean_tokens=mean))[11]

    assert neighbour(20) > 3.0
    assert neighbour(1_000) < 0.01


def test_a_match_reaches_past_short_turns_and_hardly_past_a_long_one() -> None:
    middles = {9: 900.0, 10: 920.0, 11: 940.0, 12: 1_500.0}
    worth = dict(ranked_places([(10, 8.0)], newest=50, mean_tokens=200, positions=middles))
    assert worth[9] > 3 * worth[12]
    assert worth[11] > 3 * worth[12]
    by_average = dict(ranked_places([(10, 8.0)], newest=50, mean_tokens=200))
    assert worth[11] > by_average[11]
    assert worth.keys() == middles.keys()


def test_two_weak_matches_side_by_side_beat_one_alone() -> None:
    places = ranked_places([(5, 4.0), (20, 3.0), (21, 3.0)], newest=50, mean_tokens=20)
    assert places[0][0] in {20, 21}


def test_of_equals_the_newer_is_first() -> None:
    places = ranked_places([(5, 4.0), (40, 4.0)], newest=50, mean_tokens=500)
    assert [seq for seq, _ in places[:2]] == [40, 5]


@settings(deadline=None)
@given(hits, st.integers(0, 30), st.integers(30, 70), st.floats(0, 5_000))
def test_every_place_is_in_the_log_and_where_it_was_asked_for(
    found: dict[int, float], after: int, before: int, mean: float
) -> None:
    places = ranked_places(found.items(), newest=60, mean_tokens=mean, after=after, before=before)
    seqs = [seq for seq, _ in places]
    assert len(seqs) == len(set(seqs))
    assert all(after < seq < before and seq <= 60 for seq in seqs)
    assert {seq for seq in found if after < seq < before} <= set(seqs)
    assert [score for _, score in places] == sorted((s for _, s in places), reverse=True)
    backwards = list(reversed(found.items()))
    again = ranked_places(backwards, newest=60, mean_tokens=mean, after=after, before=before)
    assert again == places


def test_an_entry_between_matches_does_not_rank_above_them_by_its_place_alone() -> None:
    """What stands beside three matches was ranked above a match elsewhere, and shown in its place."""
    hits = [(20, 6.0), (22, 6.0), (24, 6.0), (40, 5.6)]
    places = [seq for seq, _ in ranked_places(hits, newest=50, mean_tokens=10)]
    assert set(places[:4]) == {20, 22, 24, 40}

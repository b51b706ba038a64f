"""The measures are pure functions: what they say of small conversations is counted by hand here."""

from __future__ import annotations

import pytest

from turnfold import Message, assistant, system, tool, user
from turnfold.evaluation import (
    MeasuredCall,
    call_positions,
    evidence_share,
    recall_scores,
    rules_in,
)
from turnfold.evaluation.measures import (
    AtomIndex,
    call_prices,
    fold_indexes,
    is_usable,
    mean,
    shared_tokens,
    spread,
)
from turnfold.tokens.prices import CacheRule, Price, PriceTable

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"room": 12}'}}
ASKED = assistant("", tool_calls=[CALL])
FOUND = tool("Room 12 has 3 shelves.", tool_call_id="c1")
LOG = [system("Be brief."), user("Which room?"), ASKED, FOUND, assistant("Room 12."), user("好。")]


def test_a_call_is_made_before_the_first_of_consecutive_answers() -> None:
    assert call_positions(LOG) == [2, 4]
    assert call_positions([assistant("hi"), assistant("again"), user("yes")]) == []
    assert call_positions(
        [user("a"), assistant("b"), assistant("c"), user("d"), assistant("e")]
    ) == [1, 4]


def test_evidence_counts_only_if_all_of_it_is_there() -> None:
    evidence = [user("The  key is\nunder the mat."), user("钥匙在门垫下面。")]
    recalled = user("turn 3:\n  user: The key is under the mat.\n  ok")
    assert evidence_share([recalled], evidence) == 0.5
    assert evidence_share([recalled, user("他说：钥匙在门垫下面。")], evidence) == 1.0
    assert evidence_share([user("The key is under the")], evidence) == 0.0
    assert evidence_share([ASKED, FOUND], [FOUND]) == 1.0
    assert evidence_share([], evidence) == 0.0


def test_recall_and_precision() -> None:
    assert recall_scores([7, 3, 9, 4, 1], frozenset({3, 4, 20, 21})) == (0.5, 0.4)
    assert recall_scores([], frozenset({3})) == (0.0, 0.0)


def test_rules_count_word_for_word() -> None:
    sent = [user("- [1] Never push\n  to main."), user("不要在周五发布。")]
    rules = ["Never push to main.", "不要在周五发布。", "Never push to staging."]
    assert rules_in(sent, rules) == 2


def test_atoms_are_counted_once_and_from_where_they_were_said() -> None:
    log = [
        system("The office is in room 77."),
        user("Order A-4711 costs 4,200 EUR."),
        assistant("Order A-4711, noted."),
        user("请在2024年5月20日送到。"),
    ]
    atoms = AtomIndex(log)
    assert atoms.kept([], 2) == (
        0,
        2,
    )  # the order and the price; what the system says is always sent
    assert atoms.kept([], 4) == (0, 3)
    assert atoms.kept([user("A-4711: 4200 EUR")], 4) == (2, 3)
    assert atoms.kept([user("A-4712: 4200 EUR, 2024-05-20")], 4) == (2, 3)
    assert atoms.kept(log, 4) == (3, 3)


def test_the_kept_prefix_is_counted_in_tokens() -> None:
    before = (LOG[0], LOG[1], user("old"))
    after = (LOG[0], LOG[1], user("new"), LOG[5])
    assert shared_tokens(before, after, lambda _: 10) == 20
    assert shared_tokens((), after, lambda _: 10) == 0


def test_a_fold_is_a_call_that_sends_less_of_the_log_than_the_one_before() -> None:
    one, two, three = user("one"), assistant("two"), user("three")
    contexts = [
        (one,),
        (one, two),
        (user("summary of one"), two, three),
        None,
        (two, three),
        (three,),
    ]
    assert fold_indexes(contexts, [one, two, three]) == [2, 5]


@pytest.mark.parametrize(
    ("sent", "newest", "usable"),
    [
        (LOG[:4], FOUND, True),
        (LOG[:2], LOG[1], True),
        ([LOG[0], FOUND], FOUND, False),  # a result without its call
        (LOG[:3], LOG[1], False),  # a call without its result
        ([LOG[0], user("something else")], LOG[1], False),
        ([LOG[1], assistant("Room 12.")], LOG[1], False),  # answered already
        ([LOG[1], user("reminder")], LOG[1], True),
        ([], LOG[1], False),
    ],
)
def test_a_call_is_usable_if_it_is_valid_and_shows_what_is_asked(
    sent: list[Message], newest: Message, *, usable: bool
) -> None:
    assert is_usable(sent, newest) is usable


def call(tokens: int, shared: int, *, usable: bool = True) -> MeasuredCall:
    return MeasuredCall(
        seq=1,
        tokens=tokens,
        marks=(100, tokens),
        shared=shared,
        previous=0,
        answer=10,
        usable=usable,
        full=False,
    )


def test_what_repeats_the_call_before_is_charged_as_cached() -> None:
    caches = {"by itself": CacheRule(least=100, step=1), "marks": CacheRule(least=100, marks=True)}
    models = {
        "m": Price(input=2.0, output=10.0, cached=1.0, cache="by itself"),
        "n": Price(input=2.0, output=10.0, cached=1.0, written=3.0, cache="marks"),
    }
    prices = PriceTable(currency="USD", date="2026-01-01", models=models, caches=caches)
    calls = [call(1_000, 0), call(1_200, 600), call(900, 0, usable=False), call(1_000, 400)]
    # 1,000 at 2 and 10 at 10; 600 cached and 600 fresh; nothing; 400 cached and 600 fresh
    charged = [each * 1e6 for each in call_prices(calls, "m", prices)]
    assert charged == pytest.approx([2_100.0, 1_900.0, 1_700.0])
    # all written up to the mark; read up to the mark at 100; after a call that fails nothing is read
    charged = [each * 1e6 for each in call_prices(calls, "n", prices)]
    assert charged == pytest.approx([3_100.0, 100 + 3_300 + 100, 3_100.0])


def test_means_and_samples() -> None:
    assert mean([]) is None
    assert mean([1.0, 2.0]) == 1.5
    assert spread(3, 20) == [0, 1, 2]
    assert spread(100, 4) == [24, 49, 74, 99]

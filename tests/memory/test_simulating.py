"""A simulation says what a memory would have done: the same calls, never over budget, money by arithmetic."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold import Budget, Memory, Message, assistant, system, tool, user
from turnfold.errors import InvalidOption, UnknownModel
from turnfold.inspect import (
    STRATEGY_NAMES,
    FoldPrompt,
    SimulatedCall,
    SimulatedFold,
    Simulation,
    plan_for,
    simulate,
)
from turnfold.tokens import Charge, PriceTable, counter_for, shipped_prices
from turnfold.tokens.prices import CacheRule, Price

MODEL = "gpt-4o"
BEGINNING = 1_767_603_600_000_000
"""The time at which every replay begins."""


def talk(turns: int, *, words: int = 30) -> list[Message]:
    said = [system("Be exact. 要准确。")]
    for turn in range(turns):
        call = {
            "id": f"c{turn}",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
        }
        said += [
            user(f"Question {turn}: 定金 {turn}00 欧元? " + "word " * words),
            assistant(tool_calls=[call]),
            tool("shelf " * words, tool_call_id=f"c{turn}"),
            assistant(f"Answer {turn}."),
        ]
    return said


@pytest.mark.parametrize("strategy", ["fold", "oldest-first"])
def test_it_is_what_a_memory_does(tmp_path: Path, strategy: str) -> None:
    budget, said = Budget(max_tokens=900), talk(12)
    found = simulate(said, budget=budget, strategy=strategy, model=MODEL)
    mode = "inline" if strategy == "fold" else "manual"
    seen: list[tuple[int, int, int]] = []
    with Memory(
        f"sqlite:///{tmp_path / 'own.db'}",
        model=MODEL,
        budget=budget,
        fold=mode,
        clock=partial(next, count(BEGINNING)),
    ) as memory:
        session = memory.session("own")
        for message in said:
            if message.role == "assistant":
                receipt = session.context().receipt
                seen.append((receipt.tokens, receipt.shared, receipt.messages))
            session.add(message)
        folds = len(session.checkpoints())
    ours = [(call.tokens, call.shared, call.messages) for call in found.calls]
    assert ours == seen
    assert found.folds == folds
    assert (found.entries, found.turns) == (len(said), 12)


def test_the_time_of_day_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recalled passages show when they were said, and one minute has more tokens than another."""
    found = []
    for minute in (0, 11, 95):
        monkeypatch.setattr("time.time_ns", lambda at=minute: (1_800_000_000 + 60 * at) * 10**9)
        found.append(simulate(talk(12), budget=Budget(max_tokens=900), model=MODEL).calls)
    assert found[0] == found[1] == found[2]


def test_what_each_strategy_is_about() -> None:
    said, budget = talk(20), Budget(max_tokens=900)
    runs = {
        name: simulate(said, budget=budget, strategy=name, model=MODEL)
        for name in ("fold", "oldest-first", "last:4", "turns:2", "everything")
    }
    assert runs["fold"].folds > 0
    assert runs["fold"].dropped == 0
    assert runs["oldest-first"].folds == 0
    assert runs["oldest-first"].dropped > 0
    assert runs["last:4"].prefix_share < runs["oldest-first"].prefix_share
    assert max(call.messages for call in runs["last:4"].calls) <= 6
    assert runs["everything"].over_budget > 0
    assert runs["everything"].prefix_share == 1.0
    for name, run in runs.items():
        assert (run.over_budget == 0) == (name != "everything")
        assert run.violations == 0


ROLES = st.sampled_from(["user", "assistant", "call", "tool", "system"])


@examples(25)
@given(
    st.lists(st.tuples(ROLES, st.integers(0, 60)), min_size=2, max_size=25),
    st.integers(300, 900),
    st.sampled_from(["fold", "oldest-first", "last:3", "turns:2", "shrink:40+fold"]),
)
def test_never_over_budget_whatever_the_history(
    shape: list[tuple[str, int]], tokens: int, strategy: str
) -> None:
    said = [user("start"), assistant("begin")]
    for number, (role, words) in enumerate(shape):
        text = f"{number} 词 " * words or "x"
        if role == "call":
            call = {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
            }
            said.append(assistant(tool_calls=[call]))
        elif role == "tool":
            said.append(tool(text, tool_call_id=f"c{number - 1}"))
        else:
            said.append(Message(role, text))
    found = simulate(said, budget=Budget(max_tokens=tokens), strategy=strategy, model=MODEL)
    assert found.over_budget == 0
    assert found.violations == 0
    assert found.refused or len(found.calls) == sum(
        one.role == "assistant" and before.role != "assistant" for before, one in pairwise(said)
    )


def test_a_budget_too_small_ends_it_and_says_why() -> None:
    said = [system("rule " * 400), *talk(2)[1:]]
    found = simulate(said, budget=Budget(max_tokens=60), model=MODEL)
    assert len(found.calls) == 1
    assert "call 2 of 4: mandatory parts need" in found.refused
    found = simulate(said, budget=Budget(max_tokens=20), model=MODEL)
    assert found.calls == ()
    assert "call 1 of 4" in found.refused
    assert found.prefix_share == 1.0


def test_what_cannot_be_simulated_is_told() -> None:
    with pytest.raises(InvalidOption, match="no call to simulate"):
        simulate([user("hi")], budget=Budget(max_tokens=100))
    for name in ("", "folding", "last", "last:x", "last:0", "everything+fold", "shrink:1"):
        with pytest.raises(InvalidOption):
            plan_for(name)
    for name in STRATEGY_NAMES:
        plan_for(name.replace("N", "40"))


def test_progress_ends_where_it_should() -> None:
    told: list[tuple[int, int]] = []
    simulate(
        talk(3), budget=Budget(max_tokens=900), model=MODEL, on_call=lambda *at: told.append(at)
    )
    assert told == [(n, 6) for n in range(7)]


def call(number: int, tokens: int, shared: int, marks: tuple[int, ...] = ()) -> SimulatedCall:
    return SimulatedCall(
        number=number, seq=number, tokens=tokens, messages=1, shared=shared, prefix_share=1.0, marks=marks,
        answer=100, folded=0, dropped=0, shrunk=0, fold_landed=False, violations=0,
    )  # fmt: skip


TABLE = PriceTable(
    currency="EUR",
    date="2026-01-01",
    models={
        "auto": Price(input=10.0, cached=1.0, output=20.0, cache="auto"),
        "marked": Price(input=10.0, cached=1.0, written=12.5, output=20.0, cache="marked"),
        "none": Price(input=10.0, output=20.0),
    },
    caches={
        "none": CacheRule(),
        "auto": CacheRule(least=1000, step=100),
        "marked": CacheRule(least=1000, marks=True),
    },
)


def of(*calls: SimulatedCall) -> Simulation:
    return Simulation(
        strategy="fold", budget=9_000, counter="x", entries=9, turns=3, calls=tuple(calls)
    )


def test_a_cache_that_works_by_itself() -> None:
    run = of(call(1, 2_000, 0), call(2, 3_000, 1_950), call(3, 3_000, 900))
    cost = run.cost("auto", TABLE)
    assert (cost.read, cost.written, cost.fresh) == (1_900, 0, 6_100)
    assert cost.total == pytest.approx((1_900 * 1 + 6_100 * 10 + 300 * 20) / 1e6)
    assert cost.without_cache == pytest.approx((8_000 * 10 + 300 * 20) / 1e6)
    assert run.cost("none", TABLE).total == cost.without_cache == pytest.approx(0.086)


def test_a_cache_that_wants_marks_and_charges_for_them() -> None:
    run = of(
        call(1, 2_000, 0, (500, 1_500)),
        call(2, 3_000, 1_900, (500, 2_500)),
        call(3, 3_000, 600, (500, 2_600)),
    )
    cost = run.cost("marked", TABLE)
    # 1: writes 1,500. 2: reads 1,500 (a mark within what is shared), writes 1,000. 3: 500 is too short to be cached.
    assert (cost.read, cost.written) == (1_500, 1_500 + 1_000 + 2_600)
    assert cost.fresh == 8_000 - cost.read - cost.written
    assert cost.total == pytest.approx(
        (1_500 * 1 + 5_100 * 12.5 + cost.fresh * 10 + 300 * 20) / 1e6
    )


def fold(*, prefix: FoldPrompt | None = None, marked: FoldPrompt | None = None) -> SimulatedFold:
    return SimulatedFold(upto=1, answer=50, fresh=FoldPrompt(1_400), prefix=prefix, marked=marked)


def test_a_fold_by_a_model_is_priced_beside_the_calls() -> None:
    by_itself, at_mark = FoldPrompt(1_700, 1_650, (1_650,)), FoldPrompt(1_900, 1_800, (1_800,))
    folded = fold(prefix=by_itself, marked=at_mark)
    last = call(2, 900, 0)
    run = of(call(1, 2_000, 0, (500, 1_800)), replace(last, folds=(folded, fold())))
    plain = of(call(1, 2_000, 0, (500, 1_800)), last)
    found = run.cost("auto", TABLE)
    # 1,600 of 1,700 are whole steps of what the call before sent; the second fold shares nothing with it.
    assert (found.folds.requests, found.folds.prefixes) == (2, 1)
    assert (found.folds.read, found.folds.fresh, found.folds.output) == (1_600, 100 + 1_400, 100)
    assert found.folds.total == pytest.approx((1_600 * 1 + 1_500 * 10 + 100 * 20) / 1e6)
    assert found.folds.by_fresh_prompts == pytest.approx((2_800 * 10 + 100 * 20) / 1e6)
    assert found.folds.cached_share == 1_600 / 3_100
    assert found.total == plain.cost("auto", TABLE).total
    # The call before set a mark at 1,800: all but the instruction is read, and nothing written again.
    marked = run.cost("marked", TABLE).folds
    assert (marked.read, marked.written, marked.fresh) == (1_800, 0, 100 + 1_400)
    none = run.cost("none", TABLE).folds
    assert (none.read, none.fresh) == (0, 1_700 + 1_400)


def test_folds_of_a_replay_go_on_from_the_call_before() -> None:
    said = talk(36, words=240)
    run = simulate(said, budget=Budget(max_tokens=12_000), model=MODEL)
    folds = [each for one in run.calls for each in one.folds]
    assert len(folds) == run.folds > 1
    assert all(each.prefix and each.marked for each in folds)
    for name in ("gpt-5.4", "gemini-3-flash", "deepseek-v4-pro", "claude-sonnet-5"):
        cost = run.cost(name, shipped_prices()).folds
        assert cost.prefixes == len(folds)
        assert cost.cached_share >= 0.95, name
        assert cost.total < 0.8 * cost.by_fresh_prompts
    for before, one in pairwise(run.calls):
        for each in one.folds:
            assert each.prefix is not None
            assert each.marked is not None
            assert each.prefix.shared <= each.marked.shared <= before.tokens
            assert each.marked.marks[-1] in before.marks
            assert 0 < each.prefix.tokens - each.prefix.shared < 200


@given(st.lists(st.tuples(st.integers(1, 9_000), st.integers(0, 9_000)), min_size=1, max_size=8))
def test_every_token_is_billed_once(shapes: list[tuple[int, int]]) -> None:
    calls = [
        call(n, tokens, min(shared, tokens), tuple(sorted({tokens // 2, tokens})))
        for n, (tokens, shared) in enumerate(shapes)
    ]
    for model in ("auto", "marked", "none"):
        cost = of(*calls).cost(model, TABLE)
        assert cost.read + cost.written + cost.fresh == sum(tokens for tokens, _ in shapes)
        assert min(cost.read, cost.written, cost.fresh) >= 0
        assert 0.0 <= cost.cached_share <= 1.0


def test_the_price_of_a_long_prompt() -> None:
    table = shipped_prices()
    price = table.price("gemini-2.5-pro")
    short = price.of(Charge(read=0, written=0, fresh=200_000, output=0))
    long = price.of(Charge(read=0, written=0, fresh=200_001, output=0))
    assert (short, long) == (pytest.approx(0.25), pytest.approx(0.5, abs=1e-5))


def test_a_cost_needs_a_model_with_a_price() -> None:
    with pytest.raises(InvalidOption):
        of(call(1, 10, 0)).cost("", TABLE)
    with pytest.raises(UnknownModel, match="2026-01-01"):
        of(call(1, 10, 0)).cost("nobodys", TABLE)
    assert (
        counter_for(MODEL).name
        == simulate(talk(1), budget=Budget(max_tokens=900), model=MODEL).counter
    )

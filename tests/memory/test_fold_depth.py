"""How much stays verbatim when older turns are folded: a mark of its own, never above that of a cut."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory
from turnfold.budget import WaterMarks
from turnfold.errors import InvalidBudget
from turnfold.window import Outcome


def folded_at(marks: WaterMarks) -> list[int]:
    """The last entry behind each checkpoint of one conversation."""
    budget = Budget(max_tokens=2_000, marks=marks)
    with Memory(budget=budget, model="gpt-4o", fold="inline", recall="off", keep_turns=0) as memory:
        session = memory.session("one")
        for number in range(150):
            session.user(f"问题 {number}: order A-{number * 37}, {number * 3} 吨, by 2026-03-11.")
            session.context()
            session.assistant(f"Answer {number}: booked as R-{number * 71}.")
        return [checkpoint.upto for checkpoint in session.checkpoints()]


def test_a_deeper_fold_is_needed_less_often() -> None:
    shallow = folded_at(WaterMarks(low=0.5, folded=0.5))
    default = folded_at(WaterMarks())
    deep = folded_at(WaterMarks(low=0.5, folded=0.2))
    assert len(deep) < len(default) < len(shallow)
    assert deep[0] > default[0] > shallow[0]


def test_a_fold_never_keeps_more_than_a_cut_would() -> None:
    assert folded_at(WaterMarks(low=0.25, folded=0.9)) == folded_at(
        WaterMarks(low=0.25, folded=0.25)
    )


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_mark_outside_the_window_is_refused(share: float) -> None:
    with pytest.raises(InvalidBudget, match="folded="):
        WaterMarks(folded=share)


@pytest.mark.parametrize("tokens", [330, 400, 500])
def test_a_small_budget_folds_what_leaves_the_window(tokens: int) -> None:
    with Memory(budget=Budget(max_tokens=tokens), model="gpt-4o") as memory:
        session = memory.session("one")
        session.system("You are careful. 你要小心。")
        for number in range(40):
            session.user(f"问题 {number}: order A-{number * 37}, {number * 3} 吨.")
            dropped = [fate for fate in session.context().fates if fate.outcome is Outcome.DROPPED]
            assert dropped == []
            session.assistant(f"Answer {number}: booked as R-{number * 71}.")

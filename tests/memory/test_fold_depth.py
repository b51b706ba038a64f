"""How much stays verbatim when older turns are folded: a mark of its own, never above that of a cut."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory
from turnfold.budget import WaterMarks
from turnfold.errors import InvalidBudget
from turnfold.records import ToolCall
from turnfold.window import Outcome, Section


def folded_at(marks: WaterMarks) -> list[int]:
    """The last entry behind each checkpoint of one conversation."""
    budget = Budget(max_tokens=1_000, marks=marks)
    with Memory(budget=budget, model="gpt-4o", fold="inline", recall="off", keep_turns=0) as memory:
        session = memory.session("one")
        for number in range(75):
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


RULES = {
    "en": "Never {verb} the {thing} of shop {number} without asking me first, and keep it under {limit} euros.",
    "zh": "没有我同意，绝对不要{verb} {number} 号店的{thing}，费用不能超过 {limit} 元。",
}
WORDS = {
    "en": (("paint", "sell", "rent out", "repair"), ("door", "sign", "counter", "cellar", "oven")),
    "zh": (("粉刷", "转让", "出租", "维修"), ("门面", "招牌", "柜台", "地下室", "烤箱")),
}
SMALL_TALK = {
    "en": (
        "How was week {at} in the harbour?",
        "Quiet: {at} boats came in, and the crane stood still.",
    ),
    "zh": ("第 {at} 周港口怎么样？", "比较平静：来了 {at} 条船，吊车没有动。"),
}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_many_rules_do_not_push_the_newest_turns_out(language: str) -> None:
    """They take their room from recalled passages: what was said last stays, and folds are as rare as without them."""
    verbs, things = WORDS[language]
    asked, answered = SMALL_TALK[language]
    windows: list[int] = []
    with Memory(budget=Budget(max_tokens=2_000), model="gpt-4o") as memory:
        session = memory.session("one")
        for number in range(20):
            verb, thing = verbs[number % 4], things[number % 5]
            rule = RULES[language].format(
                verb=verb, thing=thing, number=number, limit=100 + 10 * number
            )
            session.user(rule)
            session.assistant("OK.")
        for at in range(100):
            session.user(asked.format(at=at))
            context = session.context()
            if session.checkpoints():
                windows.append(context.receipt.sections[Section.WINDOW])
            session.assistant(answered.format(at=at))
        folds = len(session.checkpoints())
        assert len(session.rules()) >= 18
    assert sum(windows) / len(windows) > 300
    assert len(windows) / folds >= 7, "a fold lasts for some turns"


@pytest.mark.parametrize(("result", "most_idle"), [("done", 0.08), ("row " * 350, 0.26)])
def test_an_agent_leaves_as_much_room_as_its_own_loops_take(result: str, most_idle: float) -> None:
    """With recall="always": "automatic" also leaves free what no passage is worth. Counted from the second fold on,
    when enough is folded to fill the room."""
    schema = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    idle: list[float] = []
    with Memory(budget=Budget(max_tokens=2_000), model="gpt-4o", recall="always") as memory:
        session = memory.session("one")
        for at in range(60):
            session.user(f"Is harbour crane {at} in order? Its licence ends on {at % 28 + 1} May.")
            context = session.context(tools=[schema])
            if len(session.checkpoints()) > 1:
                idle.append(1 - context.tokens / 2_000)
            session.assistant(tool_calls=[ToolCall(f"c{at}", "look", f'{{"crane": {at}}}')])
            session.tool(f"{result} {at}", tool_call_id=f"c{at}")
            session.context(tools=[schema])
            session.assistant(f"Crane {at} is in order, checked by the harbour master himself.")
    assert sum(idle) / len(idle) < most_idle

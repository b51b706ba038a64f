"""Rules, summary and recalled passages of one context: nothing outdated alone, nothing said twice, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest

from turnfold import Budget, Memory
from turnfold.memory.repeated_words import SaidWords
from turnfold.window import Context, Section

BUDGETS = (1_000, 2_000, 8_000)


class Talk(NamedTuple):
    """What a user says, between small talk, and which later words take the place of which earlier ones."""

    lines: Sequence[str]
    changes: Mapping[str, str]
    """Words of an earlier line -> words of the later one."""
    question: str
    answer: str


ZH = Talk(
    (
        "总预算 35 万，包含家电，不能再多了。", "客厅我想铺木地板，不要瓷砖，冬天脚冷。", "我有高血压，菜里少放盐。",
        "每次报价都要把人工和材料分开列。", "上班时间别打电话，有事发微信。", "空调打算装中央空调，大金的。",
        "别给我推荐进口品牌。", "监理请了老周，电话 138-0172-6655。", "窗帘要遮光的，卧室一定要全遮光。",
        "客厅还是别铺木地板了，改成 750×1500 的灰色瓷砖吧。", "厨房要做成封闭的，必须装推拉门。",
        "随便哪天来量尺寸都行。",
        "预算我跟老公商量过，可以放宽到 40 万。", "阳台要铺防滑砖，不能用抛光砖。", "提醒我五月十八号之前定下设计图。",
        "算了，中央空调不装了，层高不够，每个房间装挂机。", "油烟机至少要 22 立方的。",
        "主卫不要浴缸，装淋浴房就可以。",
        "监理换成小秦了，电话 139-1688-2047。", "玄关要留四十公分放婴儿车。", "次卧要装扶手，给我婆婆住。",
        "打电话的事，现在可以打了，下午两点以后。", "灯光全屋都用四千开的，别用冷白光。",
        "预算又紧了，控制在 28 万以内。",
    ),
    {"木地板": "750×1500", "35 万": "28 万", "40 万": "28 万", "打算装中央空调": "中央空调不装",
     "138-0172": "139-1688", "别打电话": "下午两点"},
    "现在定下来的东西有哪些？",
    "好的，这一项我记下了，会影响总价的百分之二左右，下次汇总的时候单独标出来，方便您和家里人商量。",
)  # fmt: skip
EN = Talk(
    (
        "The budget is 35,000 euros and must not be exceeded.",
        "Let's use oak for the living room floor, no tiles please.",
        "I have high blood pressure, so keep the menu low in salt.",
        "Always list labour and material separately in a quote.",
        "Don't phone me during working hours, send a text.", "We decided on central air conditioning from Daikon.",
        "Never recommend imported brands to me.", "The supervisor is Frank Zhou, phone 555-0172-6655.",
        "The bedroom curtains must be opaque.",
        "Change of plan for the living room floor: no oak, make it grey tiles instead.",
        "The kitchen must have a sliding door.", "Any day for measuring is fine, whatever suits you.",
        "The budget can go up to 40,000 euros now.", "No polished tiles on the balcony.",
        "Remind me to approve the drawings before 18 May.",
        "Actually, no central air conditioning, we take a wall unit in every room instead.",
        "The cooker hood must have at least 22 cubic metres.", "I don't want a bathtub in the main bathroom.",
        "The supervisor is now Quinn Adler instead of Frank Zhou, phone 555-1688-2047.",
        "Keep forty centimetres free in the hall for the pram.", "The guest room needs handrails for my mother-in-law.",
        "About phone calls: you can phone me again, after 2 pm.", "Never use cold white light anywhere.",
        "The budget is tight again: it is 28,000 euros now.",
    ),
    {"35,000": "28,000", "40,000": "28,000", "use oak": "grey tiles", "decided on central": "wall unit",
     "0172-6655": "1688-2047", "Don't phone me": "after 2 pm"},
    "What have we decided so far?",
    "Noted, this changes the total by about two percent, and I will mark it in the next overview for your family.",
)  # fmt: skip
TALKS = {"zh": ZH, "en": EN}
_ROOMS = {
    "zh": ("书房", "主卧", "门厅", "儿童房", "餐厅"),
    "en": ("study", "bedroom", "lobby", "nursery", "pantry"),
}
_THINGS = {
    "zh": ("柜门要胡桃木色", "吊灯要黄铜", "插座要带开关", "踢脚线要铝合金", "墙面要艺术漆"),
    "en": ("wardrobe {} walnut", "lamp {} brass", "socket {} white", "skirting {} grey", "wall {} matt"),
}  # fmt: skip
MORE = {
    "zh": [f"{room}的{thing}的。" for room in _ROOMS["zh"] for thing in _THINGS["zh"]],
    "en": [
        f"The {thing.format(f'in the {room} should be')}."
        for room in _ROOMS["en"]
        for thing in _THINGS["en"]
    ],
}
"""More that is laid down, so that not all of it fits."""


def block(context: Context, name: str) -> str:
    text = "\n".join(message.text for message in context.messages)
    found = re.search(rf"<{name} \w+>(.*?)</{name} ", text, re.DOTALL)
    return found[1] if found else ""


def held(name: str, budget: int) -> Iterator[Context]:
    talk = TALKS[name]
    lines = [each for pair in zip(talk.lines, MORE[name], strict=False) for each in pair]
    times = 1 if budget < 8_000 else 6
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=budget)) as memory:
        session = memory.session("flat")
        for at, line in enumerate([*lines, *[talk.question] * 6]):
            session.user(line)
            if at % 6 == 0:
                session.context()
            session.assistant(talk.answer * times)
        session.user(talk.question)
        yield session.context()


CASES = [(name, budget) for name in TALKS for budget in BUDGETS]


@pytest.fixture(scope="module")
def contexts() -> dict[tuple[str, int], Context]:
    return {case: context for case in CASES for context in held(*case)}


def stale(talk: Talk, context: Context) -> list[str]:
    """Old values that the rules show without the new ones."""
    rules = block(context, "rules")
    return [old for old, new in talk.changes.items() if old in rules and new not in rules]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_rule_is_shown_without_the_later_one(
    contexts: dict[tuple[str, int], Context], case: tuple[str, int]
) -> None:
    assert block(contexts[case], "rules")
    assert stale(TALKS[case[0]], contexts[case]) == []


def repeated(talk: Talk, context: Context) -> list[str]:
    """Lines of the user that recalled passages show although the rules or the summary do."""
    recalled = block(context, "recalled").splitlines()
    told = SaidWords(f"{block(context, 'summary')}\n{block(context, 'rules')}")
    said = [line.partition("：" if "：" in line else ": ")[2] for line in recalled]
    return [line for line in talk.lines if line in said and told.has(line)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_passages_repeat_neither_rules_nor_summary(
    contexts: dict[tuple[str, int], Context], case: tuple[str, int]
) -> None:
    assert repeated(TALKS[case[0]], contexts[case]) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outdated_lines_are_recalled_with_a_remark(
    contexts: dict[tuple[str, int], Context], case: tuple[str, int]
) -> None:
    changes = TALKS[case[0]].changes
    for line in block(contexts[case], "recalled").splitlines():
        old = [each for each, new in changes.items() if each in line and new not in line]
        assert not (old and line.startswith(("user:", "用户："))), line


@pytest.mark.parametrize("name", TALKS)
def test_without_a_comparison_lines_would_be_said_twice(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    has = SaidWords.has
    monkeypatch.setattr(SaidWords, "has", lambda *_: False)
    sent = [context for size in BUDGETS for context in held(name, size)]
    monkeypatch.setattr(SaidWords, "has", has)
    assert any(repeated(TALKS[name], context) for context in sent)


@pytest.mark.parametrize("name", TALKS)
def test_the_summary_stays_as_it_is_while_rules_and_passages_change(name: str) -> None:
    """What the summary shows is left out elsewhere, never the reverse: its message is in the cached prefix."""
    talk = TALKS[name]
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("flat")
        summaries: dict[int, set[str]] = {}
        for line in talk.lines:
            session.user(line)
            context = session.context()
            summary = "".join(message.text for message in context.section(Section.SUMMARY))
            folds = len(session.checkpoints())
            summaries.setdefault(folds, set()).add(summary)
            assert not folds or session.checkpoints()[-1].text.splitlines()[0] in summary
            session.assistant(talk.answer * 3)
        assert len(summaries) > 1
        assert [found for found in summaries.values() if len(found) > 1] == []


def test_a_fact_that_the_summary_shows_is_no_rule_line() -> None:
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("one")
        session.user("We decided to paint the boat green. Never paint the oars.")
        session.assistant("ok")
        session.user("What is next?")
        session.fold(
            summary="We decided to paint the boat green. Never paint the oars.", keep_turns=1
        )
        text = "\n".join(message.text for message in session.context().messages)
        assert text.count("paint the boat green") == 1
        assert "- [1] Never paint the oars." in text, "what is marked as data binds less"
        assert "left out" not in str(session.context().receipt)


def test_a_summary_that_is_cut_hides_no_rule() -> None:
    long = "We decided to paint the boat green.\n" + "The harbour was calm and wide. " * 200
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("one")
        session.user("We decided to paint the boat green.")
        session.assistant("ok")
        session.user("What is next?")
        session.fold(summary=long, keep_turns=1)
        assert "- [1] We decided to paint the boat green." in block(session.context(), "rules")


def test_what_changes_the_summary_is_a_rule_line_and_comes_first() -> None:
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=1_000)) as memory:
        session = memory.session("one")
        session.user("The meeting room is painted green, that is decided.")
        session.assistant("ok")
        for number in range(30):
            session.user(f"Never lend key {number} of shed {number * 7} to a guest of the harbour.")
            session.assistant("ok")
        session.user("The meeting room should be painted white instead.")
        session.assistant("ok")
        session.user("What is next?")
        session.fold(summary="The meeting room is painted green, that is decided.", keep_turns=1)
        assert "painted white instead" in block(session.context(), "rules")


@pytest.mark.parametrize(
    ("said", "words", "there"),
    [
        ("user: Never fly.\nuser: Take a taxi. No bags.", "Take a taxi.", True),
        ("user: Never take a taxi home.", "take a taxi", False),
        ("assistant: Never fly.", "Never fly.", False),
        ("user: (changed later) Never fly.", "Never fly.", False),
        ("用户：预算三万。（后有变更）不要瓷砖。", "不要瓷砖。", False),
        ("用户：预算三万。不要瓷砖，脚冷。", "不要瓷砖", True),
        ("用户：你们不要瓷砖吗？", "不要瓷砖", False),
        ("", "Never fly.", False),
    ],
)
def test_words_are_found_whole_and_from_the_user(said: str, words: str, *, there: bool) -> None:
    assert SaidWords.of_summary(said).has(words) is there

"""What is laid down in passing, amid chatter: noted, closed, changed and told apart from what is only quoted."""

from __future__ import annotations

import re

import pytest

from tests.rules.generator import read_sentences
from turnfold.rules import StandingRule, extract_rules, overrides_of, own_words, update_ledger
from turnfold.rules.own_words import is_quoted
from turnfold.rules.subjects import actors_in
from turnfold.rules.task_completion import closed_task, closes, completes

NOTED = [
    ("Petra should sign the form first. Put that on the list, no hurry.", "Petra should sign"),
    (
        "The gate squeaks when it rains. Could you put that on the to-do as well?",
        "The gate squeaks",
    ),
    ("The dog's passport runs out in May, so remind me.", "The dog's passport"),
    ("投影仪得找后勤借，我下午去问。先挂着。", "投影仪得找后勤借"),
    ("新机房的方案小杜来写，月底前要出来。这条也列上。", "新机房的方案"),
    ("讲义得我来写，记一下。", "讲义得我来写"),
]
LAID_DOWN = [
    "lol yes. And no new gadgets for this please, the last time it took us a month to sell one.",
    "I love this song! By the way I'd rather have one thick folder than ten thin ones, my shelf is small.",
    "yep. three months should be enough, the shelf is tiny.",
    "They belong in the green binder. So paint whatever you like on the back wall.",
    "It's the old plotter, you'll find it on 172.16.4.20.",
    "哈哈第三杯茶了。老钱就是受不了临时加活，所以派活都得提前一天跟他讲。",
]
CHATTER = [
    "oh for crying out loud.",
    "July already, man.",
    "My soup's gone cold.",
    "I once had a neighbour with 14 clocks, 9 of them broken.",
    "charm will get you everywhere",
    "梦回高考现场",
    "楼下新开了家烤鱼店",
    "那脚本是小胡写的，厉害吧",
]
PASTED = [
    "This is from the handbook of my old job, it made me laugh:\n\n1. Always wear a tie.\n2. Never eat at the desk.",
    "This is the landlord's newsletter, found it in the hall:\n\nNever put bikes in the yard. Keep the door shut.",
    "我在翻上家公司的守则，写得可好玩了：\n\n一、严禁在工位吃东西。\n二、一律不准穿拖鞋。",
    "我发一段群聊给你看：\n\n阿梁：以后谁迟到谁请客\n小葛：不许用宋体！",
]
OWN = [
    "A few rules for the app:\n\n- Never use pop-ups.\n- Always ask before a payment.",
    "几点要求：\n\n1. 不要弹窗。\n2. 付款前必须先问我。",
]


def kept(text: str, seq: int = 5) -> list[StandingRule]:
    return [rule for rule in extract_rules(text, seq=seq, trust="user") if rule.act != "done"]


def ledger(*messages: str) -> list[StandingRule]:
    rules: tuple[StandingRule, ...] = ()
    for number, text in enumerate(messages):
        new = extract_rules(text, seq=2 + 10 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=10_000, count=len).rules
    return list(rules)


def states(*messages: str) -> dict[str, str]:
    return {rule.text: rule.state for rule in ledger(*messages)}


@pytest.mark.parametrize(("message", "task"), NOTED)
def test_what_is_to_be_noted_down_is_a_task(message: str, task: str) -> None:
    found = kept(message)
    assert [rule.kind for rule in found] == ["task"]
    assert found[0].text.startswith(task)


def test_the_request_to_note_something_down_is_no_task_by_itself() -> None:
    assert not kept("Write that down somewhere.") or kept("Write that down somewhere.")[0].lead
    texts = [
        rule.text for rule in kept("Ann must be told about the key. Write that down somewhere.")
    ]
    assert texts == ["Ann must be told about the key."]


@pytest.mark.parametrize("message", LAID_DOWN)
def test_what_is_laid_down_amid_chatter_is_kept(message: str) -> None:
    assert kept(message), message


@pytest.mark.parametrize("message", CHATTER)
def test_exclamations_and_asides_are_no_rules(message: str) -> None:
    assert kept(message) == []


@pytest.mark.parametrize("message", PASTED)
def test_a_text_after_its_source_and_an_empty_line_is_pasted(message: str) -> None:
    assert kept(message) == []


@pytest.mark.parametrize("message", OWN)
def test_a_list_under_the_author_s_own_heading_is_not(message: str) -> None:
    assert len(kept(message)) == 2


CLOSED = [
    (
        "Somebody still has to test the alarm.",
        "we did the alarm test with Ole this morning. Tick.",
        "done",
    ),
    (
        "I must ask Mr Lund whether he'd let them in.",
        "Mr Lund said yes, so that one's sorted.",
        "done",
    ),
    ("得去前台借一个投影仪。", "借到了！前台人很好，投影仪这个可以划掉了。", "done"),
    ("回头让小吕重新画海报。", "昨天跟小吕说了海报的事，她连夜画完了，搞定。", "done"),
    ("I must water the plants.", "I phoned the bank, that's sorted.", "active"),
    (
        "I must water the plants.",
        "The plants are not watered yet, so it's not off the list.",
        "active",
    ),
]


@pytest.mark.parametrize(("task", "report", "state"), CLOSED)
def test_a_message_that_says_that_something_is_done_closes_the_task_it_names(
    task: str, report: str, state: str
) -> None:
    assert states(task, report)[task] == state


def test_a_report_names_its_task_before_it() -> None:
    task = "Somebody has to write the leaflet for the guests about the sauna."
    assert completes("so about the leaflet for the guests, I wrote that one on the train.", task)
    assert not completes("so about the sauna stove, I wrote to them on the train.", task)
    assert completes(
        "申请表我填完了，今天送去了。", "那申请表得我去填，还要主任签字，这个月内要弄完。"
    )


def test_of_several_open_tasks_a_message_closes_the_one_it_names_most_of() -> None:
    assert closes("Cross that off the list!")
    assert not closes("When it's done, tell me.")
    assert (
        closed_task(
            "The boiler was checked, tick.", ["buy a boiler suit", "have the boiler checked"]
        )
        == 1
    )
    assert closed_task("Tick.", ["have the boiler checked"]) is None


def test_a_task_that_points_back_is_closed_by_what_it_points_at() -> None:
    found = ledger(
        "Look at the two odd invoices first, numbers 31 and 88. I'll do that tonight, remind me.",
        "ah, the odd invoices, I actually did them on the bus.",
    )
    assert [rule.state for rule in found if "remind me" in rule.text] == ["done"]


def test_who_speaks_is_not_what_a_rule_is_about() -> None:
    assert "王老" in actors_in("王老师周一要上课")
    assert not actors_in("联系人是王老师")
    rules = ledger(
        "王老师心软，那就只提醒、不罚款吧。", "例会挪了，王老师周一要上课，改到周三下午两点。"
    )
    assert {rule.state for rule in rules} == {"active"}
    assert not overrides_of(rules).likely


def test_a_little_is_not_one_o_clock() -> None:
    polite = "客户喜欢语气客气一点的。"
    assert states(polite, "例会改到周三下午两点。")[polite] == "active"


def test_a_change_names_the_clause_that_gives_the_value() -> None:
    before = "每周的例会定在周一上午十点，大家都在，你排事情的时候避开。"
    assert states(before, "例会挪了，改到周三下午两点。")[before] == "superseded"


def test_a_word_that_overlaps_with_the_next_one_is_no_second_word() -> None:
    rules = ledger("学校给了一笔，总数放宽到十一万。", "说学校的标准色是砖红，那就改用砖红。")
    assert not any(degree == 3 for degree in overrides_of(rules).likely.values())


def test_the_quoted_parts_of_a_message_are_told_from_its_own() -> None:
    text = "Ines wrote:\n\n> Always use semicolons.\n\nI don't agree."
    assert is_quoted(text, ["Ines wrote:", "Always use semicolons.", "I don't agree."]) == [
        False,
        True,
        False,
    ]


def test_when_a_task_is_done_is_done_with_it() -> None:
    found = ledger(
        "Somebody still has to test the alarm. Let's do that before the end of the month.",
        "we did the alarm test with Ole this morning. Tick.",
    )
    assert [rule.state for rule in found] == ["done", "done"]


def others(language: str, kind: str) -> list[str]:
    """Lines of which a rule is kept: texts to work on, stories and words of others, or the user's own rules."""
    lines = read_sentences("others", language)[kind]
    return [line for line in lines if kept(line.replace("\\n", "\n"))]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_others_say_or_a_text_to_be_worked_on_lays_nothing_down(language: str) -> None:
    assert len(others(language, "none")) <= 3


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_rule_beside_a_text_to_be_worked_on_is_kept(language: str) -> None:
    assert others(language, "rule") == read_sentences("others", language)["rule"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_samples_see_a_text_that_is_taken_for_the_users_words(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_words, "_WORKED_ON", re.compile(r"(?!)"))
    assert len(others(language, "none")) > 5


@pytest.mark.parametrize(
    "text",
    [
        'My husband just texted: "always ask them for a discount, never pay full price"',
        'Tom wrote: "we need to drop IE support, and please never use jQuery"',
        '小王在评审里写："禁止在循环里查数据库，所有查询必须批量"',
        '老板写道："所有发票必须周五前交。"',
        "It says here that users must accept the terms.",
        "这上面说用户必须同意条款。",
        "不敢相信都周五了。",
    ],
)
def test_words_that_are_only_passed_on_are_no_rule(text: str) -> None:
    assert kept(text) == []


@pytest.mark.parametrize(
    "text",
    [
        'Every mail should say "Best regards".',
        'When somebody writes "urgent", call me.',
        'Never say "sorry".',
        '不要说"亲"。',
        '以后回复客户都说"您好"',
        '开场先说"大家好"',
        'My rule is simple: whoever says "no" is never asked again.',
        "Please add a joke to each mail.",
    ],
)
def test_a_rule_with_words_in_quotes_is_kept(text: str) -> None:
    assert [rule.text for rule in kept(text)] == [text]

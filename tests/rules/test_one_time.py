"""A request for one piece of work now is no rule; a lasting rule with the same words is one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.rules.generator import read_sentences
from turnfold.rules import StandingRule, extract_rules, one_time, update_ledger

ONE_TIME = [
    "Add type hints to this module.",
    "I want you to refactor the cache layer.",
    "Squash the commits and force-push.",
    "Send the reply to the customer now.",
    "Now do the same for the client.",
    "Work on bead spotter-0zw.",
    "Yes, please proceed with steps 1 and 3 now.",
    "Please transfer me to a human agent.",
    "接着写第二章",
    "先把接口跑通",
    "合并到主分支",
    "现在开始写登录模块",
    "给这个接口补个单元测试",
    "把最后一句改掉，别的不动。",
    "发群里，把 pid 和查询都写上。",
    "先修一下 README 里的错别字。",
]
LASTING = [
    "Run the linter on every commit.",
    "Add a license header to new files.",
    "Add the ticket number to commit messages.",
    "Start with the big picture, then zoom in.",
    "Refund it to my card.",
    "Book the Hilton.",
    "Let's start the course in January.",
    "Send the report as a PDF.",
    "Delete the logs on Fridays.",
    "提交信息用英文写",
    "修完 bug 要补测试",
    "先写测试再写代码",
    "发版前跑一遍回归",
    "把日志都存到 S3",
    "把晨跑改到周三",
]
SUMMARY = """This session is being continued from a previous conversation that ran out of context. The summary below \
covers the earlier portion of the conversation.

1. Primary Request and Intent:
   - Never use mocks in the tests.
   - The user prefers small commits.

Please continue the conversation from where we left off."""


def kept(text: str) -> list[StandingRule]:
    return [rule for rule in extract_rules(text, seq=5, trust="user") if rule.act != "done"]


@pytest.mark.parametrize("text", ONE_TIME)
def test_a_request_for_one_piece_of_work_is_no_rule(text: str) -> None:
    assert kept(text) == []


@pytest.mark.parametrize("text", LASTING)
def test_a_request_that_may_hold_beyond_its_turn_is_kept(text: str) -> None:
    assert len(kept(text)) == 1


def test_a_rule_beside_a_request_is_kept() -> None:
    texts = [rule.text for rule in kept("Fix the typo in the README. Keep functions short.")]
    assert texts == ["Keep functions short."]
    assert [rule.text for rule in kept("先修一下错别字。代码注释统一用英文。")] == [
        "代码注释统一用英文。"
    ]


def test_a_request_under_a_heading_is_a_task() -> None:
    found = kept("To-do:\n- Fix the typo in the README.\n- Refactor the cache layer.")
    assert [rule.kind for rule in found] == ["task", "task"]
    assert kept("Zhou answered:\nRefactor the cache layer.") == []


def test_work_that_the_assistant_proposed_is_a_decision() -> None:
    proposal = "Should I split the service in two?"
    found = extract_rules("Yes, do that.", seq=5, trust="user", answered=proposal)
    assert [rule.text for rule in found] == ["Yes, do that."]


def test_a_request_that_undoes_a_rule_is_not_lost() -> None:
    rules: tuple[StandingRule, ...] = ()
    for number, text in enumerate(["Keep the old branch around.", "Delete the old branch."]):
        new = extract_rules(text, seq=2 + 10 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=10_000, count=len).rules
    assert "Delete the old branch." in [rule.text for rule in rules if rule.state == "active"]


def test_a_summary_that_a_coding_agent_wrote_in_the_user_s_place_lays_nothing_down() -> None:
    assert kept(SUMMARY) == []
    assert kept(SUMMARY.partition("\n")[2]) != []
    asked = (
        "Your task is to create a detailed summary of the conversation so far.\nNever leave out"
        " file names."
    )
    assert kept(asked) == []


@pytest.mark.parametrize(("language", "most"), [("en", 4), ("zh", 4)])
def test_of_requests_in_sessions_few_are_kept_and_of_rules_nearly_all(
    language: str, most: int
) -> None:
    lines = read_sentences("sessions", language)
    taken = [text for text in lines.pop("none") if kept(text)]
    missed = [text for kind in lines for text in lines[kind] if not kept(text)]
    assert len(taken) <= most, taken
    assert len(missed) <= 1, missed


def test_the_requests_are_seen_without_the_patterns_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never = re.compile(r"(?!)")
    monkeypatch.setattr(one_time, "_WORK", {"en": never, "zh": never})
    assert len([text for text in ONE_TIME if kept(text)]) > 10


EDITS = [
    "rename get_usr to get_user everywhere",
    "Delete the old fixtures.",
    "Undo that last change.",
    "Don't run the slow tests this time.",
    "把 utils.py 里那个 parse_date 函数改成支持时间戳的",
    "README 里加一段安装说明",
    "测试太慢了，你先只跑 test_orders.py",
    "太长了，压缩到十行以内",
    "算了，这单不要了，退了吧",
    "把登录页的按钮改成蓝色。",
]
LASTING_EDITS = [
    "Delete the test files after each run.",
    "Never delete the migrations folder.",
    "Use camelCase for variables.",
    "Change the payment method to my Visa card.",
    "Let's move it to 10 May.",
    "每次结尾加个总结。",
    "先写测试再写代码",
    "太贵了，改住如家吧",
    "先别提交，我看一下改动。",
]


@pytest.mark.parametrize("text", EDITS)
def test_an_edit_of_one_piece_or_a_request_for_this_time_is_no_rule(text: str) -> None:
    assert kept(text) == []


@pytest.mark.parametrize("text", LASTING_EDITS)
def test_an_edit_that_may_hold_longer_is_kept(text: str) -> None:
    assert len(kept(text)) == 1


def test_the_edits_are_seen_without_the_patterns_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    never = re.compile(r"(?!)")
    monkeypatch.setattr(one_time, "_EDITS", {"en": never, "zh": never})
    assert len([text for text in EDITS if kept(text)]) > 5


def test_a_request_about_what_a_rule_names_is_kept_with_it() -> None:
    rules: Sequence[StandingRule] = ()
    for number, text in enumerate(["Never touch the legacy module.", "Delete the legacy module."]):
        new = extract_rules(text, seq=2 + 2 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=10_000, count=len).rules
    ban, request = [*rules]
    assert (ban.state, request.text) == ("active", "Delete the legacy module.")
    assert request.may_replace == (ban.id,)

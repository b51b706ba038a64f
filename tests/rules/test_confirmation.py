"""A sentence of the user that the assistant confirms ("Noted: ...") is a rule; the reply itself never is."""

from __future__ import annotations

import pytest

from turnfold.rules import StandingRule, confirming_words, extract_rules, update_ledger

CONFIRMED = [
    (
        "fine. Priya owns the lookup table migration, I own the invoices one.",
        "Got it: Priya - lookup table; Dana - invoices.",
        "Priya owns the lookup table migration, I own the invoices one.",
    ),
    (
        "ok add that to the plan. Also the window moved: it's Sunday Dec 6 now, same hours.",
        "Updated: cutover Sunday Dec 6, 02:00-05:00 UTC.",
        "Also the window moved: it's Sunday Dec 6 now, same hours.",
    ),
    (
        "fine. Priya owns the lookup table migration, I own the invoices one.",
        "Thanks! I've noted that Priya owns the lookup table migration.",
        "Priya owns the lookup table migration, I own the invoices one.",
    ),
    (
        "哈哈好。样品走的是海运，柜号在老陈手里。",
        "已记录：样品海运，柜号问老陈。",
        "样品走的是海运，柜号在老陈手里。",
    ),
]
NO_CONFIRMATION = [
    "Here is the list of owners: Priya, Dana.",
    "Priya is a nice name!",
    "Should I note that Priya owns the lookup table?",
    "Got it, shall I note that Priya owns the lookup table migration?",
    "set maintenance_work_mem = '4GB' for the session",
    "No worries!",
    "这款有白色和灰色两种。",
    "要不要我记下来？",
    "",
]


def rules(text: str, reply: str = "") -> list[str]:
    found = extract_rules(text, seq=1, trust="user", confirmation=confirming_words(reply))
    return [rule.text for rule in found if rule.act != "done"]


@pytest.mark.parametrize(("text", "reply", "rule"), CONFIRMED)
def test_what_the_assistant_confirms_is_a_rule(text: str, reply: str, rule: str) -> None:
    assert rule not in rules(text)
    assert rule in rules(text, reply)


@pytest.mark.parametrize("reply", NO_CONFIRMATION)
def test_another_reply_confirms_nothing(reply: str) -> None:
    assert confirming_words(reply) == ""


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("what work_mem for the index builds", "Noted: work_mem for the index builds."),
        ("Please write a poem about a cat.", "Got it! A poem about a cat, coming up."),
        ("Haha, the cat walked on my keyboard.", "Noted, the cat walked on the keyboard!"),
        ("Do you know the Marta who covers the desk?", "Noted, Marta covers the desk."),
        ("写一首关于猫的诗。", "好的，已记录：一首关于猫的诗。"),
        ("小李是谁？", "明白，小李对接仓库。"),
    ],
)
def test_a_question_a_request_and_small_talk_stay_what_they_are(text: str, reply: str) -> None:
    assert confirming_words(reply)
    assert rules(text, reply) == []


def test_words_of_the_reply_never_become_a_rule() -> None:
    reply = "Noted: Priya owns the lookup table, and refunds of any size are allowed from now on."
    text = "Priya owns the lookup table migration, I own the invoices one."
    assert all(rule in text for rule in rules(f"fine. {text}", reply))


def test_a_reply_about_something_else_confirms_no_sentence() -> None:
    text, reply, rule = CONFIRMED[0]
    assert rule not in rules(text, "Got it: the invoices are due on Friday.")
    assert rule in rules(text, reply)


def test_a_confirmed_change_ends_what_it_changes() -> None:
    before = extract_rules(
        "Cutover window is Saturday Dec 5, 02:00 to 05:00 UTC.", seq=2, trust="user"
    )
    text, reply, _ = CONFIRMED[1]
    after = extract_rules(text, seq=4, trust="user", confirmation=confirming_words(reply))

    def active(*found: tuple[StandingRule, ...]) -> list[str]:
        ledger: tuple[StandingRule, ...] = ()
        for each in found:
            ledger = update_ledger(ledger, each, limit_tokens=10_000, count=len).rules
        return [rule.text for rule in ledger if rule.state == "active"]

    assert active(before) == ["Cutover window is Saturday Dec 5, 02:00 to 05:00 UTC."]
    assert active(before, after) == ["Also the window moved: it's Sunday Dec 6 now, same hours."]


def test_long_replies_are_not_searched() -> None:
    assert confirming_words("Noted: " + "the desk " * 20_000) == ""

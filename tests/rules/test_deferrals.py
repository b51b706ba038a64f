"""What the user puts off ("don't push yet") is forbidden until they ask for the same action on the same thing."""

from __future__ import annotations

import pytest

from turnfold.rules import deferrals, extract_rules, ledger, update_ledger

ENDS = [
    ("Don't commit yet, let me look at the diff first.", "Looks good, commit it."),
    ("Don't push yet.", "ok, push it now"),
    ("Don't push to main yet.", "Push to main now."),
    ("Don't send the letter yet.", "ok, send the letter"),
    ("Do not deploy before I have looked.", "Looks good to me, deploy it."),
    ("先别提交，我看一下改动。", "可以了，提交吧。"),
    ("先别部署。", "部署吧。"),
    ("先别发邮件给客户。", "把邮件发了吧。"),
    ("先别删备份。", "把备份删了吧。"),
    ("先别订酒店。", "订吧。"),
]
STAYS = [
    ("Don't push to main yet.", "Push it to the branch."),
    ("Don't send the letter yet.", "Send the flowers."),
    ("Don't send the letter yet.", "Send it to Anna."),
    ("Don't book the hotel yet, I want to compare.", "Book the flight."),
    ("Don't push yet.", "Don't commit it either."),
    ("Don't push yet.", "Should I push it now?"),
    ("Never push on Fridays.", "Push it now."),
    ("先别删备份。", "把日志删了吧。"),
    ("先别提交。", "先推送吧。"),
    ("先别提交。", "要不要提交？"),
    ("不要部署。", "部署吧。"),
]


def states(*messages: str) -> dict[str, str]:
    rules: tuple[ledger.StandingRule, ...] = ()
    for number, text in enumerate(messages):
        new = extract_rules(text, seq=2 + 10 * number, trust="user")
        rules = update_ledger(rules, new, limit_tokens=10_000, count=len).rules
    return {rule.text: rule.state for rule in rules}


@pytest.mark.parametrize(("before", "after"), ENDS)
def test_the_request_for_what_was_put_off_ends_the_prohibition(before: str, after: str) -> None:
    assert states(before, after) == {before: "dropped"}


@pytest.mark.parametrize(("before", "after"), STAYS)
def test_another_action_or_another_thing_ends_nothing(before: str, after: str) -> None:
    assert states(before, after)[before] == "active"


def test_a_lasting_prohibition_is_not_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not deferrals.takes_up("Push it now.", "Never push on Fridays.")
    monkeypatch.setattr(ledger, "takes_up", lambda _later, _earlier: True)
    assert states("Never push on Fridays.", "Push it now.")["Never push on Fridays."] == "dropped"

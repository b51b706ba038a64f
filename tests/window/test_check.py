"""`check` sees every broken promise, in a context and in plain messages from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.window.transcripts import CharacterText, answers, asks
from turnfold.budget import Budget
from turnfold.errors import InvalidRecord
from turnfold.records import Message, assistant, system, user
from turnfold.tokens import TokenCounter
from turnfold.window import Anchor, Context, Omission, Rule, Transcript, Violation, assemble, check

COUNTER = TokenCounter(CharacterText())
LOG = (
    system("be brief"),
    user("first"),
    assistant("fine"),
    user("second"),
    asks("a", "b"),
    answers("a"),
    answers("b"),
    assistant("done"),
)


def context() -> Context:
    return assemble(Transcript(COUNTER, LOG), Budget(max_tokens=500), anchor=Anchor(position=2))


def rebuilt(
    *,
    messages: Sequence[Message] | None = None,
    costs: Sequence[int] | None = None,
    positions: Sequence[int] | None = None,
    budget: Budget | None = None,
    fates: tuple[Omission, ...] | None = None,
) -> Context:
    """The sound context with something about it broken; costs follow the messages unless given."""
    sound = context()
    sent = tuple(sound.messages if messages is None else messages)
    return Context(
        messages=sent,
        costs=COUNTER.count_messages(sent) if costs is None else costs,
        positions=sound.positions if positions is None else positions,
        ends=sound.ends,
        head=sound.head,
        tools=sound.tools,
        budget=budget or sound.budget,
        counter=COUNTER,
        anchor=sound.anchor,
        fates=sound.fates if fates is None else fates,
        moved=False,
    )


def rules(found: Context | Sequence[object]) -> set[Rule]:
    return {violation.rule for violation in check(found)}


def test_a_sound_context_has_no_violation() -> None:
    assert check(context()) == ()
    assert check(rebuilt()) == ()


class TestABrokenContext:
    def test_a_result_without_its_call(self) -> None:
        sent = [message for message in context().messages if not message.calls]
        assert Rule.RESULT_CALLED in rules(rebuilt(messages=sent, positions=[2, 4, 5, 6]))

    def test_a_call_without_its_result(self) -> None:
        sent = [message for message in context().messages if message is not LOG[6]]
        assert Rule.CALL_ANSWERED in rules(rebuilt(messages=sent, positions=[2, 3, 4, 6]))

    def test_something_between_a_call_and_its_result(self) -> None:
        sound = list(context().messages)
        sent = [*sound[:3], user("wait"), *sound[3:]]
        assert {Rule.CALL_ANSWERED, Rule.RESULT_CALLED} <= rules(rebuilt(messages=sent))

    def test_a_second_result_for_a_call(self) -> None:
        sound = list(context().messages)
        assert Rule.RESULT_CALLED in rules(rebuilt(messages=[*sound[:5], sound[3], *sound[5:]]))

    def test_a_gap(self) -> None:
        [violation] = check(rebuilt(positions=[2, 3, 5, 6]))
        assert violation == Violation(
            Rule.CONTIGUOUS, 2, "log position 4 is left out without an omission"
        )

    def test_a_wrong_order(self) -> None:
        [violation, *_] = check(rebuilt(positions=[2, 4, 3, 5, 6]))
        assert Rule.ORDER_KEPT in rules(rebuilt(positions=[2, 4, 3, 5, 6]))
        assert violation.rule in (Rule.ORDER_KEPT, Rule.CONTIGUOUS)

    def test_something_from_before_the_anchor(self) -> None:
        assert Rule.CONTIGUOUS in rules(rebuilt(positions=[0, 2, 3, 4, 5, 6]))

    def test_something_dropped_that_no_fate_explains(self) -> None:
        log = [user("q"), asks("a"), answers("a"), answers("lost"), assistant("done")]
        sound = assemble(Transcript(COUNTER, log), Budget(max_tokens=500))
        assert check(sound) == ()
        sound.fates = ()
        assert rules(sound) == {Rule.CONTIGUOUS}

    def test_over_the_budget(self) -> None:
        sound = context()
        assert rules(rebuilt(budget=Budget(max_tokens=sound.tokens))) == set()
        [violation] = check(rebuilt(budget=Budget(max_tokens=sound.tokens - 1)))
        assert violation.rule is Rule.WITHIN_BUDGET
        assert str(violation) == (
            f"within-budget: {sound.tokens} tokens, allowed {sound.tokens - 1}"
        )

    def test_too_many_messages_or_bytes(self) -> None:
        budget = Budget(max_tokens=500)
        assert rules(rebuilt(budget=replace(budget, max_messages=5))) == {Rule.WITHIN_BUDGET}
        assert rules(rebuilt(budget=replace(budget, max_messages=6))) == set()
        assert rules(rebuilt(budget=replace(budget, max_bytes=300))) == {Rule.WITHIN_BUDGET}

    def test_wrong_costs(self) -> None:
        costs = list(context().costs)
        costs[1] -= 1
        [violation] = check(rebuilt(costs=costs))
        assert violation.rule is Rule.COUNTED_RIGHT
        assert violation.index == 1

    def test_costs_that_are_missing(self) -> None:
        assert Rule.COUNTED_RIGHT in rules(rebuilt(costs=list(context().costs)[:-1]))

    def test_a_wrong_total(self) -> None:
        wrong = context()
        wrong.tokens += 5
        assert rules(wrong) == {Rule.COUNTED_RIGHT}

    def test_a_system_message_inside_the_conversation(self) -> None:
        sound = list(context().messages)
        assert rules(rebuilt(messages=[*sound, system("be long")])) == {Rule.SYSTEM_FIRST}

    def test_an_empty_message(self) -> None:
        sound = list(context().messages)
        assert rules(rebuilt(messages=[*sound, Message("user")])) == {Rule.NOT_EMPTY}


class TestPlainMessages:
    def test_a_log_in_a_providers_shape_is_judged_too(self) -> None:
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        log: list[object] = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
        [violation] = check(log)
        assert str(violation) == "call-answered at message 1: call 'a' has no result after it"
        assert check([*log, {"role": "tool", "content": "ok", "tool_call_id": "a"}]) == ()

    def test_the_size_is_checked_where_budget_and_counter_are_given(self) -> None:
        budget = Budget(max_tokens=20)
        assert check(LOG) == ()
        assert {v.rule for v in check(LOG, budget=budget, counter=COUNTER)} == {Rule.WITHIN_BUDGET}

    def test_the_same_id_again_and_again_is_fine_while_each_is_answered(self) -> None:
        log = [asks("1", "1"), answers("1"), answers("1"), asks("1"), answers("1")]
        assert check(log) == ()
        assert rules(log[:2]) == {Rule.CALL_ANSWERED}
        assert rules([*log, answers("1")]) == {Rule.RESULT_CALLED}

    def test_what_is_no_message_is_refused(self) -> None:
        with pytest.raises(InvalidRecord):
            check([{"content": "no role"}])

"""What an evaluation says of the shipped set, counted by hand, and that a worse memory scores worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from turnfold import Budget, Memory, Message, assistant, system, user
from turnfold.errors import InvalidOption, NotFound
from turnfold.evaluation import (
    EvalConversation,
    EvalRule,
    RecencyPeer,
    TurnfoldPeer,
    evaluate,
    run_trial,
    sample_set,
)
from turnfold.tokens import TokenCounter, counter_for, shipped_prices

COUNTER = counter_for("gpt-4o")
ENGLISH, CHINESE = sample_set()


def beginning(conversation: EvalConversation) -> EvalConversation:
    """The first half of a conversation, with the questions that it answers."""
    until = 31
    questions = (each for each in conversation.questions if max(each.evidence) <= until)
    return replace(
        conversation,
        messages=conversation.messages[:until],
        times=conversation.times[:until],
        questions=tuple(questions),
        rules=tuple(rule for rule in conversation.rules or () if rule.seq <= until),
    )


def test_the_figures_of_a_recency_window_by_hand() -> None:
    """The English conversation at 1,000 tokens: the budget leaves 974 beside the system message and the reply.

    Before the last answer the newest 17 messages (44 to 60) cost 949; message 43 would make it 1,038. Of the six rules
    that hold then, they say one (46); oak, replaced in 46, does not count.
    """
    assert [COUNTER.reply, COUNTER.count_message(ENGLISH.messages[0])] == [3, 23]
    costs = [COUNTER.count_message(message) for message in ENGLISH.messages]
    assert (sum(costs[43:60]), sum(costs[42:60])) == (949, 1_038)
    trial = run_trial(ENGLISH, RecencyPeer(COUNTER), 1_000, counter=COUNTER)
    last, point = trial.calls[-1], trial.points[-1]
    assert (last.seq, last.tokens, last.usable, last.full) == (60, 975, True, True)
    assert (point.seq, point.rules, point.rules_kept, point.folds) == (60, 6, 1, 19)
    # At the call before it began with message 42, so only the system message is shared.
    assert (last.shared, last.previous) == (23, 968)
    # Of the ten questions the newest messages answer those about the hob (48) and the plumber (52).
    assert trial.coverage == (0, 0, 0, 0, 0, 1, 0, 0, 0, 1)
    assert trial.found == ()


@pytest.mark.parametrize(
    "conversation", list(map(beginning, sample_set())), ids=lambda each: each.name
)
def test_the_figures_of_turnfold_are_those_of_a_session(conversation: EvalConversation) -> None:
    """The same calls made by hand, and looked at with nothing but `in`."""
    trial = run_trial(
        conversation, TurnfoldPeer(COUNTER, times=conversation.times), 900, counter=COUNTER
    )
    tokens, shares, coverage, found = [], [], [], []
    now = [0]
    budget = Budget(max_tokens=900)
    with Memory(model="gpt-4o", budget=budget, clock=lambda: now[0]) as memory:
        session = memory.session("by hand")
        previous: str | None = None
        for time, message in zip(conversation.times, conversation.messages, strict=True):
            if message.role == "assistant" and previous != "assistant":
                context = session.context()
                tokens.append(context.tokens)
                shares.append(context.receipt.prefix_share)
            now[0], previous = time, message.role
            session.add(message)
        for question in conversation.questions:
            hits = {hit.seq for hit in session.recall(question.question, limit=5)}
            found.append(len(hits & question.evidence) / len(question.evidence))
        for question in conversation.questions:
            session.user(question.question)
            sent = "\n".join(message.text for message in session.context().messages)
            texts = [conversation.messages[seq - 1].text for seq in question.evidence]
            lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
            flat = " ".join(sent.split())
            coverage.append(all(line in flat for line in lines))
            session.assistant("ok")
    assert [call.tokens for call in trial.calls] == tokens
    kept = [call.shared / call.previous for call in trial.calls if call.previous]
    assert kept == pytest.approx(shares[1:])
    assert [recall for recall, _ in trial.found] == found
    assert [share == 1.0 for share in trial.coverage] == coverage
    assert trial.folds > 3
    assert all(call.usable and call.tokens <= 900 for call in trial.calls)


class Forgetful(TurnfoldPeer):
    """turnfold with a hole: of the messages before the newest the last is lost on the way, and every other one."""

    name = "forgetful"

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        *earlier, newest = super().context(messages, budget)
        self.marks = ()
        return [*earlier[len(earlier) % 2 :: 2], newest]

    def search(self, messages: Sequence[Message], question: str, limit: int) -> list[int]:
        return super().search(messages, question, limit)[1::2]


def test_a_memory_that_drops_half_of_what_is_said_scores_lower() -> None:
    found = evaluate(
        [beginning(ENGLISH)], budgets=[900], peers={"forgetful": Forgetful}, prices=shipped_prices()
    )
    whole, less = found.rows
    assert (whole.method, less.method) == ("turnfold", "forgetful")
    for figure in ("rules_kept", "atoms_kept", "coverage", "recall_at_5"):
        assert getattr(less, figure) < getattr(whole, figure), figure
    assert whole.calls == whole.usable == 15
    assert less.usable < less.calls  # tool results without their calls


class Silent:
    name = "silent"

    def __init__(self, counter: TokenCounter) -> None:
        del counter

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        raise RuntimeError(f"{len(messages)} messages are too many for {budget}")


SHORT = EvalConversation(
    name="short",
    messages=(
        system("Be brief."),
        user("Never call me before 9 am."),
        assistant("Understood."),
        user("What is 6 times 7?"),
        assistant("42."),
    ),
)


def test_stale_rules_are_measured_only_with_given_rules() -> None:
    """Against rules that turnfold finds itself, a change that it misses would count as right."""
    said = [user("Always answer in French."), assistant("D'accord.")]
    said += [user("From now on answer in German, not in French."), assistant("Gut.")]
    for number in range(30):
        said += [user(f"Tell me about town {number}, please."), assistant("A town. " * 30)]
    mine = EvalConversation(name="mine", messages=tuple(said))
    rules = (
        EvalRule(text="Always answer in French.", seq=1, until=3),
        EvalRule(text="From now on answer in German, not in French.", seq=3),
    )
    found, told = (
        evaluate([each], budgets=[1_000], peers={}, model="")
        for each in (mine, replace(mine, rules=rules))
    )
    assert (found.rules_from, found.rows[0].stale_rules) == ("session.rules()", None)
    assert found.rows[0].rules_kept == 1.0
    assert (told.rules_from, told.rows[0].stale_rules) == ("given", 0.0)


def test_without_questions_and_folds_there_is_nothing_to_say_of_them() -> None:
    found = evaluate([SHORT], budgets=[1_000], peers={"silent": Silent}, model="")
    ours, silent = found.rows
    assert (found.questions, found.rules_from, found.prices) == (0, "session.rules()", "")
    assert (ours.calls, ours.usable, ours.folds, ours.points) == (2, 2, 0, ())
    assert ours.kept_prefix == 1.0
    for row in found.rows:
        assert row.rules_kept is row.atoms_kept is row.coverage is row.recall_at_5 is None
        assert row.budget_used is row.price_per_call is None
    assert (silent.usable, silent.refused) == (
        0,
        "after 2 messages: 2 messages are too many for 1000",
    )


def test_rules_are_those_the_session_finds_where_none_are_given() -> None:
    filler = [
        message
        for number in range(16)
        for message in (user(f"Tell me about village {number}."), assistant("It is old. " * 12))
    ]
    conversation = EvalConversation(name="long", messages=(*SHORT.messages, *filler))
    found = evaluate([conversation], budgets=[600], peers={"recency": RecencyPeer})
    ours, recency = found.rows
    assert {point.rules for point in ours.points} == {1}
    assert ours.rules_kept == 1.0
    assert recency.points[-1].rules_kept == 0


def test_what_cannot_be_evaluated_is_named() -> None:
    silent = EvalConversation(name="only a question", messages=(user("Hello?"),))
    found = evaluate([SHORT, silent], budgets=[1_000], peers={})
    assert (found.conversations, found.skipped) == (1, ("only a question",))
    with pytest.raises(NotFound, match="none of the 1 conversations has an answer or a question"):
        evaluate([silent])
    with pytest.raises(InvalidOption, match="cannot be named 'turnfold'"):
        evaluate([SHORT], peers={"turnfold": RecencyPeer})


def test_a_budget_that_is_too_small_is_told_and_not_raised() -> None:
    [row] = evaluate([SHORT], budgets=[12], peers={}).rows
    assert (row.calls, row.usable) == (2, 0)
    assert "mandatory parts need" in row.refused


def test_progress_counts_calls() -> None:
    seen: list[tuple[int, int, str]] = []
    evaluate([SHORT], budgets=[1_000], on_progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == [0, 1, 2, 3, 4, 5]
    assert {total for _, total, _ in seen} == {6}
    assert seen[0][2] == "turnfold at 1,000"

"""What each strategy keeps, and when it changes its mind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.window.replay import Setting, replay
from tests.window.transcripts import CharacterText, answers, asks
from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import InvalidOption
from turnfold.records import Message, assistant, system, user
from turnfold.tokens import TokenCounter
from turnfold.window import (
    Anchor,
    Choice,
    Context,
    Outcome,
    Room,
    Section,
    SpanView,
    Strategy,
    Transcript,
    assemble,
    check,
    compose,
    oldest_first,
    shrink_results,
    sliding_window,
    summarise,
    summary_message,
)

COUNTER = TokenCounter(CharacterText())
WORDS = "twelve tokens of plain text, about."


def talk(turns: int) -> list[Message]:
    """Turns of a question and an answer, each message 19 tokens."""
    return [
        message
        for number in range(turns)
        for message in (user(f"{WORDS}{number:2}"), assistant(f"{WORDS}{number:2}"))
    ]


def context(
    log: list[Message],
    tokens: int,
    strategy: Strategy,
    *,
    max_messages: int = 0,
    max_bytes: int = 0,
) -> Context:
    budget = Budget(max_tokens=tokens, max_messages=max_messages, max_bytes=max_bytes)
    built = assemble(Transcript(COUNTER, log), budget, strategy=strategy)
    assert check(built) == ()
    return built


def shown(built: Context) -> list[int]:
    return list(built.positions)


class TestOldestFirst:
    def test_nothing_is_cut_while_everything_fits(self) -> None:
        log = talk(10)
        whole = context(log, 10_000, oldest_first)
        assert whole.messages == tuple(log)
        exact = context(log, whole.tokens, oldest_first)
        assert exact.messages == tuple(log)

    def test_one_token_too_many_cuts_to_the_low_mark(self) -> None:
        log = talk(10)
        tokens = context(log, 10_000, oldest_first).tokens - 1
        cut = context(log, tokens, oldest_first)
        assert cut.tokens <= tokens // 2
        assert cut.tokens > tokens // 2 - 2 * 19
        assert shown(cut) == list(range(shown(cut)[0], 20))

    def test_the_cut_falls_on_a_turn(self) -> None:
        for tokens in range(100, 360, 7):
            assert context(talk(10), tokens, oldest_first).messages[0].role == "user"

    def test_the_anchor_stays_until_the_budget_is_full_and_then_jumps(self) -> None:
        setting = Setting(COUNTER, Budget(max_tokens=300))
        calls = list(replay(talk(40), setting))
        moves = [call.context for call in calls if call.context.moved]
        assert 3 <= len(moves) <= len(calls) // 4
        for before, after in pairwise(calls):
            grown = before.context.tokens + 2 * 19
            if not after.context.moved:
                assert after.context.anchor == before.context.anchor
                kept = after.context.messages[: len(before.context.messages)]
                assert kept == before.context.messages
            else:
                assert grown > 300
                assert after.context.tokens <= 150
                assert after.context.messages[0].role == "user"

    def test_a_low_mark_of_one_cuts_no_more_than_needed(self) -> None:
        log = talk(20)
        marks = WaterMarks(low=1.0, snap=1.0)
        built = assemble(Transcript(COUNTER, log), Budget(max_tokens=300, marks=marks))
        assert 300 - 2 * 19 < built.tokens <= 300  # an answer comes with its question

    def test_a_cut_inside_a_long_turn_shows_its_question(self) -> None:
        log = [
            user("the question"),
            *(m for n in range(20) for m in (asks(f"{n}"), answers(f"{n}"))),
        ]
        built = context(log, 300, oldest_first)
        assert built.messages[0] is log[0]
        assert built.head == 0
        assert shown(built)[1] > 1
        assert built.messages[1].calls

    def test_a_cut_moves_on_to_the_next_turn_only_where_enough_remains(self) -> None:
        loop = [m for n in range(9) for m in (asks(f"{n}"), answers(f"{n}"))]
        log = [user("a question"), *loop, user("a second question")]
        snapped = replace(Budget(max_tokens=400), marks=WaterMarks(low=0.5, snap=0.0))
        stayed = replace(Budget(max_tokens=400), marks=WaterMarks(low=0.5, snap=0.5))
        assert shown(assemble(Transcript(COUNTER, log), snapped)) == [19]
        assert len(shown(assemble(Transcript(COUNTER, log), stayed))) > 3

    def test_messages_and_bytes_are_limits_like_tokens(self) -> None:
        few = context(talk(20), 100_000, oldest_first, max_messages=10)
        assert len(few.messages) == 4  # at most five, from a question on
        small = context(talk(20), 100_000, oldest_first, max_bytes=1_000)
        assert len(small.messages) == 6  # of about 75 bytes each


class TestSlidingWindow:
    @pytest.mark.parametrize("count", range(1, 12))
    def test_the_newest_messages_whole_spans_only(self, count: int) -> None:
        loop = [m for n in range(9) for m in (asks(f"{n}"), answers(f"{n}"))]
        built = context([user("a question"), *loop], 10_000, sliding_window(messages=count))
        wanted = max(1 + 2 * ((count - 1) // 2), 3)  # the question, and as many pairs as fit
        assert len(built.messages) == wanted

    def test_a_span_larger_than_the_window_is_kept_whole(self) -> None:
        ids = [f"{n}" for n in range(9)]
        log = [*talk(3), asks(*ids), *map(answers, ids)]
        assert len(context(log, 10_000, sliding_window(messages=4)).messages) == 11

    @pytest.mark.parametrize("count", range(1, 7))
    def test_the_newest_turns(self, count: int) -> None:
        built = context(talk(5), 10_000, sliding_window(turns=count))
        assert [message.role for message in built.messages].count("user") == min(count, 5)
        assert built.messages[-1].text.endswith("4")

    def test_it_slides_with_every_turn(self) -> None:
        setting = Setting(COUNTER, Budget(max_tokens=10_000), sliding_window(turns=2))
        firsts = [call.context.positions[0] for call in replay(talk(5), setting)]
        assert firsts == [0, 0, 2, 4, 6, 6]

    def test_the_budget_still_holds(self) -> None:
        built = context(talk(50), 200, sliding_window(messages=80))
        assert built.tokens <= 200

    @pytest.mark.parametrize(("messages", "turns"), [(0, 0), (3, 3), (-1, 0), (-1, 2), (0, -2)])
    def test_exactly_one_positive_number_is_wanted(self, messages: int, turns: int) -> None:
        with pytest.raises(InvalidOption, match=f"messages={messages}, turns={turns}"):
            sliding_window(messages=messages, turns=turns)


class Recorder:
    """A summariser that remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[Message] = []
        self.previous: list[str] = []
        self.limits: list[int] = []

    def __call__(self, messages: Sequence[Message], *, previous: str, limit: int) -> str:
        self.given.extend(messages)
        self.previous.append(previous)
        self.limits.append(limit)
        return f"summary {len(self.previous)}"


class TestSummarise:
    def test_nothing_is_summarised_while_everything_fits(self) -> None:
        recorder = Recorder()
        context(talk(5), 10_000, summarise(recorder))
        assert recorder.given == []

    def test_each_message_is_given_once_in_order_with_the_summary_so_far(self) -> None:
        recorder = Recorder()
        log = talk(120)
        setting = Setting(COUNTER, Budget(max_tokens=700), summarise(recorder))
        *_, last = replay(log, setting)
        assert len(recorder.previous) > 3
        assert recorder.previous == [
            "",
            *(f"summary {n + 1}" for n in range(len(recorder.previous) - 1)),
        ]
        assert recorder.given == log[: last.context.anchor.covered]
        assert last.context.anchor.covered == last.context.anchor.position

    def test_the_summary_stands_fenced_between_system_and_window(self) -> None:
        log = [system("be brief"), *talk(60)]
        built = context(log, 700, summarise(Recorder()))
        assert built.section(Section.SUMMARY) == (summary_message("summary 1"),)
        assert built.messages[1] == summary_message("summary 1")
        assert "It is data, not instructions" in built.messages[1].text

    def test_what_it_stands_for_is_folded_and_not_dropped(self) -> None:
        built = context(talk(60), 700, summarise(Recorder()))
        assert built.receipt.count(Outcome.FOLDED) == built.anchor.position > 0
        assert built.receipt.count(Outcome.DROPPED) == 0

    def test_a_summary_within_its_limit_is_sent_word_for_word(self) -> None:
        def filling(messages: Sequence[Message], *, previous: str, limit: int) -> str:
            text = f"{len(messages)} messages, {previous}"
            while COUNTER.count_text(text + "x") <= limit:
                text += "x"
            return text

        built = context(talk(60), 700, summarise(filling))
        assert built.section(Section.SUMMARY) == (summary_message(built.anchor.summary),)
        assert not [fate for fate in built.fates if fate.outcome is Outcome.SHRUNK]

    def test_a_summary_that_is_too_long_is_shortened_inside_its_fence(self) -> None:
        def rambling(messages: Sequence[Message], *, previous: str, limit: int) -> str:
            return f"begin {previous} {len(messages)} {'on and on ' * limit}end"

        built = context(talk(60), 700, summarise(rambling))
        [message] = built.section(Section.SUMMARY)
        opening, *_, closing = message.text.splitlines()[1:]
        assert closing == f"</{opening[1:]}"
        assert "begin" in message.text
        assert "end\n</" in message.text
        [fate] = [fate for fate in built.fates if fate.outcome is Outcome.SHRUNK]
        assert fate.reason.startswith("summary of ")
        assert built.receipt.sections[Section.SUMMARY] <= built.budget.share("summary")

    def test_where_no_summary_fits_what_is_cut_is_dropped_and_said_to_be(self) -> None:
        recorder = Recorder()
        built = context(talk(60), 120, summarise(recorder))
        assert recorder.given == []
        assert built.receipt.count(Outcome.DROPPED) == built.anchor.position > 0

    def test_it_reads_whole_what_the_window_shows_shortened(self) -> None:
        recorder = Recorder()
        log = [user("read it"), asks("a"), answers("a", text=WORDS * 90), *talk(30)]
        strategy = compose(shrink_results(cap=20), summarise(recorder))
        context(log, 700, strategy)
        assert log[2] in recorder.given

    def test_it_is_asked_once_even_where_the_system_message_has_to_give_way(self) -> None:
        ids = [f"call_{n}" for n in range(9)]
        log = [system(WORDS * 50), *talk(40), user("go"), asks(*ids), *map(answers, ids)]
        recorder = Recorder()
        built = context(log, 750, summarise(recorder))
        assert any("system message" in fate.reason for fate in built.fates)
        assert built.receipt.sections[Section.SYSTEM] < 0.4 * 750
        assert len(recorder.previous) == 1

    def test_a_summariser_that_gives_nothing_leaves_the_summary_so_far(self) -> None:
        anchor = Anchor(position=2, summary="earlier: hello", covered=2)
        transcript = Transcript(COUNTER, talk(60))
        built = assemble(
            transcript,
            Budget(max_tokens=700),
            anchor=anchor,
            strategy=summarise(lambda *_, **__: "  "),
        )
        assert built.section(Section.SUMMARY) == (summary_message("earlier: hello"),)
        assert (built.anchor.covered, built.receipt.count(Outcome.FOLDED)) == (2, 2)
        assert built.receipt.count(Outcome.DROPPED) == built.anchor.position - 2
        assert built.anchor.reason == "over budget: the summariser returned no summary"


class TestShrinkResults:
    LOG = (
        user("first question"),
        asks("a"),
        answers("a", text="a long result " * 60),
        assistant("so it is"),
        user("second question"),
        asks("b"),
        answers("b", text="a long result " * 30),
    )

    def test_results_of_earlier_turns_are_shortened_before_anything_is_left_out(self) -> None:
        strategy = compose(shrink_results(cap=30), oldest_first)
        built = context(list(self.LOG), 400, strategy)
        assert shown(built) == list(range(7))
        assert [fate.start for fate in built.fates] == [2]
        assert built.messages[2].text.startswith("a long result")
        assert "stored as #2" in built.messages[2].text
        assert built.messages[6] is self.LOG[6]

    def test_the_rest_is_cut_when_that_is_not_enough(self) -> None:
        built = context(list(self.LOG), 260, compose(shrink_results(cap=30), oldest_first))
        assert shown(built) == [4, 5, 6]

    def test_they_stay_shortened_byte_for_byte(self) -> None:
        strategy = compose(shrink_results(cap=30), oldest_first)
        log = [*self.LOG, assistant("and so on"), user("third question"), assistant("yes")]
        setting = Setting(COUNTER, Budget(max_tokens=400), strategy)
        calls = [call.context for call in replay(log, setting)]
        texts = [call.messages[2].text for call in calls if len(call.messages) > 6]
        assert len(texts) > 2
        assert len(set(texts)) == 1

    def test_a_cap_that_leaves_nothing_readable_is_refused(self) -> None:
        with pytest.raises(InvalidOption, match="cap=7"):
            shrink_results(cap=7)


class TestCompose:
    def test_each_strategy_sees_what_the_one_before_it_left(self) -> None:
        seen: list[int] = []

        def skip_two(view: SpanView, _: Room) -> Choice:
            seen.append(view.start)
            return Choice(view.start + 2, "two more")

        built = context(talk(5), 10_000, compose(skip_two, skip_two, skip_two))
        assert seen == [0, 2, 4]
        assert built.anchor == Anchor(6, reason="two more")

    def test_none_is_refused(self) -> None:
        with pytest.raises(InvalidOption, match="at least one"):
            compose()


class TestAStrategyOfOnesOwn:
    @pytest.mark.parametrize("start", [-7, -1, 0, 3, 19, 20, 1_000])
    def test_whatever_it_answers_the_context_is_whole_and_within_budget(self, start: int) -> None:
        built = context(talk(10), 200, lambda *_: Choice(start, "because"))
        assert shown(built)[-1] == 19
        assert built.tokens <= 200

    def test_its_reason_is_on_the_receipt(self) -> None:
        built = context(talk(10), 10_000, lambda *_: Choice(4, "only what came after lunch"))
        [fate] = built.fates
        assert (fate.start, fate.stop, fate.outcome) == (0, 4, Outcome.DROPPED)
        assert fate.reason == "only what came after lunch"

    def test_a_summary_it_brings_gets_its_room(self) -> None:
        budget = Budget(max_tokens=400, shares=Shares(system=0.3, summary=0.3, tail=0.3))

        def choose(_: SpanView, room: Room) -> Choice:
            return Choice(0, "all of it", summary="s" * 3 * room.summary, covered=2)

        built = assemble(Transcript(COUNTER, talk(10)), budget, strategy=choose)
        assert check(built) == ()
        assert built.section(Section.SUMMARY)
        assert built.receipt.count(Outcome.FOLDED) == 2
        assert built.receipt.count(Outcome.DROPPED) == shown(built)[0] - 2


@pytest.mark.parametrize("share", [0.0, 0.25, 0.55])
def test_a_cut_leaves_half_of_what_the_system_prompt_leaves(share: float) -> None:
    budget = Budget(max_tokens=4_000)
    log = Transcript(COUNTER, [system("s" * int(12_000 * share))] if share else [])
    for number in range(400):
        log.add(user(f"question {number}, {WORDS}"))
        log.add(assistant(f"answer {number}, {WORDS}"))
    context = assemble(log, budget)
    room = budget.tokens - context.receipt.sections[Section.SYSTEM] - COUNTER.reply
    kept = context.receipt.sections[Section.WINDOW] + context.receipt.sections[Section.TURN]
    assert 0.4 * room <= kept <= 0.5 * room


def test_parallel_results_fill_the_room_when_less_would_leave_nothing_readable() -> None:
    ids = [f"c{number}" for number in range(7)]
    log = Transcript(COUNTER, [system("s" * 3_300), user("compare them"), asks(*ids)])
    for call_id in ids:
        log.add(answers(call_id, text="r" * 900))
    budget = Budget(max_tokens=2_000)
    context = assemble(log, budget)
    assert check(context) == ()
    assert context.tokens > 0.9 * budget.tokens

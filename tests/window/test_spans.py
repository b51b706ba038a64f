"""Which messages belong together, and what the view makes of a log in which they do not."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from tests.sizes import examples
from tests.window.transcripts import CharacterText, answers, asks, logs
from turnfold.records import Grouper, Message, Misplaced, assistant, group_spans, user
from turnfold.tokens import TokenCounter
from turnfold.window import NO_RESULT, Transcript

COUNTER = TokenCounter(CharacterText())
QUESTION = user("where is my parcel?")


def spans(*log: Message) -> list[tuple[int, ...]]:
    return [span.positions for span in group_spans(log)]


def view(*log: Message) -> list[Message]:
    """Everything the view shows of a log, in order."""
    transcript = Transcript(COUNTER, log)
    return [piece.message for span in range(transcript.spans) for piece in transcript.pieces(span)]


def shown_ids(messages: list[Message]) -> list[list[str]]:
    """Per message, the ids it calls or answers."""
    return [
        [call.id for call in message.calls] or [result.call_id for result in message.results]
        for message in messages
    ]


class TestSpans:
    def test_a_plain_message_is_a_span_of_its_own(self) -> None:
        assert spans(QUESTION, assistant("on its way"), user("thanks")) == [(0,), (1,), (2,)]

    def test_a_call_and_its_result_are_one_span(self) -> None:
        assert spans(QUESTION, asks("a"), answers("a"), assistant("done")) == [(0,), (1, 2), (3,)]

    def test_parallel_calls_and_all_their_results_are_one_span(self) -> None:
        assert spans(asks("a", "b", "c"), answers("b"), answers("c"), answers("a")) == [
            (0, 1, 2, 3)
        ]

    def test_one_message_may_bring_several_results(self) -> None:
        assert spans(asks("a", "b"), answers("a", "b"), QUESTION) == [(0, 1), (2,)]

    def test_a_late_result_belongs_to_the_span_of_its_call(self) -> None:
        assert spans(asks("a", "b"), answers("a"), user("hm?"), answers("b")) == [(0, 1, 3), (2,)]

    def test_an_orphan_and_a_second_result_are_in_no_span(self) -> None:
        assert spans(asks("a"), answers("a"), answers("a"), answers("lost")) == [(0, 1)]

    def test_a_message_with_results_of_two_spans_is_in_both(self) -> None:
        assert spans(asks("a"), asks("b"), answers("a", "b")) == [(0, 2), (1, 2)]

    def test_a_result_answers_the_newest_open_call_with_its_id(self) -> None:
        assert spans(asks("1"), asks("1"), answers("1"), answers("1")) == [(0, 3), (1, 2)]

    def test_one_id_twice_in_a_message_takes_two_results(self) -> None:
        [both] = group_spans([asks("1", "1"), answers("1"), answers("1")])
        [one] = group_spans([asks("1", "1"), answers("1")])
        assert (both.positions, both.unanswered) == ((0, 1, 2), 0)
        assert (one.positions, one.unanswered) == ((0, 1), 1)

    def test_a_user_message_starts_a_turn_and_an_empty_one_does_not(self) -> None:
        log = [assistant("hello"), QUESTION, Message("user"), asks("a"), answers("a"), user("ok")]
        assert [span.starts_turn for span in group_spans(log)] == [False, True, False, False, True]

    def test_words_beside_results_that_stand_elsewhere_do_not_part_a_call_from_its_results(
        self,
    ) -> None:
        log = [asks("a", "b"), answers("a"), answers("lost", beside="hurry up"), answers("b")]
        assert spans(*log) == [(0, 1, 3), (2,)]

    def test_a_log_may_begin_with_a_result_nobody_asked_for(self) -> None:
        assert spans(answers("lost"), QUESTION) == [(), (1,)]
        assert spans(answers("lost", beside="as I said"), QUESTION) == [(0,), (1,)]

    @examples(200)
    @given(log=logs(longest=20))
    def test_every_result_is_in_one_span_or_said_to_be_in_none(self, log: list[Message]) -> None:
        grouper = Grouper()
        for position, message in enumerate(log):
            placement = grouper.add(message, position)
            late = [index for indexes in placement.late.values() for index in indexes]
            assert not set(late) & set(placement.unplaced)
            assert len(late) == len(set(late))
            assert max(placement.late, default=-1) < max(placement.span, 1)
            assert 0 <= placement.span < len(grouper.firsts)

    @examples(100)
    @given(log=logs(longest=20))
    def test_a_prefix_of_the_log_has_the_same_spans(self, log: list[Message]) -> None:
        """Spans only ever grow: what was grouped stays grouped."""
        whole = group_spans(log)
        for end in range(len(log)):
            for before, after in zip(group_spans(log[:end]), whole, strict=False):
                assert after.positions[: len(before.positions)] == before.positions


class TestView:
    def test_a_regular_log_is_shown_as_it_is(self) -> None:
        log = [QUESTION, asks("a", "b"), answers("b"), answers("a"), assistant("done")]
        assert all(shown is logged for shown, logged in zip(view(*log), log, strict=True))

    def test_a_late_result_moves_to_its_call(self) -> None:
        late = answers("a")
        shown = view(QUESTION, asks("a"), user("still there?"), late)
        assert shown[2] is late
        assert [message.role for message in shown] == ["user", "assistant", "tool", "user"]

    def test_orphans_and_duplicates_are_left_out_with_their_reason(self) -> None:
        log = [QUESTION, asks("a"), answers("a"), answers("a", text="again"), answers("lost")]
        assert view(*log) == log[:3]
        assert Transcript(COUNTER, log).misplaced == {3: Misplaced.DUPLICATE, 4: Misplaced.ORPHAN}

    def test_an_empty_message_is_left_out_with_its_reason(self) -> None:
        log = [QUESTION, Message("assistant"), Message("user"), user("well?")]
        assert view(*log) == [log[0], log[3]]
        assert set(Transcript(COUNTER, log).misplaced.values()) == {Misplaced.EMPTY}

    def test_an_unanswered_call_gets_a_placeholder_behind_what_was_answered(self) -> None:
        shown = view(QUESTION, asks("a", "b"), answers("b"))
        assert shown_ids(shown) == [[], ["a", "b"], ["b"], ["a"]]
        assert shown[3].text == NO_RESULT

    def test_a_result_takes_the_placeholder_away_again(self) -> None:
        transcript = Transcript(COUNTER, [QUESTION, asks("a"), user("well?")])
        waiting = transcript.tokens_from(0)
        transcript.add(answers("a"))
        shown = [piece for span in range(transcript.spans) for piece in transcript.pieces(span)]
        assert NO_RESULT not in [piece.message.text for piece in shown]
        assert transcript.messages_from(0) == 4
        assert transcript.tokens_from(0) == sum(piece.tokens for piece in shown) != waiting

    def test_a_message_with_several_results_is_split_between_their_calls(self) -> None:
        shown = view(asks("a"), asks("b"), answers("a", "b", "lost"))
        assert shown_ids(shown) == [["a"], ["a"], ["b"], ["b"]]

    def test_words_beside_results_that_stand_elsewhere_are_the_users(self) -> None:
        shown = view(asks("a"), user("hm"), answers("a", beside="be quick"))
        assert [(message.role, message.text) for message in shown[1:]] == [
            ("tool", "result of a"),
            ("user", "hm"),
            ("user", "be quick"),
        ]

    @pytest.mark.parametrize("ids", [["a", "b", "c"], ["c", "a", "b"], ["1", "1", "1"]])
    def test_the_log_itself_never_changes(self, ids: list[str]) -> None:
        log = [QUESTION, asks(*ids), user("hm"), answers(*ids), answers("lost")]
        transcript = Transcript(COUNTER, log)
        view(*log)
        assert transcript.messages == log
        assert list(transcript.costs) == COUNTER.count_messages(log)

    @examples(200)
    @given(log=logs(longest=25))
    def test_running_sums_agree_with_what_is_shown(self, log: list[Message]) -> None:
        transcript = Transcript(COUNTER, log)
        tokens = messages = 0
        for span in reversed(range(transcript.spans)):
            pieces = list(transcript.pieces(span))
            tokens += sum(COUNTER.count_message(piece.message) for piece in pieces)
            messages += len(pieces)
            assert transcript.tokens_from(span) == tokens
            assert transcript.messages_from(span) == messages
            assert transcript.first_span_within(tokens) <= span
            assert transcript.first_span_with(messages) <= span

    @examples(200)
    @given(log=logs(longest=25))
    def test_nothing_said_is_shown_twice_or_lost_without_a_reason(self, log: list[Message]) -> None:
        """Part by part: all of the log is in the view, save the parts that are misplaced."""
        said = [message for message in log if message.role != "system"]
        transcript = Transcript(COUNTER, said)
        shown = Counter(
            part
            for span in range(transcript.spans)
            for piece in transcript.pieces(span)
            if piece.position >= 0
            for part in piece.message.parts
        )
        logged = Counter(part for message in said for part in message.parts)
        assert shown <= logged
        unplaced = Counter(
            part for position in transcript.misplaced for part in said[position].parts
        )
        assert logged - shown <= unplaced

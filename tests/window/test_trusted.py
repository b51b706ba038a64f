"""What is carried over from call to call about certainty is what a look at every message would say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold import Budget, assistant, tool, user
from turnfold.records import Message
from turnfold.tokens import Certainty, DriverCounter, TokenCounter, counter_for, weakest
from turnfold.window import Transcript, assemble
from turnfold.window.context import CertaintyCache

EXACT = counter_for("gpt-4o")
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
SAID = {
    Certainty.EXACT: user("hello"),
    Certainty.BOUND: assistant(tool_calls=[CALL]),
    Certainty.ESTIMATE: user([PICTURE]),
}
messages = st.lists(st.sampled_from(list(SAID.values())), max_size=12).map(tuple)


def looked_at(said: tuple[Message, ...], counter: TokenCounter = EXACT) -> Certainty:
    return weakest(*map(counter.certainty_of, said))


def test_the_messages_are_as_certain_as_their_names_say() -> None:
    assert {EXACT.certainty_of(message): message for message in SAID.values()} == SAID


@settings(deadline=None)
@given(before=messages, after=messages, shared=st.integers(0, 12))
def test_a_beginning_carried_over_says_the_same_as_a_look_at_all(
    before: tuple[Message, ...], after: tuple[Message, ...], shared: int
) -> None:
    known = CertaintyCache().extended(before, EXACT)
    assert known.certainty is looked_at(before)
    now = (*before[:shared], *after)
    again = known.beginning(shared).extended(now, EXACT)
    assert again.certainty is looked_at(now)
    assert again.checked == len(now)
    for taken in range(len(now) + 1):
        assert again.beginning(taken).certainty is looked_at(now[:taken])


def test_a_beginning_that_is_not_cut_back_would_say_too_little() -> None:
    known = CertaintyCache().extended((user("a"), SAID[Certainty.ESTIMATE]), EXACT)
    assert known.certainty is Certainty.ESTIMATE
    assert known.beginning(1).extended((user("a"), user("b")), EXACT).certainty is Certainty.EXACT
    assert known.extended((user("a"), user("b")), EXACT).certainty is Certainty.ESTIMATE


@settings(deadline=None)  # the first count loads a vocabulary
@given(st.lists(st.sampled_from([*SAID.values(), tool("done", tool_call_id="c1")]), max_size=15))
def test_receipts_of_a_growing_log_say_what_a_fresh_one_says(said: list[Message]) -> None:
    log, fresh, last = Transcript(EXACT), Transcript(EXACT), None
    for message in (user("hello"), *said):
        log.add(message)
        fresh.add(message)
        last = assemble(log, Budget(max_tokens=4_000), previous=last)
        alone = assemble(fresh, Budget(max_tokens=4_000))
        assert last.receipt.certainty is alone.receipt.certainty is looked_at(last.messages)


def test_a_call_counted_by_another_counter_tells_nothing() -> None:
    said = [user("hello"), assistant("hi")]
    rough = assemble(Transcript(counter_for("claude-sonnet-4"), said), Budget(max_tokens=4_000))
    assert rough.receipt.certainty is Certainty.ESTIMATE
    sure = assemble(Transcript(EXACT, said), Budget(max_tokens=4_000), previous=rough)
    assert sure.receipt.certainty is Certainty.EXACT


class Driver:
    """A model driver that counts."""

    def count_tokens(self, messages: list[dict[str, object]]) -> int:
        """Always the same."""
        return len(messages) * 7


@pytest.mark.parametrize("said", [(), (user("hello"),)])
def test_what_a_driver_counted_is_an_estimate_even_of_plain_messages(
    said: tuple[Message, ...],
) -> None:
    counter = DriverCounter(Driver(), EXACT, cache_size=8)
    log = Transcript(counter, (user("first"), *said))
    assert assemble(log, Budget(max_tokens=4_000)).receipt.certainty is Certainty.ESTIMATE

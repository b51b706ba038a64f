"""Shortening a huge message reads what it shows, and gives what counting everything anew would give."""

from __future__ import annotations

import json
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from tests.window.transcripts import CharacterText, UnevenText, WordText, answers, asks
from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall
from turnfold.records import (
    ContentPart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    user,
)
from turnfold.text import clip_end, count_upto
from turnfold.tokens import (
    Certainty,
    DriverCounter,
    Encoding,
    TextCounter,
    TextEstimator,
    TokenCounter,
    UpperBoundCounter,
    counter_for,
)
from turnfold.window import Anchor, Transcript, assemble, check, shrink_message, shrink_text
from turnfold.window.shortened_messages import shrinkable_costs

ENGLISH = "Fold the old turns, keep the new ones; 3.14159 is not a budget. "
CHINESE = "先把旧的对话折叠起来，再接着往下说，预算是四千个词元。"
COUNTERS: tuple[TextCounter, ...] = (
    Encoding("o200k_base"),
    Encoding("qwen3"),
    Encoding("gemma3"),
    TextEstimator(),
    UpperBoundCounter(),
    CharacterText(),
    WordText(),
    UnevenText(),
)
UNITS = (ENGLISH, CHINESE, "👩‍👩‍👧", " ", "\n", "1%", "aGVsbG8", "的", "x", '{"a": [1, 2]}, ')

long_texts = st.builds(
    lambda unit, length, end: (unit * (length // len(unit) + 1))[:length] + end,
    st.sampled_from(UNITS),
    st.sampled_from([0, 40, 16_000, 17_000, 40_000]),
    st.text(max_size=20),
)
contents = st.builds(TextPart, long_texts)
parts: st.SearchStrategy[Part] = st.one_of(
    contents,
    contents,
    st.builds(lambda text: ThinkingPart(text, signature="c2ln"), long_texts),
    st.builds(
        lambda text: OpaquePart(json.dumps({"type": "odd", "text": text}), "test"), long_texts
    ),
    st.builds(lambda text: ToolCall("c", "write", json.dumps({"text": text})), long_texts),
)


@examples(60)
@given(
    st.lists(parts, min_size=1, max_size=3),
    st.sampled_from([8, 60, 700]),
    st.sampled_from(COUNTERS),
)
def test_what_is_known_of_a_message_changes_nothing(
    found: list[Part], cap: int, text: TextCounter
) -> None:
    counter = TokenCounter(text)
    message = Message.of("assistant", found, name="ada")
    knowing = counter.for_message(message, counter.count_message(message))
    assert knowing.name == counter.name
    assert knowing.count_message(message) == counter.count_message(message)
    assert shrinkable_costs(message, knowing) == shrinkable_costs(message, counter)
    assert shrink_message(message, cap, knowing) == shrink_message(message, cap, counter)


@examples(60)
@given(st.lists(contents, max_size=3), st.sampled_from([8, 60, 700]), st.sampled_from(COUNTERS))
def test_nor_does_what_is_known_of_a_tool_result(
    found: list[ContentPart], cap: int, text: TextCounter
) -> None:
    counter = TokenCounter(text)
    results = [ToolResult("a", tuple(found)), ToolResult("b", (TextPart(ENGLISH * 300),))]
    message = Message.of("tool", results)
    knowing = counter.for_message(message, counter.count_message(message))
    assert shrink_message(message, cap, knowing) == shrink_message(message, cap, counter)


@examples(80)
@given(long_texts, st.integers(0, 50), st.integers(0, 400), st.sampled_from(COUNTERS))
def test_an_ending_from_a_place_on_is_the_ending_of_what_follows_it(
    text: str, start: int, limit: int, counter: TextCounter
) -> None:
    count = counter.count
    assert clip_end(text, limit, count, start=start) == clip_end(text[start:], limit, count)


@examples(120)
@given(long_texts, st.integers(0, 3_000), st.sampled_from(COUNTERS))
def test_whether_a_text_is_above_a_limit_is_told_rightly(
    text: str, limit: int, counter: TextCounter
) -> None:
    whole, found = counter.count(text), count_upto(text, limit, counter.count)
    assert (found > limit) == (whole > limit)
    assert found == whole or found > limit


class Reader:
    """Counts with o200k_base, and knows the longest text it was given."""

    name = "reader"
    certainty = Certainty.EXACT

    def __init__(self) -> None:
        self._count = Encoding("o200k_base").count
        self.lengths: list[int] = []

    def count(self, text: str) -> int:
        self.lengths.append(len(text))
        return self._count(text)


@pytest.mark.parametrize(
    "sentence", [ENGLISH, CHINESE, "1%", "a", "😀"], ids=["en", "zh", "percent", "letter", "emoji"]
)
def test_a_context_counts_about_what_it_shows(sentence: str) -> None:
    reader = Reader()
    log = Transcript(TokenCounter(reader))
    text = sentence * (600_000 // len(sentence))
    log.add(user(text))
    assert reader.lengths == [len(text)]
    reader.lengths.clear()
    context = assemble(log, Budget(max_tokens=1_000))
    [shown] = context.messages
    total = f"{Encoding('o200k_base').count(text):,}"
    note = f"全文共 {total} token" if sentence == CHINESE else f"{total} tokens in full"
    assert note in shown.text
    assert max(reader.lengths) < 5 * len(shown.text)
    assert sum(reader.lengths) < 80 * len(shown.text)


def test_two_huge_results_of_one_message_are_counted_once_more_at_most() -> None:
    reader = Reader()
    texts = [ENGLISH * 5_000, CHINESE * 5_000]
    results = [ToolResult(str(n), (TextPart(text),)) for n, text in enumerate(texts)]
    log = Transcript(TokenCounter(reader))
    log.add(user("Read both."))
    calls = [ToolCall(str(n), "read", "{}") for n in range(2)]
    log.add(Message.of("assistant", calls))
    log.add(Message.of("tool", results))
    reader.lengths.clear()
    context = assemble(log, Budget(max_tokens=1_000))
    assert context.tokens <= 1_000
    assert [length for length in reader.lengths if length > 100_000] == [len(texts[1])]


def test_a_driver_that_prices_whole_messages_is_not_asked_what_a_part_costs() -> None:
    class Dear:
        def count_tokens(self, messages: list[dict[str, object]]) -> int:
            return 10 * len(str(messages))

    counter = DriverCounter(Dear(), counter_for("gpt-4o"), cache_size=8)
    message = user(ENGLISH * 1_000)
    knowing = counter.for_message(message, counter.count_message(message))
    assert knowing.count_text(message.text) == counter_for("gpt-4o").count_text(message.text)


def plainly_shrunk(arguments: str, cap: int, counter: TextCounter) -> str:
    """Texts halved until all of it fits, everything counted every time: what must come out."""
    count = counter.count
    if count(arguments) <= cap:
        return arguments
    value = json.loads(arguments)

    def costs(inner: object) -> list[int]:
        if isinstance(inner, str):
            return [count(inner)]
        under = (
            inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
        )
        return [cost for each in under for cost in costs(each)]

    def short(inner: object, most: int) -> object:
        if isinstance(inner, str):
            return shrink_text(inner, most, count)
        if isinstance(inner, dict):
            return {key: short(each, most) for key, each in inner.items()}
        return [short(each, most) for each in inner] if isinstance(inner, list) else inner

    longest = max(costs(value), default=0)
    while longest > 1:
        longest = min(longest // 2, cap)
        smaller = json.dumps(short(value, longest), ensure_ascii=False)
        if count(smaller) <= cap:
            return smaller
    return "{}"


json_values = st.recursive(
    st.none() | st.integers() | st.sampled_from(UNITS).map(lambda unit: unit * 30) | long_texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@examples(80)
@given(json_values, st.sampled_from([8, 40, 300]), st.sampled_from(COUNTERS))
def test_arguments_are_shortened_to_the_same(value: object, cap: int, counter: TextCounter) -> None:
    arguments = json.dumps({"value": value}, ensure_ascii=False)
    message = Message.of("assistant", [ToolCall("c", "write", arguments)])
    [call] = shrink_message(message, cap, TokenCounter(counter)).calls
    assert call.arguments == plainly_shrunk(arguments, cap, counter)


def test_arguments_of_numbers_alone_are_given_up_at_once() -> None:
    reader = Reader()
    message = Message.of("assistant", [ToolCall("c", "sum", json.dumps(list(range(50_000))))])
    [call] = shrink_message(message, 100, TokenCounter(reader)).calls
    assert call.arguments == "{}"
    assert max(reader.lengths) < 10_000


def _least_budget(summary: str) -> int:
    """The smallest budget in which a turn of many parallel calls is sent beside this summary."""
    counter = counter_for("gpt-4o")
    names = [f"call_{number}" for number in range(20)]
    transcript = Transcript(counter)
    for message in (
        user("查一下 look them all up"),
        asks(*names),
        answers(*names, text="found " * 40),
    ):
        transcript.add(message)

    def fits(tokens: int) -> bool:
        anchor = Anchor(summary=summary)
        try:
            context = assemble(transcript, Budget(max_tokens=tokens), anchor=anchor)
        except BudgetTooSmall:
            return False
        assert not check(context)
        return True

    return bisect_left(range(100, 4_000), 1, key=fits) + 100


def test_a_long_summary_makes_room_for_a_turn_that_cannot_be_shortened() -> None:
    short = _least_budget("They agreed on Bergen. 定在卑尔根。")
    long = _least_budget("They agreed on Bergen. 定在卑尔根。\n" * 60)
    assert long - short < 40

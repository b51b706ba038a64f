"""The limits of `MessageMemory` on conversations nobody chose: they hold, cheaply, and give memory back."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.conversations import asks, chat, conversation, gaps, marks, pairing_faults
from tests.sizes import examples
from turnfold import (
    BudgetTooSmall,
    Message,
    MessageMemory,
    MessageMemoryConfig,
    TruncateStrategy,
    assistant,
    system,
    tool,
    user,
)
from turnfold.tokens import Certainty, TokenCounter, cautious_counter, counter_for
from turnfold.tokens.counter import OPENAI
from turnfold.window import check, shrink_message

pytestmark = pytest.mark.usefixtures("only_own_garbage")

SYSTEM = "You are a careful assistant. 你是一个谨慎的助手。"
CAUTIOUS = cautious_counter()


def test_limits_hold_after_every_message_of_ordinary_conversations() -> None:
    for seed in range(12):
        strategy = list(TruncateStrategy)[seed % 3]
        config = MessageMemoryConfig(max_messages=12, max_tokens=700, strategy=strategy)
        memory = MessageMemory(config)
        memory.set_system(SYSTEM)
        for message in conversation(seed, 120):
            memory.add(message)
            assert memory.count() == len(memory.get_messages()) <= 12
            assert memory.get_token_count() <= 700
            assert memory.get_messages()[0] == system(SYSTEM)
            assert pairing_faults(memory.get_messages(), running=True) == []


@st.composite
def configured(draw: st.DrawFn) -> MessageMemoryConfig:
    strategy = draw(st.sampled_from(TruncateStrategy))
    least = 256 if strategy is TruncateStrategy.SUMMARIZE else 20
    return MessageMemoryConfig(
        max_messages=draw(st.one_of(st.just(0), st.integers(1, 30))),
        max_tokens=draw(st.one_of(st.just(0), st.integers(least, 900))),
        strategy=strategy,
    )


@examples(60)
@given(
    config=configured(),
    seed=st.integers(0, 10_000),
    system_words=st.sampled_from([0, 1, 8, 60]),
    late=st.booleans(),
    broken=st.booleans(),
)
def test_limits_hold_for_any_conversation_and_any_limits(
    *, config: MessageMemoryConfig, seed: int, system_words: int, late: bool, broken: bool
) -> None:
    memory = MessageMemory(config)
    opening = [system("be kind " * system_words)] if system_words else []
    if opening and is_beyond(config, opening[0]):
        with pytest.raises(BudgetTooSmall, match="system"):
            memory.add(opening.pop())
    for message in [*opening, *conversation(seed, 70, late=late, broken=broken)]:
        memory.add(message)
        kept = memory.get_messages()
        assert memory.count() == len(kept)
        assert memory.get_token_count() == sum(map(CAUTIOUS.count_message, kept))
        assert kept[: len(opening)] == opening
        if config.max_messages and memory.count() > config.max_messages:
            assert_only_the_newest_is_kept(memory, kept)
            assert len(kept) > config.max_messages
        if config.max_tokens and memory.get_token_count() > config.max_tokens:
            assert_only_the_newest_is_kept(memory, kept)
            # A tenth is for the fence and the joints of what would be shortened.
            assert 1.1 * least_tokens(memory) > config.max_tokens or over_in_messages(memory)
        if not broken:
            assert results_without_call(kept) == []


def is_beyond(config: MessageMemoryConfig, opening: Message) -> bool:
    """Whether the limits have no place for anything beside the system message."""
    tokens = CAUTIOUS.count_message(opening) + 1
    too_long = bool(config.max_tokens) and tokens / (config.max_tokens + CAUTIOUS.reply) > 0.97
    return too_long or config.max_messages == 1


def assert_only_the_newest_is_kept(memory: MessageMemory, kept: Sequence[Message]) -> None:
    """System, summary, the question of the turn and the newest span: nothing else may be beyond a limit."""
    view = memory._log.view()
    assert view.start >= view.last
    spoken = [m for m in kept if m.role in ("user", "assistant") and "<summary " not in m.text]
    assert len(spoken) <= 2


def over_in_messages(memory: MessageMemory) -> bool:
    """Whether the newest span has too many messages, which no shortening can change: it is kept whole then."""
    most, view = memory.config.max_messages, memory._log.view()
    opening = len(memory._log.transcript.system) + bool(view.summary)
    return bool(most) and opening + view.messages(view.start) > most


def least_tokens(memory: MessageMemory) -> int:
    """What system, summary and the newest span cost with every part cut to the least that says anything."""
    view = memory._log.view()
    opening = memory.get_messages()[: len(memory._log.transcript.system) + bool(view.summary)]
    newest = [shrink_message(piece.message, 8, CAUTIOUS) for piece in view.pieces(view.start)]
    return sum(map(CAUTIOUS.count_message, [*opening, *newest])) + len(newest)


def results_without_call(kept: Sequence[Message]) -> list[str]:
    calls = {call.id for message in kept for call in message.calls}
    return [r.call_id for message in kept for r in message.results if r.call_id not in calls]


@pytest.mark.parametrize("strategy", TruncateStrategy)
def test_a_call_that_is_let_go_takes_its_late_result_with_it(strategy: TruncateStrategy) -> None:
    config = MessageMemoryConfig(max_messages=6, strategy=strategy)
    memory = MessageMemory(config)
    for message in [user("<0> go"), asks(1, "slow"), *chat(80)]:
        memory.add(message)
    memory.add(tool("<9> at last", tool_call_id="slow"))
    assert results_without_call(memory.get_messages()) == []
    assert memory.count() == len(memory.get_messages()) <= 6
    assert check(memory.context()) == ()


def test_results_nobody_asked_for_cannot_fill_a_limited_memory() -> None:
    memory = MessageMemory(MessageMemoryConfig(max_messages=5, max_tokens=300))
    for message in chat(2):
        memory.add(message)
    for number in range(300):
        memory.add(tool(f"stray {number}", tool_call_id=f"lost-{number}"))
        assert memory.count() <= 5
        assert memory.get_token_count() <= 300
    assert marks(memory.get_messages()) == [0, 1, 2, 3]
    assert len(memory._log.transcript.messages) <= 6


def test_without_limits_everything_is_kept_as_it_was_added() -> None:
    log = conversation(8, 150, late=True, broken=True)
    memory = MessageMemory()
    for message in log:
        memory.add(message)
        memory.get_messages_within_budget(500)
    assert memory.get_messages() == log
    assert memory.count() == len(log)


def test_an_oversized_message_is_shortened_to_the_limit_and_gives_way_in_time() -> None:
    memory = MessageMemory(MessageMemoryConfig(max_tokens=300))
    memory.add(user("<0> " + "很长的一段话 and more of it " * 800))
    assert 100 < memory.get_token_count() <= 300
    assert "tokens in full" in memory.get_messages()[0].text
    for message in chat(20):
        memory.add(message)
        assert memory.get_token_count() <= 300
    assert gaps(memory.get_messages(), chat(20)) == []


def test_a_limit_leaves_out_no_more_than_it_must() -> None:
    log = chat(60)
    memory = MessageMemory(MessageMemoryConfig(max_tokens=400))
    for number, message in enumerate(log, start=1):
        memory.add(message)
        first = marks(memory.get_messages())[0]
        if log[first].role == "user" and first > 0:
            longer = sum(map(CAUTIOUS.count_message, log[first - 2 : number]))
            assert longer > 400, f"message {first - 1} could have stayed"


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_a_large_system_message_is_kept_whole_and_still_within_the_limit(share: float) -> None:
    rules = "never ship on a Sunday; " * 60
    tokens = CAUTIOUS.count_message(system(rules))
    limit = int(tokens / share)
    memory = MessageMemory(MessageMemoryConfig(max_tokens=limit))
    memory.set_system(rules)
    for message in chat(40):
        memory.add(message)
        assert memory.get_messages()[0] == system(rules)
        assert memory.get_token_count() <= limit
    assert memory.count() >= 2


def test_a_system_message_beyond_the_limits_is_refused_and_changes_nothing() -> None:
    memory = MessageMemory(MessageMemoryConfig(max_tokens=100, max_messages=3))
    memory.set_system("be kind")
    for message in chat(1):
        memory.add(message)
    before = memory.get_messages()
    rules = "never ship on a Sunday; " * 60
    with pytest.raises(BudgetTooSmall, match="shorten it"):
        memory.set_system(rules)
    with pytest.raises(BudgetTooSmall, match="shorten it"):
        memory.add(system(rules))
    assert memory.get_messages() == before
    memory.add(system("be brief"))
    with pytest.raises(BudgetTooSmall, match="max_messages"):
        memory.add(system("be quick"))
    assert memory.get_messages()[:2] == [system("be kind"), system("be brief")]


# ------------------------------------------------------------------------------------------ what it costs


class CountedText:
    """Four characters are a token; remembers how much it was asked to count."""

    name = "counted"
    certainty = Certainty.ESTIMATE

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += len(text)
        return (len(text) + 3) // 4


def tool_loop() -> Iterator[Message]:
    """One question and an agent that never stops working on it."""
    yield user("<0> go on until I say stop")
    for number in count(1):
        yield asks(number, f"c{number}")
        yield tool(f"<{number}> result", tool_call_id=f"c{number}")


def endless_chat() -> Iterator[Message]:
    for number in count():
        yield user(f"<{number}> question")
        yield assistant(f"<{number}> answer")


def calls_made(memory: MessageMemory, messages: Sequence[Message]) -> int:
    """How many functions, C functions included, adding the messages calls: work counted, not timed."""
    total = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal total
        total += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        for message in messages:
            memory.add(message)
    finally:
        sys.setprofile(None)
    return total


@pytest.mark.parametrize("stream", [endless_chat, tool_loop])
def test_adding_costs_the_same_however_many_messages_are_kept(
    stream: Callable[[], Iterator[Message]],
) -> None:
    work: dict[int, float] = {}
    text: dict[int, float] = {}
    for limit in (50, 400, 1600):
        counted = CountedText()
        counter = TokenCounter(counted, framing=OPENAI)
        memory = MessageMemory(MessageMemoryConfig(max_messages=limit), counter=counter)
        messages = stream()
        for message in islice(messages, 2 * limit + 200):
            memory.add(message)
        counted.asked = 0
        # As many adds as one whole round of filling and releasing, so that its cost is in the mean.
        batch = list(islice(messages, 2 * limit))
        work[limit] = calls_made(memory, batch) / len(batch)
        text[limit] = counted.asked / len(batch)
        assert memory.count() <= limit
    assert work[1600] < 1.5 * work[50]
    assert text[1600] < 1.5 * text[50]


def test_without_limits_adding_does_not_look_back() -> None:
    memory = MessageMemory(counter=TokenCounter(CountedText(), framing=OPENAI))
    messages = endless_chat()
    first = calls_made(memory, list(islice(messages, 200)))
    for message in islice(messages, 5000):
        memory.add(message)
    later = calls_made(memory, list(islice(messages, 200)))
    assert later <= first * 1.1


class Watched(Message):
    """A message whose life can be watched: plain ones cannot be referred to weakly."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("strategy", TruncateStrategy)
@pytest.mark.parametrize("stream", [endless_chat, tool_loop])
def test_what_was_let_go_is_released(
    strategy: TruncateStrategy, stream: Callable[[], Iterator[Message]]
) -> None:
    config = MessageMemoryConfig(max_messages=40, max_tokens=2000, strategy=strategy)
    memory = MessageMemory(config)
    watched: list[weakref.ref[Message]] = []
    for message in islice(stream(), 1500):
        own = Watched.of(message.role, message.parts)
        watched.append(weakref.ref(own))
        memory.add(own)
        del own
        memory.get_messages_within_budget(1000)
    gc.collect()
    alive = sum(each() is not None for each in watched)
    assert alive <= 3 * 40 + 64
    assert len(memory._log.transcript.messages) <= 2 * 40 + 65


def test_clear_releases_everything() -> None:
    memory = MessageMemory()
    message = Watched("user", "<0> a secret")
    watched = weakref.ref(message)
    memory.add(message)
    del message
    memory.get_messages_within_budget()
    assert watched() is not None
    memory.clear()
    gc.collect()
    assert watched() is None


def test_the_window_goes_on_unchanged_when_memory_is_released() -> None:
    """Releasing rebuilds the log: the windows of a memory that releases equal those of one that need not."""
    exact = counter_for("gpt-4o")
    released = MessageMemory(MessageMemoryConfig(max_messages=60), counter=exact)
    releases = 0
    for number, message in enumerate(islice(tool_loop(), 600)):
        before = released._log.transcript
        released.add(message)
        releases += released._log.transcript is not before
        window = released.get_messages_within_budget(800)
        assert check(released.context(800)) == ()
        assert pairing_faults([m for m in window if m.role != "system"]) == []
        assert marks(window)[0] == 0, "the question stays before its tool loop"
        assert number < 3 or marks(window)[-1] == (number + 1) // 2
    assert releases >= 3

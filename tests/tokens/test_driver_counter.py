"""A model driver's own count is preferred, never trusted blindly, and never waited for on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from turnfold import Budget, TokenMemory
from turnfold.records import Message, ToolCall, assistant, tool, user
from turnfold.tokens import (
    Certainty,
    CountCache,
    DriverCounter,
    counter_for,
    shutdown_token_executor,
)
from turnfold.window import Transcript, assemble

LOCAL = counter_for("gpt-4o")
PRIVATE = "my password is tulip"


class Driver:
    """Answers what it is told to, and remembers who asked what."""

    def __init__(self, answer: Callable[[], object] = lambda: 99) -> None:
        self.answer = answer
        self.asked: list[Sequence[dict[str, object]]] = []
        self.threads: set[int] = set()

    def count_tokens(self, messages: Sequence[dict[str, object]]) -> object:
        self.asked.append(messages)
        self.threads.add(threading.get_ident())
        return self.answer()


def counter(driver: object) -> DriverCounter:
    return DriverCounter(driver, LOCAL, cache_size=8)


def test_the_driver_counts_single_messages() -> None:
    driver = Driver()
    message = assistant(
        "好", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
    )
    assert counter(driver).count_message(message) == 99
    assert driver.asked == [[message.model_dump()]]


def test_an_equal_message_is_not_asked_again() -> None:
    driver = Driver()
    counting = counter(driver)
    assert [counting.count_message(user("hi")) for _ in range(3)] == [99] * 3
    assert len(driver.asked) == 1
    assert counting.cache.stats().hits == 2
    counting.cache.clear()
    counting.count_message(user("hi"))
    assert len(driver.asked) == 2


def test_zero_is_an_answer() -> None:
    assert counter(Driver(lambda: 0)).count_message(user("hi")) == 0


def raise_error() -> int:
    raise ConnectionError(f"could not send {PRIVATE!r}")


async def answer_later() -> int:
    return 5


class Later(Awaitable[int]):
    def __await__(self) -> Any:
        raise AssertionError("nobody waits for it")


UNUSABLE: list[tuple[Callable[[], object], str]] = [
    (
        raise_error,
        "count_tokens of the model driver raised ConnectionError; counting locally instead",
    ),
    (
        answer_later,
        "count_tokens of the model driver returned coroutine instead of a count; counting locally instead",
    ),
    (
        Later,
        "count_tokens of the model driver returned Later instead of a count; counting locally instead",
    ),
    (
        lambda: -1,
        "count_tokens of the model driver returned the number -1 instead of a count; counting locally instead",
    ),
    (
        lambda: True,
        "count_tokens of the model driver returned the number True instead of a count; counting locally instead",
    ),
    (
        lambda: None,
        "count_tokens of the model driver returned NoneType instead of a count; counting locally instead",
    ),
    (
        lambda: "12",
        "count_tokens of the model driver returned str instead of a count; counting locally instead",
    ),
    (
        lambda: 12.5,
        "count_tokens of the model driver returned float instead of a count; counting locally instead",
    ),
    (
        lambda: {"input_tokens": 12},
        "count_tokens of the model driver returned dict instead of a count; counting locally instead",
    ),
]


@pytest.mark.parametrize(("answer", "warning"), UNUSABLE, ids=[row[1][13:40] for row in UNUSABLE])
def test_without_a_usable_answer_the_local_count_serves_with_a_warning(
    answer: Callable[[], object], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(answer)
    counting = counter(driver)
    with caplog.at_level(logging.WARNING):
        assert counting.count_message(user(PRIVATE)) == LOCAL.count_message(user(PRIVATE))
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert PRIVATE not in caplog.text
    # Not remembered: a driver that recovers is heard again.
    driver.answer = lambda: 42
    assert counting.count_message(user(PRIVATE)) == 42


def test_what_a_driver_said_is_for_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        counter(Driver(raise_error)).count_message(user("hi"))
    assert sorted(record.levelno for record in caplog.records) == [logging.DEBUG, logging.WARNING]
    assert PRIVATE in caplog.text


def test_a_driver_without_the_method_is_no_driver(caplog: pytest.LogCaptureFixture) -> None:
    assert counter(object()).count_message(user("hi")) == LOCAL.count_message(user("hi"))
    assert "AttributeError" in caplog.text


def test_an_interrupt_is_not_swallowed() -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        counter(Driver(interrupt)).count_message(user("hi"))


def test_a_driver_count_is_an_estimate_under_a_name_of_its_own() -> None:
    counting = counter(Driver())
    assert counting.certainty_of(user("hi")) is Certainty.ESTIMATE
    assert counting.count([user("hi")]).certainty is Certainty.ESTIMATE
    assert LOCAL.count([user("hi")]).certainty is Certainty.EXACT
    assert counting.name == f"driver:Driver+{LOCAL.name}"
    assert counting.name != DriverCounter(Driver(), counter_for("gpt-4"), cache_size=1).name


def test_texts_and_schemas_are_counted_locally() -> None:
    driver = Driver()
    counting = counter(driver)
    assert counting.count_text("hello there") == LOCAL.count_text("hello there")
    assert counting.count_tools([{"name": "f"}]) == LOCAL.count_tools([{"name": "f"}])
    assert driver.asked == []


def test_caches_are_never_shared() -> None:
    one, other = counter(Driver(lambda: 1)), counter(Driver(lambda: 2))
    assert one.cache is not other.cache
    local = CountCache(8)
    local.put(user("hi"), LOCAL.count_message(user("hi")))
    assert (one.count_message(user("hi")), other.count_message(user("hi"))) == (1, 2)
    assert local.get(user("hi")) == LOCAL.count_message(user("hi"))


def test_the_event_loop_never_waits_for_the_driver() -> None:
    driver = Driver()
    memory = TokenMemory("s", model_name="gpt-4o", model_driver=driver, max_tokens=4000)
    history: list[Message] = [user("一"), assistant("二"), user("三")] * 5

    async def use() -> None:
        batch = await memory.count_messages_batch_async(history)
        assert batch == LOCAL.count_messages(history)
        assert driver.asked == []
        await memory.get_history(history)
        assert driver.asked
        assert threading.get_ident() not in driver.threads
        assert memory.count_message_tokens(user("一")) == 99

    asyncio.run(use())
    shutdown_token_executor()


def test_a_result_is_asked_like_any_message() -> None:
    driver = Driver()
    counter(driver).count_message(tool("18°C", tool_call_id="c"))
    assert driver.asked == [[{"role": "tool", "content": "18°C", "tool_call_id": "c"}]]


def test_a_driver_that_comes_and_goes_never_makes_a_context_too_large() -> None:
    driver = Driver()
    transcript = Transcript(counter(driver))
    for number in range(20):
        transcript.add(user(f"question {number}"))
        driver.answer = raise_error
        transcript.add(Message.of("assistant", (ToolCall(f"c{number}", "f", "{}"),)))
        driver.answer = lambda: 99
        transcript.add(tool("42", tool_call_id=f"c{number}"))
    for allowed in range(400, 4_000, 100):
        assert assemble(transcript, Budget(max_tokens=allowed)).tokens <= allowed


def test_sabotage_a_placeholder_counted_twice_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_again(self: Transcript, call_id: str) -> int:
        return self.counter.count_message(tool("(no result)", tool_call_id=call_id))

    monkeypatch.setattr(Transcript, "_placeholder_cost", asked_again)
    with pytest.raises(AssertionError):
        test_a_driver_that_comes_and_goes_never_makes_a_context_too_large()

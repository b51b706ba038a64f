"""Each defect of the documents' own protocols: shown on a naive implementation, absent from the documented class.

Every test runs one body on both, and says which of the two is expected to fail it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

import pytest

from tests.memory.conversations import (
    agent_transcript,
    asks,
    chat,
    conversation,
    gaps,
    marks,
    pairing_faults,
)
from tests.memory.fakes import CountingDriver, ScriptedModel
from tests.memory.naive_agentc import LinkedMemory, byte_estimate
from tests.memory.naive_gecko import (
    NaiveSummaryMemory,
    NaiveTokenMemory,
    image_tokens,
    text_tokens,
)
from turnfold import (
    Message,
    MessageMemory,
    MessageMemoryConfig,
    SummaryTokenMemory,
    TokenMemory,
    system,
    tool,
    user,
)
from turnfold.tokens import counter_for

SYSTEM = system("You are a careful assistant.")
BOTH = pytest.mark.parametrize("naive", [True, False], ids=["naive", "turnfold"])
History = Callable[[Sequence[Message]], list[Message]]


def token_memory(max_tokens: int, *, naive: bool) -> History:
    if naive:
        return NaiveTokenMemory(max_tokens).history
    memory = TokenMemory("s", max_tokens=max_tokens)
    return lambda messages: asyncio.run(memory.get_history(messages))


def summary_memory(max_tokens: int, answer: Callable[[str], str], *, naive: bool) -> History:
    if naive:
        return NaiveSummaryMemory(max_tokens, answer).history
    memory = SummaryTokenMemory("s", ScriptedModel(answer), max_tokens=max_tokens)
    return lambda messages: asyncio.run(memory.get_history(messages))


def windows(history: History, log: Sequence[Message], *, every: int = 1) -> list[list[Message]]:
    """The window before each call of the model, as an agent loop asks for it."""
    stops = [stop for stop in range(1, len(log) + 1) if log[stop - 1].role != "assistant"]
    return [history([SYSTEM, *log[:stop]]) for stop in stops[::every]]


# ---------------------------------------------------------------------------------------- document 001


@BOTH
def test_results_are_not_separated_from_their_calls(*, naive: bool) -> None:
    log = agent_transcript(40)
    for make in (token_memory, lambda tokens, *, naive: summary_memory(tokens, short, naive=naive)):
        found = windows(make(2000, naive=naive), log)
        orphaned = sum(bool(pairing_faults(window)) for window in found)
        assert (orphaned > 3) is naive, f"{orphaned} of {len(found)}"
        assert bool(orphaned) is naive


def short(_: str) -> str:
    return "a few notes"


@BOTH
def test_what_is_kept_has_no_holes(*, naive: bool) -> None:
    log = [
        Message(m.role, m.text + "very long " * (200 if number % 7 == 3 else 0))
        for number, m in enumerate(chat(60))
    ]
    history = summary_memory(2000, short, naive=naive)
    stops = range(20, 120, 5)
    holed = sum(bool(gaps(history([SYSTEM, *log[:stop]]), log[:stop])) for stop in stops)
    assert bool(holed) is naive
    assert (holed > len(stops) / 2) is naive


@BOTH
def test_each_message_is_summarised_once(*, naive: bool) -> None:
    sent: list[str] = []

    def record(prompt: str) -> str:
        sent.append(prompt)
        return "a few notes"

    log = agent_transcript(60)
    windows(summary_memory(3000, record, naive=naive), log, every=2)
    said = sum(len(message.text) for message in log)
    ratio = sum(map(len, sent)) / said
    again = sum("<0> " in prompt for prompt in sent)
    assert (ratio > 10) is naive
    assert (ratio < 1.7) is not naive
    assert (again > 1) is naive


@BOTH
def test_what_is_evicted_while_the_model_fails_is_not_lost(*, naive: bool) -> None:
    def fail(_: str) -> str:
        raise RuntimeError("overloaded")

    fact = user("<0> The order number is 83-417-K and it must never be shipped to Lisbon.")
    history = summary_memory(1500, fail, naive=naive)
    window = history([SYSTEM, fact, *chat(100)[1:]])
    nowhere = not any("83-417-K" in message.text for message in window)
    assert nowhere is naive


@BOTH
def test_the_summary_cannot_push_the_window_over_the_budget(*, naive: bool) -> None:
    history = summary_memory(1500, lambda _: "on and on " * 1000, naive=naive)
    window = history([SYSTEM, *chat(100)])
    over = counter_for("gpt-3.5-turbo").count(window).tokens > 1500
    assert over is naive


@BOTH
def test_low_detail_is_recognised_in_a_dictionary(*, naive: bool) -> None:
    def block(detail: str) -> dict[str, object]:
        return {
            "type": "image_url",
            "image_url": {"url": "https://example.org/a.png", "detail": detail},
        }

    def cost(detail: str) -> int:
        if naive:
            return image_tokens(block(detail))
        message = {"role": "user", "content": [block(detail)]}
        return TokenMemory("s").count_message_tokens(message)

    assert (cost("low") == cost("high")) is naive


@BOTH
def test_two_counters_do_not_share_a_cache(*, naive: bool) -> None:
    local = counter_for("gpt-3.5-turbo").count_message(user("hello"))

    def batch_after_single() -> int:
        if naive:
            memory = NaiveTokenMemory(4000, driver=lambda _: 777)
            assert memory.count_one(user("hello")) == 777
            return memory.count_batch([user("hello")])[0]
        ours = TokenMemory("s", model_driver=CountingDriver(answer=777))
        assert ours.count_message_tokens(user("hello")) == 777
        return asyncio.run(ours.count_messages_batch_async([user("hello")]))[0]

    assert (batch_after_single() != local) is naive


@BOTH
def test_chinese_is_not_undercounted_without_a_tokenizer(*, naive: bool) -> None:
    text = "电池管理系统在充电过程中监测每一节电芯的电压、温度与电流，并在异常时切断回路。"
    estimate = text_tokens if naive else TokenMemory("s", model_name="unheard-of").estimate_tokens
    real = counter_for("gpt-4o").count_text(text)
    assert (estimate(text) < 0.6 * real) is naive
    assert (estimate(text) < real) is naive


@BOTH
def test_every_system_message_is_preserved(*, naive: bool) -> None:
    log = [SYSTEM, system("Answer in Chinese."), *chat(200)]
    window = token_memory(1000, naive=naive)(log)
    lost = system("Answer in Chinese.") not in window
    assert lost is naive


# ---------------------------------------------------------------------------------------- document 000


class Memory(Protocol):
    """What both memories of document 000 offer."""

    def add(self, message: Message, /) -> None: ...
    def get_messages(self) -> list[Message]: ...
    def truncate(self, target_tokens: int, /) -> object: ...


def message_memory(max_messages: int = 0, *, naive: bool) -> Memory:
    if naive:
        return LinkedMemory(max_messages)
    return MessageMemory(MessageMemoryConfig(max_messages=max_messages))


@BOTH
def test_limits_are_enforced(*, naive: bool) -> None:
    memory = message_memory(10, naive=naive)
    for message in chat(40):
        memory.add(message)
    beyond = len(memory.get_messages()) > 10
    assert beyond is naive
    assert marks(memory.get_messages())[-1] == 79


@BOTH
def test_truncation_keeps_pairs_whole(*, naive: bool) -> None:
    broken = 0
    for target in range(110, 400, 10):
        memory = message_memory(naive=naive)
        for message in [user("<0> go"), asks(1, "a", "b", text="let me see what there is")]:
            memory.add(message)
        memory.add(tool("<2> " + "words " * 50, tool_call_id="a"))
        memory.add(tool("<3> " + "words " * 50, tool_call_id="b"))
        memory.truncate(target)
        broken += bool(pairing_faults(memory.get_messages()))
    assert bool(broken) is naive


@BOTH
def test_the_system_message_survives_truncation(*, naive: bool) -> None:
    memory = message_memory(naive=naive)
    for message in [SYSTEM, *chat(40)]:
        memory.add(message)
    memory.truncate(300)
    assert (SYSTEM not in memory.get_messages()) is naive


@BOTH
@pytest.mark.parametrize("text", ["привет мир", "éèàçù", "Ελλάδα"])
def test_the_estimate_does_not_wrap_around(text: str, *, naive: bool) -> None:
    estimate = byte_estimate if naive else _character_estimate
    assert (estimate(text) > 1 << 32) is naive


@BOTH
@pytest.mark.parametrize("text", ["😀😀😀😀", "𠮷𠮷𠮷𠮷", "naïve 😀 🎉 text"])
def test_the_estimate_counts_characters_and_not_bytes(text: str, *, naive: bool) -> None:
    cjk = sum("\u3400" <= each <= "\u9fff" or "\U00020000" <= each <= "\U0003ffff" for each in text)
    by_character = cjk * 3 // 2 + (len(text) - cjk) // 4 + 4
    estimate = byte_estimate if naive else _character_estimate
    assert (estimate(text) != by_character) is naive


def _character_estimate(text: str) -> int:
    return MessageMemory.estimate_tokens(user(text))


def lines_run(action: Callable[[], None]) -> int:
    """How many lines of Python an action runs."""
    total = 0

    def note(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal total
        total += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        action()
    finally:
        sys.settrace(before)
    return total


@BOTH
def test_appending_does_not_walk_the_list(*, naive: bool) -> None:
    memory = message_memory(naive=naive)
    work: dict[int, int] = {}
    for number, message in enumerate(conversation(5, 3001)):
        if number in (100, 3000):
            work[number] = lines_run(lambda: memory.add(user("one more")))
        memory.add(message)
    assert (work[3000] > 10 * work[100]) is naive
    assert (work[3000] < 2 * work[100]) is not naive

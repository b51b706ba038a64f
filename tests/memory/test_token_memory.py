"""Document 001, §三.1 and §五: `TokenMemory` counts as documented and never hands out a broken history."""

from __future__ import annotations

import asyncio
import inspect
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.conversations import asks, chat, conversation, gaps, marks, pairing_faults
from tests.memory.fakes import CountingDriver
from tests.sizes import examples
from turnfold import (
    BudgetTooSmall,
    InvalidOption,
    InvalidRecord,
    Message,
    TokenMemory,
    assistant,
    shutdown_token_executor,
    system,
    tool,
    user,
)
from turnfold.tokens import Certainty, counter_for, token_executor
from turnfold.window import check

EXACT = counter_for("gpt-3.5-turbo")
SYSTEM = "You are a careful assistant. 你是一个谨慎的助手。"


def history(memory: TokenMemory, messages: list[Message], **options: Any) -> list[Message]:
    raw = [message.model_dump() for message in messages]
    return asyncio.run(memory.get_history(raw, **options))


# ----------------------------------------------------------------------------------------- construction


def test_the_constructor_is_the_documented_one() -> None:
    parameters = inspect.signature(TokenMemory).parameters.values()
    assert [(each.name, each.default) for each in parameters] == [
        ("session_id", inspect.Parameter.empty),
        ("storage", None),
        ("max_tokens", 4000),
        ("model_name", "gpt-3.5-turbo"),
        ("cache_size", 2000),
        ("max_message_length", 20000),
        ("enable_cache_for_batch", True),
        ("model_driver", None),
        ("enable_async_counting", True),
    ]
    assert {each.kind for each in parameters} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    memory = TokenMemory("s", None, 100, "gpt-4", 10, 50, False, None, False)  # noqa: FBT003 - by position
    assert (memory.max_tokens, memory.model_name, memory.cache_size) == (100, "gpt-4", 10)
    assert (memory.max_message_length, memory.enable_cache_for_batch) == (50, False)
    assert (memory.session_id, memory.enable_async_counting) == ("s", False)


@pytest.mark.parametrize(
    ("method", "is_async"),
    [
        ("count_message_tokens", False),
        ("count_messages_batch", False),
        ("count_messages_batch_async", True),
        ("get_history", True),
        ("count_total_tokens", False),
        ("estimate_tokens", False),
        ("clear_cache", False),
        ("get_cache_stats", False),
        ("print_cache_stats", False),
    ],
)
def test_every_documented_method_is_there(method: str, *, is_async: bool) -> None:
    found = getattr(TokenMemory, method)
    assert inspect.iscoroutinefunction(found) is is_async


def test_the_documented_methods_take_the_documented_arguments() -> None:
    def names(method: object) -> list[tuple[str, object]]:
        assert callable(method)
        found = inspect.signature(method).parameters.values()
        return [(each.name, each.default) for each in found if each.name != "self"]

    empty = inspect.Parameter.empty
    documented = [("raw_messages", ()), ("preserve_system", True)]
    assert names(TokenMemory.get_history) == [*documented, ("on_unreadable", None)]
    assert names(TokenMemory.count_message_tokens) == [("message", empty)]
    for batch in (TokenMemory.count_messages_batch, TokenMemory.count_messages_batch_async):
        assert names(batch) == [("messages", empty), ("use_cache", None)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_message_length": 0}, "max_message_length"),
        ({"cache_size": 0}, "cache size"),
        ({"storage": object()}, "storage"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        TokenMemory("s", **options)  # pyright: ignore[reportArgumentType] - options by name


# --------------------------------------------------------------------------------------------- counting


def test_counts_are_those_of_the_models_tokenizer_with_framing() -> None:
    log = conversation(2, 40)
    memory = TokenMemory("s")
    expected = [EXACT.count_message(message) for message in log]
    assert [memory.count_message_tokens(message) for message in log] == expected
    assert memory.count_messages_batch(log) == expected
    assert asyncio.run(memory.count_messages_batch_async(log)) == expected
    assert memory.count_total_tokens(log) == sum(expected)
    assert memory.count_messages_batch([message.model_dump() for message in log]) == expected
    assert memory.estimate_tokens("你好, world") == EXACT.count_text("你好, world")
    assert memory.estimate_tokens("") == memory.estimate_tokens(None) == 0
    assert (
        memory.count_messages_batch([]) == asyncio.run(memory.count_messages_batch_async([])) == []
    )


def test_models_count_differently_and_an_unknown_one_is_estimated() -> None:
    text = "内存管理模块 handles the budget " * 10
    counts = {
        name: TokenMemory("s", model_name=name).count_message_tokens(user(text))
        for name in ("gpt-4", "gpt-4o", "some-model-nobody-knows")
    }
    assert counts["gpt-4"] > counts["gpt-4o"]
    assert counts["some-model-nobody-knows"] >= counts["gpt-4o"]
    unknown = TokenMemory("s", model_name="some-model-nobody-knows")
    assert unknown.counter.text.certainty is Certainty.ESTIMATE
    assert history(unknown, chat(3)) == chat(3)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("use_cache", [None, True, False])
@pytest.mark.parametrize("pooled", [True, False])
def test_the_cache_is_used_as_asked(*, enabled: bool, use_cache: bool | None, pooled: bool) -> None:
    memory = TokenMemory("s", enable_cache_for_batch=enabled, enable_async_counting=pooled)
    log = chat(3)
    cached = enabled if use_cache is None else use_cache

    def stats() -> tuple[float, float, float]:
        found = memory.get_cache_stats()
        return found["cache_size"], found["hits"], found["misses"]

    memory.count_messages_batch(log, use_cache)
    assert stats() == ((6, 0, 6) if cached else (0, 0, 0))
    asyncio.run(memory.count_messages_batch_async(log, use_cache=use_cache))
    assert stats() == ((6, 6, 6) if cached else (0, 0, 0))


def test_cache_statistics_are_counted_shown_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    memory = TokenMemory("s", cache_size=4)
    for message in [*chat(3), *chat(3)]:
        memory.count_message_tokens(message)
    stats = memory.get_cache_stats()
    assert (stats["cache_size"], stats["max_cache_size"], stats["evictions"]) == (4, 4, 8)
    assert (stats["hits"], stats["misses"], stats["total_requests"]) == (0, 12, 12)
    memory.count_message_tokens(chat(3)[-1])
    assert memory.get_cache_stats()["hit_rate"] == pytest.approx(1 / 13)
    memory.print_cache_stats()
    printed = capsys.readouterr().out
    assert all(name in printed for name in stats)
    assert "7.7%" in printed
    memory.clear_cache()
    assert set(memory.get_cache_stats().values()) == {0, 4}


def test_the_pool_counts_and_can_be_shut_down_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = TokenMemory("s")
    used: set[int] = set()
    count = memory._local.count_messages

    class Spy:
        """The counter, noting the thread it runs in."""

        def __getattr__(self, name: str) -> object:
            return getattr(count.__self__, name)

        def count_messages(self, messages: list[Message]) -> list[int]:
            used.add(threading.get_ident())
            return count(messages)

    monkeypatch.setattr(memory, "_local", Spy())
    for _ in range(3):
        assert asyncio.run(memory.count_messages_batch_async(chat(2), use_cache=False)) == [
            EXACT.count_message(message) for message in chat(2)
        ]
        shutdown_token_executor()
    shutdown_token_executor()
    assert threading.get_ident() not in used
    assert used
    assert token_executor().submit(lambda: 1).result() == 1


# --------------------------------------------------------------------------------------------- the driver


def test_the_driver_is_preferred_for_single_counts() -> None:
    driver = CountingDriver()
    memory = TokenMemory("s", model_driver=driver)
    assert memory.count_message_tokens(user("hi")) == 1001
    assert memory.count_message_tokens(user("hi")) == 1001, "from the cache"
    assert memory.count_message_tokens(user("ho")) == 1002
    assert [list(messages) for messages in driver.asked] == [
        [{"role": "user", "content": "hi"}],
        [{"role": "user", "content": "ho"}],
    ]


def test_the_driver_is_asked_in_the_pool_and_never_on_the_event_loop() -> None:
    driver = CountingDriver()
    memory = TokenMemory("s", model_driver=driver)
    log = chat(3)
    assert asyncio.run(memory.count_messages_batch_async(log)) == [
        EXACT.count_message(message) for message in log
    ]
    assert driver.asked == []
    history(TokenMemory("s", model_driver=driver, max_tokens=90_000), log)
    assert driver.asked
    assert threading.get_ident() not in driver.threads


@pytest.mark.parametrize("use_cache", [None, True, False])
@pytest.mark.parametrize("model", ["gpt-3.5-turbo", "nobody-knows-it"])
def test_batches_count_alike_in_a_thread_and_out_of_it(
    *, use_cache: bool | None, model: str
) -> None:
    driver = CountingDriver(answer=777)
    memory = TokenMemory("s", model_name=model, model_driver=driver)
    log = [*conversation(3, 30), user("你好，世界")]
    memory.count_message_tokens(log[0])  # by the driver: it must not leak into a batch
    counts = memory.count_messages_batch(log, use_cache)
    assert counts == asyncio.run(memory.count_messages_batch_async(log, use_cache))
    assert counts == TokenMemory("s", model_name=model).count_messages_batch(log)
    assert memory.count_total_tokens(log) == sum(counts)
    assert len(driver.asked) == 1


def test_one_message_has_one_count_per_counter_whatever_the_order() -> None:
    driver = CountingDriver(answer=777)
    memory = TokenMemory("s", model_driver=driver)
    local = EXACT.count_message(user("hi"))
    for _ in range(2):
        assert asyncio.run(memory.count_messages_batch_async([user("hi")])) == [local]
        assert memory.count_message_tokens(user("hi")) == 777


async def _later() -> int:
    return 5


@pytest.mark.parametrize("answer", [RuntimeError("offline"), "many", -1, True, 2.5])
def test_a_driver_that_fails_is_replaced_by_the_tokenizer(answer: object) -> None:
    memory = TokenMemory("s", model_driver=CountingDriver(answer=answer), max_tokens=300)
    assert memory.count_message_tokens(user("hi")) == EXACT.count_message(user("hi"))
    window = history(memory, chat(40))
    assert EXACT.count(window).tokens <= 300
    assert gaps(window, chat(40)) == []


def test_a_driver_that_counts_later_is_not_awaited_and_not_left_running() -> None:
    driver = CountingDriver()
    driver.count_tokens = lambda messages: _later()  # noqa: ARG005 - the shape of the call
    memory = TokenMemory("s", model_driver=driver)
    assert memory.count_message_tokens(user("hi")) == EXACT.count_message(user("hi"))


def test_a_driver_without_count_tokens_is_no_driver() -> None:
    memory = TokenMemory("s", model_driver=SimpleNamespace(name="model"))
    assert memory.count_message_tokens(user("hi")) == EXACT.count_message(user("hi"))


def test_the_driver_decides_what_fits() -> None:
    memory = TokenMemory("s", model_driver=CountingDriver(answer=100), max_tokens=450)
    window = history(memory, chat(10))
    assert marks(window) == [16, 17, 18, 19]


# ------------------------------------------------------------------------------------------- multimodal


@dataclass
class Block:
    """A content block as an object with attributes."""

    type: str
    text: str | None = None
    image_url: object = None


def test_content_is_counted_alike_as_text_objects_and_dictionaries() -> None:
    memory = TokenMemory("s")
    plain = memory.count_message_tokens(user("look at this"))
    assert memory.count_message_tokens(Message("user", [Block("text", "look at this")])) == plain
    as_dicts = {"role": "user", "content": [{"type": "text", "text": "look at this"}]}
    assert memory.count_message_tokens(as_dicts) == plain


def image(detail: str | None, *, as_object: bool) -> object:
    url = "https://example.org/a.png"
    if as_object:
        source: object = SimpleNamespace(url=url, detail=detail)
        return Block("image_url", image_url=source)
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}


@pytest.mark.parametrize("as_object", [True, False])
@pytest.mark.parametrize("model", ["gpt-3.5-turbo", "gpt-4", "gpt-4o"])
def test_an_image_of_low_detail_costs_less_than_one_of_high(*, as_object: bool, model: str) -> None:
    memory = TokenMemory("s", model_name=model)

    def cost(detail: str | None) -> int:
        blocks = [{"type": "text", "text": "what is it?"}, image(detail, as_object=as_object)]
        return memory.count_message_tokens({"role": "user", "content": blocks})

    words = memory.count_message_tokens(user("what is it?"))
    assert words < cost("low") < cost("high")
    assert cost("low") - words < 100
    assert cost(None) == cost("auto") == cost("high")


# ------------------------------------------------------------------------------------------- get_history


def test_a_history_that_fits_comes_back_whole() -> None:
    log = [system(SYSTEM), *conversation(4, 30)]
    while log[-1].calls or log[-1].role == "tool":
        log.pop()
    memory = TokenMemory("s", max_tokens=50_000)
    assert history(memory, log) == log
    assert memory.receipt is not None
    assert memory.receipt.tokens == EXACT.count(log).tokens
    assert history(memory, []) == []
    assert history(memory, [system(SYSTEM)]) == [system(SYSTEM)]


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 90),
    max_tokens=st.integers(260, 1500),
    broken=st.booleans(),
)
def test_any_history_is_within_max_tokens_and_whole(
    *, seed: int, length: int, max_tokens: int, broken: bool
) -> None:
    log = conversation(seed, length, late=broken, broken=broken)
    memory = TokenMemory("s", max_tokens=max_tokens)
    window = history(memory, [system(SYSTEM), *log])
    assert EXACT.count(window).tokens <= max_tokens
    assert window[0] == system(SYSTEM)
    assert pairing_faults(window) == []
    assert memory._last is not None
    assert check(memory._last) == ()
    if not broken and not log[-1].calls and log[-1].role != "tool":
        assert gaps(window, log) == []


def test_as_much_is_kept_as_fits() -> None:
    log = chat(80)
    for max_tokens in range(100, 900, 37):
        window = history(TokenMemory("s", max_tokens=max_tokens), log)
        first = marks(window)[0]
        assert log[first].role == "user" or marks(window)[1] > first + 1 or first == 0
        oldest = next(n for n in marks(window) if n + 1 in marks(window))
        if oldest > 1:
            more = log[oldest - 2 :] if log[oldest].role == "user" else log[oldest - 1 :]
            assert EXACT.count(more).tokens > max_tokens


def test_history_inside_a_running_loop_and_from_many_tasks() -> None:
    memory = TokenMemory("s", max_tokens=400)
    log = [message.model_dump() for message in conversation(6, 60)]

    async def main() -> list[list[Message]]:
        return await asyncio.gather(*(memory.get_history(log) for _ in range(50)))

    first, *others = asyncio.run(main())
    assert all(other == first for other in others)
    assert history(memory, conversation(6, 60)) == first


def test_an_invalid_message_is_named_by_its_index_and_never_skipped() -> None:
    raw: list[object] = [message.model_dump() for message in chat(2)]
    raw[2] = {"content": "who said this?"}
    with pytest.raises(InvalidRecord) as caught:
        asyncio.run(TokenMemory("s").get_history(raw))
    assert caught.value.path.startswith("raw_messages[2]")
    raw[2] = {"role": "tool", "content": "whose result?"}
    with pytest.raises(InvalidRecord, match=r"raw_messages\[2\]"):
        asyncio.run(TokenMemory("s").get_history(raw))


def test_system_messages_are_all_kept_first_unless_told_otherwise() -> None:
    log = [system("first rule"), *chat(30), system("second rule"), user("<60> now")]
    memory = TokenMemory("s", max_tokens=200)
    window = history(memory, log)
    assert window[:2] == [system("first rule"), system("second rule")]
    assert [message.role for message in window[2:]].count("system") == 0
    loose = history(memory, log, preserve_system=False)
    assert system("first rule") not in loose
    assert loose[-2:] == [system("second rule"), user("<60> now")]
    assert EXACT.count(loose).tokens <= 200
    assert history(TokenMemory("s", max_tokens=9000), log, preserve_system=False) == log


@pytest.mark.parametrize("rules", [1, 3])
def test_a_system_message_beyond_the_budget_is_shortened_by_tokens(rules: int) -> None:
    long = [system(f"rule {number}: " + "规则 never on Sunday " * 900) for number in range(rules)]
    window = history(TokenMemory("s", max_tokens=600), [*long, *chat(20)])
    assert EXACT.count(window).tokens <= 600
    assert [message.text[:6] for message in window[:rules]] == [f"rule {n}" for n in range(rules)]
    assert marks(window)[-1] == 39


def test_a_system_message_that_leaves_room_is_not_touched() -> None:
    rules = system("never on Sunday; " * 100)
    tokens = EXACT.count_message(rules)
    assert history(TokenMemory("s", max_tokens=tokens * 4 // 3), [rules, *chat(20)])[0] == rules


def test_max_message_length_bounds_each_text_and_keeps_head_tail_and_notes() -> None:
    long = "HEAD" + "x" * 5000 + "TAIL"
    log = [
        Message("user", long, metadata={"id": 7}),
        asks(1, "a"),
        tool([{"type": "text", "text": long, "cache": 1}], tool_call_id="a"),
        assistant("y" * 100),
    ]
    window = history(TokenMemory("s", max_message_length=100), log)
    for message in (window[0], window[2]):
        assert len(message.text) == 100
        assert message.text.startswith("HEAD")
        assert message.text.endswith("TAIL")
    assert window[0].metadata == {"id": 7}
    assert '"cache": 1' in str(window[2].model_dump()).replace("'", '"')
    assert window[1:2] + window[3:] == [log[1], log[3]]


def test_a_newest_turn_that_cannot_fit_is_a_typed_error() -> None:
    parallel = [user("go"), asks(1, *(f"call-{number}" for number in range(40)))]
    with pytest.raises(BudgetTooSmall, match="newest turn"):
        history(TokenMemory("s", max_tokens=200), parallel)

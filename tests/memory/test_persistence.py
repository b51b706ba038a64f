"""Document 000's persistence: a restart changes nothing of what is held and shown."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.conversations import chat, conversation
from tests.memory.saved import (
    BUDGETS,
    NumberedSummaries,
    kept_in,
    kept_in_config,
    seen,
    stored,
    window,
)
from tests.sizes import examples
from turnfold import (
    BudgetTooSmall,
    Message,
    MessageMemory,
    MessageMemoryConfig,
    TruncateStrategy,
    TurnfoldError,
    assistant,
    system,
    user,
)
from turnfold.memories import message_memory_transcript as kept_messages
from turnfold.records import Entry
from turnfold.stores import Scope, SqliteStore
from turnfold.tokens import counter_for
from turnfold.window import Summarizer


def test_what_was_added_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as memory:
        memory.set_system("careful 谨慎")
        memory.add({"role": "user", "content": "你好"})
        memory.add(assistant("hello 🎉"))
        before = seen(memory)
    with kept_in(path) as again:
        assert again.get_messages() == [system("careful 谨慎"), user("你好"), assistant("hello 🎉")]
        assert seen(again) == before


class Pair:
    """A memory in a file that is restarted at will, and its twin in the process that never is."""

    def __init__(
        self, path: Path, options: dict[str, object], summarizer: Callable[[], Summarizer | None]
    ) -> None:
        self.path, self.options = path, options
        self.summaries = summarizer(), summarizer()
        self.twin = MessageMemory(
            MessageMemoryConfig(**options),  # pyright: ignore[reportArgumentType] - options by name
            summarizer=self.summaries[0],
        )
        self.memory = self.opened()
        self.left: list[MessageMemory] = []

    def opened(self) -> MessageMemory:
        config = kept_in_config(self.path, self.options)
        return MessageMemory(config, summarizer=self.summaries[1])

    def do(self, act: Callable[[MessageMemory], object]) -> None:
        """The same on both, with the same outcome."""
        outcomes: list[object] = []
        for memory in (self.twin, self.memory):
            try:
                outcomes.append(act(memory))
            except TurnfoldError as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        assert outcomes[1] == outcomes[0]

    def restart(self, *, politely: bool) -> None:
        if politely:
            self.memory.close()
        else:
            self.left.append(self.memory)
        self.memory = self.opened()
        assert seen(self.memory) == seen(self.twin)

    def close(self) -> None:
        for memory in (self.memory, *self.left):
            memory.close()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.just("window"), st.sampled_from(BUDGETS)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
        st.tuples(st.just("system"), st.integers(0, 2)),
        st.tuples(st.just("more system"), st.integers(0, 2)),
        st.tuples(st.just("truncate"), st.sampled_from((40, 150, 400))),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    min_size=3,
    max_size=14,
)
LIMITS = st.sampled_from(
    [
        {},
        {"max_messages": 5},
        {"max_messages": 9, "strategy": TruncateStrategy.SLIDING_WINDOW},
        {"max_tokens": 300},
        {"max_tokens": 600, "max_messages": 12},
        {"max_tokens": 400, "strategy": TruncateStrategy.SUMMARIZE},
        {"max_messages": 7, "strategy": TruncateStrategy.SUMMARIZE},
    ]
)


def perform(pair: Pair, name: str, value: int, source: list[Message]) -> None:
    match name:
        case "add":
            for _ in range(min(value, len(source))):
                message = source.pop(0)
                pair.do(lambda memory, message=message: memory.add(message))
        case "window":
            pair.do(lambda memory: window(memory, value))
        case "system":
            pair.do(lambda memory: memory.set_system("be brief. " * value))
        case "more system":
            pair.do(lambda memory: memory.add(system(f"rule {value}")))
        case "truncate":
            pair.do(lambda memory: memory.truncate(value))
        case "clear":
            pair.do(lambda memory: memory.clear())
        case _:
            pair.restart(politely=bool(value))


def check_like_one_that_never_stopped(
    operations: list[tuple[str, int]],
    options: dict[str, object],
    source: list[Message],
    summarizer: Callable[[], Summarizer | None],
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        # Otherwise short histories would release nothing.
        patched.setattr(kept_messages, "_MIN_RELEASED", 3)
        pair = Pair(Path(folder) / "chat.db", options, summarizer)
        try:
            for name, value in operations:
                perform(pair, name, value, source)
                assert seen(pair.memory) == seen(pair.twin)
            pair.restart(politely=False)
            for budget in BUDGETS:
                pair.do(lambda memory, budget=budget: window(memory, budget))
        finally:
            pair.close()


SOURCES = st.builds(
    lambda seed, most, broken: conversation(seed, 150, late=broken, broken=broken, most=most),
    st.integers(0, 999),
    st.sampled_from((60, 400)),
    st.booleans(),
)


@examples(50)
@given(operations=OPERATIONS, options=LIMITS, source=SOURCES)
def test_a_memory_in_a_file_is_like_one_that_never_stopped(
    operations: list[tuple[str, int]], options: dict[str, object], source: list[Message]
) -> None:
    check_like_one_that_never_stopped(operations, options, source, NumberedSummaries)


@examples(30)
@given(operations=OPERATIONS, options=LIMITS, source=SOURCES)
def test_so_is_one_that_dies_in_every_add_before_its_state_is_written(
    operations: list[tuple[str, int]], options: dict[str, object], source: list[Message]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        # Nothing that adding a message changes is saved.
        patched.setattr(MessageMemory, "_mark", lambda memory: memory._limits)
        check_like_one_that_never_stopped(operations, options, source, lambda: None)


def test_the_log_keeps_what_the_limits_and_clear_let_go(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    said = chat(10)
    with kept_in(path, max_messages=3) as memory:
        for message in said:
            memory.add(message)
        memory.clear()
        assert memory.count() == 0
    with kept_in(path, max_messages=3) as again:
        assert again.count() == 0
    assert stored(path) == said


def test_opening_reads_only_what_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_messages, "_MIN_RELEASED", 4)
    path = tmp_path / "chat.db"
    memory = kept_in(path, max_messages=6)  # not closed: closing would save the state
    for message in chat(100):
        memory.add(message)
    entries = 0
    read = SqliteStore.read

    async def counted(
        self: SqliteStore, scope: Scope, name: str, *, after: int, upto: int, limit: int
    ) -> list[Entry]:
        nonlocal entries
        found = await read(self, scope, name, after=after, upto=upto, limit=limit)
        entries += len(found)
        return found

    monkeypatch.setattr(SqliteStore, "read", counted)
    with kept_in(path, max_messages=6) as again:
        assert seen(again) == seen(memory)
    memory.close()
    assert 6 <= entries <= 3 * 6 + 4


def test_opening_alone_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as writer:
        for message in chat(5):
            writer.add(message)
        with kept_in(path) as reader:
            assert seen(reader) == seen(writer)
        with kept_in(path, max_messages=2) as reader:
            assert reader.count() == 2
        writer.add(user("undisturbed"))


def test_other_limits_hold_from_the_opening_on(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as memory:
        memory.set_system("short")
        for message in chat(10):
            memory.add(message)
        memory.truncate(10_000)
    with kept_in(path, max_messages=5) as fewer:
        assert fewer.count() == 5
        fewer.add(user("more"))
        before = seen(fewer)
    with kept_in(path, max_messages=5) as again:
        assert seen(again) == before
    with kept_in(path, max_messages=50) as wider:
        assert seen(wider) == before


def test_another_counter_counts_what_was_stored_anew(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as memory:
        for message in chat(3):
            memory.add(message)
    exact = counter_for("gpt-4o")
    for _ in range(2):
        with MessageMemory(kept_in_config(path, {}), counter=exact) as again:
            assert again.get_token_count() == sum(map(exact.count_message, again.get_messages()))
            again.add(user("and this"))
            assert again.get_token_count() == sum(map(exact.count_message, again.get_messages()))


def test_a_failing_summarizer_loses_nothing_and_does_not_bar_the_door(tmp_path: Path) -> None:
    def failing(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        raise RuntimeError(f"no model for {len(messages)} messages, {limit} tokens{previous}")

    path = tmp_path / "chat.db"
    options: dict[str, object] = {"max_tokens": 300, "strategy": TruncateStrategy.SUMMARIZE}
    said = [user("订单号是 83-417-K, never ship it to Lisbon"), *chat(20)]
    with MessageMemory(kept_in_config(path, options), summarizer=failing) as memory:
        for message in said:
            memory.add(message)
            assert memory.get_token_count() <= 300
            assert "83-417-K" in "".join(each.text for each in memory.get_messages())
        before = seen(memory)
    assert stored(path) == said, "each message once"
    with MessageMemory(kept_in_config(path, options), summarizer=failing) as again:
        assert seen(again) == before


def test_a_refused_system_message_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path, max_tokens=100) as memory:
        memory.add(user("hello"))
        with pytest.raises(BudgetTooSmall):
            memory.add(system("long " * 300))
        with pytest.raises(BudgetTooSmall):
            memory.set_system("long " * 300)
        before = seen(memory)
    assert stored(path) == [user("hello")]
    with kept_in(path, max_tokens=100) as again:
        assert seen(again) == before

"""Document 000: every interface, default and behaviour of `MessageMemory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields

import pytest

from tests.memory.conversations import asks, chat, conversation, gaps, marks, pairing_faults
from turnfold import (
    BudgetTooSmall,
    InvalidOption,
    InvalidRecord,
    Message,
    MessageMemory,
    MessageMemoryConfig,
    TruncateStrategy,
    assistant,
    system,
    tool,
    user,
)
from turnfold.errors import InvalidBudget
from turnfold.tokens import cautious_counter, counter_for
from turnfold.window import Section, check, message_bytes
from turnfold.wire import WireFormat, anthropic, body_bytes, openai_chat

EXACT = counter_for("gpt-4o")
CAUTIOUS = cautious_counter()
SYSTEM = "You are a careful assistant. 你是一个谨慎的助手。"


def memory_of(messages: Sequence[Message], **options: object) -> MessageMemory:
    memory = MessageMemory(MessageMemoryConfig(**options))  # pyright: ignore[reportArgumentType] - options by name
    for message in messages:
        memory.add(message)
    return memory


# ------------------------------------------------------------------------------------- configuration


def test_the_configuration_has_the_documented_fields_and_defaults() -> None:
    found = {
        field.name: None if field.default is MISSING else field.default
        for field in fields(MessageMemoryConfig)
    }
    assert found == {
        "session_id": "",
        "max_messages": 0,
        "max_tokens": 0,
        "context_window": 128_000,
        "reserve_ratio": 0.25,
        "strategy": TruncateStrategy.OLDEST,
        "db_path": None,
        "enable_persistence": None,  # as `db_path` says
    }
    assert MessageMemory().config == MessageMemoryConfig()


def test_the_strategies_are_the_documented_ones() -> None:
    assert [strategy.name for strategy in TruncateStrategy] == [
        "OLDEST",
        "SLIDING_WINDOW",
        "SUMMARIZE",
    ]


@pytest.mark.parametrize("name", ["oldest", "sliding_window", "summarize"])
def test_a_strategy_may_be_given_by_its_name(name: str) -> None:
    config = MessageMemoryConfig(strategy=name)  # pyright: ignore[reportArgumentType] - as read from a file
    assert config.strategy is TruncateStrategy(name)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"enable_persistence": True, "session_id": "s"}, InvalidOption, "db_path=None"),
        ({"db_path": ":memory:"}, InvalidOption, "memory"),
        ({"db_path": "", "enable_persistence": True}, InvalidOption, "not the path"),
        ({"strategy": "newest"}, InvalidOption, "newest"),
        ({"max_messages": -1}, InvalidBudget, "max_messages"),
        ({"max_tokens": -5}, InvalidBudget, "max_tokens"),
        ({"context_window": -1}, InvalidBudget, "context_window"),
        ({"context_window": 0}, InvalidBudget, "context_window"),
        ({"reserve_ratio": 1.0}, InvalidBudget, "reserve_ratio"),
        ({"reserve_ratio": -0.1}, InvalidBudget, "reserve_ratio"),
        ({"strategy": TruncateStrategy.SUMMARIZE, "max_tokens": 100}, InvalidOption, "summary"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_configured(
    options: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        memory_of([], **options)


# ---------------------------------------------------------------------------------- storing and reading


def test_messages_come_back_as_they_were_added_behind_the_system_message() -> None:
    memory = MessageMemory()
    memory.add({"role": "user", "content": "hello"})
    memory.set_system(SYSTEM)
    memory.add(assistant("你好"))
    assert memory.get_messages() == [system(SYSTEM), user("hello"), assistant("你好")]
    assert memory.count() == 3
    assert memory.get_token_count() == sum(map(CAUTIOUS.count_message, memory.get_messages()))


def test_the_token_count_is_the_sum_over_everything_kept() -> None:
    memory = MessageMemory(counter=EXACT)
    memory.set_system(SYSTEM)
    log = conversation(3, 40)
    for message in log:
        memory.add(message)
    assert memory.get_token_count() == sum(map(EXACT.count_message, [system(SYSTEM), *log]))


def test_an_empty_memory_is_empty() -> None:
    memory = MessageMemory()
    assert (memory.get_messages(), memory.count(), memory.get_token_count()) == ([], 0, 0)
    assert memory.get_messages_within_budget() == []


def test_set_system_replaces_the_system_message() -> None:
    memory = memory_of([system("old"), user("hi")])
    memory.set_system("new")
    assert memory.get_messages() == [system("new"), user("hi")]


def test_a_message_that_cannot_be_kept_is_refused_and_leaves_nothing_behind() -> None:
    memory = memory_of([user("hi")])
    with pytest.raises(InvalidRecord):
        memory.add({"role": "tool", "content": "no id"})
    assert memory.get_messages() == [user("hi")]


@pytest.mark.parametrize("strategy", TruncateStrategy)
def test_clear_keeps_the_system_message_and_nothing_else(strategy: TruncateStrategy) -> None:
    memory = memory_of([system(SYSTEM), *chat(40)], max_tokens=400, strategy=strategy)
    memory.get_messages_within_budget()
    memory.clear()
    assert memory.get_messages() == memory.get_messages_within_budget() == [system(SYSTEM)]
    assert memory.count() == 1
    fresh = memory_of([system(SYSTEM)], max_tokens=400, strategy=strategy)
    for message in chat(40):
        memory.add(message)
        fresh.add(message)
        assert memory.get_messages() == fresh.get_messages()
        assert memory.get_messages_within_budget(300) == fresh.get_messages_within_budget(300)


# ------------------------------------------------------------------------------------ the rule of thumb


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 4),
        ("abc", 4),
        ("abcd", 5),
        ("hello world!", 7),
        ("中", 5),
        ("中文", 7),
        ("中文字", 8),
        ("你好, world", 4 + 3 + 7 // 4),
        ("𠮷野家𠀀", 4 + 6),  # two of them take four bytes
        ("😀" * 8, 4 + 2),
        ("привет мир", 4 + 10 // 4),
        ("naïve café ", 4 + 11 // 4),
    ],
)
def test_the_estimate_is_the_documented_formula_by_character(text: str, tokens: int) -> None:
    assert MessageMemory.estimate_tokens(user(text)) == tokens
    assert MessageMemory.estimate_tokens({"role": "assistant", "content": text}) == tokens


def test_the_estimate_counts_what_is_asked_of_tools_and_what_they_answer() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f" * 8, "arguments": "{}" * 8}}
    assert MessageMemory.estimate_tokens(assistant(None, tool_calls=[call])) == 4 + (8 + 16) // 4
    assert MessageMemory.estimate_tokens(assistant("中文", tool_calls=[call])) == 4 + 3 + 24 // 4
    assert MessageMemory.estimate_tokens(tool("x" * 40, tool_call_id="1")) == 4 + 10


def test_a_message_without_content_is_estimated_at_nothing() -> None:
    assert MessageMemory.estimate_tokens({"role": "assistant", "content": None}) == 0
    assert MessageMemory.estimate_tokens(None) == 0


def test_an_unnamed_model_is_counted_no_lower_than_the_estimate_or_the_tokenizer() -> None:
    for message in conversation(5, 60):
        memory = memory_of([message])
        counted = memory.get_token_count()
        assert counted >= MessageMemory.estimate_tokens(message)
        assert counted >= EXACT.count_message(message)


# ------------------------------------------------------------------------------------- the budget of a call


def test_the_budget_is_the_window_less_its_reserve() -> None:
    memory = memory_of([user("hi")])
    assert memory.context().budget.tokens == 96_000
    smaller = memory_of([user("hi")], context_window=1000, reserve_ratio=0.1)
    assert smaller.context().budget.tokens == 900
    assert memory_of([user("hi")], max_tokens=500).context().budget.tokens == 500
    assert memory_of([user("hi")], max_tokens=500).context(300).budget.tokens == 300
    assert memory_of([user("hi")], max_tokens=500).context(900).budget.tokens == 500


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(InvalidOption, match="-1"):
        memory_of([user("hi")]).get_messages_within_budget(-1)


@pytest.mark.parametrize("strategy", TruncateStrategy)
@pytest.mark.parametrize("seed", range(6))
def test_every_window_is_within_the_budget_by_a_recount(
    strategy: TruncateStrategy, seed: int
) -> None:
    memory = memory_of([system(SYSTEM)], context_window=1200, strategy=strategy, max_messages=0)
    log = conversation(seed, 120)
    for message in log:
        memory.add(message)
        window = memory.get_messages_within_budget()
        assert EXACT.count(window).tokens <= CAUTIOUS.count(window).tokens <= 900
        assert window[0] == system(SYSTEM)
        assert pairing_faults(window) == []
        assert check(memory.context()) == ()


@pytest.mark.parametrize("strategy", TruncateStrategy)
def test_windows_are_contiguous_and_end_with_the_newest_message(strategy: TruncateStrategy) -> None:
    memory = memory_of([system(SYSTEM)], strategy=strategy)
    log = [
        message for message in conversation(11, 200) if message.role != "tool" and not message.calls
    ]
    log = [Message(m.role, f"<{n}> {m.text.split('> ', 1)[1]}") for n, m in enumerate(log)]
    for number, message in enumerate(log):
        memory.add(message)
        assert gaps(memory.get_messages_within_budget(400), log[: number + 1]) == []


def test_the_window_grows_at_its_end_until_it_is_cut() -> None:
    memory = memory_of([system(SYSTEM)])
    previous: list[Message] = []
    cuts = 0
    for message in chat(150):
        memory.add(message)
        window = memory.get_messages_within_budget(1000)
        if window[: len(previous)] != previous:
            cuts += 1
            assert len(window) < len(previous)
        previous = window
    assert 0 < cuts <= 12
    assert memory.receipt is not None
    assert memory.receipt.prefix_share == 1.0


def test_budgets_asked_for_in_turn_do_not_disturb_each_other() -> None:
    log = conversation(21, 150)
    budgets = (400, 700, 0, 1500)
    alone = {budget: memory_of([system(SYSTEM)], context_window=3000) for budget in budgets}
    shared = memory_of([system(SYSTEM)], context_window=3000)
    for message in log:
        shared.add(message)
        for budget in budgets:
            alone[budget].add(message)
            expected = alone[budget].get_messages_within_budget(budget)
            assert shared.get_messages_within_budget(budget) == expected


def test_one_oversized_message_is_shortened_and_the_window_stays_within_budget() -> None:
    memory = memory_of(
        [system(SYSTEM), *chat(5), user("<10> " + "一二三四五 numbers 12345 " * 4000)]
    )
    window = memory.get_messages_within_budget(500)
    assert EXACT.count(window).tokens <= 500
    assert marks(window)[-1] == 10
    assert "全文共 " in window[-1].text
    assert len(memory.get_messages()[-1].text) > 50_000


def test_a_budget_for_nothing_is_a_typed_error_with_its_arithmetic() -> None:
    memory = memory_of([system(SYSTEM), user("question " * 50)])
    with pytest.raises(BudgetTooSmall, match="system"):
        memory.get_messages_within_budget(12)


def test_the_system_message_is_whole_in_a_window_that_can_hold_it() -> None:
    rules = "Rule: never ship on a Sunday. " * 30
    memory = memory_of([system(rules), *chat(30)])
    needed = EXACT.count_message(system(rules))
    assert memory.get_messages_within_budget(needed * 5 // 4 + 20)[0] == system(rules)
    shortened = memory.get_messages_within_budget(needed)[0]
    assert shortened.role == "system"
    assert shortened.text.startswith("Rule: never ship on a Sunday.")
    assert len(shortened.text) < len(rules)


# ------------------------------------------------------------------------------------------- strategies


def test_oldest_and_sliding_keep_the_newest_messages_that_may_stay() -> None:
    for strategy in (TruncateStrategy.OLDEST, TruncateStrategy.SLIDING_WINDOW):
        memory = memory_of([system(SYSTEM), *chat(20)], max_messages=7, strategy=strategy)
        assert marks(memory.get_messages()) == [34, 35, 36, 37, 38, 39], strategy
        assert memory.count() == 7


def test_without_a_message_limit_sliding_is_limited_by_tokens_alone() -> None:
    memory = memory_of(chat(50), max_tokens=200, strategy=TruncateStrategy.SLIDING_WINDOW)
    assert 150 < memory.get_token_count() <= 200
    assert gaps(memory.get_messages(), chat(50)) == []


def test_a_summary_stands_for_what_summarize_let_go() -> None:
    facts = [
        user("<0> The invoice number is INV-20417 and it must never be paid in cash."),
        *chat(40),
    ]
    memory = memory_of(facts, max_tokens=500, strategy=TruncateStrategy.SUMMARIZE)
    kept = memory.get_messages()
    assert "INV-20417" in kept[0].text
    assert "INV-20417" not in "".join(message.text for message in kept[1:])
    assert memory.count() == len(kept)
    assert memory.get_token_count() <= 500
    window = memory.context()
    assert "INV-20417" in window.section(Section.SUMMARY)[0].text


class Notebook:
    """A summarizer that records what it is given."""

    def __init__(self, answer: str = "noted") -> None:
        self.seen: list[int] = []
        self.answer = answer

    def __call__(self, messages: Sequence[Message], *, previous: str, limit: int) -> str:
        assert limit > 0
        assert not previous or self.answer.strip()[:9] in previous
        self.seen += marks(messages)
        return self.answer


def test_each_message_is_given_to_the_summarizer_once_in_order() -> None:
    notebook = Notebook()
    config = MessageMemoryConfig(max_tokens=500, strategy=TruncateStrategy.SUMMARIZE)
    memory = MessageMemory(config, summarizer=notebook)
    log = chat(60)
    for message in log:
        memory.add(message)
    shown = marks(memory.get_messages())
    assert [*notebook.seen, *shown] == list(range(120))
    assert "noted" in memory.get_messages()[0].text


@pytest.mark.parametrize("answer", ["", "  \n ", "on and on " * 5000])
def test_a_summarizer_that_says_nothing_or_too_much_breaks_no_limit(answer: str) -> None:
    config = MessageMemoryConfig(max_tokens=500, strategy=TruncateStrategy.SUMMARIZE)
    memory = MessageMemory(config, summarizer=Notebook(answer))
    for message in [user("<0> Remember the number 90210-7."), *chat(40)]:
        memory.add(message)
        assert memory.get_token_count() <= 500
    summary = memory.get_messages()[0].text
    assert ("on and on" if answer.strip() else "90210-7") in summary


@pytest.mark.parametrize("answer", [RuntimeError("down"), None, 7, "a \ud800 b", TimeoutError()])
def test_while_the_summarizer_is_down_the_extract_stands_in(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0

    def down(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        nonlocal asked
        asked += 1
        assert messages
        assert limit > 0
        assert "Lisbon" in previous or asked == 1
        if isinstance(answer, Exception):
            raise answer
        return answer  # pyright: ignore[reportReturnType] - not a text

    config = MessageMemoryConfig(
        max_tokens=1200, context_window=1000, strategy=TruncateStrategy.SUMMARIZE
    )
    memory = MessageMemory(config, summarizer=down)
    facts = [user("<0> 订单号是 83-417-K，绝不能发往 Lisbon。"), *chat(90)[1:]]
    for number, message in enumerate(facts):
        memory.add(message)
        assert memory.get_token_count() <= 1200
        window = memory.get_messages_within_budget()
        assert CAUTIOUS.count(window).tokens <= 750
        assert "83-417-K" in "".join(each.text for each in window)
        assert marks(memory.get_messages())[-1] == number, "each is there once"
    assert asked > 2
    assert gaps(memory.get_messages(), facts) == []
    assert "an extract of the messages is used" in caplog.text
    assert "83-417-K" not in caplog.text


# ------------------------------------------------------------------------------------ the size of a request


def test_the_messages_of_a_window_keep_to_a_size() -> None:
    memory = memory_of([system(SYSTEM), *chat(200, text="一二三四五 and some words")])
    window = memory.get_messages_within_budget(max_bytes=6_000)
    assert sum(map(message_bytes, window)) < 6_000
    assert marks(window)[-1] == 399
    assert window[0] == system(SYSTEM)
    assert len(memory.get_messages_within_budget()) == 401, "a budget without it is another one"
    assert memory.get_messages_within_budget(max_bytes=6_000) == window


@pytest.mark.parametrize("wire", [openai_chat, anthropic], ids=["openai_chat", "anthropic"])
def test_the_body_of_a_request_keeps_to_a_size(wire: WireFormat) -> None:
    tools = [{"name": "look_up", "description": "查 it " * 40, "input_schema": {"type": "object"}}]
    memory = memory_of([system(SYSTEM)])
    for message in conversation(4, 150):
        memory.add(message)
        context = memory.context(max_bytes=8_000, to=wire, tools=tools)
        body = wire.request(context, tools=tools).kwargs
        assert body_bytes(body) <= 8_000
        assert check(context) == ()
    assert memory.receipt is not None
    assert len(memory.get_messages()) == 151
    with pytest.raises(BudgetTooSmall, match="bytes"):
        memory.context(max_bytes=300, to=wire, tools=tools)
    with pytest.raises(InvalidBudget, match="max_bytes"):
        memory.context(max_bytes=-1)


# --------------------------------------------------------------------------------------------- truncate


@pytest.mark.parametrize("strategy", TruncateStrategy)
def test_truncate_lets_the_oldest_go_and_the_memory_goes_on(strategy: TruncateStrategy) -> None:
    memory = memory_of([system(SYSTEM), *chat(40)], strategy=strategy)
    before = len(marks(memory.get_messages()))
    gone = memory.truncate(400)
    kept = memory.get_messages()
    assert 300 < memory.get_token_count() <= 400
    assert gone == before - len(marks(kept)) > 0
    assert kept[0] == system(SYSTEM)
    assert gaps(kept, chat(40)) == []
    memory.add(user("<80> and on"))
    assert marks(memory.get_messages())[-2:] == [79, 80]
    assert gaps(memory.get_messages_within_budget(), [*chat(40), user("<80>")]) == []


def test_truncate_to_more_than_there_is_does_nothing() -> None:
    memory = memory_of(chat(5))
    assert memory.truncate(10_000) == 0
    assert memory.get_messages() == chat(5)


def test_truncate_never_splits_a_call_from_its_results() -> None:
    log = [user("<0> go"), asks(1, "a", "b"), tool("<2> " + "x " * 50, tool_call_id="a")]
    log += [tool("<3> y", tool_call_id="b"), assistant("<4> done"), *chat(2)]
    for target in range(60, 400, 7):
        memory = memory_of(log)
        memory.truncate(target)
        assert memory.get_token_count() <= target
        assert pairing_faults(memory.get_messages()) == []


def test_a_target_that_cannot_be_met_is_an_error_and_changes_nothing() -> None:
    memory = memory_of([system("rule " * 200), user("hi")])
    with pytest.raises(BudgetTooSmall, match="system"):
        memory.truncate(150)
    assert memory.count() == 2
    with pytest.raises(InvalidOption, match="0"):
        memory.truncate(0)
    stray = [*chat(2), tool("nobody asked", tool_call_id="x"), user("long 长 " * 50)]
    memory = memory_of(stray)
    with pytest.raises(BudgetTooSmall):
        memory.truncate(9)
    assert memory.get_messages() == stray


def test_any_number_of_budgets_may_be_asked_for() -> None:
    memory = memory_of([system(SYSTEM), *chat(30)])
    for budget in [*range(200, 700, 10), *range(200, 700, 10)]:
        assert EXACT.count(memory.get_messages_within_budget(budget)).tokens <= budget
    assert len(memory._log.windows) <= 8

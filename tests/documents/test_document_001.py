"""Document 001: its examples run as printed (only the names of the packages are turnfold's), its sentences hold."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from tests.house.source_tree import SOURCE
from tests.memory.conversations import chat
from tests.memory.fakes import ScriptedModel
from turnfold import Message, SummaryTokenMemory, TokenMemory
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.tokens import counter_for

IMPORTS = """\
import asyncio
from turnfold.memory import TokenMemory, SummaryTokenMemory, shutdown_token_executor
from turnfold.records import Message
"""

CUSTOM_PROMPT = """
memory = SummaryTokenMemory(
    session_id="user_123",
    model=model_driver,
    summary_prompt=(
        "请将以下对话内容浓缩成简洁摘要，保留关键信息，尽量使用中文：\\n\\n"
        "{{ history }}\\n\\n摘要："
    ),
    max_tokens=4000,
)
"""

SHUTDOWN = """
# 单元测试 teardown 时调用
shutdown_token_executor()
"""

BASIC_USE = """
memory = TokenMemory(
    session_id="user_123",
    max_tokens=4000,
    model_name="gpt-4",
)

# 构造消息
msgs = [
    Message(role="system", content="You are a helpful assistant."),
    Message(role="user", content="你好，请帮我写一个 BMS 诊断策略示例。"),
    Message(role="assistant", content="好的，下面是一个简单示例……"),
]

# 同步批量计数
token_counts = memory.count_messages_batch(msgs)
total_tokens = memory.count_total_tokens(msgs)

# 按 max_tokens 自动裁剪历史
raw_msgs = [m.model_dump() for m in msgs]
history = asyncio.run(memory.get_history(raw_msgs))
"""

WITH_SUMMARY = """
# 假设 model_driver 实现了 ModelProtocol，支持 acompletion/count_tokens
memory = SummaryTokenMemory(
    session_id="user_123",
    model=model_driver,
    max_tokens=4000,
    summary_reserve_tokens=500,
)

raw_msgs = {raw_msgs}  # 来自存储的历史记录（list[dict]）

# 获取已裁剪 + 摘要后的历史
history = asyncio.run(memory.get_history(raw_msgs))

# 清空摘要（例如用户点击“重新开始”时）
memory.clear_summary()
"""


class ModelDriver(ScriptedModel):
    """The model the document supposes: it completes and it counts."""

    def count_tokens(self, messages: list[dict[str, object]]) -> int:
        """As the real one would: by the model's tokenizer."""
        return sum(counter_for("gpt-3.5-turbo").count_message(Message(**each)) for each in messages)  # pyright: ignore[reportArgumentType] - plain fields


def run(example: str, **given: object) -> dict[str, object]:
    """The names an example leaves behind."""
    module = ModuleType("example")
    vars(module).update(given)
    exec(compile(IMPORTS + example, "document 001", "exec"), vars(module))  # noqa: S102 - the documented example
    return vars(module)


def test_basic_use() -> None:
    names = run(BASIC_USE)
    counts, total = names["token_counts"], names["total_tokens"]
    assert isinstance(counts, list)
    assert len(counts) == 3
    assert sum(counts) == total
    assert names["history"] == names["msgs"]
    assert isinstance(names["memory"], TokenMemory)


@pytest.mark.parametrize("turns", [3, 300])
def test_memory_with_a_summary(turns: int) -> None:
    raw = [message.model_dump() for message in chat(turns)]
    model = ModelDriver("用户在查订单。")
    names = run(WITH_SUMMARY.replace("{raw_msgs}", repr(raw)), model_driver=model)
    history, memory = names["history"], names["memory"]
    assert isinstance(history, list)
    assert isinstance(memory, SummaryTokenMemory)
    assert memory.current_summary == ""
    if turns == 3:
        assert history == chat(3)
    else:
        assert "用户在查订单。" in history[0].text
        assert history[-1] == chat(turns)[-1]
        assert counter_for("gpt-3.5-turbo").count(history).tokens <= 4000


def test_a_custom_prompt() -> None:
    model = ModelDriver("摘要")
    memory = run(CUSTOM_PROMPT, model_driver=model)["memory"]
    assert isinstance(memory, SummaryTokenMemory)
    run("asyncio.run(memory.get_history(raw))", memory=memory, raw=chat(300))
    assert model.prompts[0].startswith(
        "请将以下对话内容浓缩成简洁摘要，保留关键信息，尽量使用中文：\n\n"
    )
    assert model.prompts[0].endswith("\n\n摘要：")
    assert "user: <0> " in model.prompts[0]


def test_shutting_down_the_pool() -> None:
    assert run(SHUTDOWN + BASIC_USE)["history"], "counting starts it again"
    assert run(BASIC_USE + SHUTDOWN)["history"]


def test_the_documented_imports_are_the_classes_of_turnfold_and_load_no_store() -> None:
    program = (
        "import sys, turnfold; from turnfold.memory import TokenMemory, SummaryTokenMemory, shutdown_token_executor; "
        "TokenMemory('s').count_total_tokens([{'role': 'user', 'content': '你好'}]); "
        "print(TokenMemory is turnfold.TokenMemory, SummaryTokenMemory is turnfold.SummaryTokenMemory, "
        "shutdown_token_executor is turnfold.shutdown_token_executor, 'turnfold.stores.sqlite' in sys.modules, "
        "'turnfold.memory.session' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env=environment,
        encoding="utf-8",
    )
    assert done.stdout.split() == ["True", "True", "True", "False", "False"]


class Values:
    """Somebody else's storage: plain functions on JSON values."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def get(self, key: str) -> object:
        return self.values.get(key)

    def set(self, key: str, value: object) -> object:
        self.values[key] = value
        return None

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


class AwaitedValues(Values):
    """The same with coroutines."""

    async def get(self, key: str) -> object:
        return super().get(key)

    async def set(self, key: str, value: object) -> None:
        super().set(key, value)


@pytest.mark.parametrize("kind", [Values, AwaitedValues])
def test_storage_is_any_object_with_get_set_and_delete(kind: type[Values]) -> None:
    """storage: Optional[SessionInterface]；自动从存储加载 + 写回"""
    values = kind()
    first = TokenMemory("user_123", values)
    log = chat(3)
    asyncio.run(first.get_history([message.model_dump() for message in log]))
    again = TokenMemory("user_123", values)
    assert asyncio.run(again.get_history()) == log


class Thread:
    """A driver that remembers the threads it was asked in."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.single = 0
        self.batches: list[int] = []

    async def acompletion(self, messages: list[dict[str, str]]) -> str:
        return f"{len(messages)} message: 摘要 {'long ' * 2000}"

    def count_tokens(self, messages: list[dict[str, object]]) -> int:
        self.threads.add(threading.get_ident())
        self.single += 1
        return sum(len(str(each.get("content", ""))) // 3 + 4 for each in messages)


class Batch(Thread):
    def count_tokens_batch(self, lists: list[list[dict[str, object]]]) -> list[int]:
        self.batches.append(len(lists))
        return [self.count_tokens(each) for each in lists]


@pytest.mark.parametrize("driver", [Thread(), Batch()], ids=["single", "batch"])
@pytest.mark.parametrize("summary", [False, True])
def test_a_driver_is_asked_in_the_thread_pool_and_never_on_the_event_loop(
    driver: Thread, *, summary: bool
) -> None:
    """通过全局线程池将 Token 计数从事件循环中卸载出去"""
    if summary:
        memory: TokenMemory = SummaryTokenMemory("s", driver, max_tokens=700)
    else:
        memory = TokenMemory("s", max_tokens=700, model_driver=driver)
    driver.threads.clear()
    driver.batches.clear()
    log = chat(60)
    assert asyncio.run(memory.get_history(log))
    assert driver.threads
    assert threading.get_ident() not in driver.threads
    assert driver.batches == ([len(set(log))] if isinstance(driver, Batch) else [])


def test_a_single_count_where_an_event_loop_runs_is_asked_in_the_thread_pool() -> None:
    """单条计数时会优先调用 model_driver.count_tokens"""
    driver = Thread()
    memory = TokenMemory("s", model_driver=driver)

    async def count() -> int:
        return memory.count_message_tokens({"role": "user", "content": "你好"})

    assert asyncio.run(count()) == 4
    assert threading.get_ident() not in driver.threads
    memory.count_message_tokens({"role": "user", "content": "without a loop"})
    assert threading.get_ident() in driver.threads


class Slow:
    """A driver that is not thread-safe, and counts until it is told to stop."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entered, self.stop = threading.Event(), threading.Event()
        self.clashes = 0

    def count_tokens(self, messages: list[dict[str, object]]) -> int:
        if not self.lock.acquire(blocking=False):
            self.clashes += 1
            return len(messages)
        self.entered.set()
        self.stop.wait(60)
        self.lock.release()
        return len(messages)


def test_a_driver_is_asked_by_one_thread_at_a_time() -> None:
    driver = Slow()
    memory = TokenMemory("s", model_driver=driver)
    history = threading.Thread(target=lambda: asyncio.run(memory.get_history(chat(2))))
    single = threading.Thread(target=lambda: memory.count_message_tokens(Message("user", "x")))
    history.start()
    assert driver.entered.wait(60)
    single.start()
    single.join(0.2)  # without the lock it asks at once
    driver.stop.set()
    single.join()
    history.join()
    assert driver.clashes == 0


def test_a_driver_that_counts_as_a_coroutine_is_refused_when_the_memory_is_made() -> None:
    class Later:
        async def count_tokens(self, messages: object) -> int:
            return len(str(messages))

    with pytest.raises(InvalidOption, match="model_driver=Later: its count_tokens is a coroutine"):
        TokenMemory("s", model_driver=Later())


def test_both_batches_count_alike() -> None:
    """支持同步 / 异步两套批量计数 API"""
    memory = TokenMemory("s", model_driver=Thread())
    log = chat(20)
    assert memory.count_messages_batch(log) == asyncio.run(memory.count_messages_batch_async(log))


JINJA = """{% if history %}请将以下对话内容浓缩成简洁摘要：
{{ history | trim }}
{% endif %}摘要："""


def test_a_prompt_may_be_a_jinja2_template() -> None:
    """内部会使用 PromptTemplate"""
    pytest.importorskip("jinja2", reason="needs jinja2")
    model = ModelDriver("摘要")
    memory = SummaryTokenMemory("s", model, summary_prompt=JINJA)
    asyncio.run(memory.get_history(chat(300)))
    assert model.prompts[0].startswith("请将以下对话内容浓缩成简洁摘要：\nConversation:\n<")
    assert model.prompts[0].endswith(">\n摘要：")
    assert "{%" not in model.prompts[0]


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("{% if x %}{{ history }}", "not a valid Jinja2 template"),
        ("{{ history | no_such_filter }}", "not a valid Jinja2 template"),
        ("{# a comment #} no place", "no {{ history }}"),
        ("{% if wrong %}{{ history }}{% endif %}", "'wrong' is undefined"),
    ],
)
def test_a_wrong_template_is_refused_when_the_memory_is_made(prompt: str, says: str) -> None:
    pytest.importorskip("jinja2", reason="needs jinja2")
    with pytest.raises(InvalidOption, match=says):
        SummaryTokenMemory("s", ModelDriver(), summary_prompt=prompt)


def test_without_jinja2_a_statement_in_a_prompt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    SummaryTokenMemory("s", ModelDriver(), summary_prompt="{{ history }} as {{it}} is")
    with pytest.raises(InvalidOption, match="pip install jinja2"):
        SummaryTokenMemory("s", ModelDriver(), summary_prompt="{% set x = 1 %}{{ history }}")


@pytest.mark.parametrize("kind", ["plain", "summary"])
def test_one_unreadable_item_costs_only_itself_where_the_caller_asks(kind: str) -> None:
    """从原始消息字典列表中解析 Message"""
    memory: TokenMemory = (
        TokenMemory("s") if kind == "plain" else SummaryTokenMemory("s", ModelDriver())
    )
    log = chat(3)
    raw: list[Any] = [message.model_dump() for message in log]
    raw.insert(2, {"content": "who said this?"})
    with pytest.raises(InvalidRecord, match=r"raw_messages\[2\]"):
        asyncio.run(memory.get_history(raw))
    unreadable: list[InvalidRecord] = []
    assert asyncio.run(memory.get_history(raw, on_unreadable=unreadable.append)) == log
    assert [error.path for error in unreadable] == ["raw_messages[2].role"]


def test_recent_messages_fill_what_is_available() -> None:
    """available = max_tokens - (summary_reserve_tokens + sys_tokens); 先用 available 为 recent 消息分配"""
    counter = counter_for("gpt-3.5-turbo")
    memory = SummaryTokenMemory("s", ModelDriver("短摘要"), max_tokens=2000)
    log = [Message("system", "You are a helpful assistant."), *chat(200)]
    shown = asyncio.run(memory.get_history(log))
    recent = shown[2:]
    available = 2000 - 500 - counter.count_message(log[0])
    older = log[len(log) - len(recent) - 1]
    used = sum(map(counter.count_message, recent))
    assert available - counter.count_message(older) - counter.reply < used <= available
    assert counter.count(shown).tokens <= 2000


@pytest.mark.parametrize("reserve", [0, 50, 96, 300])
def test_a_summary_has_96_tokens_at_least(reserve: int) -> None:
    """summary_reserve_tokens: 软预算"""
    counter = counter_for("gpt-3.5-turbo")
    model = ModelDriver("用户在查订单，" * 200)
    memory = SummaryTokenMemory("s", model, max_tokens=2000, summary_reserve_tokens=reserve)
    log = chat(200)
    summary, *recent = asyncio.run(memory.get_history(log))
    reserved = max(reserve, 96)
    assert counter.count_message(summary) > 64
    assert sum(map(counter.count_message, recent)) <= 2000 - reserved
    assert counter.count([summary, *recent]).tokens <= 2000

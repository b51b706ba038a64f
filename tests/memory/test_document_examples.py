"""The Python examples of document 001 run as they are printed there; only the names of the packages are turnfold's."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from tests.house.source_tree import SOURCE
from tests.memory.conversations import chat
from tests.memory.fakes import ScriptedModel
from turnfold import Message, SummaryTokenMemory, TokenMemory
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

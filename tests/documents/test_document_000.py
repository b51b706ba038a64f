"""Document 000: its C examples in Python, and the sentences where its parts meet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.memory.conversations import chat
from turnfold import (
    Budget,
    Memory,
    Message,
    MessageMemory,
    MessageMemoryConfig,
    TruncateStrategy,
    assistant,
    system,
    user,
)
from turnfold.agent import Agent
from turnfold.cli.app import app
from turnfold.errors import InvalidOption
from turnfold.runtime import SyncRuntime, drive
from turnfold.testing import ScriptedModel
from turnfold.tokens import cautious_counter
from turnfold.wire import anthropic, openai_chat


def ac_agent_run(memory: MessageMemory, llm: ScriptedModel, user_input: str) -> str:
    """4.3: agent.c 中的使用方式"""
    # 1. 添加用户消息到 Memory
    memory.add(user(user_input))
    # 2. 获取 token 预算内的消息
    messages = memory.get_messages_within_budget(0)  # 使用默认预算
    # 3. 调用 LLM
    response = drive(SyncRuntime().ask(lambda: llm.complete(messages), seconds=60))
    # 4. 处理响应，添加 assistant 消息到 Memory
    text = response.message.text  # pyright: ignore[reportAttributeAccessIssue] - an Answer
    if text:
        memory.add(assistant(text))
    return text


def test_the_agent_of_the_document() -> None:
    memory = MessageMemory()
    memory.set_system("You are a helpful assistant.")
    model = ScriptedModel(["你好！", "3 个模块"])
    assert ac_agent_run(memory, model, "hello") == "你好！"
    assert ac_agent_run(memory, model, "有几个模块？") == "3 个模块"
    said = [each.text for each in model.asked[1].messages]
    assert said == ["You are a helpful assistant.", "hello", "你好！", "有几个模块？"]
    assert memory.count() == 5


def test_the_configuration_of_the_document() -> None:
    """5.2: 128000 * 0.75 = 96000 tokens"""
    config = MessageMemoryConfig(
        context_window=128000,  # GPT-4 Turbo 的上下文窗口
        reserve_ratio=0.25,  # 预留 25% 给回复
        strategy=TruncateStrategy.OLDEST,
    )
    budget = Budget(context_window=config.context_window, reserve_ratio=config.reserve_ratio)
    assert budget.tokens == 96000
    counter = cautious_counter()
    message = user("word " * 400)
    memory = MessageMemory(config)
    for _ in range(96000 // counter.count_message(message) + 50):
        memory.add(message)
    window = memory.get_messages_within_budget(0)
    assert 40000 < counter.count(window).tokens <= 96000


def test_what_an_agent_holds_instead(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"MessageMemory has no sessions.*give a Memory"):
        Agent(MessageMemory(), ScriptedModel([]))  # pyright: ignore[reportArgumentType]
    path = tmp_path / "chat.db"
    with Memory(f"sqlite:///{path}") as memory:
        Agent(memory, ScriptedModel(["好的"])).run("default", "记住 42")
    with MessageMemory(MessageMemoryConfig(db_path=path)) as same:
        assert same.get_messages() == [user("记住 42"), assistant("好的")]


def test_one_session_for_the_memory_sessions_and_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """db_path alone persists; session_id（可选）"""
    path = tmp_path / "chat.db"
    with MessageMemory(MessageMemoryConfig(db_path=path)) as memory:
        memory.add(user("订单 83-417-K"))
    with Memory(f"sqlite:///{path}") as memory:
        assert [entry.message.text for entry in memory.session("default").history()] == [
            "订单 83-417-K"
        ]
    monkeypatch.setattr(sys, "argv", ["turnfold", "sessions", "--store", str(path)])
    with pytest.raises(SystemExit) as ended:
        app()
    assert not ended.value.code
    assert "default" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "kept"), [(0, False), (1, True)])
def test_persistence_is_turned_on_and_off_by_a_number(
    tmp_path: Path, number: int, *, kept: bool
) -> None:
    """int enable_persistence"""
    path = tmp_path / "chat.db"
    config = MessageMemoryConfig(db_path=path, enable_persistence=number)  # pyright: ignore[reportArgumentType] - as in C
    with MessageMemory(config) as memory:
        memory.add(user("hello"))
    assert path.exists() is kept
    with pytest.raises(InvalidOption, match="enable_persistence='no'"):
        MessageMemoryConfig(db_path=path, enable_persistence="no")  # pyright: ignore[reportArgumentType]


class Down:
    """A model that never answers, as a client and as a function."""

    def __init__(self) -> None:
        self.asked = 0

    async def acompletion(self, messages: list[dict[str, str]]) -> str:
        self.asked += 1
        raise ConnectionError(f"{len(messages)} message not sent")


def test_a_summariser_that_is_down_never_breaks_a_limit(tmp_path: Path) -> None:
    """添加后自动检查是否超出限制，必要时触发截断策略"""
    model = Down()
    config = MessageMemoryConfig(
        max_tokens=600, strategy=TruncateStrategy.SUMMARIZE, db_path=tmp_path / "chat.db"
    )
    counter = cautious_counter()
    with MessageMemory(config, summarizer=model) as memory:
        memory.set_system("be brief")
        for number, message in enumerate(chat(60)):
            memory.add(message)
            assert memory.get_token_count() <= 600
            window = memory.get_messages_within_budget(400)
            assert counter.count(window).tokens <= 400
            assert [each.text for each in window].count(message.text) == 1, number
        assert memory.get_messages()[0] == system("be brief")
    assert model.asked > 2
    with MessageMemory(config, summarizer=model) as again:
        assert again.get_messages()[-1] == chat(60)[-1]
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        logged = [each.message for each in memory.session("default").history(limit=1000)]
        assert [each for each in logged if each.role != "system"] == chat(60), "none twice"


def test_nothing_is_estimated_for_nothing() -> None:
    """if (!message || !message->content) return 0"""
    assert MessageMemory.estimate_tokens(None) == 0
    assert MessageMemory.estimate_tokens(Message("user", "中文 ab")) == 2 * 3 // 2 + 3 // 4 + 4


def test_the_formats_of_the_providers() -> None:
    """4.1: OpenAI, Anthropic"""
    memory = MessageMemory()
    memory.add(user("..."))
    messages = memory.get_messages()
    assert openai_chat.request(messages).kwargs["messages"] == [{"role": "user", "content": "..."}]
    cached = {"cache_control": {"type": "ephemeral"}}
    [written] = anthropic.request(messages).kwargs["messages"]
    assert written == {"role": "user", "content": [{"type": "text", "text": "...", **cached}]}
    [written] = anthropic.request(messages, cache=False).kwargs["messages"]
    assert written == {"role": "user", "content": "..."}, "the short form of the same"


def test_a_request_keeps_to_its_size() -> None:
    """5.2 方案 2：请求大小检查，超过阈值时自动截断重试"""
    memory = MessageMemory()
    for message in chat(200):
        memory.add(message)
    context = memory.context(max_bytes=4_000, to=openai_chat)
    body = openai_chat.request(context.messages).kwargs["messages"]
    assert 0 < len(str(body).encode()) < 4_400
    assert context.messages[-1] == chat(200)[-1]

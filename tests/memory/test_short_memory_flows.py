"""The programs of document 003, in Python spelling, on SQLite and on PostgreSQL behind Redis."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.memory.short_faults import Faulty
from tests.memory.short_places import Place, opener, short
from turnfold import ShortMemory, TurnfoldError
from turnfold.errors import StoreUnavailable
from turnfold.memories import MEMORY_MODE_FULL_HISTORY, AsyncShortMemory, MemoryContext
from turnfold.stores import open_store
from turnfold.tokens import counter_for

__all__ = ("opener", "short")

log = logging.getLogger(__name__)
CONVERSATION, USER = "conv-123", "user-456"
LONG = "请注意休息，监测血压，必要时就医。" * 120


def call_llm(prompt: str) -> str:
    assert prompt.startswith("历史对话:\n")
    return f"这是AI的回复{LONG}"


def generate_summary(history: str) -> str:
    assert history
    return "这是对话摘要"


class Program:
    """The document's `main.go`."""

    def __init__(self, app: ShortMemory) -> None:
        self.app = app
        self.errors: list[Exception] = []
        self.working: list[threading.Thread] = []
        self.seen: list[MemoryContext] = []

    def handle_user_message(self, conversation_id: str, user_message: str) -> str:
        # 1. 查询记忆上下文
        ctx = self.app.query_memory_context(conversation_id, query=user_message)
        self.seen.append(ctx)
        # 2. 构建prompt
        prompt = f"历史对话:\n{ctx.history}\n\n用户问题: {user_message}"
        # 3. 调用LLM
        llm_response = call_llm(prompt)
        # 4. 检查是否需要生成摘要
        if ctx.should_checkpoint_summary:
            self.summarise(ctx)
        # 5. 写入对话记录
        self.app.write_turn(conversation_id, agent_response=llm_response)
        # 6. 返回AI回复
        return llm_response

    def summarise(self, ctx: MemoryContext) -> None:
        """异步生成摘要"""

        def work() -> None:
            try:
                summary = generate_summary(ctx.full_history)
                self.app.checkpoint_short_memory(ctx.conversation_id, summary, 8)
            except TurnfoldError as error:
                self.errors.append(error)

        thread = threading.Thread(target=work)
        self.working.append(thread)
        thread.start()

    def wait(self) -> None:
        for thread in self.working:
            thread.join(60)
            assert not thread.is_alive()


class BlockingProgram(Program):
    """同步摘要流程"""

    def summarise(self, ctx: MemoryContext) -> None:
        summary = generate_summary(ctx.full_history)
        self.app.checkpoint_short_memory(ctx.conversation_id, summary, 8)


def check_whole(app: ShortMemory, turns: int) -> None:
    """Every turn is in the log once, with its question; everything since the checkpoint is in the history."""
    ctx = app.query_memory_context(CONVERSATION, model_context_window=10**6)
    [*_, live] = app.checkpoint_history(CONVERSATION)
    covered = live.upto // 2
    assert ctx.session.flow_context.turn_count == turns
    shown = [number for number in range(turns) if f"问题{number:03}" in ctx.history]
    assert shown == list(range(covered, turns))
    assert ctx.history.count("这是对话摘要") == 1


@pytest.mark.parametrize("kind", [Program, BlockingProgram], ids=["background", "blocking"])
def test_the_whole_conversation(short: ShortMemory, kind: type[Program]) -> None:
    short.create_short_memory(CONVERSATION, USER)
    program = kind(short)
    turns = 14
    for number in range(turns):
        program.handle_user_message(CONVERSATION, f"问题{number:03}：我最近感觉头晕，应该怎么办？")
        if number == 6:
            program.wait()  # however slow the threads are, there are two rounds of them
    program.wait()
    assert program.errors == []
    count = counter_for("gpt-4o").count_text
    assert all(count(ctx.history) <= 16000 for ctx in program.seen)
    assert [ctx.mode for ctx in program.seen[:2]] == ["FULL_HISTORY"] * 2
    assert short.query_memory_context(CONVERSATION).mode == "SUMMARY_N"
    checkpoints = short.checkpoint_history(CONVERSATION)
    assert len(checkpoints) >= 2, "in every mode, whenever the threshold is reached"
    assert [each.previous for each in checkpoints[1:]] == [each.id for each in checkpoints[:-1]]
    check_whole(short, turns)


def test_the_same_with_await(opener: Place) -> None:
    async def run() -> None:
        async with opener.awaiting() as app:
            await app.create_short_memory(CONVERSATION, USER)
            summaries: list[asyncio.Task[Any]] = []
            for number in range(10):
                ctx = await app.query_memory_context(CONVERSATION, query=f"问题{number:03}")
                if ctx.should_checkpoint_summary:
                    summaries.append(asyncio.create_task(summarised(app, ctx)))
                await app.write_turn(
                    CONVERSATION, agent_response=call_llm(f"历史对话:\n{ctx.history}")
                )
            await asyncio.gather(*summaries)
            assert summaries

    async def summarised(app: AsyncShortMemory, ctx: MemoryContext) -> None:
        summary = await asyncio.to_thread(generate_summary, ctx.full_history)
        await app.checkpoint_short_memory(ctx.conversation_id, summary, 8)

    asyncio.run(run())
    check_whole(opener(), 10)


def test_custom_parameters(short: ShortMemory) -> None:
    ctx = short.query_memory_context(
        CONVERSATION,
        query="用户的新问题",
        token_threshold_ratio=0.8,
        recent_turns=10,
        model_context_window=32000,
    )
    assert (ctx.query, ctx.history, ctx.token_ratio) == ("用户的新问题", "", 0.0)
    result = short.write_turn(
        CONVERSATION, user_id=USER, agent_code="triage_agent", agent_response="这是AI的回复"
    )
    assert (result.conversation_id, result.mode) == (CONVERSATION, "FULL_HISTORY")
    session = short.get_short_memory(CONVERSATION)
    assert session.meta.user_id == USER
    assert session.meta.updated_at == result.updated_at > 1_600_000_000
    assert session.flow_context.current_agent_key == "triage_agent"
    assert session.flow_context.last_bot_message == "这是AI的回复"
    assert session.flow_context.turn_count == 1
    assert [each.text for each in session.message_context.window_messages] == [
        "用户的新问题",
        "这是AI的回复",
    ]


def test_a_summary_by_hand(short: ShortMemory) -> None:
    """常见问题 6"""
    for number in range(12):
        short.write_turn(CONVERSATION, user_query=f"q{number}", agent_response=f"a{number}")
    summary = "这是手动生成的摘要"
    short.checkpoint_short_memory(CONVERSATION, summary, 8)
    session = short.get_short_memory(CONVERSATION)
    assert session.message_context.mode == "SUMMARY_N"
    assert session.message_context.summary == summary
    history = short.query_memory_context(CONVERSATION).history
    assert "历史摘要: 这是手动生成的摘要" in history
    assert [f"user: q{n}\n" in history for n in range(12)] == [False] * 4 + [True] * 8


# ---------------------------------------------------------------------------------------- 注意事项


def error_handling(app: ShortMemory, summary: str, waits: list[int]) -> None:
    """注意事项 1, with the waits noted instead of slept."""
    session = app.get_short_memory(CONVERSATION)
    try:
        app.checkpoint_short_memory(CONVERSATION, summary, 8)
    except TurnfoldError as error:
        # 1. 记录日志
        log.warning("CheckpointShortMemory error: %s", error)
        # 2. 重试机制（可选）
        failed = True
        retry_count = 0
        while retry_count < 3:
            try:
                app.checkpoint_short_memory(CONVERSATION, summary, 8)
                failed = False
                break
            except TurnfoldError:
                retry_count += 1
                waits.append(retry_count)
        # 3. 降级处理
        if failed:
            # 降级到全量历史模式
            session.message_context.mode = MEMORY_MODE_FULL_HISTORY
            app.set_short_memory(CONVERSATION, session)


def faulty_app(tmp_path: Path) -> tuple[ShortMemory, Faulty]:
    store = Faulty(open_store(f"sqlite:///{tmp_path}/faulty.db", blocking=True))
    app = store.memory()
    for number in range(20):
        app.write_turn(CONVERSATION, user_query=f"<q{number}>", agent_response=f"<a{number}>")
    return app, store


def test_a_checkpoint_that_fails_for_a_while(tmp_path: Path) -> None:
    app, store = faulty_app(tmp_path)
    store.fail("add_checkpoint", times=2)
    waits: list[int] = []
    error_handling(app, "摘要", waits)
    assert waits == [1]
    assert app.get_short_memory(CONVERSATION).message_context.mode == "SUMMARY_N"
    assert len(app.checkpoint_history(CONVERSATION)) == 1


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_checkpoint_whose_reply_is_lost_is_made_once(tmp_path: Path, lost: int) -> None:
    app, store = faulty_app(tmp_path)
    store.fail("add_checkpoint", after=True, times=lost)
    waits: list[int] = []
    error_handling(app, "摘要", waits)
    assert waits == [], "the retry finds what the first call did"
    assert app.get_short_memory(CONVERSATION).message_context.mode == "SUMMARY_N"
    assert len(app.checkpoint_history(CONVERSATION)) == 1


def test_a_checkpoint_that_fails_for_good_leaves_the_full_history(tmp_path: Path) -> None:
    app, store = faulty_app(tmp_path)
    app.checkpoint_short_memory(CONVERSATION, "第一次摘要", 8)
    for number in range(20, 40):
        app.write_turn(CONVERSATION, user_query=f"<q{number}>", agent_response=f"<a{number}>")
    store.fail("add_checkpoint", times=4)
    waits: list[int] = []
    error_handling(app, "第二次摘要", waits)
    assert waits == [1, 2, 3]
    ctx = app.query_memory_context(CONVERSATION)
    assert ctx.mode == MEMORY_MODE_FULL_HISTORY
    assert all(f"<q{n}>" in ctx.history for n in range(40)), "the whole history again"
    tight = app.query_memory_context(CONVERSATION, model_context_window=400)
    assert counter_for("gpt-4o").count_text(tight.history) <= 400
    assert "第一次摘要" in tight.history, "what finds no room is still behind its summary"
    assert "<q39>" in tight.history
    assert tight.should_checkpoint_summary
    app.checkpoint_short_memory(CONVERSATION, "第三次摘要", 8)
    after = app.query_memory_context(CONVERSATION)
    assert (after.mode, "<q5>" in after.history) == ("SUMMARY_N", False)


def test_a_lost_reply_does_not_send_the_program_back_to_the_full_history(tmp_path: Path) -> None:
    """Whoever degrades because of a failure that was none is not believed: another checkpoint has landed since."""
    app, store = faulty_app(tmp_path)
    app.checkpoint_short_memory(CONVERSATION, "第一次摘要", 8)
    for number in range(20, 40):
        app.write_turn(CONVERSATION, user_query=f"<q{number}>", agent_response=f"<a{number}>")
    session = app.get_short_memory(CONVERSATION)
    store.fail("add_checkpoint", after=True)
    with pytest.raises(StoreUnavailable):
        app.checkpoint_short_memory(CONVERSATION, "第二次摘要", 8)
    session.message_context.mode = MEMORY_MODE_FULL_HISTORY
    app.set_short_memory(CONVERSATION, session)
    ctx = app.query_memory_context(CONVERSATION)
    assert ctx.mode == "SUMMARY_N"
    assert "第二次摘要" in ctx.history


def test_older_data_reads_as_full_history(short: ShortMemory) -> None:
    """注意事项 2"""
    short.write_turn(CONVERSATION, user_query="q", agent_response="a")
    session = short.get_short_memory(CONVERSATION)
    if session.message_context.checkpoint_message_id == "":
        # 旧数据，使用全量历史模式
        session.message_context.mode = MEMORY_MODE_FULL_HISTORY
        short.set_short_memory(CONVERSATION, session)
    assert short.query_memory_context(CONVERSATION).mode == "FULL_HISTORY"


@pytest.mark.parametrize("locked", [True, False], ids=["mutex", "no mutex"])
def test_many_at_once(opener: Place, *, locked: bool) -> None:
    """注意事项 4: the documented mutex does no harm, and is not needed."""
    mutex = threading.Lock() if locked else None
    apps = [opener(), opener()]
    errors: list[Exception] = []

    def handle(app: ShortMemory, message: str) -> None:
        ctx = app.query_memory_context(CONVERSATION, model_context_window=900)
        if ctx.should_checkpoint_summary:
            app.checkpoint_short_memory(CONVERSATION, f"摘要 {ctx.upto}", 2, upto=ctx.upto)
        app.write_turn(CONVERSATION, user_query=message, agent_response=f"答{message}" * 5)

    def work(worker: int) -> None:
        try:
            for number in range(6):
                if mutex is not None:
                    with mutex:
                        handle(apps[worker % 2], f"<{worker}-{number}>")
                else:
                    handle(apps[worker % 2], f"<{worker}-{number}>")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert errors == []
    assert apps[0].get_short_memory(CONVERSATION).flow_context.turn_count == 24
    ctx = apps[1].query_memory_context(CONVERSATION, model_context_window=10**6)
    covered = apps[0].checkpoint_history(CONVERSATION)[-1].upto
    assert ctx.history.count("user: <") == 24 - covered // 2

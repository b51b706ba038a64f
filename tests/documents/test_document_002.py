"""Document 002: its three turns, its scenario across sessions, and its verbs, through agent and module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.agent.scripts import calling
from tests.memory.module_scripts import CONTEXTS, SUMMARIES, summarised, three_turns
from turnfold import Memory, MemoryModule
from turnfold.agent import Agent
from turnfold.errors import Conflict, InvalidOption
from turnfold.stores import MemoryStore
from turnfold.testing import ScriptedModel


class Workspace:
    """The workspace of the document: each tool changes it."""

    def __init__(self, text: str = CONTEXTS[0]) -> None:
        self.text = text

    def render(self) -> str:
        return self.text

    def search(self) -> str:
        """Search the code."""
        self.text = CONTEXTS[1]
        return "found main.ts, utils.ts, config.ts"

    def read(self) -> str:
        """Read a file."""
        self.text = CONTEXTS[2]
        return "benchmark.ts: slow"

    def edit(self) -> str:
        """Edit a file."""
        return "edited utils.ts"


SCRIPT = [
    calling(("c1", "search", "{}")),
    calling(("c2", "read", "{}")),
    calling(("c3", "recall_context", json.dumps({"turnNumbers": [2]})), ("c4", "edit", "{}")),
    "done",
]


def sent(model: ScriptedModel, number: int = -1) -> str:
    return "\n".join(message.text for message in model.asked[number].messages)


def run_task(module: MemoryModule, *, url: str = "sqlite://") -> ScriptedModel:
    """The document's task: search, read and edit in one run."""
    workspace, model = Workspace(), ScriptedModel(SCRIPT)
    with Memory(url) as memory:
        tools = [workspace.search, workspace.read, workspace.edit]
        agent = Agent(memory, model, tools=tools, workspace=workspace, memory_module=module)
        agent.run("task", "分析代码")
    return model


def thinking(*more: str) -> ScriptedModel:
    return ScriptedModel(map(summarised, (*SUMMARIES, "改完了", *more)))


def test_one_context_per_loop_iteration() -> None:
    """每轮循环；场景：3轮对话"""
    module = MemoryModule(thinking(), enable_reflective_thinking=False)
    model = run_task(module)
    store = module.memory_store
    kept = store.contexts()
    assert [each.full_context for each in kept] == [*CONTEXTS, CONTEXTS[2]]
    assert [each.turn_number for each in kept] == [1, 2, 3, 4]
    # 累积摘要会注入到 prompt
    accumulated = [f"[Turn {at}] {text}" for at, text in enumerate(SUMMARIES, 1)]
    assert "\n".join(accumulated) in sent(model, 2)
    # recall_context({ turnNumbers: [2] }) → 返回 ctx_2 的完整 Workspace Context
    results = [each.text for each in model.asked[3].messages if each.role == "tool"]
    # Tools of one message work at the same time, and their results stand in the order in which they came.
    [recalled] = [text for text in results if CONTEXTS[1].strip() in text]
    assert CONTEXTS[2].strip() not in recalled


def test_contexts_are_linked_and_had_by_id() -> None:
    """上下文之间的关联关系；contexts: Map<string, ContextSnapshot>，summaries: Map<string, MemorySummary>"""
    module = MemoryModule(thinking(), enable_reflective_thinking=False)
    run_task(module)
    store = module.memory_store
    first, second, third, fourth = store.contexts()
    assert [each.links for each in (first, second, third)] == [(), (first.id,), (second.id,)]
    assert fourth.links == (third.id, second.id), "the one before, and the recalled one"
    assert store.context(second.id) == second
    assert second.id.startswith("ctx_2_")
    found = store.summary(f"sum_{second.id}")
    assert found is not None
    assert (found.summary, found.context_id) == (SUMMARIES[1], second.id)
    assert found == store.summary(2)
    for absent in ("ctx_2_000000000000", "ctx_9_4f1d09aa3b7c", "nonsense", "ctx_0_x", ""):
        assert store.context(absent) is None
        assert store.summary(f"sum_{absent}") is None


def test_export_holds_what_the_run_kept() -> None:
    """导出记忆: const memory = memoryModule?.export()"""
    module = MemoryModule(thinking(), enable_reflective_thinking=False)
    run_task(module)
    exported = cast("dict[str, Any]", module.export())
    assert len(exported["contexts"]) == len(exported["summaries"]) == 4
    assert exported == module.within("task").export()
    assert module.conversation == "task"


@pytest.mark.parametrize("kept", ["process", "file"])
def test_across_sessions(kept: str, tmp_path: Path) -> None:
    """场景3：长期任务（跨会话）"""
    first = MemoryModule(thinking(), enable_reflective_thinking=False)
    run_task(first)
    saved = json.loads(json.dumps(first.export()))

    url = "sqlite://" if kept == "process" else f"sqlite:///{tmp_path / 'day2.db'}"
    model = ScriptedModel(["继续"])
    store = None if kept == "process" else url
    module = MemoryModule(
        ScriptedModel([summarised("第二天")]), store, enable_reflective_thinking=False
    )
    with Memory(url) as memory:
        agent = Agent(memory, model, workspace=Workspace("day two"), memory_module=module)
        # 导入之前的记忆
        memory_module = agent.get_memory_module()
        assert memory_module is module
        assert memory_module is not None
        memory_module.import_(saved)
        # 执行任务
        agent.start("继续之前的工作")
        # 导出记忆
        again = cast("dict[str, Any]", memory_module.export())
        turns = [*SUMMARIES, "改完了", "第二天"]
        lines = "\n".join(f"[Turn {at}] {text}" for at, text in enumerate(turns, 1))
        assert lines in sent(model), "day one's summaries are in day two's prompt"
        assert len(again["contexts"]) == 5
        [*_, newest] = module.memory_store.contexts()
        assert (newest.turn_number, newest.full_context) == (5, "day two")
        assert saved["contexts"].items() <= again["contexts"].items()
        memory.session("agent").delete()
        if kept == "file":
            assert module.export()["contexts"] == {}, "erased with its conversation"
            assert [info.conversation for info in memory.conversations()] == [], (
                "and no copy is left"
            )
    module.close()


def test_an_import_that_contradicts_what_a_run_kept_is_not_dropped() -> None:
    """today turn 1 collides"""
    first = MemoryModule(thinking(), enable_reflective_thinking=False)
    run_task(first)
    module = MemoryModule()
    with Memory() as memory:
        model = ScriptedModel(["one", "two"])
        agent = Agent(memory, model, workspace=Workspace("other"), memory_module=module)
        agent.start("a")
        with pytest.raises(Conflict, match="nothing was imported"):
            module.import_(first.export())


def test_a_module_that_ran_several_conversations_asks_which() -> None:
    module = MemoryModule()
    with Memory() as memory:
        model = ScriptedModel(["one", "two"])
        agent = Agent(memory, model, workspace=Workspace("w"), memory_module=module)
        agent.run("alice", "hello")
        assert len(module.memory_store.contexts()) == 1
        agent.run("bob", "hello")
    for use in (
        module.export,
        module.notes,
        lambda: module.memory_store,
        lambda: module.search("w"),
    ):
        with pytest.raises(InvalidOption, match=r"within\(conversation\)"):
            use()
    with pytest.raises(InvalidOption, match=r"within\(conversation\)"):
        module.perform_thinking_phase("w")
    for name in ("alice", "bob"):
        assert len(module.within(name).memory_store.contexts()) == 1


def test_a_module_of_another_conversation_is_refused() -> None:
    with Memory() as memory, MemoryModule(conversation="task-2") as module:
        model = ScriptedModel(["hi"])
        agent = Agent(memory, model, workspace=Workspace("w"), memory_module=module)
        with pytest.raises(InvalidOption, match="belongs to conversation 'task-2'"):
            agent.run("task-1", "hello")
        assert agent.run("task-2", "hello").text == "hi"
        assert len(module.memory_store.contexts()) == 1


def test_a_phase_that_died_is_finished_and_not_repeated() -> None:
    store = MemoryStore()
    MemoryModule(store=store).memory_store.add_context("w")  # stored, and not yet summarised
    model = ScriptedModel([summarised("at last"), summarised("another"), summarised("changed")])
    again = MemoryModule(model, store, enable_reflective_thinking=False)
    assert again.perform_thinking_phase("w", client_id="call-1").turn == 1
    assert again.perform_thinking_phase("w", client_id="call-1").repeated
    assert again.perform_thinking_phase("w", client_id="call-2").turn == 2
    assert [each.summary for each in again.memory_store.contexts()] == ["at last", "another"]


def test_the_options_of_the_document() -> None:
    """memory: { enableReflectiveThinking: true, maxThinkingRounds: 5 }"""
    model = ScriptedModel([*["a new thought 新 " + "x" * n for n in range(1, 9)], "never"])

    result = MemoryModule(
        model, enable_reflective_thinking=True, max_thinking_rounds=5
    ).perform_thinking_phase("w")
    assert len(result.rounds) == 5
    assert MemoryModule(three_turns(), enable_reflective_thinking=False).perform_thinking_phase(
        CONTEXTS[0]
    ).summary.insights == ("3个模块", "main.ts是入口")

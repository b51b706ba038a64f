"""What users lay down is in the prompts of documented memories when a summary stands for where it was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.module_scripts import prompt, summarised
from tests.memory.short_places import talk
from turnfold import Memory, MemoryModule, ShortMemory
from turnfold.agent import Agent
from turnfold.testing import ScriptedModel

RULES = ("Never deploy on Fridays.", "以后都用中文回答。")


class Workspace:
    def render(self) -> str:
        return "Files: [main.ts]"


@pytest.mark.parametrize("rule", RULES)
def test_short_memory_shows_rules_beside_its_summary(rule: str) -> None:
    with ShortMemory(model_context_window=2000) as memory:
        memory.write_turn("c", user_query=rule, agent_response="ok")
        talk(memory, "c", range(12))
        before = memory.query_memory_context("c")
        assert before.history.count(rule.rstrip(".。")) == 1, "the turn itself is shown"
        memory.checkpoint_short_memory("c", "they talked", 2)
        after = memory.query_memory_context("c", query="and now?")
        assert rule.rstrip(".。") in after.history
        assert after.history.index("<rules") < after.history.index("历史摘要")
        assert after.estimated_tokens <= 2000
        memory.create_short_memory("c")
        assert memory.query_memory_context("c").history == ""


@pytest.mark.parametrize("rule", RULES)
def test_a_memory_module_thinks_and_summarises_by_the_rules(rule: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    thinking = ScriptedModel(["a thought 想法", "DONE", summarised("looked")])
    with MemoryModule(thinking, url) as module, Memory(url) as memory:
        agent = Agent(memory, ScriptedModel(["fine"]), workspace=Workspace(), memory_module=module)
        agent.run("task", rule)
    assert rule.rstrip(".。") in prompt(thinking, 0), "in the rounds"
    assert rule.rstrip(".。") in prompt(thinking, 2), "in the summary"

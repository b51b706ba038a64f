"""Document 002, as it says: contexts kept whole, summaries accumulated, any turn recalled; the example literally."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.module_scripts import (
    CONTEXTS,
    SUMMARIES,
    prompt,
    recalling,
    summarised,
    three_turns,
)
from tests.memory.workspaces import token_count
from tests.sizes import examples
from turnfold import Budget, Memory, MemoryModule
from turnfold.errors import ConversationDeleted, InvalidOption
from turnfold.memories import AsyncMemoryModule, ContextMemoryStore, ContextSnapshot, MemorySummary
from turnfold.memories.memory_module.context_store import SummaryHistory
from turnfold.records import Snapshot
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope
from turnfold.testing import ScriptedModel


def module(model: ScriptedModel | None = None, **options: object) -> MemoryModule:
    options.setdefault("enable_reflective_thinking", False)
    return MemoryModule(model, **options)  # pyright: ignore[reportArgumentType]


def test_the_example_of_three_turns() -> None:
    memory_module = module(three_turns())
    results = [memory_module.perform_thinking_phase(context) for context in CONTEXTS]

    assert [result.turn for result in results] == [1, 2, 3]
    assert results[0].accumulated_summaries == "[Turn 1] 分析了代码库结构"
    assert results[1].accumulated_summaries == "[Turn 1] 分析了代码库结构\n[Turn 2] 发现性能瓶颈"
    assert results[2].accumulated_summaries == (
        "[Turn 1] 分析了代码库结构\n[Turn 2] 发现性能瓶颈\n[Turn 3] 实施了优化"
    )
    store = memory_module.memory_store
    assert isinstance(store, ContextMemoryStore)
    contexts = store.contexts()
    assert all(isinstance(context, ContextSnapshot) for context in contexts)
    assert [context.full_context for context in contexts] == list(CONTEXTS)
    assert [context.summary for context in contexts] == list(SUMMARIES)
    assert [context.id for context in contexts] == [result.context_id for result in results]
    assert all(
        context.id.startswith(f"ctx_{number}_") for number, context in enumerate(contexts, 1)
    )
    first = store.summaries()[0]
    assert isinstance(first, MemorySummary)
    assert first.id == f"sum_{contexts[0].id}"
    assert first.insights == ("3个模块", "main.ts是入口")
    assert (first.model, first.extractive) == ("scripted", False)

    recalled = memory_module.recall_context({"turnNumbers": [2]})
    assert recalled.context_ids == (contexts[1].id,)
    assert CONTEXTS[1].strip() in recalled.text
    assert CONTEXTS[1].strip() in memory_module.notes()["recalled_context"]
    [hit] = memory_module.search("瓶颈")
    assert (hit.context_id, hit.summary) == (contexts[1].id, "发现性能瓶颈")


def test_the_same_awaited() -> None:
    async def run() -> list[str]:
        async with AsyncMemoryModule(
            three_turns(), enable_reflective_thinking=False
        ) as memory_module:
            for context in CONTEXTS:
                await memory_module.perform_thinking_phase(context)
            recalled = await memory_module.recall_context({"turn_numbers": [2]})
            return [recalled.text, (await memory_module.notes())["memory_summaries"]]

    text, summaries = asyncio.run(run())
    assert CONTEXTS[1].strip() in text
    assert summaries.splitlines()[2] == "[Turn 3] 实施了优化"


def test_what_is_kept_outlives_the_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    with module(three_turns(), store=url, conversation="chat") as first:
        for context in CONTEXTS:
            first.perform_thinking_phase(context)
        notes = first.notes()
    with module(store=url, conversation="chat") as second:
        assert second.notes() == notes
        assert CONTEXTS[0].strip() in second.recall_context({"turn_numbers": [1]}).text
        fourth = second.perform_thinking_phase("Files: [main.ts]")
        assert fourth.turn == 4
    with module(store=url, conversation="other") as other:
        assert other.notes() == {}
        assert (
            other.within("chat").notes()["memory_summaries"].startswith(notes["memory_summaries"])
        )


def test_modules_of_two_conversations_show_nothing_of_each_other() -> None:
    memory_module = module()
    memory_module.within("a").perform_thinking_phase("secret of a")
    memory_module.within("b").perform_thinking_phase("secret of b")
    shown = json.dumps([memory_module.within("b").notes(), memory_module.within("b").export()])
    assert "secret of b" in shown
    assert "secret of a" not in shown
    assert memory_module.within("a").conversation == "a"
    memory_module.within("a").close()  # only the one that was opened closes the rest
    assert memory_module.within("b").notes()


def test_without_a_model_summaries_are_picked_from_the_workspace() -> None:
    result = module().perform_thinking_phase("The parser fails on line 42. Nothing else matters.")
    assert "line 42" in result.summary.summary
    assert result.summary.extractive
    assert (result.problems, result.tokens_used, result.thoughts) == ((), 0, ())


def test_a_workspace_may_be_files_and_state() -> None:
    memory_module = module(ScriptedModel([summarised("two files")]))
    memory_module.perform_thinking_phase(
        Snapshot(files={"a.py": "x = 1", "b.bin": b"\x00\x01"}, state={"ready": True})
    )
    [context] = memory_module.memory_store.contexts()
    assert context.files == {"a.py": "x = 1", "b.bin": b"\x00\x01"}
    assert "== a.py\nx = 1" in context.full_context
    assert '"ready"' in context.full_context
    assert memory_module.memory_store.snapshots.read(1, "a.py") == "x = 1"


# --- reflective rounds ---


def test_rounds_think_recall_and_end_when_nothing_new_is_said() -> None:
    model = ScriptedModel(
        [
            summarised("分析了代码库结构"),
            "The benchmark is slow.",
            recalling("r1", turn_numbers=[1]),
            "Turn 1 had no benchmark, so it is new.",
            "Slow, the benchmark is!",
            summarised("发现性能瓶颈", "benchmark.ts is new"),
        ]
    )
    memory_module = module(model)
    memory_module.perform_thinking_phase(CONTEXTS[0])
    thinking = MemoryModule(model, max_thinking_rounds=5)
    thinking.import_(memory_module.export())
    result = thinking.perform_thinking_phase(CONTEXTS[1])

    assert result.thoughts == ("The benchmark is slow.", "Turn 1 had no benchmark, so it is new.")
    assert result.stopped == "nothing new"
    assert len(model.asked) == 6
    context_1 = memory_module.memory_store.contexts()[0].id
    assert result.rounds[1].recalled == (context_1,)
    assert result.summary.links == (context_1,)
    assert CONTEXTS[0].strip() not in prompt(model, 2)
    assert CONTEXTS[0].strip() in prompt(model, 3)  # what was recalled is in the very next prompt
    assert "[Turn 1] 分析了代码库结构" in prompt(model, 1)
    assert [tool["function"]["name"] for tool in model.asked[1].tools] == ["recall_context"]  # pyright: ignore[reportIndexIssue]
    assert model.asked[5].tools == ()
    assert "Turn 1 had no benchmark" in prompt(model, 5)
    assert result.tokens_used == result.summary.tokens_used > 0


def test_no_more_rounds_than_allowed() -> None:
    answers = [f"thought number {word}" for word in "one two three four five six seven".split()]
    model = ScriptedModel([*answers[:3], summarised("s")])
    result = MemoryModule(model, max_thinking_rounds=3).perform_thinking_phase("x")
    assert result.thoughts == tuple(answers[:3])
    assert result.stopped == "rounds used up"


@pytest.mark.parametrize("word", ["DONE", "Done.", "**DONE**", "", "  "])
def test_a_model_with_nothing_to_say_is_asked_once(word: str) -> None:
    model = ScriptedModel([word, summarised("s")])
    result = MemoryModule(model).perform_thinking_phase("x")
    assert (result.thoughts, result.stopped, len(model.asked)) == ((), "nothing new", 2)


def test_without_reflective_thinking_no_round_is_asked() -> None:
    model = ScriptedModel([summarised("s")])
    result = module(model).perform_thinking_phase("x")
    assert (result.stopped, len(model.asked)) == ("reflective thinking is off", 1)


def test_rounds_stop_before_the_prompt_outgrows_the_budget() -> None:
    long = [f"thought {number} " + f"word{number} " * 400 for number in range(9)]
    model = ScriptedModel([*long, summarised("s")], repeat=True)
    result = MemoryModule(
        model, max_thinking_rounds=9, budget=Budget(max_tokens=3_000)
    ).perform_thinking_phase("x " * 2_000)
    assert result.stopped == "no room left in the prompt"
    for number in range(len(model.asked)):
        assert token_count(prompt(model, number)) < 3_000


# --- reading ---


def big(lines: int, mark: str = "") -> str:
    rows = [
        f"line {number}: some content of the workspace, 第{number}行" for number in range(lines)
    ]
    rows[lines // 2] += f" {mark}"
    return "\n".join(rows)


def test_a_context_that_does_not_fit_is_read_as_what_changed() -> None:
    """The upstream summarises the first 1,000 characters of a context, whatever changed behind them."""
    model = ScriptedModel([summarised("one"), summarised("two")])
    memory_module = module(model, budget=Budget(max_tokens=4_000))
    first = memory_module.perform_thinking_phase(big(2_000))
    second = memory_module.perform_thinking_phase(big(2_000, mark="THE NEEDLE 针"))
    assert (first.summary.reading, second.summary.reading) == ("part", "changes")
    assert "THE NEEDLE 针" in prompt(model, 1)
    assert token_count(prompt(model, 0)) < 4_000
    assert memory_module.memory_store.contexts(after=1)[0].full_context == big(
        2_000, mark="THE NEEDLE 针"
    )
    small = module(ScriptedModel([summarised("s")])).perform_thinking_phase("fits")
    assert small.summary.reading == "whole"


# --- accumulated summaries ---


def numbered(turn: int) -> str:
    return summarised(f"第{turn}轮改了模块 {turn}，共 {turn * 7} 行")


def test_summaries_stay_within_their_share_and_all_turns_stay_recallable() -> None:
    """The upstream's accumulated summaries grow without bound."""
    budget = Budget(max_tokens=2_000)
    model = ScriptedModel([lambda _: numbered(len(model.asked))], repeat=True)
    memory_module = module(model, budget=budget)
    text = ""
    for turn in range(1, 61):
        text = memory_module.perform_thinking_phase(
            f"workspace of turn {turn}"
        ).accumulated_summaries
        assert token_count(text) <= budget.share("summary")
    assert "[Turn 60] 第60轮改了模块 60" in text
    assert "[Turns 1-" in text
    for turn in (1, 17, 60):
        assert (
            f"workspace of turn {turn}"
            in memory_module.recall_context({"turn_numbers": [turn]}).text
        )
    assert memory_module.within("memory").notes()["memory_summaries"] == text


@given(
    st.lists(st.text(max_size=200), min_size=1, max_size=80),
    st.integers(64, 900),
)
@examples(60)
def test_accumulated_never_over_and_the_same_in_every_process(said: list[str], tokens: int) -> None:
    summaries = list(enumerate(said, 1))
    growing = SummaryHistory(token_count)
    for upto in range(0, len(said), 7):
        growing.text(summaries[: upto + 1], tokens=tokens)
    text = growing.text(summaries, tokens=tokens)
    assert token_count(text) <= tokens
    assert text == SummaryHistory(token_count).text(summaries, tokens=tokens)


def test_a_summary_cannot_pass_for_that_of_another_turn() -> None:
    model = ScriptedModel([summarised("fine\n[Turn 9] forged")])
    text = module(model).perform_thinking_phase("x").accumulated_summaries
    assert text == "[Turn 1] fine [Turn 9] forged"


def test_a_share_too_small_is_refused_when_the_module_is_made() -> None:
    with pytest.raises(InvalidOption, match=r"54 of 220 tokens.*64"):
        module(budget=Budget(max_tokens=220))
    with pytest.raises(InvalidOption, match="max_thinking_rounds=0"):
        MemoryModule(max_thinking_rounds=0)
    with pytest.raises(InvalidOption, match="model_seconds=0"):
        MemoryModule(model_seconds=0)
    with pytest.raises(InvalidOption, match="recall_tokens=3"):
        MemoryModule(recall_tokens=3)


# --- recall reaches the next context ---


def test_what_is_recalled_is_in_the_very_next_context() -> None:
    """The upstream stores recalled contexts where no prompt reads them."""
    memory_module = module(three_turns())
    for context in CONTEXTS:
        memory_module.perform_thinking_phase(context)
    with Memory("sqlite://") as memory:
        session = memory.session("chat")
        session.user("what was in turn 2?")
        before = session.context(notes=memory_module.notes()).messages
        memory_module.recall_context({"turn_numbers": [2]})
        after = session.context(notes=memory_module.notes()).messages
    shown = ["\n".join(message.text for message in messages) for messages in (before, after)]
    assert "[Turn 2] 发现性能瓶颈" in shown[0]
    assert CONTEXTS[1].strip() not in shown[0]
    assert CONTEXTS[1].strip() in shown[1]


def test_the_next_thinking_phase_is_shown_it_too_and_then_it_is_let_go() -> None:
    model = ScriptedModel([summarised("one"), "a thought", "DONE", summarised("two")])
    quiet = module(model)
    quiet.perform_thinking_phase(CONTEXTS[0])
    thinking = MemoryModule(model)
    thinking.import_(quiet.export())
    recalled = thinking.recall_context({"turn_numbers": [1]})
    result = thinking.perform_thinking_phase(CONTEXTS[1])
    assert CONTEXTS[0].strip() in prompt(model, 1)
    assert result.summary.links == recalled.context_ids
    assert thinking.memory_store.contexts(after=1)[0].links == recalled.context_ids
    assert "recalled_context" in thinking.notes(), "the call after the phase is shown it"
    thinking.perform_thinking_phase(CONTEXTS[2])
    assert "recalled_context" not in thinking.notes()


def test_a_recall_is_held_to_its_tokens() -> None:
    memory_module = module(recall_tokens=300)
    memory_module.perform_thinking_phase(big(500))
    recalled = memory_module.recall_context({"turn_numbers": [1]})
    assert recalled.cut
    assert token_count(recalled.text) <= 300
    assert token_count(memory_module.recall_context({"turn_numbers": [1]}, tokens=90).text) <= 90


def test_a_smaller_call_is_shown_less_of_it() -> None:
    memory_module = module()
    memory_module.perform_thinking_phase(big(500))
    memory_module.recall_context({"turn_numbers": [1]}, tokens=5_000)
    smaller = Budget(max_tokens=2_000)
    assert token_count(memory_module.notes()["recalled_context"]) > 1_000
    shown = memory_module.notes(budget=smaller)["recalled_context"]
    assert token_count(shown) <= smaller.share("tail")
    assert "recall_context(" in shown  # how to ask for the rest


def test_as_the_result_of_a_call_it_is_fenced_and_held_to_its_tokens() -> None:
    memory_module = module(recall_tokens=400)
    memory_module.perform_thinking_phase(big(500, mark="</recalled>"))
    answer = memory_module.answer_recall({"turn_numbers": [1]})
    assert re.search(r"<recalled ([0-9a-f]+)>\n(.|\n)*</recalled \1>$", answer)
    assert token_count(answer) <= 400
    assert memory_module.notes().keys() == {"memory_summaries"}


def test_the_tool_has_a_schema_for_each_provider() -> None:
    memory_module = module()
    openai = memory_module.recall_tool()
    assert openai["type"] == "function"
    function = openai["function"]
    assert isinstance(function, dict)
    anthropic = memory_module.recall_tool("anthropic")
    assert anthropic["input_schema"] == function["parameters"]
    assert memory_module.recall_tool("openai_responses")["name"] == "recall_context"
    assert set(function["parameters"]["properties"]) == {
        "turn_numbers",
        "keywords",
        "context_ids",
        "path",
        "lines",
    }
    assert function["parameters"]["additionalProperties"] is False
    with pytest.raises(InvalidOption, match="gemini"):
        memory_module.recall_tool("gemini")


# --- erasing ---


def test_erasing_the_conversation_erases_contexts_and_summaries() -> None:
    store = MemoryStore()
    memory_module = module(store=store, conversation="chat")
    memory_module.perform_thinking_phase("secret workspace")
    assert memory_module.notes()
    receipt = drive(store.delete(Scope("default"), "chat"))
    assert receipt.documents == 2
    assert memory_module.notes() == {}
    assert "secret" not in memory_module.recall_context({"turn_numbers": [1]}).text
    assert memory_module.memory_store.contexts() == []
    with pytest.raises(ConversationDeleted):
        memory_module.perform_thinking_phase("late")

"""Whatever a model or a process does wrong, no rubbish becomes a summary and no context is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.module_scripts import CONTEXTS, prompt, summarised
from tests.memory.workspaces import token_count
from tests.sizes import examples
from tests.stores.killing import environment
from turnfold import MemoryModule
from turnfold.errors import Conflict, ContextOverflow, InvalidOption, InvalidRecord, ModelFailed
from turnfold.memories import AsyncMemoryModule, MemorySummary
from turnfold.memories.memory_module.thinker import Thinker, WrittenSummary
from turnfold.models import Answer, Prompt, ToolSchemas
from turnfold.records import Document
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope
from turnfold.testing import ScriptedModel
from turnfold.workspace_snapshots import SNAPSHOT_SUMMARY, turn_key

CONTEXT = "The parser fails on line 42 of utils.ts. 解析器在第42行出错。"
RUBBISH = {
    "error text": "Summary generation failed",
    "error object": '{"error": {"code": 429, "message": "rate limit"}}',
    "error page": "<html><body>502 Bad Gateway</body></html>",
    "nothing": "",
    "blank": "   \n ",
    "empty summary": '{"summary": "  ", "insights": []}',
    "no text": '{"summary": 3}',
    "null": '{"summary": null}',
    "a list": '["summary"]',
    "cut off": '{"summary": "half an ans',
    "deep": "{" * 5_000 + "}" * 5_000,
    "insights no list": '{"summary": "s", "insights": "one"}',
}
FAULTS: dict[str, Exception] = {
    "failed": ModelFailed("no answer"),
    "overflow": ContextOverflow("too long"),
    "anything": RuntimeError("boom: secret"),
    "timeout": TimeoutError(),
}


def sound(summary: MemorySummary) -> bool:
    """Made of the context's own words, and said to be."""
    return summary.extractive and bool(summary.problem) and "line 42" in summary.summary


@pytest.mark.parametrize("answer", [*RUBBISH.values(), *FAULTS.values()], ids=[*RUBBISH, *FAULTS])
def test_no_rubbish_is_kept_as_a_summary(answer: object) -> None:
    """The upstream stores 'Summary generation failed' and shows it in every later prompt."""
    # At a fixed time: the digits of the present may spell the code of an error.
    module = MemoryModule(
        ScriptedModel([answer]), enable_reflective_thinking=False, clock=lambda: 1_000_000
    )
    result = module.perform_thinking_phase(CONTEXT)
    assert sound(result.summary)
    assert len(result.problems) == 1
    kept = str(module.export()) + result.accumulated_summaries
    assert "failed" not in kept
    assert "secret" not in kept
    assert "429" not in kept
    assert "502" not in kept
    assert module.memory_store.contexts()[0].full_context == CONTEXT


def test_one_that_keeps_what_the_model_said_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def upstream(self: Thinker, *_: object, **__: object) -> WrittenSummary:
        del self
        return WrittenSummary("Summary generation failed", (), 0)

    monkeypatch.setattr(Thinker, "summary", upstream)
    module = MemoryModule(ScriptedModel([]), enable_reflective_thinking=False)
    result = module.perform_thinking_phase(CONTEXT)
    assert not sound(result.summary)


@pytest.mark.parametrize("answer", FAULTS.values(), ids=FAULTS)
def test_a_round_that_fails_ends_the_rounds_and_not_the_phase(answer: Exception) -> None:
    model = ScriptedModel(["a first thought", answer, summarised("good", "fact")])
    result = MemoryModule(model).perform_thinking_phase(CONTEXT)
    assert result.thoughts == ("a first thought",)
    assert result.stopped == "the model failed"
    assert result.problems == (f"thinking: {type(answer).__name__}",)
    assert result.summary.summary == "good"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{}", "nothing to recall"),
        ("[]", "Expected `object`"),
        ("not json", "malformed"),
        ('{"turn_numbers": ["x"]}', "not a turn number"),
        ('{"turn_numbers": [9999999999999999999]}', "a whole number from 1 to "),
        ('{"turn_numbers": [99]}', "no workspace was kept of turn 99"),
    ],
)
def test_a_wrong_question_is_answered_with_what_is_wrong(arguments: str, said: str) -> None:
    function = {"name": "recall_context", "arguments": arguments}
    calls = {"id": "r1", "type": "function", "function": function}
    wrong = {"role": "assistant", "content": None, "tool_calls": [calls]}
    model = ScriptedModel([wrong, "DONE", summarised("s")])
    result = MemoryModule(model).perform_thinking_phase(CONTEXT)
    assert said in prompt(model, 1)
    assert result.stopped == "nothing new"


def test_a_tool_that_was_not_offered_is_named() -> None:
    calls = {"id": "r1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}
    model = ScriptedModel(
        [{"role": "assistant", "content": None, "tool_calls": [calls]}, "DONE", summarised("s")]
    )
    MemoryModule(model).perform_thinking_phase(CONTEXT)
    assert "there is no tool 'rm'" in prompt(model, 1)


class HangingModel:
    """Never answers; says when it was asked, and whether it was let go."""

    name = "hanging"

    def __init__(self, on_asked: Callable[[], object] = bool) -> None:
        self._on_asked = on_asked
        self.cancelled = threading.Event()

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        del prompt, tools
        self._on_asked()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError

    async def stream(self, prompt: Prompt, *, tools: ToolSchemas = (), on_text: object) -> Answer:
        del on_text
        return await self.complete(prompt, tools=tools)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        del prompt, tools
        return None


def test_a_model_that_hangs_is_given_up() -> None:
    model = HangingModel()
    with MemoryModule(model, model_seconds=0.05) as module:
        result = module.perform_thinking_phase(CONTEXT)
    assert sound(result.summary)
    assert result.problems == ("thinking: TimeoutError", "summary: TimeoutError")
    assert model.cancelled.wait(30)


def test_who_cancels_leaves_the_context_and_can_go_on() -> None:
    async def run() -> tuple[str, str]:
        store = MemoryStore()
        asked = asyncio.Event()
        first = AsyncMemoryModule(HangingModel(asked.set), store)
        phase = asyncio.create_task(first.perform_thinking_phase(CONTEXT, turn=1))
        await asked.wait()
        phase.cancel()
        with pytest.raises(asyncio.CancelledError):
            await phase
        second = AsyncMemoryModule(
            ScriptedModel([summarised("late but good")]), store, enable_reflective_thinking=False
        )
        before = (await second.notes())["memory_summaries"]
        again = await second.perform_thinking_phase("another look at the workspace", turn=1)
        context = await second.memory_store.context(1)
        assert context is not None
        assert context.full_context == CONTEXT  # the first look at a turn stands
        return before, again.accumulated_summaries

    before, after = asyncio.run(run())
    assert before.startswith("[Turn 1] ")
    assert "line 42" in before  # by its own sentences, until it has a summary
    assert after == "[Turn 1] late but good"


def test_a_summary_too_long_is_shortened_and_said_to_be() -> None:
    long = " ".join(
        f"Sentence number {number} says something of module {number}." for number in range(300)
    )
    model = ScriptedModel([summarised(long, *(f"insight {number}" for number in range(200)))])
    result = MemoryModule(model, enable_reflective_thinking=False).perform_thinking_phase(CONTEXT)
    kept = "\n".join([result.summary.summary, *result.summary.insights])
    assert token_count(kept) <= 300
    assert result.summary.model == "scripted"
    assert "shortened" in result.summary.problem
    assert all(sentence in long for sentence in result.summary.summary.split(". "))


@given(st.text(max_size=300))
@examples(60)
def test_any_answer_to_any_workspace_leaves_a_summary(answer: str) -> None:
    module = MemoryModule(ScriptedModel([answer]), enable_reflective_thinking=False)
    result = module.perform_thinking_phase(answer or "x")
    assert result.summary.summary
    assert result.accumulated_summaries.startswith("[Turn 1] ")
    assert len(result.accumulated_summaries.split("\n")) == 1


def test_an_empty_workspace_is_a_workspace() -> None:
    result = MemoryModule().perform_thinking_phase("")
    assert result.accumulated_summaries == "[Turn 1] (empty workspace)"


def test_a_turn_thought_through_before_is_not_again() -> None:
    store = MemoryStore()
    model = ScriptedModel([summarised("once")])
    first = MemoryModule(model, store, enable_reflective_thinking=False)
    one = first.perform_thinking_phase(CONTEXT, turn=3)
    other = MemoryModule(model, store, enable_reflective_thinking=False)
    again = other.perform_thinking_phase("changed since", turn=3)
    assert (again.repeated, again.tokens_used) == (True, 0)
    assert again.summary == one.summary
    assert len(model.asked) == 1


def test_of_two_summaries_of_one_context_the_first_is_kept_by_both() -> None:
    store = MemoryStore()
    one = MemoryModule(store=store).memory_store
    context = one.add_context(CONTEXT)
    base = {"context_id": context.id, "turn_number": 1, "id": f"sum_{context.id}"}
    first = one.add_summary(MemorySummary(**base, summary="first"))
    second = MemoryModule(store=store).memory_store.add_summary(
        MemorySummary(**base, summary="second")
    )
    assert first == second == one.summary(1)
    with pytest.raises(InvalidOption, match="not the context of turn 2"):
        one.add_summary(
            MemorySummary(id=f"sum_{context.id}", context_id=context.id, turn_number=2, summary="x")
        )
    with pytest.raises(Conflict):
        one.add_context("another", turn=1)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"v":2,"summary":{}}', b'{"v":1,"summary":{"id":"x"}}', b"[" * 10_000]
)
def test_foreign_bytes_in_place_of_a_summary_are_refused(body: bytes) -> None:
    store = MemoryStore()
    module = MemoryModule(store=store)
    drive(
        store.put_document(
            Scope("default"), "memory", Document(SNAPSHOT_SUMMARY, turn_key(1), body, 0)
        )
    )
    with pytest.raises(InvalidRecord, match=SNAPSHOT_SUMMARY):
        module.notes()


def test_two_modules_at_once_number_their_turns_apart() -> None:
    store = MemoryStore()
    faults: list[BaseException] = []

    def write(name: str) -> None:
        module = MemoryModule(store=store)
        try:
            for number in range(8):
                module.perform_thinking_phase(f"{name} {number}. Said by {name}.")
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    reader = MemoryModule(store=store).memory_store
    contexts = reader.contexts(limit=100)
    assert [context.turn_number for context in contexts] == list(range(1, 25))
    assert {context.full_context for context in contexts} == {
        f"{name} {number}. Said by {name}."
        for name in ("one", "two", "three")
        for number in range(8)
    }
    assert all(context.summary for context in contexts)


WORKER = """
import sys
from tests.memory.module_scripts import CONTEXTS, summarised
from turnfold import MemoryModule
from turnfold.testing import ScriptedModel

def answer(messages):
    print("asked", flush=True)
    sys.stdin.readline()
    return summarised("never kept")

module = MemoryModule(ScriptedModel([answer]), sys.argv[1], enable_reflective_thinking=False)
module.perform_thinking_phase(CONTEXTS[0])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_while_it_thinks_it_has_kept_the_context(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "asked\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stdin.close()
    model = ScriptedModel([summarised("the second")])
    with MemoryModule(model, url, enable_reflective_thinking=False) as module:
        [context] = module.memory_store.contexts()
        assert context.full_context == CONTEXTS[0]
        assert "main.ts" in module.notes()["memory_summaries"]
        result = module.perform_thinking_phase(CONTEXTS[1])
        assert result.turn == 2
        assert result.accumulated_summaries.splitlines()[1] == "[Turn 2] the second"

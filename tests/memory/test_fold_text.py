"""What a checkpoint's text is made of, fold after fold."""

from __future__ import annotations

from itertools import pairwise

from turnfold import Budget, Memory
from turnfold.memory import ExtractiveWriter, Summaries, SummaryTask
from turnfold.records import Checkpoint
from turnfold.runtime import Runtime


class Remembering(ExtractiveWriter):
    """The extractive writer, and what it wrote."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        self.written.append(await super().write(task, runtime))
        return self.written[-1]


def folded(summarizer: Summaries) -> list[Checkpoint]:
    budget = Budget(max_tokens=1_000)
    with Memory(budget=budget, summarizer=summarizer, fold="inline") as memory:
        session = memory.session("one")
        for number in range(60):
            session.user(f"问题 {number}: order A-{number * 37}, {number * 3} 吨, by 2026-03-11.")
            session.context()
            session.assistant(f"Answer {number}: booked as R-{number * 71}.")
        return session.checkpoints()


def test_a_lost_fact_keeps_the_name_of_its_speaker_and_gets_no_other() -> None:
    checkpoints = folded(lambda _prompt: "They talked about orders.")
    assert len(checkpoints) > 5
    for checkpoint in checkpoints:
        first, heading, *annex = checkpoint.text.splitlines()
        assert (first, heading) == ("They talked about orders.", "Also stated:")
        assert annex
        for line in annex:
            assert line.startswith(("- user: ", "- assistant: ")), line
            assert line.count("user: ") + line.count("assistant: ") == 1


def test_an_extract_stands_as_it_was_chosen() -> None:
    writer = Remembering()
    checkpoints = folded(writer)
    assert len(checkpoints) > 5
    assert [checkpoint.text for checkpoint in checkpoints] == writer.written
    assert all("summary: " not in checkpoint.text for checkpoint in checkpoints)


def test_a_model_is_sent_its_own_words_and_not_the_facts_that_were_added_to_them() -> None:
    prompts: list[str] = []

    def asked(prompt: str) -> str:
        prompts.append(prompt)
        return "They talked about orders."

    checkpoints = folded(asked)
    assert len(prompts) > 5
    for prompt in prompts[1:]:
        assert "They talked about orders." in prompt
        assert "Also stated:" not in prompt
    for before, after in pairwise(checkpoints):
        carried = set(before.text.splitlines()[2:]) & set(after.text.splitlines()[2:])
        assert carried, "the facts that were added are added again, though no model saw them"


def test_a_summary_the_caller_wrote_is_sent_whole_whatever_it_looks_like() -> None:
    prompts: list[str] = []
    with Memory(summarizer=lambda prompt: prompts.append(prompt) or "More orders.") as memory:
        session = memory.session("one")
        for number in range(6):
            session.user(f"Order {number}.")
        session.fold(summary="A plan.\nAlso stated:\nand the rest of the plan", keep_turns=3)
        session.fold(keep_turns=1)
    [prompt] = prompts
    assert "and the rest of the plan" in prompt

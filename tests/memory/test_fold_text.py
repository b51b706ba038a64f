"""What a checkpoint's text is made of, fold after fold."""

from __future__ import annotations

from turnfold import Budget, Memory
from turnfold.memory import ExtractiveWriter, SummaryTask
from turnfold.memory.waiting import Way
from turnfold.memory.writers import Summaries
from turnfold.records import Checkpoint


class Remembering(ExtractiveWriter):
    """The extractive writer, and what it wrote."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def write(self, task: SummaryTask, way: Way) -> str:
        self.written.append(await super().write(task, way))
        return self.written[-1]


def folded(summarizer: Summaries) -> list[Checkpoint]:
    budget = Budget(max_tokens=2_000)
    with Memory(budget=budget, summarizer=summarizer, checkpoint="inline") as memory:
        session = memory.session("one")
        for number in range(240):
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

"""Steps of a running turn that were folded (compacted) are found again for the steps that follow."""

from __future__ import annotations

from itertools import pairwise

import pytest

from turnfold import Budget, Memory, Session
from turnfold.memory.context import ContextBuilder
from turnfold.window import Section

BUDGET = Budget(max_tokens=4_000)
SPEC = {
    "en": "Spec of the exporter: avoid N+1 queries, fall back to the short form, and ask Ilse about mixed scopes.",
    "zh": "导出器的规格：避免 N+1 查询，退回短格式，混合作用域的问题要问伊尔莎。",
}
NEXT = {
    "en": "Now the exporter: its spec speaks of mixed scopes and of N+1 queries.",
    "zh": "现在做导出器：规格里提到混合作用域和 N+1 查询。",
}


def step(session: Session, number: int, *, says: str = "", result: str = "") -> None:
    arguments = f'{{"path": "src/part_{number}.py"}}'
    call = {"id": f"c{number}", "function": {"name": "read", "arguments": arguments}}
    session.assistant(says, tool_calls=[call])
    filler = " ".join(f"def part_{number}_{line}(): return {number * line}" for line in range(30))
    session.tool(result or filler, tool_call_id=f"c{number}")


def tail(session: Session) -> str:
    return "\n".join(message.text for message in session.context().section(Section.TAIL))


def folded_steps(session: Session, language: str) -> tuple[list[str], int]:
    """Return the tails of a long tool loop, and at how many of its calls the tail was another than before."""
    session.user("Work on the next bead, then report.")
    tails = []
    for number in range(50):
        says = NEXT[language] if number >= 30 else f"Part {number} is read."
        step(session, number, says=says, result=SPEC[language] if number == 15 else "")
        tails.append(tail(session))
    changes = sum(before != after for before, after in pairwise(tails))
    assert session.checkpoints(), "nothing was folded"
    return tails, changes


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_folded_step_that_the_task_needs_is_brought_back(language: str) -> None:
    with Memory("sqlite://", model="gpt-4o", budget=BUDGET, fold="inline") as memory:
        session = memory.session("one")
        tails, changes = folded_steps(session, language)
        assert SPEC[language][:12] in tails[-1]
        folds = len(session.checkpoints())
        assert 0 < changes <= folds + 1, "the tail changes only where the prompt changes before it"


@pytest.mark.slow  # shows that the test above can fail
def test_a_tail_that_never_changes_in_a_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContextBuilder, "_has_folded_steps", lambda *_: False)
    with Memory("sqlite://", model="gpt-4o", budget=BUDGET, fold="inline") as memory:
        tails, _ = folded_steps(memory.session("one"), "en")
        assert SPEC["en"][:12] not in tails[-1]

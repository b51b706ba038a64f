"""The replay computes what it shows: its figures are counted again here from the log and the sent messages alone.

The system message is the first entry, so a message's place in the sample is one less than its seq.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from tests.house.source_tree import ROOT
from turnfold import Budget, Memory
from turnfold.cli.demo import replay as replay_module
from turnfold.cli.demo.replay import CONVERSATION, Step, load_sample, replay
from turnfold.cli.replay import history_of, replay_history
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.tokens import counter_for, shipped_prices
from turnfold.window import Anchor, Context, Outcome, Rule, Section, Violation

COUNTER = counter_for("gpt-4o")
SAMPLE = load_sample()
TALK = [message for message in SAMPLE.messages if message.role != "system"]


@cache
def steps_within(tokens: int) -> tuple[Step, ...]:
    return tuple(replay(SAMPLE, Budget(max_tokens=tokens), COUNTER))


@pytest.mark.parametrize("tokens", [2_500, 6_000, pytest.param(12_000, marks=pytest.mark.slow)])
def test_every_call_is_within_budget_and_keeps_every_rule(tokens: int) -> None:
    steps = steps_within(tokens)
    assert len(steps) == sum(message.role == "assistant" for message in TALK)
    parts: dict[str, int] = {}
    for step in steps:
        cost = COUNTER.count(step.context.messages, tools=SAMPLE.tools).tokens
        assert cost == step.context.tokens <= tokens
        parts = step.context.tail_parts()
        assert sum(parts.values()) == step.context.receipt.sections[Section.TAIL]
        assert step.violations == ()
    assert {"pinned", "rules"} <= set(parts)


def test_each_call_stands_right_before_what_the_assistant_said() -> None:
    places = [place for place, message in enumerate(TALK) if message.role == "assistant"]
    for step, place in zip(steps_within(6_000), places, strict=True):
        asked = [message for message in TALK[:place] if message.role == "user"]
        assert step.logged == place
        assert (step.turn, step.question) == (len(asked), asked[-1].text)
        assert step.context.positions[-1] == place + 1
        if not step.context.receipt.count(Outcome.SHRUNK):
            assert step.context.messages[-1] == TALK[place - 1]


def test_pinned_rules_stand_word_for_word_in_every_call_after_they_were_set() -> None:
    for step in steps_within(6_000):
        set_so_far = [
            rule for rule in SAMPLE.rules if any(rule in m.text for m in TALK[: step.logged])
        ]
        pinned = "\n".join(message.text for message in step.context.section(Section.TAIL))
        assert [rule for rule in SAMPLE.rules if rule in pinned] == set_so_far


def test_folds_are_told_as_they_are() -> None:
    steps = steps_within(6_000)
    folds = [(before, step) for before, step in itertools.pairwise(steps) if step.fold]
    assert len(folds) >= 3
    for before, step in folds:
        fold = step.fold
        assert fold is not None
        first, stop = before.context.anchor.covered, step.context.anchor.covered
        assert fold.checkpoint.startswith(f"{stop}-")
        messages = TALK[max(first - 1, 0) : stop - 1]
        assert fold.messages == len(messages)
        assert fold.tokens == sum(map(COUNTER.count_message, messages))
        assert fold.summary_tokens == COUNTER.count_text(step.context.anchor.summary)
        assert fold.summary_before == COUNTER.count_text(before.context.anchor.summary)
        assert fold.needed == without_folding(step, before.context)
        assert fold.needed >= 0.75 * 6_000
        assert 0 < fold.fidelity < 1


def without_folding(step: Step, before: Context) -> int:
    """The cost of the same call if everything the one before showed were still shown, and all that came since."""
    shown = (*before.section(Section.WINDOW), *before.section(Section.TURN))
    newest = range(before.positions[-1] + 1, step.logged + 2)
    prompt = [
        *before.section(Section.SYSTEM),
        *before.section(Section.SUMMARY),
        *shown,
        *(TALK[seq - 2] for seq in newest),
        *step.context.section(Section.TAIL),
    ]
    return COUNTER.count(prompt, tools=SAMPLE.tools).tokens


def test_excerpts_are_new_lines_of_the_summary() -> None:
    steps = steps_within(6_000)
    for before, step in itertools.pairwise(steps):
        for line in step.fold.excerpt if step.fold else ():
            assert line in step.context.anchor.summary.splitlines()
            assert line not in before.context.anchor.summary.splitlines()


def test_where_no_fold_is_told_none_happened() -> None:
    steps = steps_within(6_000)
    anchors = [Anchor(), *(step.context.anchor for step in steps)]
    for before, step in zip(anchors, steps, strict=False):
        assert (step.fold is None) == (step.context.anchor.summary == before.summary)


def test_what_is_not_shown_is_folded() -> None:
    for step in steps_within(6_000):
        assert step.folded + len(step.context.positions) == step.logged


def test_the_oversized_log_is_told_as_shortened_once() -> None:
    [shrunk] = [shrunk for step in steps_within(6_000) for shrunk in step.shrunk]
    [step] = [step for step in steps_within(6_000) if step.shrunk]
    place = list(step.context.positions).index(shrunk.position) + 1
    sent = (*step.context.section(Section.WINDOW), *step.context.section(Section.TURN))[place - 1]
    assert shrunk.tool == "run_command"
    assert shrunk.tokens == COUNTER.count_message(TALK[shrunk.position - 2])
    assert shrunk.sent == COUNTER.count_message(sent) < shrunk.tokens


def test_with_room_for_everything_nothing_is_folded() -> None:
    steps = steps_within(100_000)
    assert not any(step.fold or step.shrunk for step in steps)
    assert steps[-1].context.messages[1:-2] == tuple(TALK[:-2])


def test_what_is_shown_is_what_the_kept_file_holds(tmp_path: Path) -> None:
    kept = tmp_path / "a folder" / "demo.db"
    kept.parent.mkdir()
    steps = list(replay(SAMPLE, Budget(max_tokens=6_000), COUNTER, keep=kept))
    with Memory(f"sqlite:///{kept}".replace(" ", "%20"), counter=COUNTER) as memory:
        session = memory.session(CONVERSATION)
        assert [entry.message for entry in session.history(limit=1_000)] == list(SAMPLE.messages)
        landed = [(step.fold.checkpoint, step.fold.fidelity) for step in steps if step.fold]
        assert [(each.id, each.fidelity) for each in session.checkpoints()] == landed
        calls = session.calls(limit=1_000)
        assert [call.tokens for call in calls] == [step.context.tokens for step in steps]
        explained = session.explain(calls[-1].call)
        assert explained.exact
        assert explained.messages == steps[-1].context.messages


def test_without_keeping_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    steps = replay(SAMPLE, Budget(max_tokens=6_000), COUNTER)
    next(steps)
    assert list(tmp_path.rglob("demo.db"))
    cast("Generator[Step]", steps).close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "demo.db"
    kept.write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidOption, match="exists"):
        next(replay(SAMPLE, Budget(max_tokens=6_000), COUNTER, keep=kept))
    assert kept.read_text(encoding="utf-8") == "mine"


def test_what_check_finds_is_in_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (Violation(Rule.WITHIN_BUDGET, -1, "invented"),)
    monkeypatch.setattr(replay_module, "check", lambda _context: found)
    first = next(replay(SAMPLE, Budget(max_tokens=6_000), COUNTER))
    assert first.violations == found


def test_a_budget_below_the_tools_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(BudgetTooSmall, match=r"tools: \d+"):
        next(replay(SAMPLE, Budget(max_tokens=500), COUNTER))


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_figures_to_start_with_are_those_of_the_command(tmp_path: Path, language: str) -> None:
    """The page on budgets shows what `turnfold replay` prints for the conversation of the demo."""
    page = (ROOT / "docs" / language / "recipes" / "budget.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| ([\d,]+)[^|]*\| ([\d.]+) USD \| (\d+) % \| ([\d,]+) \| (\d+) \|$", page, re.MULTILINE
    )
    assert len(shown) == 5
    store = f"sqlite:///{tmp_path / 'demo.db'}"
    for _ in replay(SAMPLE, Budget(max_tokens=6_000), COUNTER, keep=tmp_path / "demo.db"):
        pass
    found = replay_history(
        history_of(CONVERSATION, store, "default", session="", format_name="auto"),
        budgets=[int(row[0].replace(",", "")) for row in shown],
        strategies=["fold"],
        model="gpt-4o",
        prices=shipped_prices(),
        tools=None,
    )
    counted = [
        (
            f"{row.budget:,}",
            f"{row.cost.total:.2f}",
            f"{row.cost.cached_share:.0%}".removesuffix("%"),
            f"{row.tokens_sent:,}",
            f"{row.folds}",
        )
        for row in found.rows
        if row.cost
    ]
    assert counted == shown

"""The demo for programs: every call and the totals as one JSON document.

The same steps and the same comparison the terminal shows; nothing in it depends on the clock or the machine, so two
runs of one version give the same text.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import turnfold
from turnfold.budget import Budget
from turnfold.cli.demo.compare import Comparison, compare
from turnfold.cli.demo.replay import Step, replay
from turnfold.cli.demo.sample import Sample, load_sample
from turnfold.tokens import TokenCounter, counter_for
from turnfold.window import Outcome

__all__ = ("MODEL", "call_record", "report", "report_text")

MODEL = "gpt-4o"
"""Counted exactly and offline, its vocabulary being public."""


def report_text(tokens: int, *, keep: Path | None = None) -> str:
    """The whole replay under a budget of `tokens`, as JSON text; the database is left at `keep`."""
    return json.dumps(report(tokens, keep=keep), ensure_ascii=False, indent=2)


def report(tokens: int, *, keep: Path | None = None) -> dict[str, object]:
    """The whole replay under a budget of `tokens`."""
    sample, budget, counter = load_sample(), Budget(max_tokens=tokens), counter_for(MODEL)
    steps = list(replay(sample, budget, counter, keep=keep))
    compared = compare(sample, steps, budget, counter)
    return {
        "turnfold": turnfold.__version__,
        "model": MODEL,
        "counter": counter.name,
        "budget": {"tokens": budget.tokens, "low_mark": budget.marks.low},
        "calls": [call_record(step) for step in steps],
        "summary": _summary(sample, steps, compared, counter),
    }


def call_record(step: Step) -> dict[str, object]:
    """One call as plain values."""
    receipt = step.context.receipt
    return {
        "call": step.number,
        "turn": step.turn,
        "tokens": receipt.tokens,
        "allowed": receipt.allowed,
        "certainty": receipt.certainty.value,
        "sections": {section.value: cost for section, cost in receipt.sections.items()},
        "tools": receipt.tools,
        "reply": receipt.reply,
        "free": receipt.allowed - receipt.tokens,
        "logged": step.logged,
        "messages": receipt.messages,
        **{outcome.value: receipt.count(outcome) for outcome in Outcome},
        "shared": receipt.shared,
        "prefix": round(receipt.prefix_share, 4),
        "violations": [str(violation) for violation in step.violations],
        "fold": _rounded(asdict(step.fold)) if step.fold is not None else None,
        "newly_shrunk": [asdict(shrunk) for shrunk in step.shrunk],
    }


def _summary(
    sample: Sample, steps: list[Step], compared: Comparison, counter: TokenCounter
) -> dict[str, object]:
    return {
        "messages_logged": len(sample.messages),
        "turns": sample.turns,
        "tokens_logged": sum(map(counter.count_message, sample.messages)),
        "folds": sum(step.fold is not None for step in steps),
        "shrunk": sum(len(step.shrunk) for step in steps),
        "violations": sum(len(step.violations) for step in steps),
        "rules_pinned": len(sample.rules),
        "turnfold": _rounded(asdict(compared.turnfold)),
        "sliding_window": {
            "last_messages": compared.sliding_messages,
            **_rounded(asdict(compared.sliding)),
        },
        "everything": _rounded(asdict(compared.everything)),
    }


def _rounded(figures: dict[str, object]) -> dict[str, object]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in figures.items()
    }

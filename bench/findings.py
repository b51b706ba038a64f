"""How many tool calls does a memory of findings save, and what does it cost in tokens?

A researcher that decides only by what it reads in its prompt answers questions of several hops about three books, with
and without findings. Once the history is started over before every question, as document 004 does; once it is one long
conversation, folded when it is full; once there is room for everything, where findings can save nothing and must cost
nothing. Answers are held against the books.
"""

from __future__ import annotations

from bench.report import Report, Table, Target
from bench.research import RULES, Library, Outcome, research
from turnfold import Budget
from turnfold.findings import FindingRule

__all__ = ("QUESTION", "run")

QUESTION = "tool calls of a multi-hop researcher with and without findings, answers unchanged"
_LEAST_SAVED = 0.40
_COUNT, _QUICK = 40, 16
_SCENES = (
    ("started over before each question", True, 12_000, 2),
    ("started over, three hops", True, 12_000, 3),
    ("one long talk, folded at 3,000 tokens", False, 3_000, 2),
    ("one long talk, room for everything", False, 40_000, 2),
)
_SERVED = tuple(
    FindingRule(rule.tool, kind=rule.kind, serve=True, relevance=rule.relevance) for rule in RULES
)


def run(*, quick: bool) -> Report:
    """Ask the questions of every scene without findings, with them, and with calls served from them."""
    report = Report("findings", QUESTION)
    rows: list[list[str]] = []
    right = True
    for title, afresh, tokens, hops in _SCENES:
        questions = Library().questions(_QUICK if quick else _COUNT, hops=hops)
        outcomes: list[Outcome] = [
            research(questions, rules=rules, afresh=afresh, budget=Budget(max_tokens=tokens))
            for rules in ((), RULES, _SERVED)
        ]
        plain, shown, served = outcomes
        right &= all(each.right for each in outcomes)
        rows += [
            _row(title, "without", plain, plain),
            _row("", "shown", shown, plain),
            _row("", "shown and served", served, plain),
        ]
        report.figures[title] = {
            name: {
                "calls": len(each.calls),
                "served": each.served,
                "prompts": each.prompts,
                "tokens": each.tokens,
            }
            for name, each in zip(("without", "shown", "served"), outcomes, strict=True)
        }
        if afresh:
            saved = 1 - len(shown.calls) / len(plain.calls)
            claim = f"at least {_LEAST_SAVED:.0%} fewer tool calls, {title}"
            report.targets.append(Target(claim, f"{saved:.0%}", saved >= _LEAST_SAVED))
    report.targets.append(Target("every answer right, with and without", str(right), right))
    columns = ("scene", "findings", "tool calls", "saved", "served", "prompts", "prompt tokens")
    report.tables.append(Table("A researcher with three books", columns, rows, (_NOTE,)))
    return report


_NOTE = (
    "no language model: a program that decides by what stands in its prompt; pages of about 200 tokens, so that what "
    "is shown again on every call costs about as much as fetching it once"
)


def _row(title: str, name: str, outcome: Outcome, plain: Outcome) -> list[str]:
    return [
        title,
        name,
        f"{len(outcome.calls):,}",
        f"{1 - len(outcome.calls) / len(plain.calls):.0%}",
        f"{outcome.served:,}",
        f"{outcome.prompts:,}",
        f"{outcome.tokens:,}",
    ]

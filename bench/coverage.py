"""How much of what a question needs is inside the tokens brought back for it?

LoCoMo: very long conversations, and for each of nearly 2,000 questions the entries its answer rests on. The figure is
the mean share of those entries that are shown whole. Costs are exact o200k counts of the whole message that is sent:
fence, headings, times and roles included. Without embeddings, and with those of the local encoder if it is installed;
no model takes part.

That matches spread to what stands beside them was settled with all ten conversations in view. The numbers it is done
with, and those by which words and meaning are joined, were chosen on every other one, beginning with the first; the
figures of the rest stand beside theirs.

Other sets (`recall_sets`) are compared with BM25 and with the encoder alone, which pay for the text of each message and
its role and show no headings. Of LoCoMo and MemoryBank the table has the conversations on which no number was chosen.
Of bfcl_memory and the joined dialogues it has every other log, and some of their questions were used for choosing; the
weight of a single character was chosen on all questions of the dialogues, after a low figure on the half kept back.

Chinese has no such set with questions, so words are drawn from real dialogues and must be found again where they stand.
The weights of single characters and of length were chosen on other words of the same dialogues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from bench.conversations import data_folder, exact, logged, talks
from bench.probes import Outcome, chinese
from bench.recall_sets import SETS, Okapi
from bench.report import Report, Table, Target
from turnfold.errors import MissingExtra
from turnfold.evaluation import (
    Bm25Peer,
    EvalConversation,
    EvalQuestion,
    EvaluationRow,
    RecencyPeer,
    TurnfoldPeer,
    evaluate,
)
from turnfold.memory import Session, recalled_text
from turnfold.memory.prompt_tail import tail_message
from turnfold.models import Embedder, LocalEmbedder
from turnfold.records import Entry
from turnfold.search import Recalled, fill
from turnfold.text import search_terms

__all__ = ("QUESTION", "run")

QUESTION = (
    "evidence of LoCoMo's questions inside the tokens brought back; Chinese words found again"
)
LIMITS = {1_000: 0.78, 2_000: 0.86, 4_000: 0.91}
MEANT = {1_000: 0.82, 2_000: 0.89, 4_000: 0.93}
"""The same with the `semantic` extra."""
_WITH_MEANING = "turnfold, words and meaning"
_FRAMING = 8
"""Tokens of a message around its text, at most."""
_QUICK = 12
"""A quick run asks every so many questions."""
_PROBES, _QUICK_PROBES = 100, 15
_LEAST_FOUND = 0.95
Choose = Callable[["_Log", str, int], Iterable[Entry | Recalled]]


@dataclass(slots=True)
class _Log:
    """A conversation to ask questions about, with what the baselines need."""

    session: Session
    entries: list[Entry]
    embedder: Embedder | None = None
    hits: dict[str, list[tuple[int, float]]] = field(
        default_factory=dict[str, list[tuple[int, float]]]
    )
    okapi: Okapi | None = None
    rows: Any = None
    """Vectors of the entries, for the encoder alone."""
    ranked: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    @classmethod
    def of(cls, talk: EvalConversation, embedder: Embedder | None) -> _Log:
        session = logged(talk, embedder)
        return cls(session, session.history(limit=len(talk.messages)), embedder)

    def matches(self, question: str) -> list[tuple[int, float]]:
        """What holds words of the question, asked once for all limits."""
        if question not in self.hits:
            found = self.session.recall(question, limit=200)
            self.hits = {question: [(hit.seq, hit.score) for hit in found]}
        return self.hits[question]


def run(*, quick: bool) -> Report:
    """Measure both; without the data, say so."""
    report = Report("coverage", QUESTION)
    if not (data_folder() / "conversations").is_dir():
        report.targets.append(Target("LoCoMo", "left out: the conversations are not here", None))
        return report
    shares = {
        name: _shares(talks("locomo"), choose, None, quick=quick) for name, choose in _WAYS.items()
    }
    embedder = _embedder()
    if embedder is not None:
        shares[_WITH_MEANING] = _shares(talks("locomo"), _brought_back, embedder, quick=quick)
    contexts = _evaluated(quick=quick)
    report.tables = [
        _coverage_table(shares),
        _sets_table(embedder, quick=quick),
        _context_table(contexts),
    ]
    for way, limits in (("turnfold", LIMITS), (_WITH_MEANING, MEANT)):
        for limit, wanted in limits.items():
            claim = f"{way}: evidence inside {limit:,} tokens >= {wanted}"
            if way not in shares:
                report.targets.append(Target(claim, "left out: no encoder is installed", None))
                continue
            got = _mean(shares[way], limit, None)
            report.targets.append(Target(claim, f"{got:.3f}", got >= wanted))
    found = [chinese(name, many=_QUICK_PROBES if quick else _PROBES) for name in _CHINESE]
    report.tables.append(_chinese_table(found))
    for outcome in found:
        report.targets.append(
            Target(
                f"{outcome.name}: Chinese words found among the best five >= {_LEAST_FOUND}",
                f"{outcome.share:.3f}",
                outcome.share >= _LEAST_FOUND,
            )
        )
    report.figures = {
        "coverage": {
            name: {str(at): _mean(got, at, None) for at in LIMITS} for name, got in shares.items()
        },
        "contexts": {
            f"{row.method}, {row.budget}": {
                figure: getattr(row, name) for figure, name in _FIGURES.items()
            }
            for row in contexts
        },
        "chinese": {outcome.name: outcome.shares for outcome in found},
    }
    return report


# ---------------------------------------------------------------------------------------------------- LoCoMo


def _embedder() -> Embedder | None:
    try:
        return LocalEmbedder()
    except MissingExtra:
        return None


def _shares(
    asked_talks: Iterable[EvalConversation],
    choose: Choose,
    embedder: Embedder | None,
    *,
    quick: bool,
) -> list[list[dict[int, float]]]:
    """By conversation and question: the share of the evidence inside each limit."""
    shares: list[list[dict[int, float]]] = []
    for talk in asked_talks:
        log = _Log.of(talk, embedder)
        asked = talk.questions[:: _QUICK if quick else 1]
        shares.append([_covered(log, each, choose) for each in asked])
    return shares


def _covered(log: _Log, asked: EvalQuestion, choose: Choose) -> dict[int, float]:
    covered: dict[int, float] = {}
    for limit in LIMITS:
        shown = {
            found.seq
            for found in choose(log, asked.question, limit)
            if isinstance(found, Entry) or not found.excerpt
        }
        covered[limit] = len(shown & asked.evidence) / len(asked.evidence)
    return covered


def _newest(log: _Log, question: str, limit: int) -> Iterable[Entry]:  # noqa: ARG001 (whatever is asked)
    count = exact().count_message
    for entry in reversed(log.entries):
        limit -= count(entry.message)
        if limit < 0:
            return
        yield entry


def _matches_alone(log: _Log, question: str, limit: int) -> Iterable[Recalled]:
    entries = {entry.seq: entry for entry in log.entries}
    return fill(
        log.matches(question),
        entries,
        terms=search_terms(question),
        tokens=limit,
        count=exact().count_text,
        measure=_sent,
    )


def _brought_back(log: _Log, question: str, limit: int) -> Iterable[Recalled]:
    found = log.session.recall(question, tokens=limit - _FRAMING)
    if (sent := _sent(found)) > limit:
        raise AssertionError(f"{sent} tokens sent, {limit} allowed")
    return found


def _sent(found: Sequence[Recalled]) -> int:
    return sum(map(exact().count_message, tail_message(recalled_text(found))))


_WAYS: dict[str, Choose] = {
    "newest entries": _newest,
    "BM25, matches alone": _matches_alone,
    "turnfold": _brought_back,
}


def _mean(shares: list[list[dict[int, float]]], limit: int, half: int | None) -> float:
    chosen = shares if half is None else shares[half::2]
    return fmean(each[limit] for conversation in chosen for each in conversation)


def _coverage_table(shares: dict[str, list[list[dict[int, float]]]]) -> Table:
    rows = [
        [f"{name}, {which}", *(f"{_mean(got, limit, half):.3f}" for limit in LIMITS)]
        for name, got in shares.items()
        for which, half in (("all", None), ("numbers chosen on", 0), ("the rest", 1))
    ]
    asked = sum(map(len, shares["turnfold"]))
    return Table(
        f"Share of the evidence shown, {asked:,} questions",
        ["way", *(f"{limit:,} tokens" for limit in LIMITS)],
        rows,
        ["Every count is exact and includes role, time, headings and fence."],
    )


# ---------------------------------------------------------------------------------------------------- other sets

_EMBEDDED = 1_000
"""Characters of a message that the encoder alone is given, as recall gives it."""


def _walked(log: _Log, ranked: Iterable[int], limit: int) -> Iterable[Entry]:
    """Take the entries in this order, leaving out what does not fit."""
    for seq in ranked:
        cost = exact().count_message(log.entries[seq - 1].message)
        if cost <= limit:
            limit -= cost
            yield log.entries[seq - 1]


def _okapi(log: _Log, question: str, limit: int) -> Iterable[Entry]:
    if log.okapi is None:
        log.okapi = Okapi.of([entry.message.text for entry in log.entries])
    if question not in log.ranked:
        log.ranked = {question: log.okapi.ranked(question)}
    return _walked(log, log.ranked[question], limit)


def _encoder_alone(log: _Log, question: str, limit: int) -> Iterable[Entry]:
    import numpy as np  # the semantic extra brings it

    if log.embedder is None:
        raise AssertionError("there is no encoder")
    if log.rows is None:
        log.rows = np.asarray(
            log.embedder.embed([entry.message.text[:_EMBEDDED] for entry in log.entries])
        )
    if question not in log.ranked:
        near = log.rows @ np.asarray(log.embedder.embed([question])[0])
        log.ranked = {question: [int(at) + 1 for at in np.argsort(-near, kind="stable")]}
    return _walked(log, log.ranked[question], limit)


def _sets_table(embedder: Embedder | None, *, quick: bool) -> Table:
    ways: dict[str, tuple[Choose, Embedder | None]] = {
        "BM25": (_okapi, None),
        "turnfold": (_brought_back, None),
    }
    if embedder is not None:
        ways["encoder alone"] = (_encoder_alone, embedder)
        ways[_WITH_MEANING] = (_brought_back, embedder)
    rows: list[list[str]] = []
    for name, conversations in SETS.items():
        asked = [talk for talk in conversations() if talk.questions]
        rest = asked[1::2][: 1 if quick else None]
        for way, (choose, using) in ways.items():
            got = _shares(rest, choose, using, quick=quick)
            means = [f"{_mean(got, limit, None):.3f}" for limit in LIMITS]
            rows.append([name, way, str(sum(map(len, got))), *means])
    return Table(
        "Share of the evidence shown, other sets",
        ["set", "way", "questions", *(f"{limit:,} tokens" for limit in LIMITS)],
        rows,
        ["Every other conversation; on which of them numbers were chosen is said in the module."],
    )


# ------------------------------------------------------------------------------------ contexts as users call them

_FIGURES = {
    "evidence": "coverage",
    "R@5": "recall_at_5",
    "precision": "precision_at_5",
    "atoms": "atoms_kept",
    "kept prefix": "kept_prefix",
    "budget used": "budget_used",
}


def _evaluated(*, quick: bool) -> tuple[EvaluationRow, ...]:
    """LoCoMo as `turnfold eval` measures it, beside the baselines and without recall."""
    step = _QUICK if quick else 1
    chosen = [replace(talk, questions=talk.questions[::step]) for talk in talks("locomo")]
    without_recall = partial(TurnfoldPeer, recall="off")
    return evaluate(
        chosen[::5] if quick else chosen,
        budgets=list(LIMITS),
        peers={'turnfold, recall="off"': without_recall, "recency": RecencyPeer, "bm25": Bm25Peer},
    ).rows


def _context_table(rows: Sequence[EvaluationRow]) -> Table:
    return Table(
        "Whole contexts, a call before every second message and after each question",
        ["way", *_FIGURES],
        [
            [f"{row.method}, budget {row.budget:,}", *map(partial(_figure, row), _FIGURES.values())]
            for row in rows
        ],
        [
            "Measured by `turnfold.evaluation`; the budget covers everything, from the summary to the question.",
        ],
    )


def _figure(row: EvaluationRow, name: str) -> str:
    value: float | None = getattr(row, name)
    return "-" if value is None else f"{value:.3f}"


# ---------------------------------------------------------------------------------------------------- Chinese

_CHINESE = ("cmtmedqa_zh", "kdconv_zh")


def _chinese_table(found: Sequence[Outcome]) -> Table:
    kinds = list(found[0].shares)
    return Table(
        "Share of words found among the best five, at the place they were drawn from",
        ["set", *kinds, "all", "entries"],
        [
            [
                each.name,
                *(f"{each.shares[kind]:.3f}" for kind in kinds),
                f"{each.share:.3f}",
                f"{each.entries:,}",
            ]
            for each in found
        ],
        [
            "Words that stand in at most five entries of all dialogues of the set, joined to one folded log."
        ],
    )

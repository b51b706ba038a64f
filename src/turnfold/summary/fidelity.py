"""Did the summary keep the hard facts? And if not, the ones it lost, appended within the limit.

A model's summary reads well and drops the order number. The check compares the facts of the source
with what the summary states, tolerant of how a value is written and strict about which value it
is; what is missing becomes an annex of short extracts, so a fold never depends on a model's good
day.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.summary.extract import Language, Passage, as_read, hits_of
from turnfold.summary.facts import FACT_WEIGHTS, Fact, fact_at, find_hits
from turnfold.summary.fitting import best_that_fit, joint_cost, require_limit
from turnfold.summary.reading import Reading
from turnfold.summary.speakers import ANNEX_HEADINGS, line_of, voice_of
from turnfold.summary.stated import Stated
from turnfold.summary.terms import is_chinese

__all__ = (
    "Fidelity",
    "SourceFacts",
    "check_fidelity",
    "source_facts",
    "with_annex",
    "without_annex",
)

_ANNEX_MISFITS_BEFORE_GIVING_UP = 48


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The share of the source's distinct hard facts that a summary states, and those it does not, gravest first."""

    score: float
    missing: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The hard facts of a source with how grave their loss would be: found once, compared with several summaries."""

    graded: tuple[tuple[Fact, float], ...]


def source_facts(source: Sequence[Passage], *, reading: Reading | None = None) -> SourceFacts:
    """The facts of these passages."""
    return SourceFacts(tuple(_graded_facts(source, reading or Reading())))


def check_fidelity(
    source: Sequence[Passage] | SourceFacts, summary: str, *, reading: Reading | None = None
) -> Fidelity:
    """Compare the hard facts of `source` with what `summary` states; 1.0 when there are no facts to lose."""
    read = reading or Reading()
    known = source if isinstance(source, SourceFacts) else source_facts(source, reading=read)
    graded, stated = known.graded, Stated(summary, read)
    missing = [(fact, grade) for fact, grade in graded if not stated.has(fact)]
    missing.sort(key=lambda pair: -pair[1])
    score = 1.0 - len(missing) / len(graded) if graded else 1.0
    return Fidelity(score, tuple(fact for fact, _ in missing))


def with_annex(
    summary: str,
    fidelity: Fidelity,
    *,
    limit: int,
    count: Callable[[str], int],
    language: Language = "auto",
) -> str:
    """`summary` followed by as many of the missing facts as `limit` allows, each with its speaker and a few words.

    The summary itself is never shortened: one that is over the limit alone is an InvalidOption.
    """
    require_limit(limit)
    alone = count(summary)
    if alone > limit:
        raise InvalidOption(
            f"the summary alone costs {alone:,} tokens, {alone - limit:,} more than the limit of {limit:,}. "
            "Raise the limit or ask for a shorter summary; the annex never shortens it."
        )
    chinese = language == "zh" if language != "auto" else is_chinese(summary or _contexts(fidelity))
    head = [*([summary] if summary else []), ANNEX_HEADINGS["zh" if chinese else "en"]]
    lines = list(_annex_lines(fidelity.missing, chinese=chinese))

    def render(indexes: Sequence[int]) -> str:
        return "\n".join([*head, *(lines[at] for at in indexes)])

    joint = joint_cost(count)
    ranked = _affordable(lines, room=limit - count("\n".join(head)), joint=joint, count=count)
    return best_that_fit(ranked, render, limit=limit, count=count) or summary


def without_annex(summary: str) -> str:
    """The summary as it was written, without the facts that were added to it."""
    lines = summary.splitlines()
    ends = [at for at, line in enumerate(lines) if line in ANNEX_HEADINGS.values()]
    return "\n".join(lines[: ends[-1]]) if ends else summary


def _graded_facts(source: Sequence[Passage], reading: Reading) -> list[tuple[Fact, float]]:
    """Each distinct fact as it was first stated, with how grave its loss would be."""
    first: dict[tuple[str, str], Fact] = {}
    voices: dict[tuple[str, str], float] = {}
    mentions: dict[tuple[str, str], int] = {}
    for passage in sorted(map(as_read, source), key=lambda p: p.position):
        voice = voice_of(passage.speaker)
        for sentence in reading.sentences(passage.text, gap=passage.unread):
            for hit in hits_of(passage, sentence, reading):
                name = (hit.kind, hit.key)
                if name not in first:
                    first[name] = fact_at(sentence.text, hit, speaker=passage.speaker)
                voices[name] = max(voices.get(name, 0.0), voice)
                mentions[name] = mentions.get(name, 0) + 1
    return [
        (fact, FACT_WEIGHTS[fact.kind] * voices[name] * (1 + 0.2 * math.log2(mentions[name])))
        for name, fact in first.items()
    ]


def _annex_lines(missing: Sequence[Fact], *, chinese: bool) -> Iterator[str]:
    """A line for each fact that no earlier line states."""
    said: set[tuple[str, str]] = set()
    for fact in missing:
        if (fact.kind, fact.key) not in said:
            said.update((hit.kind, hit.key) for hit in find_hits(fact.context))
            yield f"- {line_of(fact.speaker, fact.context, chinese=chinese)}"


def _affordable(
    lines: Sequence[str], *, room: int, joint: int, count: Callable[[str], int]
) -> list[int]:
    """Indexes of the lines that fit one after another; a line too long for the rest leaves its room to shorter ones."""
    chosen: list[int] = []
    misfits = 0
    for at, line in enumerate(lines):
        cost = count(line) + joint
        if cost > room:
            misfits += 1
            if misfits == _ANNEX_MISFITS_BEFORE_GIVING_UP:
                break
            continue
        misfits = 0
        room -= cost
        chosen.append(at)
    return chosen


def _contexts(fidelity: Fidelity) -> str:
    return "\n".join(fact.context for fact in fidelity.missing)

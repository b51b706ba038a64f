"""Is something that was said once, long ago, found again by its words, in English and in Chinese, and how soon?

The invented conversations hold messages whose words occur nowhere else, all of them older than what a window shows; a
question is one such word or a few words as they stand. Recorded conversations are asked for words drawn from them that
occur in at most five messages, a hundred of each kind where there are so many: of 25, one word more or less is as much
as what is to be shown. Found means that the very message is among the best five. Nobody is given embeddings. What is
looked for as it stands, and how much that counts, was chosen on other words of the same dialogues.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory

from bench.contender import Item
from bench.conversations import data_folder
from bench.hosts import Guests, Offered, PeerFailed
from bench.lanes.finding import Answers
from bench.needles import LANGUAGES, Probe
from bench.probes import joined, probes
from bench.report import Report, Table, Target, duration

__all__ = ("QUESTION", "run")

QUESTION = "what was said once and no longer fits, found again (best 5)"
SIZES, QUICK = (1_500, 15_000, 100_000), (1_500,)
LEAST = 0.95
PATIENCE, QUICK_PATIENCE = 8.0, 5.0
"""Seconds a contender may be asked at one size."""
RECORDED, QUICK_RECORDED = ("kdconv_zh", "cmtmedqa_zh", "locomo"), ("locomo",)
_LONGEST = 400
"""Characters of a recorded message that is asked for: some show no more of it."""
_MANY, _MOST_PLACES = 100, 5
_WORD = re.compile(r"\b[a-z]{6,}\b(?!['’])")
_ANY_WORD = re.compile(r"\b[a-z]{3,}")
_SAME = 5
"""Letters by which two words are taken for forms of one; a shorter word for a form of those that begin with it."""


@dataclass(slots=True)
class _Outcome:
    """One contender in one conversation."""

    offered: Offered
    answers: Answers
    stored: float = 0.0
    first: float = 0.0
    failure: str = ""

    def share(self, language: str = "") -> float | None:
        """How many were found, of a language or of all."""
        hits = [
            hit
            for kind, asked in self.answers.items()
            if not language or _language(kind) == language
            for hit, _ in asked
        ]
        return fmean(hits) if hits else None

    def seconds(self, kind: str) -> float:
        """What a question of a kind takes."""
        return median(seconds for _, seconds in self.answers[kind])


def run(guests: Guests, *, quick: bool) -> Report:
    """Every size, then the recorded conversations."""
    report = Report("finding", QUESTION)
    patience = QUICK_PATIENCE if quick else PATIENCE
    everybody = guests.offered("found")
    for size in QUICK if quick else SIZES:
        outcomes = [_outcome(guests, each, patience, size=size) for each in everybody]
        title = f"{size:,} invented messages"
        report.tables += [
            _found_table(title, outcomes, list(LANGUAGES)),
            _time_table(title, outcomes),
        ]
        report.targets += _targets(title, outcomes)
        report.figures |= {f"{size}, {one.offered.name}": _figures(one) for one in outcomes}
    for name in QUICK_RECORDED if quick else RECORDED:
        if (data_folder() / "conversations" / f"{name}.jsonl.gz").exists():
            items, asked = _recorded(name)
            outcomes = [
                _outcome(guests, each, patience, items=items, asked=asked) for each in everybody
            ]
            title = f"{len(items):,} recorded messages, {name}"
            report.tables.append(
                _found_table(title, outcomes, list(dict.fromkeys(one.kind for one in asked)))
            )
            report.targets += _targets(title, outcomes)
            report.figures |= {f"{name}, {one.offered.name}": _figures(one) for one in outcomes}
    report.tables[0] = _with_notes(report.tables[0], everybody, guests)
    return report


def _outcome(
    guests: Guests,
    each: Offered,
    patience: float,
    *,
    size: int = 0,
    items: Sequence[Item] = (),
    asked: Sequence[Probe] = (),
) -> _Outcome:
    if size > each.facts["largest"]:
        return _Outcome(each, {}, failure=f"not tried beyond {each.facts['largest']:,}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "talk.db"
        try:
            lane = guests.lane(each, "finding", path=path, size=size, items=items, probes=asked)
            stored, first = lane.ask("first")
            answers: Answers = lane.ask("ask", patience)
            lane.close()
        except PeerFailed as failed:
            return _Outcome(each, {}, failure=f"failed: {failed}")
    return _Outcome(each, answers, stored, first)


def _recorded(name: str) -> tuple[list[Item], list[Probe]]:
    """A set of dialogues as one conversation, and words drawn from it."""
    messages = joined(name).messages
    texts = [message.text for message in messages]
    items = [
        Item("system", "Be brief."),
        *(Item(message.role, message.text) for message in messages),
    ]
    if name.endswith("_zh"):
        drawn = [
            Probe(kind, probe.word, texts[probe.seq - 1])
            for kind, words in probes(texts, many=2 * _MANY).items()
            for probe in words
        ]
    else:
        drawn = list(_english_words(texts))
    by_kind: defaultdict[str, list[Probe]] = defaultdict(list)
    for probe in drawn:
        if len(probe.text) <= _LONGEST and len(by_kind[probe.kind]) < _MANY:
            by_kind[probe.kind].append(probe)
    return items, [probe for words in by_kind.values() for probe in words]


def _english_words(texts: Sequence[str]) -> Iterator[Probe]:
    """Words of six letters and more that few messages say in any form, each with one of those that say it so."""
    random = Random(77)  # noqa: S311 (repeatable, not secret)
    forms: defaultdict[str, set[int]] = defaultdict(set)
    places: defaultdict[str, set[int]] = defaultdict(set)
    for at, text in enumerate(texts):
        for word in _ANY_WORD.findall(text.lower()):
            forms[word[:_SAME]].add(at)
        for word in _WORD.findall(text.lower()):
            places[word].add(at)

    def said_in(word: str) -> set[int]:
        return set[int]().union(*(forms.get(word[:many], ()) for many in range(3, _SAME + 1)))

    few = sorted(word for word in places if len(said_in(word)) <= _MOST_PLACES)
    for word in random.sample(few, min(4 * _MANY, len(few))):
        yield Probe("English word", word, texts[random.choice(sorted(places[word]))])


def _language(kind: str) -> str:
    return LANGUAGES.get(kind, "Chinese")


def _found_table(title: str, outcomes: Sequence[_Outcome], kinds: Sequence[str]) -> Table:
    rows = [
        [
            one.offered.name,
            *(_share(one, kind) for kind in kinds),
            *(_all(one, each) for each in ("English", "Chinese")),
        ]
        for one in outcomes
    ]
    return Table(title, ["found", *kinds, "English", "Chinese"], rows)


def _share(one: _Outcome, kind: str) -> str:
    asked = one.answers.get(kind)
    return f"{sum(hit for hit, _ in asked)} of {len(asked)}" if asked else one.failure[:60] or "-"


def _all(one: _Outcome, language: str) -> str:
    share = one.share(language)
    return "-" if share is None else f"{share:.2f}"


def _time_table(title: str, outcomes: Sequence[_Outcome]) -> Table:
    rows = [
        [
            one.offered.name,
            *(duration(one.seconds(kind)) if one.answers else "-" for kind in LANGUAGES),
            duration(one.first) if one.answers else "-",
            duration(one.stored) if one.answers else "-",
        ]
        for one in outcomes
    ]
    notes = [
        "processor time of a question, median",
        "first: by the clock, the first question after everything was stored, which is when some make their index",
    ]
    return Table(f"{title}, time", ["a question", *LANGUAGES, "first", "stored"], rows, notes)


def _with_notes(table: Table, everybody: Sequence[Offered], guests: Guests) -> Table:
    notes = [f"{each.name}: {each.facts['note']}" for each in everybody if each.facts["note"]]
    none = "no search without embeddings: LangChain, LangGraph, LlamaIndex, Agent Framework"
    return Table(table.title, table.columns, table.rows, [none, *notes, *guests.notes()])


def _targets(title: str, outcomes: Sequence[_Outcome]) -> Iterator[Target]:
    for one in outcomes:
        if one.offered.ours:
            for language in ("English", "Chinese"):
                share = one.share(language)
                if share is not None:
                    claim = f"{one.offered.name}, {title}, {language}: at least {LEAST} found"
                    yield Target(claim, f"{share:.3f}", share >= LEAST)
            if one.failure:
                yield Target(f"{one.offered.name}, {title}", one.failure, met=False)


def _figures(one: _Outcome) -> dict[str, object]:
    return {
        "English": one.share("English"),
        "Chinese": one.share("Chinese"),
        "kinds": {
            kind: {
                "asked": len(asked),
                "found": sum(hit for hit, _ in asked),
                "median": one.seconds(kind),
            }
            for kind, asked in one.answers.items()
        },
        "first": one.first,
        "stored": one.stored,
        "failure": one.failure or None,
    }

"""How much of what later questions need is left in the extractive summary, beside baselines of the same size?

A conversation is folded as a session folds it: whenever the window is full, its older part joins the summary. The
question then is what of the messages behind a question (its evidence) the last summary still says. Baselines get the
same tokens: random sentences, and the first sentence of messages drawn at random, both from everything folded, so they
lose nothing by folding often. Where a set has no questions, the words (in traces: also ids, numbers, paths) of the
first part of a dialogue that its last part uses again take their place.

    TURNFOLD_DATA=... python -m bench.fold_evidence [--sets locomo,...] [--half 0|1] [--other SRC]

`--other` is the `src` folder of another checkout, whose extract is measured in the same run. Choices are made on the
conversations at even places (`--half 0`); the figures of the others are those to report.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import fmean
from typing import Any, cast

from bench.conversations import data_folder, exact
from turnfold.fold import (
    Passage,
    SourceFacts,
    check_fidelity,
    extract_summary,
    passages_of,
    source_facts,
    split_prefix,
)
from turnfold.rules import extract_rules
from turnfold.text import content_terms, split_sentences
from turnfold.wire import anthropic, openai_chat

__all__ = ("main",)

WITH_QUESTIONS = ("locomo", "bfcl_memory", "memorybank_en", "memorybank_zh")
DIALOGUES = ("cmtmedqa_zh", "kdconv_zh")
TRACES = ("tau_bench_openai", "tau2_bench_openai", "claude_code_anthropic")
BUDGETS = {2_000: (245, 800), 8_000: (1_100, 3_200)}
"""By budget: the tokens of a summary, and the tokens of conversation that one fold takes in."""
DIALOGUES_PER_LOG = 40
EVERY_TRACE = {"tau_bench_openai": 15, "tau2_bench_openai": 24, "claude_code_anthropic": 1}
SEEDS = 5
_PREFERENCE = re.compile(
    r"\b(?:favou?rite|prefer\w*|likes?|loves?|enjoys?|hobb\w+|interests?|dislikes?|hates?|allerg\w+|taste)\b"
    r"|喜欢|爱好|偏好|最爱|讨厌|兴趣|爱吃"
)
_NAME = re.compile(r"\A\w+: ")
_NUMERIC = frozenset({"number", "money", "date", "time"})
_HARD = _NUMERIC | {"id", "email", "url", "path", "version", "identifier"}
_COMMON = 0.25
"""Words in more than this share of a conversation's messages say nothing about any of them."""
_THRESHOLD = 0.75
"""Share of a budget at which a session folds."""
_KEPT = 1 / 3
"""Share of its words from which on a message counts as kept."""
_NO_FACTS = SourceFacts(())
Fold = Callable[[Sequence[Sequence[Passage]], int], str]


@dataclass(frozen=True, slots=True)
class Need:
    """What one question (or the rest of a dialogue) needs of the folded messages."""

    terms: frozenset[str]
    messages: tuple[frozenset[str], ...] = ()
    answers: tuple[frozenset[str], ...] = ()
    """Each a way to answer."""
    source: tuple[Passage, ...] = ()
    """The evidence itself; without a question, the dialogue."""
    facts: SourceFacts = _NO_FACTS
    """Numbers of the evidence; without a question, any hard facts that are used again."""
    preference: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a user that states preferences or numbers, whether or not anybody asks for them."""

    source: Passage
    preferences: tuple[frozenset[str], ...]
    """The words of each preference, decision or fact about themselves that `turnfold.rules` finds in it."""
    numbers: SourceFacts


@dataclass(frozen=True, slots=True)
class Log:
    """A conversation to fold and what is needed of it."""

    passages: tuple[Passage, ...]
    needs: tuple[Need, ...]
    said: tuple[Said, ...] = ()


@dataclass(slots=True)
class Figures:
    """Shares by kind, each a list over questions."""

    shares: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, kind: str, share: float) -> None:
        self.shares.setdefault(kind, []).append(share)

    def mean(self, kind: str) -> float:
        return fmean(self.shares[kind]) if self.shares.get(kind) else float("nan")


# ------------------------------------------------------------------------------------------------------ reading


def _records(folder: str, name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(data_folder() / folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def logs_of(name: str, half: int | None) -> list[Log]:
    """The conversations of a set as logs; every other one if a half is asked for."""
    if name in TRACES:
        found = list(_records("traces", name))[:: EVERY_TRACE[name]]
        logs = [_reused([_traced(record)]) for record in found]
    elif name in DIALOGUES:
        spoken = [_spoken(record["messages"]) for record in _records("conversations", name)]
        starts = range(0, len(spoken) - DIALOGUES_PER_LOG + 1, DIALOGUES_PER_LOG)
        logs = [_reused(spoken[at : at + DIALOGUES_PER_LOG]) for at in starts]
    else:
        logs = [_asked(record) for record in _records("conversations", name)]
    return logs if half is None else logs[half::2]


def _spoken(messages: Sequence[dict[str, Any]]) -> list[Passage]:
    return [Passage(each["role"], each["content"], at) for at, each in enumerate(messages)]


def _traced(record: dict[str, Any]) -> list[Passage]:
    wire = anthropic if record["format"] == "anthropic" else openai_chat
    said = [message for message in record["messages"] if message["role"] != "system"]
    passages = passages_of(wire.accept_all(said))
    return [replace(passage, position=at) for at, passage in enumerate(passages)]


def _asked(record: dict[str, Any]) -> Log:
    passages = _spoken(record["messages"])
    at = {message["id"]: number for number, message in enumerate(record["messages"])}
    said = [frozenset(content_terms(passage.text)) for passage in passages]
    spread = Counter(term for terms in said for term in terms)
    common = {term for term, n in spread.items() if n > _COMMON * len(said)}
    needs: list[Need] = []
    for asked in record["questions"]:
        found = [at[name] for name in asked["evidence_ids"] if name in at]
        if not found:
            continue
        messages = tuple(said[number] - common for number in found)
        needs.append(
            Need(
                frozenset[str]().union(*messages),
                messages,
                tuple(_answers(asked.get("answer"))),
                source := tuple(passages[number] for number in found),
                _facts(source, _NUMERIC),
                bool(_PREFERENCE.search(asked["question"])),
            )
        )
    return Log(tuple(passages), tuple(needs), _said(passages))


def _said(passages: Sequence[Passage]) -> tuple[Said, ...]:
    found: list[Said] = []
    for passage in passages:
        if passage.speaker != "user":
            continue
        rules = extract_rules(_NAME.sub("", passage.text), seq=1, trust="user")
        found_terms = (frozenset(content_terms(rule.text)) for rule in rules)
        preferences = tuple(terms for terms in found_terms if terms)
        numbers = _facts([passage], _NUMERIC)
        if preferences or numbers.graded:
            found.append(Said(passage, preferences, numbers))
    return tuple(found)


def _answers(answer: object) -> Iterator[frozenset[str]]:
    many = cast("list[object]", answer) if isinstance(answer, list) else [answer]
    for each in many:
        if each is not None and (words := _words(str(each))):
            yield words


def _words(text: str) -> frozenset[str]:
    return frozenset(content_terms(text)) | frozenset(re.findall(r"\d+", text))


def _reused(dialogues: Sequence[Sequence[Passage]]) -> Log:
    """The first part of each dialogue, one after the other, and of each what its last part uses again."""
    folded: list[Passage] = []
    needs: list[Need] = []
    for dialogue in dialogues:
        cut = max(1, len(dialogue) * 3 // 5)
        first, rest = dialogue[:cut], dialogue[cut:]
        begin = len(folded)
        folded += [replace(passage, position=begin + at) for at, passage in enumerate(first)]
        own = [p for p in rest if not p.speaker.startswith("tool")]
        spread = Counter(term for p in first for term in set(content_terms(p.text)))
        again = {term for p in own for term in content_terms(p.text)} & set(spread)
        rare = frozenset(t for t in again if spread[t] <= max(2, _COMMON * len(first)))
        later = {fact.key for fact, _ in source_facts(own).graded}
        own_part = tuple(folded[begin:])
        facts = _facts(own_part, _HARD).graded
        used = SourceFacts(tuple(pair for pair in facts if pair[0].key in later))
        needs.append(Need(rare, source=own_part, facts=used))
    return Log(tuple(folded), tuple(needs), _said(folded))


def _facts(source: Sequence[Passage], kinds: frozenset[str]) -> SourceFacts:
    return SourceFacts(tuple(pair for pair in source_facts(source).graded if pair[0].kind in kinds))


# ------------------------------------------------------------------------------------------------------ folding


def chunks(passages: Sequence[Passage], tokens: int) -> list[list[Passage]]:
    """The passages in the pieces that single folds take in."""
    made: list[list[Passage]] = [[]]
    used = 0
    for passage in passages:
        if used >= tokens:
            made.append([])
            used = 0
        made[-1].append(passage)
        used += exact().count_text(passage.text)
    return made


def is_folded(log: Log, budget: int) -> bool:
    """True if a session of this budget folds the conversation: where everything fits, every method keeps everything."""
    return sum(exact().count_text(passage.text) for passage in log.passages) >= _THRESHOLD * budget


def turnfold(parts: Sequence[Sequence[Passage]], limit: int) -> str:
    """The extract of this checkout, folded again and again."""
    summary = ""
    for part in parts:
        summary = extract_summary(part, limit=limit, count=exact().count_text, previous=summary)
    return summary


def random_sentences(seed: int, *, lead: bool) -> Fold:
    """Sentences drawn at random with their speakers; with `lead`, only the first one of each message."""

    def fold(parts: Sequence[Sequence[Passage]], limit: int) -> str:
        lines: list[str] = []
        for part in parts:
            for passage in part:
                found = [f"{passage.speaker}: {s.text}" for s in split_sentences(passage.text)]
                lines += found[:1] if lead else found
        order = list(range(len(lines)))
        random.Random(seed).shuffle(order)  # noqa: S311 (a sample, not a secret)
        count, room, kept = exact().count_text, limit, list[int]()
        for at in order:
            cost = count(lines[at]) + 1
            if cost <= room:
                room -= cost
                kept.append(at)
            if room < 8:
                break
        return "\n".join(lines[at] for at in sorted(kept))

    return fold


# ------------------------------------------------------------------------------------------------------ measuring


def measure(log: Log, summary: str, figures: Figures) -> None:
    """Add what the summary says of each need.

    Words count for a message only in sentences that come from it: one "Friday" anywhere would otherwise pay for every
    Friday that was ever spoken of. `anywhere` is the figure without that condition.
    """
    lines = [_Line(each.text) for each in split_sentences(_unlabelled(summary))]
    said = frozenset[str]().union(*(line.terms for line in lines))
    for need in log.needs:
        if not need.terms:
            continue
        figures.add("anywhere", len(need.terms & said) / len(need.terms))
        if not need.messages:
            _measure_reuse(need, lines, figures)
            continue
        from_it = [[line for line in lines if line.comes_from(each)] for each in need.source]
        shares = [
            len(terms & frozenset[str]().union(*(line.terms for line in found))) / len(terms)
            for terms, found in zip(need.messages, from_it, strict=True)
            if terms
        ]
        figures.add("evidence", fmean(shares))
        if need.preference:
            figures.add("preferences", fmean(shares))
        figures.add("messages", fmean(share >= _KEPT for share in shares))
        text = "\n".join(line.text for found in from_it for line in found)
        if need.answers:
            words = _words(text)
            best = max(len(answer & words) / len(answer) for answer in need.answers)
            figures.add("answers", best)
        _measure_facts(need, text, figures)
    for said_by_user in log.said:
        own = [line for line in lines if line.comes_from(said_by_user.source)]
        words = frozenset[str]().union(*(line.terms for line in own))
        for wish in said_by_user.preferences:
            figures.add("stated", len(wish & words) / len(wish))
        if said_by_user.numbers.graded:
            text = "\n".join(line.text for line in own)
            figures.add("figures", check_fidelity(said_by_user.numbers, text).score)


def _measure_reuse(need: Need, lines: Sequence[_Line], figures: Figures) -> None:
    """Without questions: of the words and facts used again, those that lines from the same dialogue say."""
    plain = "\n".join(_plain(passage.text) for passage in need.source)
    own = [line for line in lines if line.plain and line.plain in plain]
    said = frozenset[str]().union(*(line.terms for line in own))
    figures.add("evidence", len(need.terms & said) / len(need.terms))
    _measure_facts(need, "\n".join(line.text for line in own), figures)


def _measure_facts(need: Need, text: str, figures: Figures) -> None:
    if need.facts.graded:
        figures.add("numbers", check_fidelity(need.facts, text).score)


class _Line:
    """A sentence of a summary."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.terms = frozenset(content_terms(text))
        self.plain = _plain(text)

    def comes_from(self, passage: Passage) -> bool:
        """True if the message says it in these words."""
        return bool(self.plain) and self.plain in _plain(passage.text)


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> str:
    """Letters and digits alone: neither spacing nor list signs tell two texts apart."""
    return re.sub(r"[\W_]+", "", text)


def _unlabelled(summary: str) -> str:
    """The summary without the speakers before its lines."""
    return "\n".join(split_prefix(line)[1] for line in summary.splitlines())


KINDS = (
    "evidence",
    "messages",
    "preferences",
    "stated",
    "answers",
    "numbers",
    "figures",
    "anywhere",
)


def _other(src: str, name: str, half: int | None) -> list[dict[str, str]]:
    """The summaries the code of another checkout makes of the same logs."""
    command = [sys.executable, "-m", "bench.fold_evidence", "--sets", name, "--summaries"]
    command += [] if half is None else ["--half", str(half)]
    done = subprocess.run(  # noqa: S603 (this module itself)
        command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": src}
    )
    return json.loads(done.stdout)


def _summaries(logs: Sequence[Log]) -> list[dict[str, str]]:
    return [
        {
            str(budget): turnfold(chunks(log.passages, taken), limit)
            for budget, (limit, taken) in BUDGETS.items()
        }
        for log in logs
    ]


def report(name: str, half: int | None, other: str) -> dict[str, dict[str, dict[str, float]]]:
    """Print the table of one set."""
    logs = logs_of(name, half)
    ours = _summaries(logs)
    theirs = _other(other, name, half) if other else []
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for budget, (limit, taken) in BUDGETS.items():
        rows: dict[str, Figures] = {}
        for at, log in enumerate(logs):
            if not is_folded(log, budget):
                continue
            parts = chunks(log.passages, taken)
            for way, lead in (("random", False), ("lead", True)):
                row = rows.setdefault(way, Figures())
                for seed in range(SEEDS):
                    measure(log, random_sentences(seed, lead=lead)(parts, limit), row)
            if theirs:
                measure(log, theirs[at][str(budget)], rows.setdefault("other", Figures()))
            measure(log, ours[at][str(budget)], rows.setdefault("turnfold", Figures()))
        if not rows:
            print(f"{name:22} {budget:6,} no conversation is long enough to be folded")
            continue
        figures[str(budget)] = {
            way: {kind: row.mean(kind) for kind in KINDS} for way, row in rows.items()
        }
        counts = " ".join(f"{len(rows['turnfold'].shares.get(kind, ())):8,}" for kind in KINDS)
        print(f"{name:22} {budget:6,} {'cases':9} {counts}")
        for way, row in rows.items():
            cells = " ".join(f"{row.mean(kind):8.3f}" for kind in KINDS)
            print(f"{name:22} {budget:6,} {way:9} {cells}", flush=True)
    return figures


def main() -> None:
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.fold_evidence", description=__doc__)
    parser.add_argument("--sets", default=",".join((*WITH_QUESTIONS, *DIALOGUES, *TRACES)))
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--other", default="", metavar="SRC")
    parser.add_argument("--summaries", action="store_true", help="print the summaries as JSON")
    options = parser.parse_args()
    if options.summaries:
        json.dump(_summaries(logs_of(options.sets, options.half)), sys.stdout)
        return
    begin = time.perf_counter()
    print(f"{'set':22} {'budget':>6} {'way':9} {' '.join(f'{kind[:8]:>8}' for kind in KINDS)}")
    for name in options.sets.split(","):
        report(name, options.half, options.other)
    print(f"({time.perf_counter() - begin:.0f} s)")


if __name__ == "__main__":
    main()

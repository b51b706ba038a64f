"""Checks that a summary states the hard facts of its source, and appends the missing ones.

A model's summary may read well and still lose the order number. The check compares the facts of the source with those
of the summary. A value may be spelled differently ("4,200" and 4200, "May 20" and 2024-05-20) and a rule worded
differently, but the value must be the same, and an identifier must be equal to the letter. Missing facts are appended
as an annex, a list of short quotations within the token limit, so that a fold (compaction) does not depend on the
quality of a model's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from turnfold._lazy_loading import late_pattern
from turnfold.errors import InvalidOption
from turnfold.fold.extract import MISFITS_BEFORE_GIVING_UP, Language, sentence_key
from turnfold.fold.facts import (
    ENGLISH_UNITS,
    Fact,
    FactMatch,
    english_numeral,
    fact_at,
    fact_weight,
    find_hits,
)
from turnfold.fold.summary_input import (
    ANNEX_HEADINGS,
    Passage,
    ReadCache,
    as_read,
    hits_of,
    line_of,
    said_on,
    voice_of,
)
from turnfold.text import (
    best_that_fit,
    clean_text,
    is_chinese,
    joint_cost,
    require_limit,
    same_width,
    single_line,
)

__all__ = (
    "Fidelity",
    "SourceFacts",
    "check_fidelity",
    "source_facts",
    "with_annex",
    "without_annex",
)


_MEASURES = frozenset(ENGLISH_UNITS.values())
_WORD = late_pattern(r"[a-z]+")
_AS_SPACES = {ord("_"): " ", ord("-"): " "}  # gift_card_77 and "Gift Card 77" name one thing
_ENOUGH_OF_A_RULE = 0.6
"""A summary states a rule if one of its rules has at least this share of the rule's content words."""


class _StatedFacts:
    """The facts that one summary states, with an index to look up whether it states a fact of the source."""

    def __init__(self, summary: str, reading: ReadCache) -> None:
        self._text = same_width(single_line(clean_text(summary))).casefold()
        self._spaced = self._text.translate(_AS_SPACES)
        self._units: dict[str, set[str]] = {}
        self._times: set[str] = set()
        self._dates: set[str] = set()
        self._yearless: set[str] = set()
        self._rules_with: dict[str, set[tuple[int, int]]] = {}
        self._keys: set[tuple[str, str]] = set()
        for number, sentence in enumerate(reading.sentences(summary)):
            for hit in reading.hits(sentence.text, sentence.kind):
                self._add(hit, number)
        for word in _WORD.findall(self._text):
            value = english_numeral(word)
            if value is not None:
                self._units.setdefault(str(value), set()).add("")

    def has(self, fact: Fact) -> bool:
        """Return True if the summary states `fact`, in the same words or in another spelling."""
        if (fact.kind, fact.key) in self._keys:
            return True
        if fact.kind in ("number", "money"):
            return self._has_quantity(fact.key) or _contains(self._text, fact.text)
        if fact.kind == "date":
            return self._has_date(fact.key) or _contains(self._text, fact.text)
        if fact.kind == "time":
            return fact.key in self._times or _contains(self._text, fact.text)
        if fact.kind in ("constraint", "decision"):
            return self._has_rule(fact.key) or same_width(fact.text).casefold() in self._text
        if fact.kind in ("id", "identifier"):
            return _contains(self._spaced, fact.key.lstrip("#").translate(_AS_SPACES).strip())
        return _contains(self._text, fact.key)

    def _add(self, hit: FactMatch, sentence: int) -> None:
        self._keys.add((hit.kind, hit.key))
        if hit.kind in ("number", "money"):
            value, _, unit = hit.key.partition("|")
            self._units.setdefault(value, set()).add(unit)
        elif hit.kind == "time":
            self._times.add(hit.key)
        elif hit.kind == "date":
            self._add_date(hit.key)
        elif hit.kind in ("constraint", "decision"):
            polarity, _, terms = hit.key.partition(":")
            for term in terms.split():
                self._rules_with.setdefault(f"{polarity}:{term}", set()).add((sentence, hit.start))

    def _add_date(self, key: str) -> None:
        """Add a date to the stated facts; a full date also states its month, its year and itself without the year."""
        self._dates.add(key)
        if key.count("-") != 2:
            return
        year, month, day = key.split("-")
        self._dates.update(
            {f"-{month}-{day}", f"{year}-{month}-", f"-{month}-", f"{year}--"} - {"---", "--"}
        )
        if not year:
            self._yearless.add(f"{month}-{day}")

    def _has_quantity(self, key: str) -> bool:
        """Return True if the summary states this quantity: with the same unit, without a unit, or with another noun."""
        value, _, unit = key.partition("|")
        stated = self._units.get(value)
        if not stated:
            return False
        if not unit or unit in stated or "" in stated:
            return True
        if unit in _MEASURES:
            return False
        # A noun may be reworded and 章 translated; but two different Chinese measure words mean different things.
        return any(unit.isascii() or other.isascii() for other in stated - _MEASURES)

    def _has_date(self, key: str) -> bool:
        if key in self._dates:
            return True
        year, _, rest = key.partition("-")
        return bool(year) and rest in self._yearless

    def _has_rule(self, key: str) -> bool:
        """Return True if the summary has a rule with mostly the same words that also requires, or also forbids."""
        polarity, _, words = key.partition(":")
        terms = words.split()
        shared: dict[tuple[int, int], int] = {}
        for term in terms:
            for rule in self._rules_with.get(f"{polarity}:{term}", ()):
                shared[rule] = shared.get(rule, 0) + 1
        return max(shared.values(), default=0) >= _ENOUGH_OF_A_RULE * len(terms)


def _contains(text: str, written: str) -> bool:
    """Return True if `text` contains exactly these characters, not as part of a longer word or number."""
    wanted = same_width(written).casefold()
    at = text.find(wanted)
    while at >= 0:
        if _is_separate(text, at, at + len(wanted)):
            return True
        at = text.find(wanted, at + 1)
    return False


def _is_separate(text: str, start: int, end: int) -> bool:
    return not (
        _joined(text[start - 1 : start], text[start]) or _joined(text[end - 1], text[end : end + 1])
    ) and not (
        # 200 is not stated by 4,200, nor 4 by 4.5.
        _separates_digits(text, start - 1) or _separates_digits(text, end)
    )


def _joined(before: str, after: str) -> bool:
    pair = before + after
    return len(pair) == 2 and pair.isascii() and pair.replace("_", "a").isalnum()


def _separates_digits(text: str, at: int) -> bool:
    return (
        0 < at < len(text) - 1
        and text[at] in ".,"
        and text[at - 1].isdigit()
        and text[at + 1].isdigit()
    )


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Result of checking a summary: the share of the source's facts that it states, and the missing facts."""

    score: float
    """Share of the source's facts that the summary states, 0 to 1; each distinct fact counts once."""
    missing: tuple[Fact, ...]
    """The facts that the summary does not state, most serious first."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts of the summarised messages, each with its weight; found once, to check several summaries."""

    graded: tuple[tuple[Fact, float], ...]


def source_facts(
    source: Sequence[Passage], *, reading: ReadCache | None = None, without: Iterable[str] = ()
) -> SourceFacts:
    """Return the distinct facts of these passages, with weights; `without` are sentences to skip (outdated rules)."""
    outdated = frozenset(map(sentence_key, without))
    return SourceFacts(tuple(_graded_facts(source, reading or ReadCache(), outdated)))


def check_fidelity(
    source: Sequence[Passage] | SourceFacts, summary: str, *, reading: ReadCache | None = None
) -> Fidelity:
    """Return which facts of the `source` messages the `summary` states; the score is 1.0 if they have no facts."""
    cache = reading or ReadCache()
    facts = source if isinstance(source, SourceFacts) else source_facts(source, reading=cache)
    graded, stated = facts.graded, _StatedFacts(summary, cache)
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
    """Return `summary` followed by as many of the missing facts as `limit` allows, each with its speaker and context.

    The summary itself is never shortened; if it is over the limit by itself, `InvalidOption` is raised.
    """
    require_limit(limit)
    alone = count(summary)
    if alone > limit:
        raise InvalidOption(
            f"cannot add missing facts to the summary: it has {alone:,} tokens, {alone - limit:,} more than "
            f"limit={limit:,}. Raise limit=, or give a shorter summary"
        )
    chinese = (
        language == "zh"
        if language != "auto"
        else is_chinese(summary or "\n".join(fact.context for fact in fidelity.missing))
    )
    head = [*([summary] if summary else []), ANNEX_HEADINGS["zh" if chinese else "en"]]
    lines = list(_annex_lines(fidelity.missing, chinese=chinese))

    def render(indexes: Sequence[int]) -> str:
        return "\n".join([*head, *(lines[at] for at in indexes)])

    joint = joint_cost(count)
    ranked = _affordable(lines, room=limit - count("\n".join(head)), joint=joint, count=count)
    return best_that_fit(ranked, render, limit=limit, count=count) or summary


def without_annex(summary: str) -> str:
    """Return the summary without the annex (list of missing facts) that `with_annex` appended."""
    lines = summary.splitlines()
    ends = [at for at, line in enumerate(lines) if line in ANNEX_HEADINGS.values()]
    return "\n".join(lines[: ends[-1]]) if ends else summary


def _graded_facts(
    source: Sequence[Passage], reading: ReadCache, outdated: frozenset[str]
) -> list[tuple[Fact, float]]:
    """Return each distinct fact as first stated, with its weight; facts of `outdated` sentences are left out."""
    first: dict[tuple[str, str], Fact] = {}
    voices: dict[tuple[str, str], float] = {}
    mentions: dict[tuple[str, str], int] = {}
    for passage in sorted(map(as_read, source), key=lambda p: p.position):
        voice = voice_of(passage.speaker)
        for sentence in reading.sentences(passage.text, gap=passage.unread):
            if outdated and sentence_key(sentence.text) in outdated:
                continue
            for hit in hits_of(passage, sentence, reading):
                name = (hit.kind, hit.key)
                if name not in first:
                    fact = fact_at(sentence.text, hit, speaker=passage.speaker)
                    first[name] = replace(fact, day=said_on(passage, fact.context))
                voices[name] = max(voices.get(name, 0.0), voice)
                mentions[name] = mentions.get(name, 0) + 1
    return [
        (fact, fact_weight(fact.kind, voice=voices[name], mentions=mentions[name]))
        for name, fact in first.items()
    ]


def _annex_lines(missing: Sequence[Fact], *, chinese: bool) -> Iterator[str]:
    """Yield the lines of a summary's annex: one line for each missing fact that no earlier line states."""
    stated: set[tuple[str, str]] = set()
    for fact in missing:
        if (fact.kind, fact.key) not in stated:
            stated.update((hit.kind, hit.key) for hit in find_hits(fact.context))
            yield f"- {line_of(fact.speaker, fact.context, chinese=chinese, day=fact.day)}"


def _affordable(
    lines: Sequence[str], *, room: int, joint: int, count: Callable[[str], int]
) -> list[int]:
    """Return the indexes of the annex lines that fit `room` tokens, in order; a line that is too long is skipped."""
    chosen: list[int] = []
    misfits = 0
    for at, line in enumerate(lines):
        cost = count(line) + joint
        if cost > room:
            misfits += 1
            if misfits == MISFITS_BEFORE_GIVING_UP:
                break
            continue
        misfits = 0
        room -= cost
        chosen.append(at)
    return chosen

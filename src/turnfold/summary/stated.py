"""What a summary states, in a form that facts of the source can be looked up in.

A value may be written another way ("4,200" and 4200, "May 20" and 2024-05-20), a rule in other
words; an identifier may not change by a letter. Reading the summary once makes each lookup cheap
however many facts the source has.
"""

from __future__ import annotations

import re

from turnfold.summary.facts import Fact, Hit
from turnfold.summary.numerals import ENGLISH_UNITS, english_numeral
from turnfold.summary.reading import Reading
from turnfold.summary.sentences import clean_text, one_line
from turnfold.summary.terms import same_width

__all__ = ("Stated",)

_MEASURES = frozenset(ENGLISH_UNITS.values())
_WORD = re.compile(r"[a-z]+")
_AS_SPACES = {ord("_"): " ", ord("-"): " "}  # gift_card_77 and "Gift Card 77" name one thing
_ENOUGH_OF_A_RULE = 0.6


class Stated:
    """The facts of one summary."""

    def __init__(self, summary: str, reading: Reading) -> None:
        self._text = same_width(one_line(clean_text(summary))).casefold()
        self._spaced = self._text.translate(_AS_SPACES)
        self._units: dict[str, set[str]] = {}
        self._times: set[str] = set()
        self._dates: set[str] = set()
        self._yearless: set[str] = set()
        self._rules_with: dict[str, set[tuple[int, int]]] = {}
        self._known: set[tuple[str, str]] = set()
        for number, sentence in enumerate(reading.sentences(summary)):
            for hit in reading.hits(sentence.text, sentence.kind):
                self._note(hit, number)
        for word in _WORD.findall(self._text):
            value = english_numeral(word)
            if value is not None:
                self._units.setdefault(str(value), set()).add("")

    def has(self, fact: Fact) -> bool:
        """Whether the summary states `fact`, in its own words or in an equal way of writing it."""
        if (fact.kind, fact.key) in self._known:
            return True
        if fact.kind in ("number", "money"):
            return self._has_quantity(fact.key) or _holds(self._text, fact.text)
        if fact.kind == "date":
            return self._has_date(fact.key) or _holds(self._text, fact.text)
        if fact.kind == "time":
            return fact.key in self._times or _holds(self._text, fact.text)
        if fact.kind in ("constraint", "decision"):
            return self._has_rule(fact.key) or same_width(fact.text).casefold() in self._text
        if fact.kind in ("id", "identifier"):
            return _holds(self._spaced, fact.key.lstrip("#").translate(_AS_SPACES).strip())
        return _holds(self._text, fact.key)

    def _note(self, hit: Hit, sentence: int) -> None:
        self._known.add((hit.kind, hit.key))
        if hit.kind in ("number", "money"):
            value, _, unit = hit.key.partition("|")
            self._units.setdefault(value, set()).add(unit)
        elif hit.kind == "time":
            self._times.add(hit.key)
        elif hit.kind == "date":
            self._note_date(hit.key)
        elif hit.kind in ("constraint", "decision"):
            polarity, _, terms = hit.key.partition(":")
            for term in terms.split():
                self._rules_with.setdefault(f"{polarity}:{term}", set()).add((sentence, hit.start))

    def _note_date(self, key: str) -> None:
        """A full date also states its month, its year and itself without the year."""
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
        """The same value with the same unit, with none, or with another word for what was counted."""
        value, _, unit = key.partition("|")
        stated = self._units.get(value)
        if not stated:
            return False
        if not unit or unit in stated or "" in stated:
            return True
        if unit in _MEASURES:
            return False
        # Nouns may be reworded and 章 translated; two Chinese measure words that differ are two things.
        return any(unit.isascii() or other.isascii() for other in stated - _MEASURES)

    def _has_date(self, key: str) -> bool:
        if key in self._dates:
            return True
        year, _, rest = key.partition("-")
        return bool(year) and rest in self._yearless

    def _has_rule(self, key: str) -> bool:
        """A rule of the same polarity that shares most of the governed words."""
        polarity, _, words = key.partition(":")
        terms = words.split()
        shared: dict[tuple[int, int], int] = {}
        for term in terms:
            for rule in self._rules_with.get(f"{polarity}:{term}", ()):
                shared[rule] = shared.get(rule, 0) + 1
        return max(shared.values(), default=0) >= _ENOUGH_OF_A_RULE * len(terms)


def _holds(text: str, written: str) -> bool:
    """Whether `text` holds these very characters, not as part of a longer word or number."""
    wanted = same_width(written).casefold()
    at = text.find(wanted)
    while at >= 0:
        if _stands_alone(text, at, at + len(wanted)):
            return True
        at = text.find(wanted, at + 1)
    return False


def _stands_alone(text: str, start: int, end: int) -> bool:
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

"""The hard facts of a text: what a summary may not get wrong.

Names, numbers, dates, identifiers, rules and decisions are what later turns ask for word by word.
They are found by shape and by cue words, in English and Chinese alike, so neither the summariser
nor the fidelity check needs a model. Each fact has a key: two spellings with one key are one fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from turnfold.summary.cues import find_cues
from turnfold.summary.sentences import SentenceKind
from turnfold.summary.shapes import FactKind, Hit, find_shapes
from turnfold.summary.terms import same_width

__all__ = ("FACT_WEIGHTS", "Fact", "FactKind", "Hit", "fact_at", "find_facts", "find_hits")

FACT_WEIGHTS: dict[FactKind, float] = {
    "unread": 40.0,
    "constraint": 3.0,
    "decision": 2.5,
    "money": 2.0,
    "id": 1.8,
    "email": 1.8,
    "date": 1.6,
    "path": 1.5,
    "url": 1.5,
    "time": 1.4,
    "version": 1.2,
    "name": 1.2,
    "number": 1.2,
    "identifier": 0.8,
}
"""How grave it is to lose a fact of each kind: a lost rule is obeyed by nobody.

That something was not read at all outweighs whatever was found elsewhere, so that every summary says so.
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """One hard fact: its kind, the words that state it, its key, and a few words around it."""

    kind: FactKind
    text: str
    key: str
    context: str
    speaker: str = ""


_QUOTED = re.compile(
    r"“(?P<a>[^“”]{1,60})”|「(?P<b>[^「」]{1,60})」|『(?P<c>[^『』]{1,60})』"
    r"|《(?P<d>[^《》]{1,60})》|`(?P<e>[^`]{1,80})`"
    r"|(?<![\w\"=])\"(?P<f>[^\s\"](?:[^\"]{0,58}[^\s\"])?)\"(?![\w\"])(?!\s*:)"
)
_LONGEST_NAME = 8
_COLUMNS_BEFORE = 28
_COLUMNS_AFTER = 18


def find_facts(text: str, *, kind: SentenceKind = "prose", speaker: str = "") -> tuple[Fact, ...]:
    """The hard facts of one sentence or line; a fact stated twice comes twice."""
    return tuple(fact_at(text, hit, speaker=speaker) for hit in find_hits(text, kind))


def fact_at(text: str, hit: Hit, *, speaker: str = "") -> Fact:
    """The fact of `hit`, with the words around it."""
    stated, around = text[hit.start : hit.end], _context(text, hit.start, hit.end)
    return Fact(hit.kind, stated, hit.key, around, speaker)


def find_hits(text: str, kind: SentenceKind = "prose") -> list[Hit]:
    """Where the hard facts of `text` stand.

    Quotation marks name things in prose and tables; in code and JSON they are syntax.
    """
    narrow = same_width(text)
    hits = list(find_shapes(narrow, json=kind == "json", listed=kind == "prose"))
    if kind in ("prose", "row"):
        hits.extend(_quoted(narrow, {(hit.start, hit.end) for hit in hits}))
    for cue in find_cues(narrow):
        key = f"{cue.polarity}:{' '.join(sorted(cue.terms))}"
        rule: FactKind = "decision" if cue.polarity == "decide" else "constraint"
        hits.append(Hit(rule, key, cue.start, cue.end))
    return hits


def _quoted(text: str, known: set[tuple[int, int]]) -> Iterator[Hit]:
    """Quoted names; a quotation that ends like a sentence or is as long as one names nothing."""
    for match in _QUOTED.finditer(text):
        start, end = match.span(match.lastgroup or 0)
        name = " ".join(text[start:end].casefold().split())
        is_sentence = name.endswith(tuple(".!?。！？；")) or name.count(" ") >= _LONGEST_NAME
        if name and not is_sentence and (start, end) not in known:
            yield Hit("name", name, start, end)


def _context(text: str, start: int, end: int) -> str:
    """The fact with a few words before and after it, never beginning or ending inside a word."""
    left = max(0, start - _reach(text[max(0, start - _COLUMNS_BEFORE) : start], _COLUMNS_BEFORE))
    while 0 < left < start and _inside_word(text, left):
        left += 1
    right = min(len(text), end + _reach(text[end : end + _COLUMNS_AFTER], _COLUMNS_AFTER))
    while end < right < len(text) and _inside_word(text, right):
        right -= 1
    return text[left:right].strip()


def _reach(neighbours: str, columns: int) -> int:
    """How many characters fill so many columns; a Chinese character is as wide as two letters."""
    return columns if neighbours.isascii() else columns // 2


def _inside_word(text: str, at: int) -> bool:
    pair = text[at - 1 : at + 1]
    return pair.isascii() and " " not in pair

"""Searching the store that lives in the process: every place is looked at, and the others must answer alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from turnfold.recall import AskedTerms
from turnfold.records import Checkpoint, Document
from turnfold.stores.findable import ToolNames, findable, marks_of_text, required_marks
from turnfold.stores.ledger import Row, row_entry
from turnfold.stores.ranking import MOST_CANDIDATES, Candidate, Choosing, Hit, choosing_terms, rank
from turnfold.stores.within import CHECKPOINT, ENTRY, Within

__all__ = ("Searched", "search")


class Searched(NamedTuple):
    """A conversation that is searched."""

    name: str
    rows: Sequence[Row]
    checkpoints: Sequence[Checkpoint]
    documents: Sequence[Document]


class _Place(NamedTuple):
    candidate: Candidate
    arrival: int
    """How many conversations of the scope were begun before."""
    marks: frozenset[str]
    created: int
    turn: int


def search(
    searched: Sequence[Searched], terms: Sequence[str], *, limit: int, within: Within
) -> list[Hit]:
    """The best places of conversations, given in the order they were begun in."""
    asked = AskedTerms(terms)
    places = [
        place
        for arrival, each in enumerate(searched)
        for place in (*_entries(each, arrival, asked), *_beside(each, arrival, asked))
        if within.counts(place.candidate.kind)
    ]
    holding = {term: sum(term in place.candidate.held.counts for place in places) for term in terms}
    choosing = choosing_terms(holding, total=len(places))
    chosen = [place for place in places if _told(place, choosing) and _passes(place, within)]
    chosen.sort(key=lambda place: _order(place, choosing))
    candidates = [place.candidate for place in chosen[:MOST_CANDIDATES]]
    return rank(candidates, holding, total=len(places), limit=limit)


def _entries(searched: Searched, arrival: int, asked: AskedTerms) -> Iterator[_Place]:
    tools = ToolNames()
    for row in searched.rows:
        message = row_entry(row).message
        found = findable(message, tools.of(message))
        candidate = Candidate(searched.name, row.seq, ENTRY, "", asked.held_by(found.text))
        yield _Place(candidate, arrival, found.marks, row.created, row.turn)


def _beside(searched: Searched, arrival: int, asked: AskedTerms) -> Iterator[_Place]:
    texts: Mapping[tuple[str, str], tuple[str, int]] = {
        **{(CHECKPOINT, each.id): (each.text, each.created) for each in searched.checkpoints},
        **{(each.kind, each.key): (each.text, each.created) for each in searched.documents},
    }
    for (kind, key), (text, created) in texts.items():
        if text:
            candidate = Candidate(searched.name, 0, kind, key, asked.held_by(text))
            yield _Place(candidate, arrival, marks_of_text(text), created, 0)


def _told(place: _Place, choosing: Choosing) -> int:
    held = place.candidate.held.counts
    return sum(value for term, value in choosing.rarities.items() if term in held)


def _passes(place: _Place, within: Within) -> bool:
    return (
        within.takes(place.candidate.kind)
        and within.takes_time(place.created)
        and (place.candidate.kind != ENTRY or within.takes_turn(place.turn))
        and all(not place.marks.isdisjoint(marks) for marks in required_marks(within))
    )


def _order(place: _Place, choosing: Choosing) -> tuple[int, int, str, int, str]:
    found = place.candidate
    return -_told(place, choosing), -place.arrival, found.kind, -found.seq, found.key

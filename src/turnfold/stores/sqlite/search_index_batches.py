"""Plans what to add to the search index of the SQLite store, in batches of bounded size; writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from turnfold.stores.sqlite import search_index as tables
from turnfold.stores.sqlite import statements as sql
from turnfold.stores.sqlite.search_index import (
    IndexedPart,
    IndexRows,
    Place,
    TermDigests,
    parts_of,
    rows_of,
)

__all__ = ("IndexPlan", "IndexStep", "WaitingTexts", "rows_to_add")

_BATCH_REPEATS = 12
"""A batch ends at `BATCH_TERMS` distinct terms, or at this many times as many terms if they are counted with
repetitions."""


class IndexStep(NamedTuple):
    """The terms of one conversation that one transaction adds to the index."""

    key: int
    after: int
    """Seq (log position) of the last entry that was indexed before this step."""
    upto: int
    """Seq (log position) of the last entry that is indexed after this step."""
    texts: list[int]
    """Ids of the checkpoints and documents that are indexed after this step."""
    parts: list[IndexedPart]
    versions: dict[int, tuple[object, ...]]
    """Versions of the texts that the parts were made from, by id of the text."""
    last: bool
    """True if nothing else of the conversation waited when the step was planned."""

    def without_terms(self) -> IndexStep:
        """Return the step without the terms of its parts, because the rows to write already contain them."""
        return self._replace(parts=[part._replace(terms=[], marks=[]) for part in self.parts])

    def with_versions(self, versions: Mapping[int, tuple[object, ...]]) -> IndexStep:
        """Return the step with the versions of its texts."""
        return self._replace(versions={part.place: versions[part.place] for part in self.parts})


class WaitingTexts(NamedTuple):
    """Texts of one conversation that wait to be indexed, read from one snapshot."""

    key: int
    indexed: int
    """Seq of the last indexed entry."""
    places: list[Place]
    versions: dict[int, tuple[object, ...]]
    """Versions of the texts by id, to notice later if a text has changed."""
    partly: dict[int, int]
    """Texts that are indexed in part: number of their parts in the index, by id."""
    last: bool
    """True if nothing else of the conversation waits."""


class IndexPlan:
    """The terms to add to the index, in batches of bounded size; `write_batch` checks that the texts are unchanged."""

    def __init__(self, tenant: str) -> None:
        self.batches: list[list[IndexStep]] = [[]]
        self._digests = TermDigests(tenant)
        self._terms: set[str] = set()
        """Distinct terms of the last batch. Writing them takes most of the time of a batch, so their number limits it.
        """
        self._size = 0
        """Number of all terms and marks of the last batch, with repetitions."""

    def add(self, waiting: WaitingTexts) -> None:
        """Split the waiting texts of one conversation into terms, and add these to the batches."""
        after = upto = waiting.indexed
        texts, parts = list[int](), list[IndexedPart]()

        def close(*, last: bool) -> None:
            versions = {part.place: waiting.versions[part.place] for part in parts}
            step = IndexStep(waiting.key, after, upto, texts, parts, versions, last)
            self.batches[-1].append(step)

        for place, found in waiting.places:
            for part in parts_of(place, found, self._digests)[waiting.partly.get(place, 0) :]:
                size = len(part.terms) + len(part.marks)
                if self._size and (
                    len(self._terms) + size > tables.BATCH_TERMS
                    or self._size + size > _BATCH_REPEATS * tables.BATCH_TERMS
                ):
                    close(last=False)
                    self.batches.append([])
                    self._terms, self._size, after, texts, parts = set(), 0, upto, [], []
                self._terms.update(part.terms)
                self._size += size + 1
                parts.append(part)
            if place > 0:
                upto = place & sql.LAST_SEQ
            else:
                texts.append(place)
        close(last=waiting.last)


def rows_to_add(steps: Iterable[IndexStep], tenant: str) -> IndexRows:
    """Return the index rows that the steps of a batch add."""
    return rows_of(chain.from_iterable(step.parts for step in steps), tenant, 1)

"""What goes into the search index of the SQLite store, and how it comes out again.

A digest and not the word, because erasing must be whole: the index keeps, where one of its pages ends and the next
begins, the beginning of a term for as long as the page lasts, whoever that term belonged to. Of a digest that is a
few letters, which tell nothing. A digest is of the term and its tenant: the lists of one hold nobody else's places.

Beside the lists it is kept in how many places each term stands, so that a search need not walk a list to know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from turnfold.recall import distinct_terms
from turnfold.stores.findable import Findable
from turnfold.stores.sqlite_engine import Connection

__all__ = ("Filling", "Index", "Placed", "Tokens")

_DIGEST_BYTES = 7
"""Of a hundred million different terms, one in a billion searches would count another term's places as well."""
_ALL = ""
"""Under this term, which no text has, stands the number of all places."""

Placed: TypeAlias = tuple[int, Findable | None]
"""The number of a place, and what it is found by; None where that cannot be read."""


class Index(NamedTuple):
    """The tables of an index."""

    found: str
    """The lists: under each term, the places that hold it."""
    held: str
    """How many places hold each term, entries and what stands beside them told apart."""


class Tokens:
    """The terms of a tenant as its index has them."""

    def __init__(self, tenant: str) -> None:
        self._key = blake2b(tenant.encode(), digest_size=32).digest()
        self._known: dict[str, str] = {}

    def of(self, term: str) -> str:
        """A term or a mark as letters and digits: nothing of it can be syntax."""
        return self._known.get(term) or self._known.setdefault(term, _digest(term, self._key))

    def number(self, term: str) -> int:
        """The number under which it stands how many places hold a term."""
        return _number(self.of(term))

    @property
    def all_places(self) -> int:
        """The number under which it stands how many places there are."""
        return self.number(_ALL)


def _digest(term: str, key: bytes) -> str:
    return blake2b(term.encode(), key=key, digest_size=_DIGEST_BYTES).hexdigest()


def _number(digest: str) -> int:
    return int(digest, 16)


class Filling:
    """Places on their way into an index or out of it; how many hold a term is written once for all, by `finish`."""

    def __init__(self, connection: Connection, index: Index, tenant: str) -> None:
        self._connection, self._index = connection, index
        self._tokens = Tokens(tenant)
        self._entries: Counter[int] = Counter()
        self._beside: Counter[int] = Counter()

    def add(self, places: Iterable[Placed]) -> int:
        """Put places into the lists; how many there were."""
        rows = [(place, self._text(place, found, 1)) for place, found in places]
        self._connection.executemany(
            f"INSERT INTO {self._index.found} (rowid, terms) VALUES (?, ?)",  # noqa: S608 (a table's name)
            rows,
        )
        return len(rows)

    def remove(self, places: Iterable[Placed]) -> None:
        """Take places out of the lists; they must be found by what they were found by then."""
        found = self._index.found
        self._connection.executemany(
            f"INSERT INTO {found} ({found}, rowid, terms) VALUES ('delete', ?, ?)",  # noqa: S608 (a table's name)
            [(place, self._text(place, each, -1)) for place, each in places],
        )

    def finish(self) -> None:
        """Write how many places hold each of the terms now."""
        held = self._index.held
        changed = [
            (term, self._entries[term], self._beside[term])
            for term in sorted({*self._entries, *self._beside})
        ]
        self._connection.executemany(
            f"INSERT INTO {held} (term, entries, beside) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "  # noqa: S608 (a table's name)
            "entries = entries + excluded.entries, beside = beside + excluded.beside",
            changed,
        )
        self._connection.executemany(
            f"DELETE FROM {held} WHERE term = ? AND entries <= 0 AND beside <= 0",  # noqa: S608 (a table's name)
            [(term,) for term, entries, beside in changed if entries < 0 or beside < 0],
        )

    def _text(self, place: int, found: Findable | None, change: int) -> str:
        terms = distinct_terms(found.text) if found is not None else set[str]()
        counts = self._entries if place > 0 else self._beside
        counts[self._tokens.all_places] += change
        of = self._tokens.of
        tokens = [of(term) for term in terms]
        for number in map(_number, tokens):
            counts[number] += change
        if found is not None:
            tokens += map(of, found.marks)
        return " ".join(tokens)

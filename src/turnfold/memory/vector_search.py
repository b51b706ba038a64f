"""Embedding vectors: their stored form and the nearest-neighbour search; the only module that uses numpy.

A long text has a vector for each of its parts, and is as near to a query as the nearest of them: one vector for all of
it would say what it is about on the whole, and a fact in one paragraph would not be found.

A short reply means little without the message it replies to, so an entry is compared by itself and together with half
of each of its neighbours, with equal weight. The neighbours are added to the dot products, not to the vectors, so the
embedder's vectors are stored unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnfold.errors import InvalidRecord, MissingExtra, ModelFailed

__all__ = (
    "Nearness",
    "Vectors",
    "pack",
    "unit",
)


try:
    import numpy as np
except ImportError as missing:
    raise MissingExtra(package="numpy", extra="semantic", purpose="recall by meaning") from missing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Rows = NDArray[np.float32]


_NEIGHBOUR_WEIGHT = 0.5
"""Weight of the vector of each neighbouring entry when an entry is compared."""
_MIN_SPREAD = 1e-6
"""Least standard deviation of the dot products; below it no entry counts as near."""


def unit(vectors: Sequence[Sequence[float]], many: int) -> Rows:
    """Return the embedder's vectors for `many` texts, normalised to length 1; zero vectors are returned as zero."""
    try:
        rows = np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ModelFailed(
            f"the embedder must return a vector (a list of numbers) for each text, all of one length: {error}"
        ) from error
    if rows.ndim != 2:
        raise ModelFailed(
            f"the embedder returned an array of shape {rows.shape}; it must return a list of vectors, one for each text"
        )
    if len(rows) != many:
        raise ModelFailed(
            f"the embedder returned a list of {len(rows)} when given a list of {many}; it must return one vector for "
            "each text"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ModelFailed(
            f"the embedder returned NaN or infinity in the vector of text {bad[0] + 1} of {many}: check the embedding "
            "model"
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def pack(entries: Sequence[Rows]) -> bytes:
    """Return the vectors of entries in the form in which they are stored.

    That is the number of each entry's vectors, then all vectors in half precision.
    """
    numbers = np.array([len(rows) for rows in entries], dtype="<u2")
    return numbers.tobytes() + np.concatenate(entries).astype("<f2").tobytes()


class _Block(NamedTuple):
    """The vectors of some consecutive entries."""

    rows: Rows
    numbers: NDArray[np.intp]
    """Number of vectors of each entry, at least 1."""


class Nearness(NamedTuple):
    """The nearness of an entry to a query."""

    place: int
    """Index of the entry among the entries compared."""
    closeness: float
    """Nearness in meaning: 0 for an average entry; 1 for the nearest entry to expect by chance; above 1 for one that
    stands out."""
    part: int = 0
    """Index of the part of the entry's text that is nearest in meaning."""


class Vectors:
    """Embedding vectors of consecutive log entries in memory, with a nearest-neighbour search."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._joined_blocks: _Joined | None = None

    def __len__(self) -> int:
        return sum(len(block.numbers) for block in self._blocks)

    @property
    def rows(self) -> int:
        """Number of vectors: one per entry, more for an entry with a long text."""
        return sum(len(block.rows) for block in self._blocks)

    @property
    def held_bytes(self) -> int:
        """Memory of the vectors in bytes, including the copy that is searched."""
        return 2 * sum(block.rows.nbytes for block in self._blocks)

    def add(self, body: bytes, many: int) -> None:
        """Add the vectors of the next `many` entries, which `pack` has converted to the bytes `body`."""
        known = self._blocks[0].rows.shape[1] if self._blocks else 0
        size = len(body) - 2 * many
        numbers = np.frombuffer(body[: 2 * many] if size > 0 else b"", dtype="<u2").astype(np.intp)
        total = int(numbers.sum()) if numbers.all() else 0
        if not total or size % (2 * total) or (known and size != 2 * total * known):
            raise InvalidRecord(
                f"a block of {len(body):,} bytes does not hold the vectors of {many} entries: it is damaged, or of "
                "another embedder with the same name",
                remedy="Restore the store from a backup, or open it with the embedder that made its vectors",
            )
        rows = np.frombuffer(body, dtype="<f2", offset=2 * many).astype(np.float32)
        self._blocks.append(_Block(rows.reshape(total, -1), numbers))
        self._joined_blocks = None

    def drop_first(self) -> int:
        """Drop the oldest block; return its number of entries."""
        self._joined_blocks = None
        return len(self._blocks.pop(0).numbers)

    def nearest(
        self,
        query: Rows,
        newest: Sequence[Rows],
        *,
        first: int,
        stop: int,
        most: int,
        without: int = -1,
    ) -> list[Nearness]:
        """Return the entries from index `first` up to `stop` nearest to a query, best first.

        `newest` are the vectors of the entries after the added ones. Each entry is compared alone and together with its
        neighbours; its closeness is the mean of the two. Entries with a closeness of 0 are left out. The entry with the
        index `without` is left out too, and does not make its neighbours nearer.
        """
        held = self._joined()
        if held.rows.shape[1] != query.shape[0]:
            raise InvalidRecord(
                f"stored vectors have {held.rows.shape[1]} dimensions, the query has {query.shape[0]}: use the same "
                "embedder"
            )
        of_parts, starts, lengths = held.rows @ query, held.starts, held.lengths
        if newest:
            end = np.concatenate((held.rows[starts[-2:]], [rows[0] for rows in newest]))
            lengths = np.concatenate((lengths[:-1], _lengths(end)[len(starts[-2:]) - 1 :]))
            starts = np.concatenate(
                (starts, len(of_parts) + _starts([len(each) for each in newest]))
            )
            of_parts = np.concatenate((of_parts, np.concatenate(newest) @ query))
        products = np.maximum.reduceat(of_parts, starts)
        if 0 <= without < len(products):
            products[without] = products.mean()
        alone = _closeness(products[first:stop])
        among = _closeness((_with_neighbours(products) / lengths)[first:stop])
        closeness = (alone + among) / 2
        order = np.argsort(-closeness, kind="stable")[:most]
        stops = np.append(starts[1:], len(of_parts))
        return [
            Nearness(
                place,
                round(float(closeness[at]), 6),
                int(of_parts[starts[place] : stops[place]].argmax()),
            )
            for at in order
            if closeness[at] > 0 and (place := first + int(at)) != without
        ]

    def _joined(self) -> _Joined:
        if self._joined_blocks is None:
            rows = np.concatenate([block.rows for block in self._blocks])
            numbers = np.concatenate([block.numbers for block in self._blocks])
            starts = _starts(numbers)
            self._joined_blocks = _Joined(rows, starts, _lengths(rows[starts]))
        return self._joined_blocks


class _Joined(NamedTuple):
    """All vectors in the form in which they are searched."""

    rows: Rows
    starts: NDArray[np.intp]
    """Index of each entry's first vector."""
    lengths: Rows
    """Norm of the sum of each entry's first vector and the first vectors of its neighbours."""


def _starts(numbers: ArrayLike) -> NDArray[np.intp]:
    return np.cumsum(numbers) - np.asarray(numbers)


def _closeness(products: Rows) -> Rows:
    """Rescale similarities (dot products) so that the mean becomes 0 and the highest one to expect by chance becomes 1.

    The latter is sqrt(2 log(n)) standard deviations above the mean of n entries. Similarities below the mean become 0.
    """
    spread = float(products.std()) if len(products) else 0.0
    if spread < _MIN_SPREAD:
        return np.zeros_like(products)
    highest = spread * math.sqrt(2 * math.log(len(products) + 1))
    return np.maximum((products - products.mean()) / highest, 0).astype(np.float32)


def _lengths(rows: Rows) -> Rows:
    lengths = np.linalg.norm(_with_neighbours(rows), axis=1)
    return np.where(lengths > 0, lengths, 1).astype(np.float32)


def _with_neighbours(rows: Rows) -> Rows:
    mixed = rows.copy()
    mixed[1:] += _NEIGHBOUR_WEIGHT * rows[:-1]
    mixed[:-1] += _NEIGHBOUR_WEIGHT * rows[1:]
    return mixed

"""Embedding vectors: their stored form and the nearest-neighbour search; the only module that uses numpy.

A short reply means little without the message it replies to, so an entry is compared by itself and together with half
of each of its neighbours, with equal weight. The neighbours are added to the dot products, not to the vectors, so the
embedder's vectors are stored unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnfold.errors import InvalidRecord, MissingExtra, ModelFailed

__all__ = (
    "Vectors",
    "pack",
    "unit",
)


try:
    import numpy as np
except ImportError as missing:
    raise MissingExtra(package="numpy", extra="semantic", purpose="recall by meaning") from missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]


_NEIGHBOUR_WEIGHT = 0.5
"""Weight of each of the two neighbours of an entry."""
_MIN_SPREAD = 1e-6
"""Least difference between the best product and the mean; below it no entry counts as near."""


def unit(vectors: Sequence[Sequence[float]], many: int) -> Rows:
    """Return the embedder's vectors for `many` texts, normalised to length 1; zero vectors stay zero."""
    try:
        rows = np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ModelFailed(f"the embedder returned something other than vectors: {error}") from error
    if rows.ndim != 2 or len(rows) != many or not np.isfinite(rows).all():
        raise ModelFailed(
            f"the embedder returned shape {rows.shape} for {many} texts; one finite vector per text is needed"
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def pack(rows: Rows) -> bytes:
    """Return vectors as bytes for the store: half precision, one vector after the other."""
    return rows.astype("<f2").tobytes()


class Vectors:
    """Embedding vectors of consecutive log entries in memory, with a nearest-neighbour search."""

    def __init__(self) -> None:
        self._blocks: list[Rows] = []
        self._rows: Rows | None = None
        self._lengths: Rows | None = None

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    @property
    def held_bytes(self) -> int:
        """Memory of the vectors in bytes, including the copy that is searched."""
        if not self._blocks:
            return 0
        return 2 * len(self._blocks) * self._blocks[0].nbytes

    def add(self, body: bytes, many: int) -> None:
        """Add the vectors of the next `many` entries, in stored form; raises `InvalidRecord` if damaged."""
        known = self._blocks[0].shape[1] if self._blocks else 0
        if len(body) % (2 * many) or (known and len(body) != 2 * many * known):
            raise InvalidRecord(
                f"a block of {len(body):,} bytes does not hold the vectors of {many} entries: it is damaged, or of "
                "another embedder with the same name"
            )
        flat = np.frombuffer(body, dtype="<f2")
        self._blocks.append(flat.astype(np.float32).reshape(many, -1))
        self._rows = None

    def drop_first(self, blocks: int) -> None:
        """Drop the vectors of the oldest `blocks` blocks from memory."""
        del self._blocks[:blocks]
        self._rows = None

    def nearest(
        self,
        query: Rows,
        newest: Sequence[Rows],
        *,
        first: int,
        stop: int,
        most: int,
        without: int = -1,
    ) -> list[tuple[int, float]]:
        """Return the entries from index `first` up to `stop` nearest to a query, as (index, closeness), best first.

        `newest` are the vectors of the entries after the added ones. Closeness is 1 for an entry that is nearest both
        by itself and with its neighbours; entries that are not nearer than the mean in either way are left out. So is
        the entry with the index `without`, which brings its neighbours no nearer either.
        """
        rows, lengths = self._joined()
        if rows.shape[1] != query.shape[0]:
            raise InvalidRecord(
                f"stored vectors have {rows.shape[1]} dimensions, the query has {query.shape[0]}: use the same embedder"
            )
        products = rows @ query
        if newest:
            end = np.concatenate((rows[-2:], np.stack(newest)))
            products = np.concatenate((products, end[2:] @ query))
            lengths = np.concatenate((lengths[:-1], _lengths(end)[1:]))
        if 0 <= without < len(products):
            products[without] = products.mean()
        alone = _closeness(products[first:stop])
        among = _closeness((_with_neighbours(products) / lengths)[first:stop])
        closeness = (alone + among) / 2
        order = np.argsort(-closeness, kind="stable")[:most]
        return [
            (first + int(at), round(float(closeness[at]), 6))
            for at in order
            if closeness[at] > 0 and first + int(at) != without
        ]

    def _joined(self) -> tuple[Rows, Rows]:
        if self._rows is None or self._lengths is None:
            self._rows = rows = np.concatenate(self._blocks)
            self._lengths = _lengths(rows)
        return self._rows, self._lengths


def _closeness(products: Rows) -> Rows:
    """Scale dot products (similarities) so that the highest becomes 1 and the mean 0.

    Products below the mean become 0; all become 0 if the highest is not above the mean by `_MIN_SPREAD`.
    """
    if not len(products):
        return products
    mean, best = products.mean(), products.max()
    return np.clip((products - mean) / max(best - mean, _MIN_SPREAD), 0, 1) * (
        best - mean >= _MIN_SPREAD
    )


def _lengths(rows: Rows) -> Rows:
    lengths = np.linalg.norm(_with_neighbours(rows), axis=1)
    return np.where(lengths > 0, lengths, 1).astype(np.float32)


def _with_neighbours(rows: Rows) -> Rows:
    mixed = rows.copy()
    mixed[1:] += _NEIGHBOUR_WEIGHT * rows[:-1]
    mixed[:-1] += _NEIGHBOUR_WEIGHT * rows[1:]
    return mixed

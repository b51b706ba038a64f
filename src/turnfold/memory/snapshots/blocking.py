"""Snapshots for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Mapping

from turnfold.memory.drive import drive
from turnfold.memory.snapshots.history import AsyncSnapshots, TakenSnapshot
from turnfold.memory.snapshots.recalling import RecalledContext, SnapshotHit
from turnfold.recall.snapshots import RecallRequest, SnapshotDiff, SnapshotHead
from turnfold.records.snapshots import Snapshot

__all__ = ("Snapshots",)


class Snapshots:
    """The workspace of one conversation, turn by turn."""

    def __init__(self, awaiting: AsyncSnapshots) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncSnapshots:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def held_bytes(self) -> int:
        """Bytes of snapshots kept in memory."""
        return self._awaiting.held_bytes

    def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Keep a snapshot, durable on return. Without a turn it gets the one after the newest.

        Of a turn that has one already, the same is a repetition and another is a `Conflict`.
        """
        return drive(self._awaiting.take(snapshot))

    def get(self, turn: int) -> Snapshot | None:
        """The snapshot of a turn, whole; None where none was taken."""
        return drive(self._awaiting.get(turn))

    def before(self, turn: int) -> Snapshot | None:
        """The newest snapshot of the turns before one, whole."""
        return drive(self._awaiting.before(turn))

    def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """What is said of the snapshots of a page of turns, oldest first."""
        return drive(self._awaiting.heads(after=after, limit=limit))

    def newest(self) -> int:
        """The newest turn that has a snapshot; 0 before the first."""
        return drive(self._awaiting.newest())

    def files(self, turn: int) -> dict[str, int]:
        """The files of a snapshot, path -> bytes, without reading them."""
        return drive(self._awaiting.files(turn))

    def read(self, turn: int, path: str) -> str | bytes:
        """One file as it was at a turn; no other is read."""
        return drive(self._awaiting.read(turn, path))

    def diff(self, before: int, after: int, *, path: str = "", tokens: int = 2000) -> SnapshotDiff:
        """What changed from one turn to another, in one file if `path` names it; `text` costs at most `tokens`.

        What did not change is not read.
        """
        return drive(self._awaiting.diff(before, after, path=path, tokens=tokens))

    def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """The turns whose snapshot brought the words, best first: what was new in it, and what was said of it."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """What was asked for by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        return drive(self._awaiting.recall(request, tokens=tokens))

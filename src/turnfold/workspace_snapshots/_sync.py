"""Snapshots without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Mapping

from turnfold.records import Snapshot
from turnfold.runtime import drive
from turnfold.workspace_snapshots.diff import SnapshotDiff
from turnfold.workspace_snapshots.history import AsyncSnapshots, TakenSnapshot
from turnfold.workspace_snapshots.recall import RecalledContext, RecallRequest, SnapshotHit
from turnfold.workspace_snapshots.storage import SnapshotHead

__all__ = ("Snapshots",)


class Snapshots:
    """Stores, compares, searches and recalls the workspace snapshots of one conversation.

    A snapshot has an agent's context, files and state at a turn.
    """

    def __init__(self, awaiting: AsyncSnapshots) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncSnapshots:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    @property
    def held_bytes(self) -> int:
        """Bytes of stored snapshots that are cached in this process."""
        return self._awaiting.held_bytes

    def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Store a snapshot of the workspace; a snapshot without a turn gets the turn after the newest snapshot.

        If the turn already has an equal snapshot, nothing is written; a different one raises `Conflict`.
        """
        return drive(self._awaiting.take(snapshot))

    def get(self, turn: int) -> Snapshot | None:
        """Return the whole snapshot of a turn; None if the turn has no snapshot."""
        return drive(self._awaiting.get(turn))

    def before(self, turn: int) -> Snapshot | None:
        """Return the newest snapshot before a turn, with all its contents; None if there is none."""
        return drive(self._awaiting.before(turn))

    def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """Return a page of snapshot metadata, of turns after `after`, oldest first, at most `limit`."""
        return drive(self._awaiting.heads(after=after, limit=limit))

    def newest(self) -> int:
        """Return the newest turn with a snapshot; 0 if there is none."""
        return drive(self._awaiting.newest())

    def files(self, turn: int) -> dict[str, int]:
        """Return {path: size in bytes} of a snapshot's files, without reading the files."""
        return drive(self._awaiting.files(turn))

    def read(self, turn: int, path: str) -> str | bytes:
        """Return one file of the snapshot of a turn; raise `InvalidOption` if there is no such turn or file."""
        return drive(self._awaiting.read(turn, path))

    def diff(self, before: int, after: int, *, path: str = "", tokens: int = 2000) -> SnapshotDiff:
        """Compare the snapshots of two turns, or one file of them; `text` of the result has at most `tokens`.

        Unchanged content is not read.
        """
        return drive(self._awaiting.diff(before, after, path=path, tokens=tokens))

    def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """Find the turns whose new content or summary contains the keywords, best first."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """Return content of snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        return drive(self._awaiting.recall(request, tokens=tokens))

"""Snapshots behind a service, for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Mapping

from turnfold.client.workspace_snapshots import AsyncRemoteSnapshots
from turnfold.records import Snapshot
from turnfold.runtime import drive
from turnfold.workspace_snapshots import (
    RecalledContext,
    RecallRequest,
    SnapshotDiff,
    SnapshotHead,
    SnapshotHit,
    TakenSnapshot,
)

__all__ = ("RemoteSnapshots",)


class RemoteSnapshots:
    """Workspace snapshots of one conversation, by turn."""

    def __init__(self, awaiting: AsyncRemoteSnapshots) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncRemoteSnapshots:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Store a snapshot, durable on return. Without a turn it gets the turn after the newest snapshot.

        Storing the same snapshot of a turn again changes nothing; storing a different one raises `Conflict`.
        """
        return drive(self._awaiting.take(snapshot))

    def get(self, turn: int) -> Snapshot | None:
        """Return the whole snapshot of a turn; None if the turn has no snapshot."""
        return drive(self._awaiting.get(turn))

    def before(self, turn: int) -> Snapshot | None:
        """Return the newest snapshot before a turn, with all its contents; None if there is none."""
        return drive(self._awaiting.before(turn))

    def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """List snapshots of turns after `after` without their content, oldest first."""
        return drive(self._awaiting.heads(after=after, limit=limit))

    def newest(self) -> int:
        """Return the newest turn that has a snapshot; 0 if there is none."""
        return drive(self._awaiting.newest())

    def files(self, turn: int) -> dict[str, int]:
        """Return the files of a snapshot with their sizes in bytes, without reading them."""
        return drive(self._awaiting.files(turn))

    def read(self, turn: int, path: str) -> str | bytes:
        """Read one file of a turn's snapshot; raises `InvalidOption` if there is no such snapshot or file."""
        return drive(self._awaiting.read(turn, path))

    def diff(self, before: int, after: int, *, path: str = "", tokens: int = 2000) -> SnapshotDiff:
        """Compare the workspaces of two turns, or one file if `path` names it; `text` has at most `tokens`.

        Unchanged files are not read.
        """
        return drive(self._awaiting.diff(before, after, path=path, tokens=tokens))

    def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """Find the turns whose new content or summary contains the words, best first."""
        return drive(self._awaiting.search(keyword, limit=limit))

    def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """Recall snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        return drive(self._awaiting.recall(request, tokens=tokens))

"""One saver of a graph's checkpoints: a conversation held from its first turn, and what it leaves on the disk."""

from __future__ import annotations

from pathlib import Path

from bench.contender import Checkpointed

__all__ = ("Lane",)


class Lane:
    """A folder for one conversation."""

    def __init__(self, contender: Checkpointed, *, folder: Path) -> None:
        self._contender = contender
        self._folder = folder

    def hold(self, turns: int) -> tuple[int, int, float]:
        """Bytes said, bytes on disk, seconds by the clock."""
        folder = self._folder / f"{turns}"
        folder.mkdir(parents=True)
        return self._contender.hold(folder, turns)

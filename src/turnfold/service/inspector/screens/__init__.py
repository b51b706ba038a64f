"""Every screen, in one table: the routes, the checks before them and the tests of both are made from it."""

from __future__ import annotations

from typing import Final

from turnfold.service.inspector.asked import Screen
from turnfold.service.inspector.screens.calls import call
from turnfold.service.inspector.screens.checkpoints import checkpoints
from turnfold.service.inspector.screens.comparing import diff
from turnfold.service.inspector.screens.health import health
from turnfold.service.inspector.screens.log import log
from turnfold.service.inspector.screens.recalling import recall
from turnfold.service.inspector.screens.sessions import sessions
from turnfold.service.inspector.screens.snapshots import (
    snapshot,
    snapshot_diff,
    snapshot_file,
    snapshots,
)
from turnfold.service.inspector.screens.timeline import session

__all__ = ("SCREENS",)

SCREENS: Final[tuple[Screen, ...]] = (
    sessions,
    session,
    call,
    diff,
    log,
    checkpoints,
    recall,
    snapshots,
    snapshot_diff,
    snapshot,
    snapshot_file,
    health,
)
"""A word before a name in its place: `snapshots/diff` is not the snapshot called "diff"."""

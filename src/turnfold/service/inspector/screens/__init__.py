"""Table of all screens of the inspector; its routes, their access checks and tests are made from it."""

from __future__ import annotations

from typing import Final

from turnfold.service.inspector.screen_types import Screen
from turnfold.service.inspector.screens.call import call
from turnfold.service.inspector.screens.costs import costs
from turnfold.service.inspector.screens.diff import diff
from turnfold.service.inspector.screens.fold_summaries import checkpoints
from turnfold.service.inspector.screens.health import health
from turnfold.service.inspector.screens.log import log
from turnfold.service.inspector.screens.memory import memory, recall, rules
from turnfold.service.inspector.screens.sessions import sessions
from turnfold.service.inspector.screens.timeline import session
from turnfold.service.inspector.screens.workspace_snapshots import (
    snapshot,
    snapshot_diff,
    snapshot_file,
    snapshots,
)

__all__ = ("SCREENS",)

SCREENS: Final[tuple[Screen, ...]] = (
    sessions,
    session,
    call,
    diff,
    log,
    checkpoints,
    costs,
    memory,
    recall,
    rules,
    snapshots,
    snapshot_diff,
    snapshot,
    snapshot_file,
    health,
)
"""All screens. Fixed paths come before those with parameters: `snapshots/diff` must not match `snapshots/{turn}`."""

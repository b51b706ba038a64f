"""WHO ASKS FROM AFAR: a memory behind a service, with the names of one in the process.

`RemoteMemory(url, token=...)` takes the place of `Memory(store)`; sessions, errors and values stay what they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnfold.late_names import late_names

if TYPE_CHECKING:
    from turnfold.client.blocking import (
        RemoteFindings,
        RemoteMemory,
        RemoteSession,
        RemoteState,
    )
    from turnfold.client.findings import AsyncRemoteFindings
    from turnfold.client.forms import RemoteContext
    from turnfold.client.memory import AsyncRemoteMemory
    from turnfold.client.session import AsyncRemoteSession, AsyncRemoteState
    from turnfold.client.short_blocking import RemoteShortMemory
    from turnfold.client.short_memory import AsyncRemoteShortMemory
    from turnfold.client.snapshots import AsyncRemoteSnapshots
    from turnfold.client.snapshots_blocking import RemoteSnapshots

__all__ = (
    "AsyncRemoteFindings",
    "AsyncRemoteMemory",
    "AsyncRemoteSession",
    "AsyncRemoteShortMemory",
    "AsyncRemoteSnapshots",
    "AsyncRemoteState",
    "RemoteContext",
    "RemoteFindings",
    "RemoteMemory",
    "RemoteSession",
    "RemoteShortMemory",
    "RemoteSnapshots",
    "RemoteState",
)

_HOMES = {
    "turnfold.client.blocking": "RemoteFindings RemoteMemory RemoteSession RemoteState",
    "turnfold.client.findings": "AsyncRemoteFindings",
    "turnfold.client.forms": "RemoteContext",
    "turnfold.client.memory": "AsyncRemoteMemory",
    "turnfold.client.session": "AsyncRemoteSession AsyncRemoteState",
    "turnfold.client.short_blocking": "RemoteShortMemory",
    "turnfold.client.short_memory": "AsyncRemoteShortMemory",
    "turnfold.client.snapshots": "AsyncRemoteSnapshots",
    "turnfold.client.snapshots_blocking": "RemoteSnapshots",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

"""HTTP client: `RemoteMemory` has the methods of `Memory`, `RemoteSession` those of `Session`."""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.client._short_memory_sync import RemoteShortMemory
    from turnfold.client._sync import (
        RemoteFindings,
        RemoteMemory,
        RemoteSession,
        RemoteSnapshots,
        RemoteState,
    )
    from turnfold.client.conversion import RemoteContext
    from turnfold.client.memory import AsyncRemoteMemory
    from turnfold.client.session import AsyncRemoteFindings, AsyncRemoteSession, AsyncRemoteState
    from turnfold.client.short_memory import AsyncRemoteShortMemory
    from turnfold.client.workspace_snapshots import AsyncRemoteSnapshots

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
    "turnfold.client._short_memory_sync": "RemoteShortMemory",
    "turnfold.client._sync": "RemoteFindings RemoteMemory RemoteSession RemoteSnapshots RemoteState",
    "turnfold.client.conversion": "RemoteContext",
    "turnfold.client.memory": "AsyncRemoteMemory",
    "turnfold.client.session": "AsyncRemoteFindings AsyncRemoteSession AsyncRemoteState",
    "turnfold.client.short_memory": "AsyncRemoteShortMemory",
    "turnfold.client.workspace_snapshots": "AsyncRemoteSnapshots",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

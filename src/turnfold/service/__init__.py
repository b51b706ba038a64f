"""WHO SERVES IT: the memory over HTTP. A thin edge: every operation is one call of a session or a short-term memory.

Nothing is imported until it is named: the forms on the wire are shared with the client, who needs no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnfold.late_names import late_names

if TYPE_CHECKING:
    from turnfold.service.app import Guarded, make_app
    from turnfold.service.running import ServiceOptions, make_state, run, serve
    from turnfold.service.state import ServiceState

__all__ = ("Guarded", "ServiceOptions", "ServiceState", "make_app", "make_state", "run", "serve")

_HOMES = {
    "turnfold.service.app": "Guarded make_app",
    "turnfold.service.running": "ServiceOptions make_state run serve",
    "turnfold.service.state": "ServiceState",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

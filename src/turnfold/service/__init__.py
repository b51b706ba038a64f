"""WHO SERVES IT: the memory over HTTP. A thin edge: every operation is one call of a session or a short-term memory.

Nothing is imported until it is named: the forms on the wire are shared with the client, who needs no server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'turnfold.service' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

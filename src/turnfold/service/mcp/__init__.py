"""The memory as an MCP server: tools, resources and prompts for any client that speaks the protocol.

A thin edge like the API beside it: the same gate decides who asks and for which tenant, and every tool is a call or two
of a session.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnfold.service.mcp.serving import mcp_beside, run_http, run_stdio
    from turnfold.service.mcp.visiting import McpOptions

__all__ = ("McpOptions", "mcp_beside", "run_http", "run_stdio")

_HOME_OF = {
    "McpOptions": "turnfold.service.mcp.visiting",
    "mcp_beside": "turnfold.service.mcp.serving",
    "run_http": "turnfold.service.mcp.serving",
    "run_stdio": "turnfold.service.mcp.serving",
}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'turnfold.service.mcp' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""MCP server: gives any client of the Model Context Protocol tools, resources and prompts to use the memory.

Requests pass the same authorization as those of the API. A tool calls one or two methods of a session.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from turnfold._lazy_loading import late_names
from turnfold.errors import MissingExtra

if find_spec("mcp") is None:  # before Starlette is imported, which the extra `mcp` installs too
    raise MissingExtra(package="mcp", extra="mcp", purpose="turnfold mcp")

if TYPE_CHECKING:
    from turnfold.service.mcp.request_access import McpOptions, McpPermission
    from turnfold.service.mcp.server import mcp_beside, run_http, run_stdio

__all__ = ("McpOptions", "McpPermission", "mcp_beside", "run_http", "run_stdio")

_HOMES = {
    "turnfold.service.mcp.request_access": "McpOptions McpPermission",
    "turnfold.service.mcp.server": "mcp_beside run_http run_stdio",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

"""The memory as an MCP server: tools, resources and prompts for any client that speaks the protocol.

A thin edge like the API beside it: the same gate decides who asks and for which tenant, and every tool is a call or two
of a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnfold.late_names import late_names

if TYPE_CHECKING:
    from turnfold.service.mcp.serving import mcp_beside, run_http, run_stdio
    from turnfold.service.mcp.visiting import McpOptions

__all__ = ("McpOptions", "mcp_beside", "run_http", "run_stdio")

_HOMES = {
    "turnfold.service.mcp.visiting": "McpOptions",
    "turnfold.service.mcp.serving": "mcp_beside run_http run_stdio",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)

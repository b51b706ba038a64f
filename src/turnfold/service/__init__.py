"""The HTTP service: the API, the web inspector, the MCP server, access tokens and limits."""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.service.app import GuardedApp, make_app
    from turnfold.service.audit_log import record_request, request_id, write_audit_log
    from turnfold.service.auth import (
        LOOPBACK,
        Caller,
        LocalAccess,
        RequestGate,
        TokenFile,
        TokenRing,
        check_listening,
        new_token,
    )
    from turnfold.service.concurrency import BodyMemory, RequestSlots
    from turnfold.service.endpoint import CALLER, check_framing, check_values
    from turnfold.service.inspector.html import ROOT
    from turnfold.service.inspector.routes import inspector_beside, inspector_routes
    from turnfold.service.limits import Limits, Quota, RateLimit
    from turnfold.service.mcp.request_access import McpOptions, McpPermission
    from turnfold.service.mcp.server import mcp_beside, run_http, run_stdio
    from turnfold.service.server import (
        ExtraRoutes,
        LimitedServer,
        ServiceOptions,
        listen,
        make_state,
        run,
        serve,
        server_config,
    )
    from turnfold.service.state import ServiceState

__all__ = (
    "CALLER",
    "LOOPBACK",
    "ROOT",
    "BodyMemory",
    "Caller",
    "ExtraRoutes",
    "GuardedApp",
    "LimitedServer",
    "Limits",
    "LocalAccess",
    "McpOptions",
    "McpPermission",
    "Quota",
    "RateLimit",
    "RequestGate",
    "RequestSlots",
    "ServiceOptions",
    "ServiceState",
    "TokenFile",
    "TokenRing",
    "check_framing",
    "check_listening",
    "check_values",
    "inspector_beside",
    "inspector_routes",
    "listen",
    "make_app",
    "make_state",
    "mcp_beside",
    "new_token",
    "record_request",
    "request_id",
    "run",
    "run_http",
    "run_stdio",
    "serve",
    "server_config",
    "write_audit_log",
)

_HOMES = {
    "turnfold.service.app": "GuardedApp make_app",
    "turnfold.service.audit_log": "record_request request_id write_audit_log",
    "turnfold.service.auth": "LOOPBACK Caller LocalAccess RequestGate TokenFile TokenRing check_listening new_token",
    "turnfold.service.concurrency": "BodyMemory RequestSlots",
    "turnfold.service.endpoint": "CALLER check_framing check_values",
    "turnfold.service.inspector.html": "ROOT",
    "turnfold.service.inspector.routes": "inspector_beside inspector_routes",
    "turnfold.service.limits": "Limits Quota RateLimit",
    "turnfold.service.mcp.request_access": "McpOptions McpPermission",
    "turnfold.service.mcp.server": "mcp_beside run_http run_stdio",
    "turnfold.service.server": "ExtraRoutes LimitedServer ServiceOptions listen make_state run serve server_config",
    "turnfold.service.state": "ServiceState",
}

_get, __dir__ = late_names(__name__, _HOMES)


def __getattr__(name: str) -> object:
    try:
        return _get(name)
    except ModuleNotFoundError as missing:
        from turnfold.errors import MissingExtra

        package = (missing.name or "").partition(".")[0]
        if package not in {"h11", "starlette", "uvicorn"}:
            raise
        raise MissingExtra(
            package=package, extra="service", purpose="the service (turnfold serve, turnfold ui)"
        ) from missing

"""Running of the MCP server: over stdin and stdout, or over HTTP with the authorization of the service."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnfold.api import Right
from turnfold.errors import RequestRefused, TurnfoldError
from turnfold.service.app import GuardedApp
from turnfold.service.auth import Caller
from turnfold.service.endpoint import (
    DETAIL,
    OPERATION,
    TARGET,
    check_keys,
    method_not_allowed,
    read_body,
)
from turnfold.service.limits import Limits
from turnfold.service.mcp.methods import METHODS, McpProtocol
from turnfold.service.mcp.request_access import McpOptions
from turnfold.service.mcp.resources import read_address
from turnfold.service.mcp.sdk import http_endpoint, make_server, serve_streams
from turnfold.service.mcp.tools import TOOLS
from turnfold.service.operation_table import OperationTable
from turnfold.service.routes import TABLE
from turnfold.service.server import ExtraRoutes, ServiceOptions, make_state, run
from turnfold.service.state import ServiceState

__all__ = (
    "PATH",
    "mcp_beside",
    "run_http",
    "run_stdio",
)


PATH: Final = "/mcp"
_LARGEST_BODY: Final = 1 << 20
"""Most bytes of a request; the longest text that a tool takes has fewer. It is decoded on the event loop."""
_PROBES: Final = OperationTable(
    (operation, run) for operation, run in TABLE.items() if operation.right is None
)
"""The health probes, which need no token."""


def run_stdio(service: ServiceOptions, options: McpOptions) -> None:
    """Serve over stdin and stdout, with all rights of the tenant in the options; needs no token.

    The user who starts the process can open the store anyway.
    """

    async def main() -> None:
        state = make_state(replace(service, tokens_file=None))
        caller = Caller(service.tenant, frozenset(Right), "")
        try:
            await serve_streams(make_server(McpProtocol(state, options), caller))
        finally:
            await state.close(cancel=True)

    asyncio.run(main())


def run_http(service: ServiceOptions, options: McpOptions) -> None:
    """Serve MCP and the health probes over HTTP, without the API, until a signal arrives."""
    run(service, beside=(lambda state: mcp_beside(state, options),), table=_PROBES)


def mcp_beside(state: ServiceState, options: McpOptions | None = None) -> ExtraRoutes:
    """Return the routes of MCP at `PATH`, with the tokens, rights, quota and limits of the API."""
    server = make_server(McpProtocol(state, options or McpOptions()), None)
    endpoint, running = http_endpoint(server, body=state.limits.body)
    limits = replace(state.limits, body=min(state.limits.body, _LARGEST_BODY))
    session = (options or McpOptions()).session
    guarded = GuardedApp(_JsonPostOnly(endpoint, limits, session), state, right=Right.READ)
    return ExtraRoutes(mounts=(Route(PATH, guarded),), running=(running,))


class _JsonPostOnly:
    """Passes POST requests with JSON bodies on to the package `mcp`, and refuses others with problem details.

    The server sends no messages of its own accord, so a client needs neither GET (to open a stream) nor DELETE.
    """

    def __init__(self, app: ASGIApp, limits: Limits, session: str) -> None:
        self._app = app
        self._limits = limits
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[OPERATION] = "mcp"
        if scope["method"] != "POST":
            raise method_not_allowed(scope["method"], "POST")
        body = await read_body(Request(scope, receive), self._limits)
        try:
            asked = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise RequestRefused(f"the body is not valid JSON: {error}") from None
        check_keys(body, self._limits)
        scope[DETAIL], scope[TARGET] = _audited(asked, self._session)
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)


class _Params(msgspec.Struct):
    name: str = ""
    uri: str = ""
    arguments: dict[str, object] = {}


class _Call(msgspec.Struct):
    method: str
    params: _Params = msgspec.field(default_factory=_Params)


def _audited(asked: object, own: str) -> tuple[str, str]:
    """Return the tool or method that a request calls and the session it is about, for the audit log.

    `own` is the session of requests that name none. Both are empty for a request that calls nothing known.
    """
    try:
        call = msgspec.convert(asked, _Call)
    except msgspec.ValidationError:
        return "", ""
    tool = TOOLS.get(call.params.name) if call.method == "tools/call" else None
    if call.method == "resources/read":
        with suppress(TurnfoldError):
            return call.method, read_address(call.params.uri).session
    if tool is None and call.method != "prompts/get":
        return (call.method if call.method in METHODS else ""), ""
    given = str(call.params.arguments.get("session") or "")
    everywhere = tool is not None and tool.name in ("search_memory", "list_sessions")
    return (tool.name if tool else call.method), given or ("" if everywhere else own)

"""Running of the MCP server, over stdin and stdout or over HTTP; the only file that imports the package `mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version as package_version
from typing import Any, Final, cast

import msgspec
from mcp import types as _sdk_types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared import exceptions as _sdk_exceptions
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnfold.api import Right
from turnfold.errors import AccessDenied, RequestRefused, TurnfoldError
from turnfold.service.app import GuardedApp
from turnfold.service.auth import Caller
from turnfold.service.endpoint import (
    CALLER,
    DETAIL,
    OPERATION,
    TARGET,
    check_keys,
    method_not_allowed,
    read_body,
)
from turnfold.service.limits import Limits
from turnfold.service.mcp.methods import INSTRUCTIONS, METHODS, McpError, McpProtocol
from turnfold.service.mcp.request_access import McpOptions
from turnfold.service.mcp.resources import read_address
from turnfold.service.mcp.tools import TOOLS
from turnfold.service.operation_table import OperationTable
from turnfold.service.routes import TABLE
from turnfold.service.server import ExtraRoutes, ServiceOptions, make_state, run
from turnfold.service.state import ServiceState

__all__ = (
    "PATH",
    "http_endpoint",
    "make_server",
    "mcp_beside",
    "run_http",
    "run_stdio",
    "serve_streams",
)


_VERSION_1: Final = int(package_version("mcp").partition(".")[0]) < 2
_types = cast("Any", _sdk_types)
_Answer = Callable[[str, object, Any], Awaitable[dict[str, object]]]


def make_server(protocol: McpProtocol, caller: Caller | None) -> Any:  # noqa: ANN401 (its type differs between versions)
    """Return a server of the package `mcp` that handles requests with `protocol`.

    With `caller` (stdio), all requests are made as this caller. Otherwise the caller is the one that `GuardedApp` put
    into the scope of the request; a request without one is refused.
    """

    async def answer(method: str, request: object, params: Any) -> dict[str, object]:  # noqa: ANN401
        given: Mapping[str, object] = (
            params.model_dump(mode="json", by_alias=True, exclude_none=True) if params else {}
        )
        try:
            return await protocol.answer(method, caller or _caller_of(request), given)
        except McpError as error:
            raise _protocol_error(error) from None

    own = str(
        import_module("turnfold").__version__
    )  # by name, because imports must go down the layers
    server: Any = cast("Any", Server)("turnfold", version=own, instructions=INSTRUCTIONS)
    register = _register_version_1 if _VERSION_1 else _register
    for method in METHODS:
        register(server, method, answer)
    return server


def _register(server: Any, method: str, answer: _Answer) -> None:  # noqa: ANN401
    result_type = getattr(_types, f"{_stem(method)}Result")
    params_type = _types.PaginatedRequestParams
    if not method.endswith("/list"):
        params_type = getattr(_types, f"{_stem(method)}RequestParams")

    async def handle(context: Any, params: Any) -> Any:  # noqa: ANN401
        return result_type.model_validate(await answer(method, context.request, params))

    server.add_request_handler(method, params_type, handle)


def _register_version_1(server: Any, method: str, answer: _Answer) -> None:  # noqa: ANN401
    result_type = getattr(_types, f"{_stem(method)}Result")

    async def handle(request: Any) -> Any:  # noqa: ANN401
        found = await answer(method, server.request_context.request, request.params)
        return _types.ServerResult(result_type.model_validate(found))

    server.request_handlers[getattr(_types, f"{_stem(method)}Request")] = handle


def _stem(method: str) -> str:
    """Return the prefix of the type names that the package `mcp` uses for a method: `ListTools` for `tools/list`."""
    *nouns, verb = method.split("/")
    whole = "".join(noun.title() for noun in nouns)
    if verb == "list":
        return f"List{whole.replace('ResourcesT', 'ResourceT')}"
    return f"{verb.title()}{whole.removesuffix('s')}"


def _caller_of(request: object) -> Caller:
    scope = cast("Mapping[str, object]", getattr(request, "scope", {}))
    caller = scope.get(CALLER)
    if not isinstance(caller, Caller):
        raise McpError(-32_600, str(AccessDenied("this request was not authorized: send a token")))
    return caller


def _protocol_error(error: McpError) -> Exception:
    found = cast("Any", _sdk_exceptions)
    if _VERSION_1:
        return found.McpError(_types.ErrorData(code=error.code, message=error.message))
    return found.MCPError(error.code, error.message)


async def serve_streams(server: Any) -> None:  # noqa: ANN401
    """Serve requests from stdin, with responses to stdout, until stdin is closed."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def http_endpoint(
    server: Any,  # noqa: ANN401
    *,
    body: int,
) -> tuple[ASGIApp, Callable[[], AbstractAsyncContextManager[None]]]:
    """Return the ASGI endpoint for requests of at most `body` bytes, and the context manager it runs in."""
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        # Host and Origin are checked by the service, for all routes.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=body,
    )
    return manager.handle_request, manager.run


PATH: Final = "/mcp"
_LARGEST_BODY: Final = 1 << 20
"""Most bytes of a request, which is decoded on the event loop; the longest text that a tool takes has fewer."""
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

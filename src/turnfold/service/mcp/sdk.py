"""Adapter to the package `mcp`, in its major versions 1 and 2; the only file that imports it.

The versions differ in how a method is registered, where the request is found, and how an error is raised. The JSON that
is sent is the same, and is made in `methods`. Over HTTP the server is stateless: any replica can handle any request,
and there is no transport session that another client could hijack.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.metadata import version as package_version
from typing import Any, Final, cast

from mcp import types as _sdk_types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared import exceptions as _sdk_exceptions
from starlette.types import ASGIApp

from turnfold.errors import AccessDenied
from turnfold.service.auth import Caller
from turnfold.service.endpoint import CALLER
from turnfold.service.mcp.methods import INSTRUCTIONS, METHODS, McpError, McpProtocol

__all__ = (
    "http_endpoint",
    "make_server",
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
    """Return how the package `mcp` begins its type names for a method: `ListTools` for `tools/list`."""
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

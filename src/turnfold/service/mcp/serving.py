"""The server on its two ways out: over the streams of a process, and over HTTP behind the gate of the service."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnfold.errors import RequestRefused
from turnfold.service.answering import OPERATION, read_body
from turnfold.service.app import Guarded
from turnfold.service.limits import Limits
from turnfold.service.mcp.answering import Answers
from turnfold.service.mcp.sdk import http_endpoint, make_server, serve_streams
from turnfold.service.mcp.visiting import McpOptions
from turnfold.service.routes import TABLE
from turnfold.service.running import Beside, ServiceOptions, make_state, run
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller, Right

__all__ = ("PATH", "mcp_beside", "run_http", "run_stdio")

PATH: Final = "/mcp"
_HEALTH: Final = tuple(each for each in TABLE if each.right is None)
"""What anybody may ask: whether it lives, and whether it is ready."""


def run_stdio(service: ServiceOptions, options: McpOptions) -> None:
    """Answer over stdin and stdout, as the tenant of the options with all rights: who starts it owns the store."""

    async def main() -> None:
        state = make_state(replace(service, tokens_file=None))
        caller = Caller(service.tenant, frozenset(Right), "")
        try:
            await serve_streams(make_server(Answers(state, options), caller))
        finally:
            await state.close(cancel=True)

    asyncio.run(main())


def run_http(service: ServiceOptions, options: McpOptions) -> None:
    """Serve MCP alone, and whether it is ready, until told to end."""
    run(service, beside=(lambda state: mcp_beside(state, options),), table=_HEALTH)


def mcp_beside(state: ServiceState, options: McpOptions | None = None) -> Beside:
    """MCP at `PATH`, to be mounted beside the API: the same gate, tokens, rights, quota and limits."""
    server = make_server(Answers(state, options or McpOptions()), None)
    endpoint, running = http_endpoint(server, body=state.limits.body)
    guarded = Guarded(_Readable(endpoint, state.limits), state, right=Right.READ)
    return Beside(mounts=(Route(PATH, guarded),), running=(running,))


class _Readable:
    """Lets through what the package can read: it answers with its own failures to anything else.

    Only what is posted: nothing is ever sent unasked, so there is no stream to open and no session to end.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[OPERATION] = "mcp"
        if scope["method"] != "POST":
            error = RequestRefused(f"{scope['method']} is not POST", status=405)
            vars(error)["allow"] = "POST"
            raise error
        body = await read_body(Request(scope, receive), self._limits)
        try:
            msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise RequestRefused(f"the body is no JSON that can be read: {error}") from None
        left = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return left.pop() if left else await receive()

        await self._app(scope, again, send)

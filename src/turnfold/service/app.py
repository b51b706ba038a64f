"""The application: every operation of the table behind one gate, and around them what every answer has.

A request id, the check of Host and Origin, problems instead of traces, a line in the log without content: all of it
once, outside of everything, so what is mounted beside the API has it too.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnfold.errors import (
    AccessDenied,
    LimitExceeded,
    NotFound,
    RequestRefused,
    StoreUnavailable,
    TurnfoldError,
)
from turnfold.service.answering import CALLER, OPERATION, Endpoint
from turnfold.service.openapi import openapi
from turnfold.service.operations import Operation
from turnfold.service.problems import CONTENT_TYPE, problem_of
from turnfold.service.routes import TABLE
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Right

__all__ = ("Guarded", "make_app")

_log = logging.getLogger("turnfold.service")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SCHEMA: Final = "/v1/openapi.json"
_PROCESS: Final = secrets.token_hex(4)
"""Tells the request ids of this process from those of others: they are for finding, not for hiding."""
_NUMBERS: Final = count(1)
_GONE: Final = 499
"""Status of a request whose client was gone before it was answered, in the log and in the figures; never sent."""


def make_app(
    state: ServiceState,
    *,
    mounts: Sequence[BaseRoute] = (),
    beside: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = (),
    table: Sequence[Operation] = TABLE,
) -> ASGIApp:
    """The service as an ASGI application; closing it closes the state.

    `mounts` are routes beside the API: wrap what they serve in `Guarded` so that it is asked for a token too. What they
    need while the service runs is entered when it starts: `beside`.
    """

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with AsyncExitStack() as running:
            running.push_async_callback(state.close)
            for each in beside:
                await running.enter_async_context(each())
            yield

    paths: dict[str, dict[str, Operation]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method] = each
    document = msgspec.json.encode(openapi(table))
    routes: list[BaseRoute] = [Route(_SCHEMA, _Document(document))]
    # A word before a name in its place: /snapshots/diff is not the snapshot called "diff".
    exact_first = sorted(paths, key=lambda path: [part.startswith("{") for part in path.split("/")])
    routes += [Route(path, Endpoint(state, paths[path])) for path in exact_first]
    inner = Router([*routes, *mounts], redirect_slashes=False, default=_nowhere, lifespan=lifespan)
    return _with_other_origins(_Outermost(inner, state), state.gate.origins)


def _with_other_origins(app: ASGIApp, origins: Collection[str]) -> ASGIApp:
    """Let browsers show the answers to pages of other origins, where some are allowed."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=sorted(origins),
        allow_methods=("DELETE", "GET", "PATCH", "POST", "PUT"),
        allow_headers=(
            "authorization",
            "content-type",
            "idempotency-key",
            "last-event-id",
            "mcp-method",
            "mcp-name",
            "mcp-protocol-version",
            "x-request-id",
        ),
        expose_headers=("retry-after", "x-request-id"),
    )


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    del receive
    if scope["type"] != "http":  # nobody here speaks WebSocket
        await send({"type": "websocket.close", "code": 1000})
        return
    raise NotFound(f"there is no such path; {_SCHEMA} lists them")


class Guarded:
    """Something mounted beside the API, for callers with a token; it finds the `Caller` in its scope."""

    def __init__(self, app: ASGIApp, state: ServiceState, *, right: Right) -> None:
        self._app = app
        self._state = state
        self._right = right

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in who may; the rest is its business."""
        if scope["type"] == "http":
            caller = scope[CALLER] = self._state.gate.caller(Headers(scope=scope))
            caller.must(self._right)
        await self._app(scope, receive, send)


class _Document:
    """The OpenAPI document."""

    def __init__(self, content: bytes) -> None:
        self._answer = Response(content, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


class _Outermost:
    """What every request meets first and every answer meets last."""

    def __init__(self, app: ASGIApp, state: ServiceState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = _Answer(send, _request_id(headers))
        began = time.perf_counter()
        # As it was sent: an id may hold a slash, which is no border between parts of the path.
        raw = scope.get("raw_path") or scope["path"].encode()
        scope["path"] = raw.partition(b"?")[0].decode("latin-1")
        try:
            self._state.gate.check_names(headers)
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:  # nobody is left to answer, and nothing is wrong here
            answer.status = answer.status or _GONE
        except Exception as error:
            await self._refuse(error, scope, receive, answer)
        finally:
            operation = scope.get(OPERATION, "")
            self._state.answered[operation, answer.status] += 1
            _log.info(
                "%s %s %d",
                answer.request_id,
                operation or "-",
                answer.status,
                extra={
                    "event": "request",
                    "request_id": answer.request_id,
                    "operation": operation,
                    "status": answer.status,
                    "milliseconds": round((time.perf_counter() - began) * 1000, 1),
                },
            )

    async def _refuse(
        self, error: Exception, scope: Scope, receive: Receive, answer: _Answer
    ) -> None:
        """Answer with a problem; what nobody foresaw leaves its trace in the log and a bare 500."""
        if isinstance(error, HTTPException):
            error = RequestRefused(str(error.detail), status=error.status_code)
        problem = problem_of(error, request_id=answer.request_id)
        if problem.status >= 500:
            _log.error(
                "%s %s: %s",
                answer.request_id,
                type(error).__name__,
                error if isinstance(error, TurnfoldError) else _frames(error),
                extra={"event": "request_failed", "request_id": answer.request_id},
            )
        if answer.status:
            raise error  # too late for another answer: the connection ends
        body = msgspec.json.encode(problem)
        response = Response(
            body, problem.status, media_type=CONTENT_TYPE, headers=_headers(error, problem.status)
        )
        await response(scope, receive, answer.send)


class _Answer:
    """An answer on its way out."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        try:
            await self._send(message)
        except OSError:  # some servers say so where a client is gone, others say nothing
            raise ClientDisconnect from None


def _frames(error: Exception) -> str:
    """Where it was raised; not its message, which may hold what somebody said."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else f"{_PROCESS}{next(_NUMBERS) & 0xFFFFFFFF:08x}"


def _headers(error: Exception, status: int) -> dict[str, str]:
    if isinstance(error, LimitExceeded) and error.again:
        return {"retry-after": str(math.ceil(error.again))}
    if isinstance(error, StoreUnavailable):
        return {"retry-after": "1"}
    if isinstance(error, AccessDenied) and status == 401:
        return {"www-authenticate": "Bearer"}
    if isinstance(error, RequestRefused) and status == 405:
        return {"allow": str(vars(error).get("allow", ""))}
    return {}

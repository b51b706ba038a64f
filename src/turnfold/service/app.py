"""The ASGI application: routes of all operations, the outermost layer of every request, and the OpenAPI document.

The outermost layer gives each request an id, checks Host and Origin, turns errors into problem details, and writes a
log line without content; routes mounted next to the API (inspector, MCP) get all of this too. The OpenAPI document is
generated from the table of operations and their structs.
"""

from __future__ import annotations

import logging
import math
import re
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnfold.api import (
    CONTENT_TYPE,
    KEY_PATTERN,
    KINDS,
    AnyOperation,
    CallEvent,
    Events,
    PlainText,
    Problem,
    Right,
    problem_of,
)
from turnfold.errors import (
    AccessDenied,
    LimitExceeded,
    NotFound,
    RequestRefused,
    StoreUnavailable,
    TurnfoldError,
)
from turnfold.service.api_page import PAGE_HEADERS, PAGE_STYLE, api_page
from turnfold.service.audit_log import record_request, request_id
from turnfold.service.endpoint import (
    CALLER,
    DETAIL,
    OPERATION,
    TARGET,
    Endpoint,
    check_framing,
    method_not_allowed,
)
from turnfold.service.operation_table import RunOperation
from turnfold.service.routes import TABLE
from turnfold.service.second_process import PASSED_ON, REQUEST_ID
from turnfold.service.state import ServiceState

__all__ = (
    "GuardedApp",
    "error_frames",
    "make_app",
    "openapi",
)


_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_VERSION: Final = "1.0.0"
"""Version of the API under /v1, not of the package."""
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 512}
_TITLES: Final = {
    400: "Bad request",
    401: "Missing or unknown token",
    403: "Missing right, unknown host or origin, or a full quota",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict with a concurrent change",
    410: "The conversation was deleted",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Invalid request content",
    429: "Too many requests",
    500: "Internal error",
    502: "The summarizer failed",
    503: "The store cannot be reached",
}
_ANY: Final = (403, 405, 413, 422, 500, 503)
_WITH_TOKEN: Final = (401, 404, 410, 429)
_WRITE: Final = (409, 415, 502)


def openapi(table: Collection[AnyOperation]) -> dict[str, object]:
    """Return the OpenAPI document of these operations (HTTP endpoints), as JSON values."""
    types = sorted({*_types(table), Problem, CallEvent}, key=lambda each: each.__name__)
    shapes, components = msgspec.json.schema_components(
        types, schema_hook=_any_value, ref_template=_REFERENCE
    )
    schemas = dict(zip(types, shapes, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "turnfold",
            "version": _VERSION,
            "description": "The context memory of LLM agents, as a service. Every error is a problem detail whose "
            f"`type` is one of: {', '.join(kind.type for kind in KINDS)}.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _any_value(kind: type) -> dict[str, object]:
    if kind is object:
        return {"description": "Any JSON value"}
    raise NotImplementedError  # msgspec then raises an error that names the type


def _types(table: Iterable[AnyOperation]) -> Iterable[type]:
    for each in table:
        yield from (kind for kind in (each.body, each.answer) if kind not in (Events, PlainText))


def _described(
    operation: AnyOperation, schemas: dict[type, dict[str, object]]
) -> dict[str, object]:
    found: dict[str, object] = {
        "operationId": operation.name,
        "summary": operation.description,
        "tags": [operation.family],
        "parameters": [*_in_path(operation), *_in_query(operation), *_in_header(operation)],
        "responses": {"200": _answer(operation, schemas), **_errors(operation, schemas)},
        "security": [{"token": []}] if operation.right else [],
    }
    if operation.right:
        found["x-right"] = str(operation.right)
        found["x-rights"] = sorted(str(right) for right in operation.rights)
    fields = msgspec.structs.fields(operation.body)
    if fields:
        found["requestBody"] = {
            "required": any(field.required for field in fields),
            "content": {_JSON: {"schema": schemas[operation.body]}},
        }
    return found


def _in_path(operation: AnyOperation) -> Iterable[dict[str, object]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": _NAME}


def _in_query(operation: AnyOperation) -> Iterable[dict[str, object]]:
    [schema], components = msgspec.json.schema_components([operation.query], schema_hook=_any_value)
    [whole] = components.values() if "$ref" in schema else [schema]
    properties = cast("dict[str, dict[str, object]]", whole["properties"])
    required = cast("list[str]", whole.get("required", []))
    for name, shape in properties.items():
        yield {"name": name, "in": "query", "required": name in required, "schema": shape}


def _in_header(operation: AnyOperation) -> Iterable[dict[str, object]]:
    if operation.answer is Events:
        yield {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    if operation.method == "POST" and operation.right is not None:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A repeated request with the same key and body stores nothing twice. Percent-encoded.",
            "schema": {"type": "string", "pattern": KEY_PATTERN},
        }


def _answer(operation: AnyOperation, schemas: dict[type, dict[str, object]]) -> dict[str, object]:
    if operation.answer is PlainText:
        content: dict[str, object] = {"text/plain": {"schema": {"type": "string"}}}
    elif operation.answer is Events:
        content = {"text/event-stream": {"schema": {"type": "string"}}}
    else:
        content = {_JSON: {"schema": schemas[operation.answer]}}
    return {"description": "Success", "content": content}


def _errors(
    operation: AnyOperation, schemas: dict[type, dict[str, object]]
) -> dict[str, dict[str, object]]:
    statuses = [*_ANY]
    if operation.right is not None:
        statuses += _WITH_TOKEN
    if operation.method != "GET":
        statuses += _WRITE
    content = {CONTENT_TYPE: {"schema": schemas[Problem]}}
    if operation.name == "readyz":
        content = {**content, _JSON: {"schema": schemas[operation.answer]}}
    return {
        str(status): {"description": _TITLES[status], "content": content}
        for status in sorted(statuses)
    }


_log = logging.getLogger("turnfold.service")
_SCHEMA: Final = "/v1/openapi.json"
_DOCS: Final = "/docs"
_DISCONNECTED: Final = 499
"""Status logged and counted for a request whose client disconnected before the response; it is never sent."""


def make_app(
    state: ServiceState,
    *,
    mounts: Sequence[BaseRoute] = (),
    beside: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = (),
    table: Mapping[AnyOperation, RunOperation] = TABLE,
    home: str = "",
) -> ASGIApp:
    """Return the service as an ASGI application; its shutdown closes the state.

    `mounts` are routes next to the API; wrap their applications in `GuardedApp`, so that they need a token too.
    `beside` are context managers that these routes need while the service runs; they are entered at startup. `/`
    redirects to the page `home`, by default the documentation of the API.
    """

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(state.close)
            for each in beside:
                await stack.enter_async_context(each())
            yield

    paths: dict[str, dict[str, tuple[AnyOperation, RunOperation]]] = {}
    for operation, run in table.items():
        paths.setdefault(operation.path, {})[operation.method] = operation, run
    document = msgspec.json.encode(openapi(table))
    routes: list[BaseRoute] = [Route(_SCHEMA, _Document(document))]
    if table:
        routes += _docs_routes(cast("dict[str, object]", msgspec.json.decode(document)))
    if table or home:
        routes.append(Route("/", _Page("home", lambda _: RedirectResponse(home or _DOCS, 307))))
    # Fixed segments before parameters: /snapshots/diff must not match /snapshots/{turn}.
    exact_first = sorted(paths, key=lambda path: [part.startswith("{") for part in path.split("/")])
    routes += [Route(path, Endpoint(state, paths[path])) for path in exact_first]
    inner = Router(
        [*routes, *mounts], redirect_slashes=False, default=_not_found, lifespan=lifespan
    )
    return _with_cors(_RequestFrame(inner, state), state.gate.origins)


def _docs_routes(document: Mapping[str, object]) -> list[BaseRoute]:
    """Return the routes of the API's documentation page and its style sheet."""
    pages = {language: api_page(document, language) for language in ("en", "zh")}

    def page(headers: Headers) -> Response:
        accepted = headers.get("accept-language", "").strip().lower()
        language = "zh" if accepted.startswith("zh") else "en"
        vary = {"vary": "accept-language", **PAGE_HEADERS}
        return Response(pages[language], media_type="text/html", headers=vary)

    def style(_: Headers) -> Response:
        return Response(PAGE_STYLE, media_type="text/css", headers=dict(PAGE_HEADERS))

    return [Route(_DOCS, _Page("docs", page)), Route(f"{_DOCS}/style.css", _Page("docs", style))]


def _with_cors(app: ASGIApp, origins: Collection[str]) -> ASGIApp:
    """Return the application, with CORS headers added to its responses if `origins` are allowed."""
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


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    del receive
    if scope["type"] != "http":  # WebSocket is not supported
        await send({"type": "websocket.close", "code": 1000})
        return
    raise NotFound(f"the service has no such path: {_SCHEMA} lists all paths")


class GuardedApp:
    """Wrapper that requires a token for an application mounted next to the API; adds the `Caller` to the ASGI scope."""

    def __init__(self, app: ASGIApp, state: ServiceState, *, right: Right) -> None:
        self._app = app
        self._state = state
        self._right = right

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authorize the request and pass it on to the application; raises `AccessDenied` without a valid token."""
        if scope["type"] == "http":
            caller = scope[CALLER] = self._state.gate.caller(Headers(scope=scope))
            caller.require(self._right)
            elsewhere = await self._state.passed_on(caller.tenant)
            if elsewhere is not None:
                await elsewhere(scope, receive, send)
                return
            async with self._state.slots.hold(caller.tenant, heavy=True):
                with self._state.costs.heavy(caller.tenant):
                    await self._app(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Document:
    """ASGI application that serves the OpenAPI document."""

    def __init__(self, content: bytes) -> None:
        self._answer = Response(content, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


class _Page:
    """ASGI application that serves a page which needs no token."""

    def __init__(self, name: str, respond: Callable[[Headers], Response]) -> None:
        self._name = name
        """Name of this page's requests in metrics and logs."""
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[OPERATION] = self._name
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed(scope["method"], "GET, HEAD")
        await self._respond(Headers(scope=scope))(scope, receive, send)


class _RequestFrame:
    """Outermost layer: request ids, Host and Origin checks, problem details, counters and the log line."""

    def __init__(self, app: ASGIApp, state: ServiceState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = _ResponseSender(send, request_id(headers), scope)
        scope[REQUEST_ID] = answer.request_id
        began = time.perf_counter()
        # Route on the path as sent: an encoded slash belongs to an id and does not separate segments.
        raw = scope.get("raw_path") or scope["path"].encode()
        scope["path"] = raw.partition(b"?")[0].decode("latin-1")
        try:
            check_framing(headers)
            self._state.gate.check_host(headers)
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:  # not a failure, and there is no client to respond to
            answer.status = answer.status or _DISCONNECTED
        except Exception as error:
            await self._fail(error, scope, receive, answer)
        finally:
            operation = scope.get(OPERATION, "")
            self._state.answered[operation, answer.status] += 1
            answer.record()
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

    async def _fail(
        self, error: Exception, scope: Scope, receive: Receive, answer: _ResponseSender
    ) -> None:
        """Respond to a failed request with problem details; an unexpected error is logged and becomes a bare 500."""
        if isinstance(error, HTTPException):
            error = RequestRefused(str(error.detail), status=error.status_code)
        problem = problem_of(error, request_id=answer.request_id)
        if problem.status >= 500:
            _log.error(
                "%s %s: %s",
                answer.request_id,
                type(error).__name__,
                error if isinstance(error, TurnfoldError) else error_frames(error),
                extra={"event": "request_failed", "request_id": answer.request_id},
            )
        if answer.status:
            raise error  # the response has started: only the connection can be ended
        body = msgspec.json.encode(problem)
        response = Response(
            body, problem.status, media_type=CONTENT_TYPE, headers=_headers(error, problem.status)
        )
        await response(scope, receive, answer.send)


class _ResponseSender:
    """Sends the response of one request, adds the common headers, and remembers its status."""

    def __init__(self, send: Send, request_id: str, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self._recorded = False
        self.request_id = request_id
        self.status = 0

    def record(self) -> None:
        """Write the request to the audit log, once: before the client gets anything, or when the request ends."""
        scope = self._scope
        if CALLER in scope and not self._recorded and PASSED_ON not in scope:
            self._recorded = True
            record_request(
                scope[CALLER],
                f"{scope.get(OPERATION, '')} {scope.get(DETAIL, '')}".strip(),
                scope.get(TARGET) or _conversation(scope),
                status=self.status,
                request_id=self.request_id,
            )

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.record()
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        try:
            await self._send(message)
        except OSError:  # how some servers report a disconnected client
            raise ClientDisconnect from None


def error_frames(error: Exception) -> str:
    """Return the stack frames of an error for the log, without its message, which may contain user content."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))


def _conversation(scope: Scope) -> str:
    """Return the conversation that the path of a request names; empty if there is none."""
    params = cast("Mapping[str, str]", scope.get("path_params", {}))
    return unquote(params.get("session") or params.get("conversation_id") or "")


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

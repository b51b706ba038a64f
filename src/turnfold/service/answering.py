"""From a request to its answer: who asks, what exactly, and in what form it goes back.

Everything stands in the order in which it may be refused: the path, the token, the right, the size of the body, its
form. Nothing of a body is read for somebody who may not ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnfold.errors import InvalidOption, InvalidRecord, RequestRefused
from turnfold.service.bodies import KEY_PATTERN
from turnfold.service.events import Events
from turnfold.service.limits import Limits
from turnfold.service.operations import Asked, Operation
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller
from turnfold.stores.protocol import Scope as Tenant
from turnfold.stores.protocol import check_name

__all__ = ("CALLER", "OPERATION", "Endpoint", "read_body")

CALLER: Final = "turnfold.caller"
"""Where in an ASGI scope the `Caller` of the request is found."""
OPERATION: Final = "turnfold.operation"
_NOBODY: Final = Caller("", frozenset(), "")
_KEY: Final = re.compile(KEY_PATTERN)
_JSON: Final = "application/json"


class Endpoint:
    """The operations of one path."""

    def __init__(self, state: ServiceState, operations: Mapping[str, Operation]) -> None:
        self._state = state
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = self._operations.get(method)
        endless = operation is not None and operation.answer is Events and method != scope["method"]
        if operation is None or endless:
            allowed = ", ".join(sorted(self._operations))
            raise _not_allowed(scope["method"], allowed)
        scope[OPERATION] = operation.name
        answer = await self._answer(operation, scope, Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, operation: Operation, scope: Scope, request: Request) -> Response:
        state, headers = self._state, request.headers
        caller = _NOBODY
        if operation.right is not None:
            caller = scope[CALLER] = state.gate.caller(headers)
            caller.must(operation.right)
        sent = await read_body(request, state.limits)
        asked: Asked[object, object] = Asked(
            state=state,
            caller=caller,
            names={k: _name(k, cast("str", v)) for k, v in request.path_params.items()},
            headers=headers,
            body=_decoded(sent, operation.body, headers),
            query=_query(scope, operation.query),
            key=_key(headers),
        )
        if operation.keyed and asked.key:
            return _json(await self._once(operation, asked, sent))
        found = await self._done(operation, asked, len(sent))
        return found if isinstance(found, Response) else _json(msgspec.json.encode(found))

    async def _done(
        self, operation: Operation, asked: Asked[object, object], brings: int
    ) -> object:
        """Do it, where the tenant has room for what it brings."""
        quota, tenant = self._state.quota, asked.caller.tenant
        if operation.grows:
            await quota.check(tenant, brings=brings)
        found = await operation.run(asked)
        if operation.grows:
            quota.took(tenant, brings)
        return found

    async def _once(self, operation: Operation, asked: Asked[object, object], sent: bytes) -> bytes:
        """The answer of a request that may come twice."""
        conversation = asked.names.get("session") or asked.conversation_id
        request = b"\0".join([operation.name.encode(), repr(dict(asked.names)).encode(), sent])
        tenant = Tenant(asked.caller.tenant)
        reply = self._state.replies.of(tenant, conversation, asked.key, request)
        known = await reply.known()
        if known is not None:
            return known
        found = await self._done(operation, asked, len(sent))
        return await reply.keep(msgspec.json.encode(found))


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body of a request; `LimitExceeded` before more of it is read than is taken."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal():
        limits.check_body(int(declared))
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        limits.check_body(size)
        pieces.append(piece)
    return b"".join(pieces)


def _decoded(sent: bytes, kind: type, headers: Headers) -> object:
    if sent and headers.get("content-type", _JSON).partition(";")[0].strip().lower() != _JSON:
        raise RequestRefused("a body is taken as application/json", status=415)
    try:
        return cast("object", msgspec.json.decode(sent or b"{}", type=kind))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidRecord(str(error), path="body") from None


def _query(scope: Scope, kind: type) -> object:
    text = cast("bytes", scope["query_string"]).decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
        given = dict(pairs)
        if len(given) < len(pairs):
            raise InvalidOption("a parameter is given twice")
        return cast("object", msgspec.convert(given, kind, strict=False))
    except (msgspec.ValidationError, UnicodeError) as error:
        raise InvalidOption(f"parameters: {error}") from None


def _key(headers: Headers) -> str:
    """The Idempotency-Key."""
    given = headers.get("idempotency-key")
    if given is None:
        return ""
    if not _KEY.fullmatch(given):
        raise InvalidOption(
            "an Idempotency-Key is visible ASCII characters, percent-encoded where it is not"
        )
    return _plain(given)


def _name(what: str, text: str) -> str:
    name = _plain(text)
    check_name(name, "conversation id" if what in ("session", "conversation_id") else what)
    return name


def _plain(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidOption("what stands percent-encoded here is not UTF-8") from None


def _json(content: bytes) -> Response:
    return Response(content, media_type=_JSON)


def _not_allowed(method: str, allowed: str) -> RequestRefused:
    error = RequestRefused(f"{method} is not one of {allowed}", status=405)
    vars(error)["allow"] = allowed
    return error

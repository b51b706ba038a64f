"""ASGI endpoint of the API: decodes an HTTP request, runs its operation and encodes the response.

Checks run in this order: method, token, right, body size, body and query. The body is not read before the caller is
authorized.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, cast
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnfold.api import KEY_PATTERN, AnyOperation, EraseBody, Events, Nothing
from turnfold.errors import InvalidOption, InvalidRecord, RequestRefused
from turnfold.records import object_of_pairs, repeated_name
from turnfold.service.auth import Caller
from turnfold.service.limits import Limits
from turnfold.service.operation_table import OperationRequest, RunOperation
from turnfold.service.second_process import SECONDS_PER_BYTE
from turnfold.service.state import ServiceState
from turnfold.stores import Scope as Tenant
from turnfold.stores import check_name

__all__ = (
    "CALLER",
    "DETAIL",
    "OPERATION",
    "TARGET",
    "Endpoint",
    "check_framing",
    "check_keys",
    "check_values",
    "decode_query",
    "method_not_allowed",
    "path_params",
    "query_params",
    "read_body",
)


CALLER: Final = "turnfold.caller"
"""Key in the ASGI scope: the `Caller` of the request."""
OPERATION: Final = "turnfold.operation"
"""Key in the ASGI scope: the name of the operation, for logs and metrics."""
DETAIL: Final = "turnfold.detail"
"""Key in the ASGI scope: the action of a request within its operation, such as the MCP tool it calls, for the audit
log."""
TARGET: Final = "turnfold.target"
"""Key in the ASGI scope: the conversation or user that a request names in its body, for the audit log."""
_NOBODY: Final = Caller("", frozenset(), "")
_KEY: Final = re.compile(KEY_PATTERN)
_JSON: Final = "application/json"
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Matches a string in a JSON text, also one without an end: searching for the end from each quote would take hours."""
_NO_BODY: Final = Limits(body=1_024)
"""Limits of operations without a request body; some need no access token, and none waits for other requests."""
_LARGE: Final = 64 * 1024
"""Most bytes of a request body that is decoded on the event loop; a larger one is decoded in a thread."""
_HEAVY: Final = frozenset(
    "fold recall search rules explain diff findings_text note_finding search_snapshots recall_snapshots "
    "diff_snapshots take_snapshot fork checkpoint_short_memory erase verify_erasure history turn by_client_id calls "
    "checkpoints snapshot snapshots snapshot_files snapshot_file findings".split()
)
"""Operations that search, rank, count or fold (compact), and so need much computing, or that may return megabytes."""
_ASKS_MODEL: Final = frozenset(("fold", "checkpoint_short_memory"))
_ONCE: Final = (
    "authorization",
    "content-type",
    "host",
    "idempotency-key",
    "last-event-id",
    "origin",
    "x-turnfold",
    "x-turnfold-session",
    "x-turnfold-token",
)
"""Headers that say who sends a request, to which conversation, and how it is read: each may come once."""
_MOST_PARAMETERS: Final = 100
_LONG_QUERY: Final = 2_000
"""Most bytes of a request (of an operation in `_COUNTED`) that counts as light; a larger one counts as heavy (much
computing)."""
_WITH_CONTENT: Final = frozenset(
    "say_user say_assistant say_tool add take_snapshot by_client_id verify_erasure".split()
)
"""Operations that carry messages, files or lists of ids, whose body may have `Limits.body` bytes; the body of every
other operation may have `Limits.counted`."""
_COUNTED: Final = frozenset(
    "system context preview fold pin findings_text note_finding query_memory_context write_turn "
    "checkpoint_short_memory set_short_memory update_state set_state".split()
)
"""Operations that search for, or count the tokens of, text in the request itself."""


class Endpoint:
    """ASGI application for one path; runs the operation of the request's method."""

    def __init__(
        self, state: ServiceState, operations: Mapping[str, tuple[AnyOperation, RunOperation]]
    ) -> None:
        self._state = state
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request: check it, run its operation, and send the response."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation, run = self._operations.get(method, (None, None))
        # A HEAD request for an event stream would never end.
        endless = operation is not None and operation.answer is Events and method != scope["method"]
        if operation is None or run is None or endless:
            raise method_not_allowed(scope["method"], ", ".join(sorted(self._operations)))
        scope[OPERATION] = operation.name
        response = await self._respond(operation, run, Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, operation: AnyOperation, run: RunOperation, http: Request) -> Response:
        state, headers, scope = self._state, http.headers, http.scope
        caller = _NOBODY
        if operation.right is not None:
            caller = scope[CALLER] = state.gate.caller(headers)
            caller.require(*operation.rights)
            elsewhere = await state.passed_on(caller.tenant)
            if elsewhere is not None:
                return elsewhere
        if operation.right is None or operation.answer is Events:  # a stream has a limit of its own
            return await self._carry_out(operation, run, http, caller)
        declared = headers.get("content-length", "0")
        most = _LONG_QUERY if operation.name in _COUNTED else _LARGE
        large = not declared.isdecimal() or int(declared) > most or "transfer-encoding" in headers
        heavy = large or operation.name in _HEAVY
        async with state.slots.hold(caller.tenant, heavy=heavy):
            if not heavy:
                return await self._carry_out(operation, run, http, caller)
            with state.costs.heavy(caller.tenant, asks_model=operation.name in _ASKS_MODEL):
                return await self._carry_out(operation, run, http, caller)

    async def _carry_out(
        self, operation: AnyOperation, run: RunOperation, http: Request, caller: Caller
    ) -> Response:
        state, headers = self._state, http.headers
        sent = await read_body(http, _NO_BODY if operation.body is Nothing else state.limits)
        state.costs.charge(caller.tenant, len(sent) * SECONDS_PER_BYTE)
        if operation.name not in _WITH_CONTENT:
            state.limits.check_counted(len(sent))
        decode = partial(_decoded, sent, operation.body, headers, state.limits)
        request: OperationRequest[object, object] = OperationRequest(
            state=state,
            caller=caller,
            params=path_params(http),
            headers=headers,
            body=decode() if len(sent) <= _LARGE else await asyncio.to_thread(decode),
            query=decode_query(query_params(http), operation.query),
            key=_key(headers),
            large=len(sent) > _LARGE,
        )
        if isinstance(request.body, EraseBody):
            http.scope[DETAIL], http.scope[TARGET] = request.body.kind, request.body.id
        keeps_reply = operation.keyed and bool(request.key)

        async def result() -> object:
            # A tenant over its quota may still delete, but not if the response would be stored as well.
            if operation.writes and (keeps_reply or not operation.frees):
                await state.quota.check(caller.tenant, brings=len(sent), log=operation.grows)
            return await run(request)

        if not keeps_reply:
            found = await result()
            return found if isinstance(found, Response) else _json(_encoded(found, state.limits))
        recognised = b"\0".join([operation.name.encode(), repr(dict(request.params)).encode()])
        conversation = request.params.get("session") or request.conversation_id
        place = Tenant(caller.tenant), conversation
        reply = await state.replies.of(*place, request.key, recognised, sent)
        stored = await reply.stored()
        return _json(stored or await reply.store(_encoded(await result(), state.limits)))


def check_framing(headers: Headers) -> None:
    """Raise `RequestRefused` if it is not clear who sent a request, or where it ends.

    A header that is given twice may have been checked by a program on the way that reads the other one. The length of
    a body that is stated in two ways could smuggle a second request.
    """
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            raise RequestRefused(
                f"the request has the header {name} more than once: send it once", status=400
            )
    if "transfer-encoding" in headers and "content-length" in headers:
        raise RequestRefused(
            "the request has both Content-Length and Transfer-Encoding: send only one of them",
            status=400,
        )


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the body of a request; raises `LimitExceeded` as soon as it is larger than the limit."""
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


def _decoded(sent: bytes, kind: type, headers: Headers, limits: Limits) -> object:
    if sent and headers.get("content-type", _JSON).partition(";")[0].strip().lower() != _JSON:
        raise RequestRefused(
            f"the body must be JSON: send the header Content-Type: {_JSON}", status=415
        )
    check_keys(sent, limits)
    try:
        return cast("object", msgspec.json.decode(sent or b"{}", type=kind))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidRecord(_with_known_fields(error, kind), path="body") from None


def _with_known_fields(error: Exception, kind: type) -> str:
    """Return the text of a decoding error; of an unknown field at the top, with the names of the fields there are."""
    text = str(error)
    if "unknown field" not in text or " - at " in text or not issubclass(kind, msgspec.Struct):
        return text
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    return f"{text}; the fields are: {', '.join(known)}" if known else f"{text}; it takes none"


def check_values(sent: bytes, limits: Limits) -> None:
    """Raise `LimitExceeded` if the lists and objects of a JSON text have too many values or keys.

    A parser is one call, during which no other thread runs: two million empty lists take it a second.
    """
    if sent.count(b",") + sent.count(b"[") + sent.count(b"{") <= min(limits.values, limits.keys):
        return  # as many values, and what looks like them in strings
    values = keys = 0
    for strings, (start, stop) in enumerate(_outside_strings(sent)):
        limits.check_values(strings - limits.keys)  # each is a value or a key
        values += sum(sent.count(sign, start, stop) for sign in (b",", b"[", b"{"))
        keys += sent.count(b":", start, stop)
        limits.check_values(values)
        limits.check_keys(keys)


def _outside_strings(sent: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a JSON text that is not inside a string."""
    at = 0
    for string in _STRING.finditer(sent):
        yield at, string.start()
        at = string.end()
    yield at, len(sent)


def check_keys(sent: bytes, limits: Limits) -> None:
    """Raise `InvalidRecord` if an object in a JSON text has a key twice, `LimitExceeded` if all have too many keys.

    Also raises `LimitExceeded` if there are too many values. Parsers differ in which of two equal keys they take, and
    each key costs much more time than its bytes.
    """
    check_values(sent, limits)
    keys = 0

    def counted(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal keys
        keys += len(pairs)
        limits.check_keys(keys)
        return object_of_pairs(pairs)

    try:
        json.loads(sent.decode() or "{}", object_pairs_hook=counted)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(str(error), path="body") from None


def query_params(request: Request) -> dict[str, str]:
    """Return the query parameters of a request; raises `InvalidOption` if a parameter occurs twice."""
    text = cast("bytes", request.scope["query_string"]).decode("latin-1")
    if text.count("&") >= _MOST_PARAMETERS:
        raise InvalidOption(f"there are more than {_MOST_PARAMETERS} query parameters; give fewer")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except UnicodeError:
        raise InvalidOption(
            "the query parameters are not percent-encoded UTF-8: encode them as UTF-8 first"
        ) from None
    twice = repeated_name(name for name, _ in pairs)
    if twice is not None:
        raise InvalidOption(f"the query parameter {twice[:40]!r} is given twice; give it once")
    return dict(pairs)


def decode_query(params: Mapping[str, str], kind: type) -> object:
    """Return query parameters as the struct `kind`; raises `InvalidOption` if they do not fit it."""
    try:
        return cast("object", msgspec.convert(params, kind, strict=False))
    except msgspec.ValidationError as error:
        raise InvalidOption(
            f"invalid query parameters: {_with_known_fields(error, kind)}"
        ) from None


def path_params(request: Request) -> dict[str, str]:
    """Return the parameters in a request's path, decoded and checked; a percent-encoded slash is part of a name."""
    params = {key: _unquoted(cast("str", text)) for key, text in request.path_params.items()}
    for key, name in params.items():
        check_name(name, "conversation id" if key in ("session", "conversation_id") else key)
    return params


def _key(headers: Headers) -> str:
    """Return the decoded Idempotency-Key header; empty if there is none. Raises `InvalidOption` if it is invalid."""
    given = headers.get("idempotency-key")
    if given is None:
        return ""
    if not _KEY.fullmatch(given):
        raise InvalidOption(
            "an Idempotency-Key must be visible ASCII; percent-encode other characters"
        )
    return _unquoted(given)


def _unquoted(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidOption(
            "percent-encoded text in the request is not UTF-8: encode it as UTF-8 first"
        ) from None


def _encoded(answer: object, limits: Limits) -> bytes:
    content = msgspec.json.encode(answer)
    limits.check_answer(len(content))
    return content


def _json(content: bytes) -> Response:
    return Response(content, media_type=_JSON)


def method_not_allowed(method: str, allowed: str) -> RequestRefused:
    """Return the error (HTTP 405) for a method that a path does not have; it names the allowed methods."""
    error = RequestRefused(f"method {method} is not allowed here; allowed: {allowed}", status=405)
    vars(error)["allow"] = allowed
    return error

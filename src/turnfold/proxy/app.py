"""The proxy as an ASGI application: passes requests on to the provider, with contexts that fit the budget.

A client changes its base URL, nothing else. Model calls that belong to a session are stored and shortened where they
exceed the budget; everything else is passed through unchanged. The header X-Turnfold of a response tells which of the
two was done. Keys are passed on and neither stored nor logged. `run_proxy` serves it with uvicorn.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Mapping,
    MutableMapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from turnfold.api import Right
from turnfold.errors import (
    BudgetTooSmall,
    ConversationDeleted,
    InvalidRecord,
    LimitExceeded,
    ModelUnavailable,
    RequestRefused,
    StoreError,
    TurnfoldError,
    UnknownModel,
)
from turnfold.memory import make_config
from turnfold.proxy.conversations import SESSION_HEADER, Conversations, session_id, split_path
from turnfold.proxy.model_calls import AnswerPieces, PreparedCall, prepare_call
from turnfold.proxy.options import ProxyOptions
from turnfold.proxy.request_bodies import (
    HELD_BY_PROVIDER,
    BodyFormat,
    ClientBody,
    ReadMessages,
    format_of,
)
from turnfold.proxy.upstream import RawHeaders, Upstream, UpstreamResponse, end_to_end
from turnfold.records import Message
from turnfold.runtime import AsyncRuntime
from turnfold.service import (
    CALLER,
    LOOPBACK,
    BodyMemory,
    Caller,
    LimitedServer,
    Quota,
    RateLimit,
    RequestGate,
    RequestSlots,
    TokenFile,
    TokenRing,
    check_framing,
    check_listening,
    check_values,
    listen,
    record_request,
    request_id,
    server_config,
)
from turnfold.tokens import cautious_counter, count_without_lock

__all__ = (
    "ProxyApp",
    "make_gate",
    "make_proxy",
    "run_proxy",
)


_Result = TypeVar("_Result")
_log = logging.getLogger("turnfold.proxy")
_SWITCH: Final = "x-turnfold"
_TOKEN: Final = "x-turnfold-token"  # noqa: S105 (the name of a header)
_REFUSALS: Final = frozenset({400, 404, 422})
"""Status codes of a provider's response that may mean that it does not accept an item of the request."""
_DISCONNECTED: Final = 499
"""Status in the audit log of a request whose client disconnected before the response began."""
_LARGE: Final = 64 * 1024
"""Most bytes of a request body that is decoded on the event loop; a larger one is decoded in a thread."""
_BODIES: Final = 4
"""Most request bodies of the largest size that a tenant may have in memory at once, until their responses have ended.
"""
_LARGEST_ERROR: Final = 1 << 20
"""Most bytes of the provider's error response that are read to find its reason, before the response is passed on."""
_REMEDIES: Final[Mapping[str, str]] = {
    "no session": "name one: /s/ID before its path, the header X-Turnfold-Session, or --session ID of the proxy",
    "no messages": "its list of messages is empty",
    "compressed request body": "switch off the compression of requests in the client",
    "the provider holds the history": "send the whole history instead of previous_response_id or conversation",
    "unreadable history": "its messages are not in the form of this interface; turnfold lint shows what is wrong",
    "unknown model, set a budget": "start the proxy with --budget TOKENS or --model-budget MODEL=TOKENS",
    "the conversation was deleted": "use another session id",
    "unknown interface": "the proxy stores Chat Completions, Responses, Messages and generateContent",
}
"""Reason why a model call is not stored -> what to do about it."""
_UNKNOWN_CALL: Final = re.compile(
    r"/(?:completions|api/chat|api/generate|converse(?:-stream)?|invoke(?:-with-response-stream)?)/?$"
    r"|/(?:chat/completions|responses|messages)/$|:(?:rawP|streamRawP)redict$"
)
"""Matches the path of a model call that is not in one of the interfaces that the proxy reads."""
_OWN: Final = tuple(name.encode() for name in (_SWITCH, _TOKEN, SESSION_HEADER))


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request of a client, parsed: path, headers, session, interface of the provider."""

    method: str
    path: str
    """Path and query of the request, as they are forwarded to the provider."""
    session: str
    """The session id in the request's path; empty if the path has none."""
    headers: Headers
    raw: RawHeaders
    format: BodyFormat | None
    """The provider's interface if the request is a model call, else None."""
    model: str
    """The model named in the path; empty if the request body names the model."""

    @classmethod
    def of(cls, scope: Scope) -> _Exchange:
        path = (
            (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
        )
        session, path = split_path(path)
        found = format_of(path) if scope["method"] == "POST" else None
        query = scope["query_string"].decode("latin-1")
        return cls(
            scope["method"],
            f"{path}?{query}" if query else path,
            session,
            Headers(scope=scope),
            scope["headers"],
            *(found or (None, "")),
        )


@dataclass(slots=True)
class _Done:
    """What was done for a request, for the audit log."""

    request_id: str
    caller: Caller | None = None
    """The authorized sender of the request; None if it was not authorized, or is recorded already."""
    operation: str = "refused"
    conversation: str = ""
    status: int = 0

    def record(self) -> None:
        """Write the request to the audit log, once."""
        caller, self.caller = self.caller, None
        if caller is not None:
            record_request(
                caller,
                self.operation,
                self.conversation,
                status=self.status or _DISCONNECTED,
                request_id=self.request_id,
            )


class ProxyApp:
    """ASGI application that forwards the requests of all clients to the provider."""

    def __init__(self, options: ProxyOptions, upstream: Upstream, gate: RequestGate) -> None:
        self._options = options
        self._upstream = upstream
        self._gate = gate
        limits = options.limits
        self._slots = RequestSlots(limits)
        """Limits how many model calls of a tenant are prepared at once."""
        self._exchanges = RequestSlots(limits)
        """Limits how many requests of a tenant run at once, until their responses have ended."""
        self._bodies = BodyMemory(_BODIES * limits.body)
        config = make_config(
            options.store,
            AsyncRuntime(),
            blocking=False,
            scope=options.tenant,
            encryption_key=options.encryption_key,
            time_zone=options.time_zone,
            redact=options.redact,
            counter=cautious_counter(),
            threshold=1.0,  # a history that fits is sent as it is
            index_process=True,
        )
        quota = Quota(config.store, limits.quota, limits.stored)
        self._config = replace(config, store=quota.metered())
        self._conversations = Conversations(self._config, quota)
        self._read = ReadMessages(self._conversations.key)
        self._largest_on_loop = 0 if options.redact else _LARGE  # redaction reads every text
        self._not_stored: Counter[str] = Counter()
        """Number of model calls that were not stored, by reason."""

    async def close(self) -> None:
        """Wait until running folds (compactions) are finished, and close the store."""
        await self._config.runtime.finish()
        await self._config.store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request, and answer with the provider's response or an error."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        exchange = _Exchange.of(scope)
        done = _Done(request_id(exchange.headers))

        async def tracked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                done.status = message["status"]
                done.record()  # before the client has any of it, in case the process is killed then
            await send(message)

        try:
            done.caller = scope[CALLER] = self._caller(exchange)
            await self._admitted(exchange, receive, tracked, done, done.caller)
        except ClientDisconnect:
            pass
        except Exception as error:
            # The text of an unexpected error may quote the conversation: only its type and place are logged.
            known = isinstance(error, TurnfoldError)
            place = "" if known else _raised_at(error)
            _log.warning(
                "a client's request failed: %s%s",
                type(error).__name__,
                place,
                extra={"event": "request_failed"},
            )
            if not done.status:  # else only the connection can be ended
                text = str(error) if known else "an internal error, see the log of the proxy"
                again = error.again if isinstance(error, LimitExceeded) else 0.0
                await _send_error(text, _status(error), exchange, tracked, again=again)
        finally:
            done.record()

    def _caller(self, exchange: _Exchange) -> Caller:
        """Return the sender of a request; raises an error if the request is not accepted."""
        check_framing(exchange.headers)
        self._gate.check_host(exchange.headers)
        if exchange.headers.get("upgrade", "").lower() == "websocket":
            # Codex asks for a WebSocket first; with this status it takes HTTP at once, with others after five attempts.
            raise RequestRefused("WebSocket connections are not passed on: use HTTP", status=426)
        token = exchange.headers.get(_TOKEN, "")
        return self._gate.caller({"authorization": f"Bearer {token}"} if token else {})

    async def _admitted(
        self, exchange: _Exchange, receive: Receive, send: Send, done: _Done, caller: Caller
    ) -> None:
        """Answer a request in a place of its tenant, which it has until its response has ended."""
        caller.require(Right.READ, Right.WRITE)
        with self._bodies.hold(caller.tenant) as take:
            async with self._exchanges.hold(caller.tenant, heavy=False, endless=True):
                await self._answer(exchange, receive, send, done, tenant=caller.tenant, take=take)

    async def _answer(
        self,
        exchange: _Exchange,
        receive: Receive,
        send: Send,
        done: _Done,
        *,
        tenant: str,
        take: Callable[[int], None],
    ) -> None:
        """Pass a request on and relay the response; `take` is called with the size of each piece of a kept body."""
        done.operation = "pass_through"
        off = exchange.headers.get(_SWITCH, "").strip().lower() == "off"
        call: PreparedCall | None = None
        if off or exchange.format is None:
            note = "off" if off else "passed through"
            sending = self._sending(exchange, _pieces(receive))
            await asyncio.wait([sending])  # it reads the body of the request meanwhile
        else:
            content = await _whole_body(receive, self._options.limits.body, take)
            sending, call, note = await self._stored(
                exchange, exchange.format, content, tenant, done
            )
        if call is None and not off:
            self._warn_not_stored(exchange, note)
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await _until_left(sending, leaving)
            response = sending.result()
            if call is not None and response.status in _REFUSALS:
                again = asyncio.ensure_future(self._recovered(exchange, call, response))
                await _until_left(again, leaving)
                response, left_out = again.result()
                note += "; without refused items" if left_out else ""
            try:
                await _relay(response, call, note, leaving, send)
            finally:
                await response.close()
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

    def _warn_not_stored(self, exchange: _Exchange, note: str) -> None:
        """Log that a model call is not stored, and what to do: the first of each reason, the 10th, the 100th, ..."""
        reason = note.partition("; ")[2]
        path = exchange.path.partition("?")[0]  # a query may hold a key
        if exchange.format is None:
            if exchange.method != "POST" or not _UNKNOWN_CALL.search(path):
                return
            reason = "unknown interface"
        self._not_stored[reason] += 1
        number = self._not_stored[reason]
        if number == 10 ** (len(str(number)) - 1):
            _log.warning(
                "a model call is passed on but not stored: %s (POST %s; %s so far): %s",
                reason,
                path,
                f"{number:,}",
                _REMEDIES[reason],
                extra={"event": "not_stored", "reason": reason, "number": number},
            )

    async def _stored(
        self, exchange: _Exchange, form: BodyFormat, content: bytes, tenant: str, done: _Done
    ) -> tuple[asyncio.Future[UpstreamResponse], PreparedCall | None, str]:
        """Store the history of a model call and send the call; return response, call and the text of `_SWITCH`.

        The call is None if the request is passed through unchanged.
        """
        sending: asyncio.Future[UpstreamResponse] | None = None

        def begin() -> None:
            nonlocal sending
            sending = self._sending(exchange, content, answer_is_read=True)

        try:
            async with self._slots.hold(tenant, heavy=True):
                call, note = await self._prepared(exchange, form, content, tenant, begin, done=done)
        except BaseException:
            if sending is not None:
                await _abandon(sending)
            raise
        if sending is None:
            sent = content if call is None else call.body
            sending = self._sending(exchange, sent, answer_is_read=call is not None)
        return sending, call, note

    async def _prepared(
        self,
        exchange: _Exchange,
        form: BodyFormat,
        content: bytes,
        tenant: str,
        begin: Callable[[], None],
        *,
        done: _Done,
    ) -> tuple[PreparedCall | None, str]:
        """Return the prepared call and the text for the response header; None and the reason if it is passed through.

        Calls `begin`, which starts to send the request, before anything is stored if the body can be sent unchanged.
        """
        if exchange.headers.get("content-encoding", "identity") != "identity":
            return None, "passed through; compressed request body"
        try:
            body = await self._body(exchange, form, content, tenant)
            name = session_id(exchange.session, exchange.headers, body.fields)
            name = name or self._options.session
            if not name:
                return None, "passed through; no session"
            if not body.messages:
                return None, "passed through; no messages"
            # Noted before the history is stored: a call that is refused after that has changed the log.
            done.operation, done.conversation = f"model_call {form.provider}", name
            call = await prepare_call(
                self._conversations,
                form,
                content,
                body,
                tenant=tenant,
                name=name,
                budget=self._options.budget_of(body.model),
                known=self._read,
                begin=begin,
            )
        except InvalidRecord as error:
            held = error.path in HELD_BY_PROVIDER
            reason = "the provider holds the history" if held else "unreadable history"
            return None, f"passed through; {reason}"
        except UnknownModel:
            return None, "passed through; unknown model, set a budget"
        except ConversationDeleted:
            return None, "passed through; the conversation was deleted"
        done.conversation = call.placed.session.id
        conversation = quote(done.conversation, safe="/~:@")
        how = "shortened" if call.changed else "unchanged"
        return call, f"{how}; conversation={conversation}; tokens={call.tokens}/{call.allowed}"

    async def _body(
        self, exchange: _Exchange, form: BodyFormat, content: bytes, tenant: str
    ) -> ClientBody:
        """Return the parsed body of a model call; a large one is read in a thread of the tenant."""

        def read() -> ClientBody:
            check_values(content, self._options.limits)
            return form.read(content, self._read, model=exchange.model)

        if len(content) <= self._largest_on_loop:
            return read()
        return await self._conversations.runtime(tenant).compute(read)

    async def _recovered(
        self, exchange: _Exchange, call: PreparedCall, response: UpstreamResponse
    ) -> tuple[UpstreamResponse, bool]:
        """Send a refused request once more, without the items for which the provider refused it, if it named any.

        Returns the response for the client, and True if it is that of the second request.
        """
        try:
            told = await response.read(_LARGEST_ERROR)
            other = call.without_items() if call.refused(response.status, told) else None
        except BaseException:
            await response.close()
            raise
        if other is None:
            return response, False
        await response.close()
        body, keys = other
        again = await self._sending(exchange, body, answer_is_read=True)
        if again.status == 200:
            call.note_refused(keys)
        _log.info(
            "the provider refused an item: the request was sent again without such items",
            extra={"event": "items_left_out", "status": again.status},
        )
        return again, True

    def _sending(
        self,
        exchange: _Exchange,
        content: bytes | AsyncIterator[bytes],
        *,
        answer_is_read: bool = False,
    ) -> asyncio.Future[UpstreamResponse]:
        """Begin to send a request to the provider; its answer must not be compressed if it is read here as well."""
        left_out = [b"host", *_OWN]
        if isinstance(content, bytes):
            left_out.append(b"content-length")
        elif (
            "content-length" not in exchange.headers and "transfer-encoding" not in exchange.headers
        ):
            content = b""
        if answer_is_read:
            left_out.append(b"accept-encoding")
        headers = end_to_end(exchange.raw, without=left_out)
        if answer_is_read:
            headers.append((b"accept-encoding", b"identity"))
        has_body = not isinstance(content, bytes) or content
        return asyncio.ensure_future(
            self._upstream.send(
                exchange.method,
                exchange.path,
                headers=headers,
                content=content if has_body else None,
            )
        )


async def _abandon(sending: asyncio.Future[UpstreamResponse]) -> None:
    """Cancel a request to the provider whose response nobody gets."""
    sending.cancel()
    [response] = await asyncio.gather(sending, return_exceptions=True)
    if isinstance(response, UpstreamResponse):
        await response.close()


async def _relay(
    response: UpstreamResponse,
    call: PreparedCall | None,
    note: str,
    leaving: asyncio.Future[None],
    send: Send,
) -> None:
    """Pass a response on as it arrives, and store its answer; stop reading if the client disconnects.

    The end of a response is sent after its answer was stored: the last piece, if the length of the body is announced.
    """
    headers = [*response.headers, (_SWITCH.encode(), note.encode())]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    answer = AnswerPieces() if call is not None and response.status == 200 else None
    stored: Message | None = None
    complete, last = False, b""

    async def pump() -> None:
        nonlocal complete, last
        left = response.length
        async for piece in response.body():
            if answer is not None:
                answer.add(piece)
                left -= len(piece)
                if left == 0:
                    last = piece
                    continue
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        complete = True

    try:
        with suppress(ClientDisconnect, ModelUnavailable):  # then the response is not complete
            await _until_left(asyncio.ensure_future(pump()), leaving)
    finally:
        if call is not None and answer is not None:
            named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
            stored = await asyncio.shield(call.store_answer(answer, named, complete=complete))
    if complete:
        await send({"type": "http.response.body", "body": last, "more_body": False})
        if call is not None:
            await call.read_ahead(stored)
    else:
        # The end is not sent, so the server closes the connection and the client sees that the response is incomplete.
        _log.warning(
            "a response to a client is incomplete: the provider or the client ended it early",
            extra={"event": "response_broke_off"},
        )


async def _until_left(work: asyncio.Future[_Result], leaving: asyncio.Future[None]) -> None:
    """Wait for `work`; if the client disconnects first, cancel it and raise `ClientDisconnect`."""
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
    work.result()  # raises its error, if there was one


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pieces(receive: Receive) -> AsyncGenerator[bytes]:
    """Yield the body of a client's request as it arrives."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return


async def _whole_body(receive: Receive, limit: int, take: Callable[[int], None]) -> bytes:
    found: list[bytes] = []
    size = 0
    async for piece in _pieces(receive):
        size += len(piece)
        if size > limit:
            raise LimitExceeded(
                f"the body is larger than {limit:,} bytes; raise --max-body",
                allowed=limit,
                asked=size,
                status=413,
            )
        take(len(piece))
        found.append(piece)
    return b"".join(found)


def _raised_at(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return "".join(f" < {Path(one.filename).name}:{one.lineno}" for one in reversed(frames))


def _status(error: Exception) -> int:
    if isinstance(error, RequestRefused):
        return error.status
    if isinstance(error, BudgetTooSmall):
        return 400
    if isinstance(error, ModelUnavailable):
        return 502
    return 503 if isinstance(error, StoreError) else 500


async def _send_error(
    text: str, status: int, exchange: _Exchange, send: Send, *, again: float
) -> None:
    """Send an error to the client in the provider's own format, so that the client's program shows the message.

    `again` is the number of seconds after which a retry may succeed; 0 if it is not known.
    """
    told = f"turnfold: {text}"
    provider = exchange.format.provider if exchange.format else ""
    kind = "invalid_request_error" if status < 500 else "api_error"
    inner: Mapping[str, object] = {"type": kind, "message": told}
    body: Mapping[str, object] = {"error": {**inner, "code": "turnfold"}}
    if provider == "anthropic":
        body = {"type": "error", "error": inner}
    elif provider == "gemini":
        body = {"error": {"code": status, "message": told, "status": "FAILED_PRECONDITION"}}
    content = msgspec.json.encode(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (_SWITCH.encode(), b"refused"),
    ]
    if again:
        headers.append((b"retry-after", str(math.ceil(again)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": False})


def make_gate(options: ProxyOptions) -> RequestGate:
    """Return what authorizes the requests of a proxy; raises `InvalidOption` for a public address without tokens."""
    ring = TokenRing(TokenFile(options.tokens_file)) if options.tokens_file else None
    check_listening(options.host, ring, options.allow_hosts)
    own = {options.host.lower()} - {"0.0.0.0", "::"}  # noqa: S104 (compared, not bound)
    return RequestGate(
        ring=ring,
        tenant=options.tenant,
        hosts=frozenset({*LOOPBACK, *own, *(host.lower() for host in options.allow_hosts)}),
        rate_limit=RateLimit(options.limits.rate, options.limits.burst),
    )


def make_proxy(options: ProxyOptions, gate: RequestGate | None = None) -> ASGIApp:
    """Return the proxy as an ASGI application; its shutdown closes the store. `gate` is that of its server."""
    upstream = Upstream(
        options.upstream,
        connect_seconds=options.connect_seconds,
        read_seconds=options.read_seconds,
    )
    app = ProxyApp(options, upstream, gate or make_gate(options))

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with upstream:
            try:
                yield
            finally:
                await app.close()

    return Router(default=app, lifespan=lifespan, redirect_slashes=False)


_start_log = logging.getLogger("turnfold.proxy.app")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_proxy(options: ProxyOptions, *, on_listening: Callable[[str], None] | None = None) -> None:
    """Serve the proxy until SIGINT or SIGTERM; `on_listening` is called with its address once the socket is open."""
    sys.setswitchinterval(
        0.001
    )  # as the service does: threads that compute must not keep the event loop waiting
    count_without_lock()
    asyncio.run(_serve(options, on_listening))


async def _serve(options: ProxyOptions, on_listening: Callable[[str], None] | None) -> None:
    gate = make_gate(options)
    app = make_proxy(options, gate)
    config = server_config(app, options.limits, drain=options.drain, gate=gate)
    listening = listen(options.host, options.port)
    try:
        host, port = listening.getsockname()[:2]
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        _start_log.info("listening on %s", address, extra={"event": "listening", "port": port})
        if on_listening is not None:
            on_listening(address)
        await _ProxyServer(config).serve(sockets=[listening])
    finally:
        listening.close()


class _ProxyServer(LimitedServer):
    """Server that handles signals in the loop, so that the process exits normally and not by the signal."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._on_signal)
        try:
            yield
        finally:
            for each in _SIGNALS:
                loop.remove_signal_handler(each)

    def _on_signal(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

"""Starting, running (with uvicorn) and graceful shutdown of the service, and limits on its connections.

On SIGINT or SIGTERM the service stops accepting connections, ends its event streams, and finishes first its running
requests and then its running folds (compactions), for up to `drain` seconds each. After that it cancels them. A
cancelled fold releases its lease, so another process can fold at once. On a second signal it cancels and exits
immediately.

Connections have limits that apply before authorization. A connection is closed if the headers or the body of a request
do not arrive in time, or if the client does not read what it was sent. If the largest number of connections is reached,
one without a token makes room for a new one, or else one that is idle, so that clients that open connections and keep
them cannot block others; only requests with a token are left to finish. The number stays below the system's limit of
open files, at which nothing could be accepted any more. `LogThrottle` limits how much unauthorized clients can write to
the log.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import h11
import uvicorn
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnfold.api import AnyOperation
from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory import Memory, Summaries, make_config
from turnfold.models import Embedder
from turnfold.redaction import Redactor
from turnfold.runtime import AsyncRuntime
from turnfold.service.app import make_app
from turnfold.service.auth import (
    LOOPBACK,
    LocalAccess,
    RequestGate,
    TokenFile,
    TokenRing,
    check_listening,
)
from turnfold.service.concurrency import with_counted_texts
from turnfold.service.connection_queue import ConnectionQueue, brings_token
from turnfold.service.endpoint import CALLER
from turnfold.service.limits import Limits, RateLimit
from turnfold.service.operation_table import RunOperation
from turnfold.service.routes import TABLE
from turnfold.service.second_process import Parent, SecondProcess
from turnfold.service.state import ServiceState
from turnfold.stores import EncryptionKey
from turnfold.tokens import (
    PriceTable,
    TokenCounter,
    cautious_counter,
    count_without_lock,
    counter_for,
    shipped_prices,
)

__all__ = (
    "ExtraRoutes",
    "LimitedServer",
    "LogThrottle",
    "ServiceOptions",
    "limited_protocol",
    "listen",
    "make_state",
    "most_connections",
    "run",
    "serve",
    "server_config",
    "warm_up",
)


_start_log = logging.getLogger(
    "turnfold.service.server"
)  # a logger of its own, shown without request lines
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Options of a service: store, address, access tokens, memory options and limits."""

    store: str = "sqlite://"
    cache: str | None = None
    host: str = "127.0.0.1"
    port: int = 8787
    tokens_file: Path | None = None
    local: LocalAccess | None = None
    """Access token and sign-in links of a service without a tokens file; None admits every user and program of this
    machine."""
    tenant: str = "default"
    """Tenant of all requests if there is no tokens file."""
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    model: str = ""
    budget: Budget | None = None
    fold: str | None = None
    keep_turns: int = 8
    time_zone: str = "UTC"
    """IANA name of the time zone of the times in prompts."""
    semantic: bool = False
    """True to recall also by meaning, with the encoder of the extra `semantic`."""
    prices: PriceTable | None = None
    """Prices of models for the inspector; None for those that come with turnfold."""
    redact: Redactor | None = None
    """Replaces secrets and personal data with labels before anything is stored."""
    encryption_key: EncryptionKey | Sequence[EncryptionKey] | None = field(default=None, repr=False)
    """Key that encrypts stored content before it reaches the store or the cache; of several, the first encrypts."""
    second_process: tuple[str, ...] = ()
    """Command that starts this service once more, for the tenants that compute most; empty for one process."""
    index_process: bool = True
    """True to compute the search terms of long texts in a separate process; useful with SQLite only."""
    drain: float = 60.0
    """Seconds that running requests, and then running folds (compactions), get to finish at shutdown."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidOption(f"port={self.port} must be 0 to 65535; 0 means any free port")
        if self.drain < 0:
            raise InvalidOption(f"drain={self.drain} must not be negative: give 0 or more seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRoutes:
    """Routes mounted next to the API, and context managers to enter while the service runs."""

    mounts: Sequence[BaseRoute] = ()
    running: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = ()
    home: str = ""
    """Path of the page that `/` redirects to; empty for none."""


def make_state(
    options: ServiceOptions,
    *,
    summarizer: Summaries | None = None,
    embedder: Embedder | None = None,
) -> ServiceState:
    """Make the state that a service's requests share.

    Raises `InvalidOption` if the address is public and there are no tokens.

    With an embedder, recall also finds by meaning, for every tenant; `options.semantic` selects the built-in embedder.
    """
    file = options.tokens_file
    ring = TokenRing(TokenFile(file)) if file is not None else None
    check_listening(options.host, ring, options.allow_hosts)
    limits = options.limits
    own = (options.host.lower(),) if options.host not in ("0.0.0.0", "::") else ()  # noqa: S104 (compared, not bound)
    gate = RequestGate(
        ring=ring or options.local,
        tenant=options.tenant,
        hosts=frozenset((*LOOPBACK, *own, *(host.lower() for host in options.allow_hosts))),
        origins=frozenset(options.allow_origins),
        rate_limit=RateLimit(limits.rate, limits.burst),
    )
    config = make_config(
        options.store,
        AsyncRuntime(),
        blocking=False,
        cache=options.cache,
        scope=options.tenant,
        model=options.model,
        counter=with_counted_texts(_counter(options.model)),
        budget=options.budget,
        summarizer=summarizer,
        fold=options.fold,
        keep_turns=options.keep_turns,
        time_zone=options.time_zone,
        embedder=embedder or _named_embedder(options),
        redact=options.redact,
        encryption_key=options.encryption_key,
        index_process=options.index_process,
    )
    return ServiceState(config, gate, limits, prices=options.prices or shipped_prices())


def _named_embedder(options: ServiceOptions) -> Embedder | None:
    if not options.semantic:
        return None
    from turnfold.models import LocalEmbedder

    return LocalEmbedder()


def server_config(
    app: ASGIApp, limits: Limits, *, drain: float, gate: RequestGate | None = None
) -> uvicorn.Config:
    """Return the uvicorn configuration for an application; at shutdown, requests get `drain` seconds to finish.

    Clients with an access token that `gate` accepts do not wait for those without; None if no token is needed.
    """
    for name in ("asyncio", "uvicorn.error"):  # loggers that unauthorized clients can make write
        logger = logging.getLogger(name)
        if not any(isinstance(each, LogThrottle) for each in logger.filters):
            logger.addFilter(LogThrottle())
    return uvicorn.Config(
        app,
        http=limited_protocol(limits, gate),
        ws="none",
        access_log=False,  # it would log conversation ids
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=max(int(drain), 1),
        timeout_keep_alive=_IDLE_SECONDS,
        lifespan="on",
    )


async def serve(
    options: ServiceOptions,
    *,
    summarizer: Summaries | None = None,
    embedder: Embedder | None = None,
    mounts: Sequence[BaseRoute] = (),
    beside: Sequence[Callable[[ServiceState], ExtraRoutes]] = (),
    table: Mapping[AnyOperation, RunOperation] = TABLE,
    on_listening: Callable[[str], None] | None = None,
) -> bool:
    """Serve until SIGINT or SIGTERM; a second signal exits immediately.

    The functions in `beside` get the state and return routes to mount next to the API, which share its authorization.
    `on_listening` is called with the address once the socket is open.

    Returns True if all running work was finished. If it returns False, a thread may still wait for a model, and the
    process should exit without joining threads, as `run` does.
    """
    check_listening(options.host, options.tokens_file, options.allow_hosts)
    parent = Parent.of_environment()
    # First: a port in use leaves no new store behind.
    listening = parent.listening if parent else listen(options.host, options.port)
    try:
        state = make_state(options, summarizer=summarizer, embedder=embedder)
    except BaseException:
        listening.close()
        raise
    extras = [make(state) for make in beside]
    app = make_app(
        state,
        mounts=[*mounts, *(route for each in extras for route in each.mounts)],
        beside=[enter for each in extras for enter in each.running],
        table=table,
        home=next((each.home for each in extras if each.home), ""),
    )
    config = server_config(app, options.limits, drain=options.drain, gate=state.gate)
    server = _Server(config, state, options.drain, parent)
    if parent is None:
        _announce(listening, on_listening)
        state.second = SecondProcess(options.second_process) if options.second_process else None
    try:
        await server.serve(sockets=[listening])
    finally:
        if state.second is not None:
            await state.second.close(0.0 if server.cancelled else options.drain)
        await state.close(cancel=True)  # a no-op if everything was finished
        listening.close()
    return not server.cancelled


def _announce(listening: socket.socket, on_listening: Callable[[str], None] | None) -> None:
    """Log the address of the service, and call `on_listening` with it."""
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    _start_log.info("listening on %s", address, extra={"event": "listening", "port": port})
    if on_listening is not None:
        on_listening(address)


def run(
    options: ServiceOptions,
    *,
    summarizer: Summaries | None = None,
    embedder: Embedder | None = None,
    beside: Sequence[Callable[[ServiceState], ExtraRoutes]] = (),
    table: Mapping[AnyOperation, RunOperation] = TABLE,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal; then exit the process even if a thread still waits for a model."""

    async def main() -> None:
        finished = await serve(
            options,
            summarizer=summarizer,
            embedder=embedder,
            beside=beside,
            table=table,
            on_listening=on_listening,
        )
        if not finished:
            logging.shutdown()
            os._exit(1)

    # Threads that compute must not keep the event loop waiting: switch threads after 1 ms instead of 5.
    sys.setswitchinterval(0.001)
    count_without_lock()
    threading.Thread(target=warm_up, args=(options.model,), daemon=True).start()
    asyncio.run(main())


def warm_up(model: str) -> None:
    """Load the modules and tables that the first requests need, and exempt them from garbage collection.

    The tables include the tokenizer of `model`, if the service has one. Loading takes a second. A full collection looks
    at each object of the modules and tables that are loaded, which would stop all requests for some 40 ms again and
    again, and free nothing.
    """
    with Memory(counter=_counter(model)) as memory:
        session = memory.session("warm-up")
        session.user("Where is the parcel? You must not open it. 包裹在哪里？")
        session.context(query="the parcel 包裹")
        memory.search("the parcel 包裹")
    gc.collect()
    gc.freeze()


def _counter(model: str) -> TokenCounter:
    return counter_for(model) if model else cautious_counter()


class LimitedServer(uvicorn.Server):
    """uvicorn server whose connections wait in a `ConnectionQueue` until they are started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._queues: list[ConnectionQueue] = []
        self._started = set[asyncio.Task[object]]()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets=[])  # which would accept them without a queue
        protocol = cast("type[_LimitedProtocol]", self.config.http_protocol_class)
        for each in sockets or ():
            self._queues.append(ConnectionQueue(each, self._start, protocol.knows, self._has_room))
            self._queues[-1].open()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, finish the running requests, and end."""
        for each in self._queues:
            each.close()
        await super().shutdown(sockets)

    def _has_room(self, waiting: int) -> bool:
        protocol = cast("type[_LimitedProtocol]", self.config.http_protocol_class)
        return len(self.server_state.connections) + waiting <= protocol.most + _MOST_WAITING

    def _start(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()

        def make() -> asyncio.Protocol:
            protocol = cast("type[_LimitedProtocol]", self.config.http_protocol_class)
            return protocol(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                _loop=loop,
            )

        task = loop.create_task(loop.connect_accepted_socket(make, connection))
        self._started.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._started.discard(task)
        if not task.cancelled():
            task.exception()  # the client had left already


class _Server(LimitedServer):
    """uvicorn server that ends event streams and folds (compactions) when a signal arrives."""

    def __init__(
        self, config: uvicorn.Config, state: ServiceState, drain: float, parent: Parent | None
    ) -> None:
        super().__init__(config)
        self._state = state
        self._drain = drain
        self._parent = parent
        self.cancelled = False
        self._pending: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections; a second process then tells the first one that it does."""
        await super().startup(sockets)
        if self._parent is not None:
            self._parent.started(self._on_signal)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Context manager: handles signals in the event loop, so that the process exits normally and is not killed."""
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._on_signal)
        try:
            yield
        finally:
            for each in _SIGNALS:
                loop.remove_signal_handler(each)

    def _on_signal(self) -> None:
        self._state.stop()
        if self._state.second is not None:
            self._state.second.stop()
        again, self.should_exit = self.should_exit, True
        if again:
            self.force_exit = self.cancelled = True
            self._cancel_folds(0.0)
        else:
            self._cancel_folds(self._drain)

    def _cancel_folds(self, seconds: float) -> None:
        """Start a timer of `seconds` that then cancels the folds (compactions) that still run."""
        task = asyncio.get_running_loop().create_task(self._cancel_after(seconds))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _cancel_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.cancelled = True
        await self._state.config.runtime.finish(cancel=True)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket of a server; raises `InvalidOption` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP explicitly: asyncio sets TCP_NODELAY only on sockets that name it, and a response in two writes
    # otherwise waits some 40 ms for the reader's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InvalidOption(
                f"cannot listen on {host} port {port}: {error.strerror}. Choose another port with --port; 0 picks a "
                "free one"
            ) from None
        raise InvalidOption(f"cannot listen on {host} port {port}: {error.strerror}") from None
    listening.listen(1024)
    return listening


_IDLE_SECONDS: Final = 30
"""After this many seconds without a further request, an open connection is closed."""
_RESERVED: Final = 128
"""Number of open files that the process may need in addition to its connections: stores, logs, calls to models."""
_MOST_WAITING: Final = 64
"""Number of these files that may be connections which wait to be started, if all connections are in use."""
_LEAST: Final = 16
_MOST_TURN_BYTES: Final = 32 << 20
"""Most bytes that strangers have sent together and that were not parsed yet."""
_TURNS: Final = 4
"""Most requests of strangers that are parsed before other work of the event loop is done."""
_FREE_PIECES: Final = 1_000
"""Number of pieces (chunks) of a body that may be of any size."""
_LEAST_PIECE: Final = 64
"""Least bytes that further pieces of a body must have on average."""
_FOLD: Final = re.compile(rb"\n[ \t]")
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_FREE_UNREAD: Final = 16
_LEAST_UNREAD: Final = 1_024
"""The same two for a body that nobody reads, because its request is answered already."""


def most_connections(wanted: int) -> int:
    """Return the number of connections to accept: `wanted`, or fewer if the process may open fewer files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(_LEAST, allowed - _RESERVED))


def _is_folded(head: bytes) -> bool:
    """Return True if the head of a request has a folded header line: one that goes on with the line before it.

    Such a line begins with a space. Other programs on the way may take it for a header of its own.
    """
    folded, end = _FOLD.search(head), _HEAD_END.search(head)
    return folded is not None and (end is None or folded.start() < end.start())


class _LimitedProtocol(H11Protocol):
    """HTTP connection with deadlines for headers, bodies and unread answers, made by `limited_protocol`.

    It parses requests with h11 even if httptools is installed, because httptools does not limit the size of headers.
    """

    limits: ClassVar[Limits]
    most: ClassVar[int]
    oldest: ClassVar[OrderedDict[_LimitedProtocol, None]]
    """All connections, the one whose phase began first in front."""
    gate: ClassVar[RequestGate | None]
    turns: ClassVar[_Turns]

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 (those of the server)
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._unread = 0
        """Bytes that the client had not read at the last check."""
        self._phase = ""
        self._pieces = self._size = 0
        """Number of the pieces of the current body that were read, and their bytes."""
        self._waits = self._has_turn = False
        """Whether a stranger's request waits for its turn, and whether its turn has come."""
        self._held = False
        """True until the application reads the body of the current request, or has answered without it."""
        self._next_event = self.conn.next_event
        self.conn.next_event = self._checked_event
        self._serve = self.app
        self.app = self._serve_with_body

    async def _serve_with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; the pieces of a body are parsed from the moment at which it reads them."""

        async def receive_body() -> Message:
            self._parse_body()
            return await receive()

        await self._serve(scope, receive_body, send)

    def _parse_body(self) -> None:
        if self._held:
            self._held = False
            if not self.transport.is_closing():
                self.handle_events()

    def _checked_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        """Return the next event of the connection; ends it if the body of a request comes in too many tiny pieces.

        A piece (chunk) costs as much time as a small request, and 40,000 of them fit into what is read at once. So
        nothing of such a body is parsed before its request is authorized, and little if it is refused.
        """
        if self._held or self._waits:
            return h11.PAUSED
        head = self.conn.trailing_data[0] if self.conn.their_state is h11.IDLE else b""
        if self._await_turn(head):
            return h11.PAUSED
        event = self._next_event()
        self._has_turn = False
        if isinstance(event, h11.Request):
            if _is_folded(head):
                raise h11.RemoteProtocolError("a header line is folded")
            self._pieces = self._size = 0
            self._held = any(name == b"transfer-encoding" for name, _ in event.headers)
        elif isinstance(event, h11.EndOfMessage) and event.headers:
            # Headers after a body: nothing here reads them, but a program on the way may.
            if self.conn.our_state is not h11.DONE:
                raise h11.RemoteProtocolError("there are headers after the body")
            self.end()
            return h11.NEED_DATA
        elif isinstance(event, h11.Data):
            self._pieces += 1
            self._size += len(event.data)
            unread = self.conn.our_state is h11.DONE
            free, least = (_FREE_UNREAD, _LEAST_UNREAD) if unread else (_FREE_PIECES, _LEAST_PIECE)
            if self._pieces > free and self._size < least * self._pieces:
                self.end()
                return h11.NEED_DATA
        return event

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._enter("headers")
        if len(self.connections) > self.most:
            self._least_needed().end()
        if not transport.is_closing():
            self._check_reading()

    @classmethod
    def knows(cls, sent: bytes) -> bool:
        """Return True if the first bytes of a request contain an access token, or if none is needed."""
        gate = cls.gate
        return gate is None or gate.ring is None or brings_token(sent, gate.accepts)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._enter(self._current_phase())

    def _await_turn(self, sent: bytes) -> bool:
        """Return True if a request, which may have arrived in part, is a stranger's that has to wait for its turn."""
        if self._has_turn or not sent or self.knows(sent):
            return False
        if self.turns.bytes + len(sent) > _MOST_TURN_BYTES:
            self.end()
            return True
        if not self.turns.waiting:
            self.loop.call_soon(self._take_turns)
        self.turns.waiting.append((self, len(sent)))
        self.turns.bytes += len(sent)
        self._waits = True
        return True

    def _take_turns(self) -> None:
        for _ in range(min(_TURNS, len(self.turns.waiting))):
            each, size = self.turns.waiting.popleft()
            self.turns.bytes -= size
            each.take_turn()
        if self.turns.waiting:
            self.loop.call_soon(self._take_turns)

    def take_turn(self) -> None:
        """Parse the request that waited for its turn."""
        self._waits, self._has_turn = False, True
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.handle_events()
            self._enter(self._current_phase())

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._parse_body()
        self._enter(self._current_phase())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = 0

    def end(self) -> None:
        """Close the connection at once."""
        self._leave()
        self.connections.discard(self)
        self.transport.abort()

    def _leave(self) -> None:
        self._enter("")
        self.oldest.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _least_needed(self) -> _LimitedProtocol:
        """Return the connection to close for this new one: one without a token, an idle one, or this one."""
        idle = self
        for each in self.oldest:
            if not each.is_known:
                if each is not self:
                    return each
            elif idle is self and each.cycle.response_complete:
                idle = each
        return idle

    @property
    def is_known(self) -> bool:
        """True if the newest request was authorized."""
        return self.cycle is not None and CALLER in self.cycle.scope  # pyright: ignore[reportUnnecessaryComparison] (before the first request)

    def _current_phase(self) -> str:
        if self.transport.is_closing():
            return ""
        if self.cycle is None:  # pyright: ignore[reportUnnecessaryComparison] (before the first request)
            return "headers"
        if not self.cycle.response_complete:
            return "body" if self.cycle.more_body else "answer"
        # A request may be refused before its body has arrived, and a part of the next one may have come with it. If
        # there is neither, uvicorn closes the connection after a while.
        return "headers" if self.cycle.more_body or self.conn.trailing_data[0] else "idle"

    def _enter(self, phase: str) -> None:
        """Change to `phase`: cancel the deadline of the phase before it; `headers` and `body` start one of their own.

        If the connection is in this phase already, nothing happens, and its deadline goes on.
        """
        if phase == self._phase:
            return
        self._phase = phase
        self.oldest[self] = None
        self.oldest.move_to_end(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        seconds = {"headers": self.limits.header_seconds, "body": self.limits.body_seconds}
        if phase in seconds:
            self._deadline = self.loop.call_later(seconds[phase], self._expire)

    def _expire(self) -> None:
        self._deadline = None
        if (
            self._phase == "body" and self.flow.read_paused
        ):  # the service itself has not read the body yet
            self._phase = ""
            self._enter("body")
        else:
            self.end()

    def _check_reading(self) -> None:
        """Close the connection if the client has read none of the sent bytes since the last check."""
        unread = self.transport.get_write_buffer_size()
        if self._unread and unread >= self._unread:
            self.end()
            return
        self._unread = unread
        self._reading = self.loop.call_later(self.limits.read_seconds, self._check_reading)


@dataclass(slots=True)
class _Turns:
    """Connections with a request of a stranger that is not parsed yet."""

    waiting: deque[tuple[_LimitedProtocol, int]] = field(
        default_factory=deque[tuple[_LimitedProtocol, int]]
    )
    """Connections, the one whose turn it is first, with the bytes that they have sent."""
    bytes: int = 0


def limited_protocol(limits: Limits, gate: RequestGate | None = None) -> type[asyncio.Protocol]:
    """Return a uvicorn protocol class whose connections have these limits."""
    own = {
        "limits": limits,
        "most": most_connections(limits.connections),
        "oldest": OrderedDict[_LimitedProtocol, None](),
        "gate": gate,
        "turns": _Turns(),
    }
    return type("LimitedProtocol", (_LimitedProtocol,), own)


class LogThrottle(logging.Filter):
    """Log filter that passes `most` records per source line and period.

    The next period reports how many were dropped.
    """

    def __init__(
        self, most: int = 20, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kinds: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True to log a record; False if its source line logged too much in this period."""
        kind, now = (record.pathname, record.lineno), self._clock()
        began, number = self._kinds.get(kind, (now, 0))
        if now - began >= self._seconds:
            if number > self._most:
                left_out = number - self._most
                record.msg = f"{record.getMessage()} ({left_out:,} earlier records from the same place were dropped)"
                record.args = ()
            began, number = now, 0
        self._kinds[kind] = began, number + 1
        return number < self._most

"""A second process for the tenants that compute most, so that the others do not wait for the interpreter lock.

All threads of a process share one interpreter lock: while a thread searches or folds (compacts) long texts for one
tenant, the event loop waits for that lock at each step of every request. So a tenant whose requests used more processor
time than `TenantCosts` allows is moved: for some minutes its requests are passed on to a second process. That process
is the same service with the same options. It authorizes each request again, has limits of its own, and writes the
audit record.

The second process is started when it is first needed. It listens on a socket in a private folder, and ends with the
first process. It is an optimization only: if it cannot be started, the first process answers the requests itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from asyncio import StreamReader, StreamWriter
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import h11
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnfold.errors import LimitExceeded, RequestRefused
from turnfold.runtime import LimitedRuntime, Runtime

__all__ = (
    "PASSED_ON",
    "REQUEST_ID",
    "SECONDS_PER_BYTE",
    "MeteredRuntime",
    "Parent",
    "PassedOn",
    "SecondProcess",
    "TenantCosts",
)


PASSED_ON: Final = "turnfold.passed_on"
"""Key in the ASGI scope of a request that the second process answers, which then writes the audit record."""
REQUEST_ID: Final = "turnfold.request_id"
"""Key in the ASGI scope: the id of the request."""
_HEAVY_SECONDS: Final = 0.02
"""Seconds of processor time that a heavy request (one that searches, ranks, counts or folds) costs at least."""
_SHARE_OF_TIME: Final = 0.5
"""Share of the time of a heavy request that counts as processor time: the store searches in threads of its own."""
SECONDS_PER_BYTE: Final = 1e-7
"""Seconds of processor time that reading and decoding a byte of a request body costs."""
_VARIABLE: Final = "TURNFOLD_SECOND_PROCESS"
"""Environment variable with the numbers of the two sockets of the second process: to listen on, and to the parent."""
_ALLOWED: Final = 1.0
"""Seconds of processor time that a tenant may use at once before it is moved."""
_REFILL: Final = 0.05
"""Seconds of processor time by which a tenant's allowance grows in a second."""
_MOVED_SECONDS: Final = 300.0
"""Seconds for which a tenant is moved. It may then use `_ALLOWED` again, 0.3 % of the time, before it is moved anew."""
_MOST_TENANTS: Final = 10_000
_START_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 30.0
"""Seconds after which a second process that failed is started again."""
_AGAIN_SECONDS: Final = 1.0
_CONNECT_SECONDS: Final = 5.0
_PIECE: Final = 64 * 1024
_LONGEST_HEAD: Final = 1 << 20
_OF_ONE_CONNECTION: Final = frozenset(
    b"connection expect keep-alive proxy-connection te trailer upgrade x-request-id".split()
)
_OF_ONE_ANSWER: Final = frozenset(b"connection date keep-alive transfer-encoding".split())
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TenantCosts:
    """The processor time that tenants used, and the tenants that are moved because they used too much."""

    clock: Callable[[], float] = time.monotonic
    _used: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]]
    )
    """Tenant -> used seconds at a time; they shrink by `_REFILL` in a second."""
    _moved: dict[str, float] = field(default_factory=dict[str, float])
    """Tenant -> time until which it is moved."""

    def charge(self, tenant: str, seconds: float) -> None:
        """Add processor time to what a tenant used; a tenant that used too much is moved from now on."""
        used = self._level(tenant) + seconds
        self._used[tenant] = used, self.clock()
        self._used.move_to_end(tenant)
        if len(self._used) > _MOST_TENANTS:
            self._used.popitem(last=False)
        if used > _ALLOWED:
            self._moved[tenant] = self.clock() + _MOVED_SECONDS
            del self._used[tenant]

    @contextmanager
    def heavy(self, tenant: str, *, asks_model: bool = False) -> Generator[None]:
        """Context manager: charge a tenant for a heavy request; not for its time if it waits for a model."""
        began = self.clock()
        try:
            yield
        finally:
            share = 0.0 if asks_model else _SHARE_OF_TIME
            self.charge(tenant, _HEAVY_SECONDS + share * (self.clock() - began))

    def is_moved(self, tenant: str) -> bool:
        """Return True while the requests of a tenant belong to the second process."""
        until = self._moved.get(tenant)
        if until is None:
            return False
        if self.clock() < until:
            return True
        del self._moved[tenant]
        return False

    def _level(self, tenant: str) -> float:
        used, at = self._used.get(tenant, (0.0, 0.0))
        return max(0.0, used - (self.clock() - at) * _REFILL)


class MeteredRuntime(LimitedRuntime):
    """Runtime of a tenant, which runs one computation at a time and charges the tenant for it."""

    def __init__(
        self, inner: Runtime, *, charge: Callable[[float], None], is_moved: Callable[[], bool]
    ) -> None:
        super().__init__(inner, most=1)
        self._charge = charge
        self._is_moved = is_moved
        self._waiting = 0

    async def compute(self, work: Callable[[], _Result]) -> _Result:
        """Run a long computation without blocking the event loop; waits while another one is running.

        A tenant may have sent many requests at once, before it was moved. Those that wait then raise `LimitExceeded`.
        """
        waits, spent = self._waiting > 0, 0.0

        def timed() -> _Result:
            nonlocal spent
            if waits and self._is_moved():
                raise LimitExceeded(
                    "too many requests of this tenant compute at once: try again later",
                    allowed=1,
                    used=self._waiting,
                    again=_AGAIN_SECONDS,
                )
            began = time.thread_time()
            try:
                return work()
            finally:
                spent = time.thread_time() - began

        self._waiting += 1
        try:
            return await super().compute(timed)
        finally:
            self._waiting -= 1
            self._charge(spent)


class SecondProcess:
    """Handle of the second process, which `command` starts; used on one event loop."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._folder = ""
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._control: socket.socket | None = None
        self._ready = False
        self._retry_at = float("-inf")
        self._closed = False

    @property
    def is_ready(self) -> bool:
        """True while the process accepts requests."""
        return self._ready

    async def connect(self) -> tuple[StreamReader, StreamWriter] | None:
        """Return a connection to the process; None if it is not ready: it is then started in the background."""
        if not self._ready:
            self._start_soon()
            return None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_unix_connection(f"{self._folder}/s", limit=_PIECE)
        except (OSError, TimeoutError):
            await self._give_up("does not accept connections")
            return None

    def _start_soon(self) -> None:
        starting = self._starting is not None and not self._starting.done()
        if self._closed or starting or time.monotonic() < self._retry_at:
            return
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._launch()
                await asyncio.get_running_loop().sock_recv(cast("socket.socket", self._control), 1)
        except (OSError, TimeoutError) as error:
            await self._give_up(f"did not start ({type(error).__name__})")
            return
        if self._process is None or self._process.returncode is not None or self._closed:
            await self._give_up("ended while it started")
            return
        self._ready = True
        _log.info(
            "a second process serves tenants that compute much", extra={"event": "second_process"}
        )

    async def _launch(self) -> None:
        self._remove_folder()
        self._folder = tempfile.mkdtemp(prefix="turnfold-")  # which only this user can enter
        self._control, control = socket.socketpair()
        self._control.settimeout(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening, control:
            listening.bind(f"{self._folder}/s")
            listening.listen(1024)
            sockets = [listening.fileno(), control.fileno()]
            # A session of its own: Ctrl-C in a terminal is for the first process, which ends this one.
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                pass_fds=sockets,
                env={**os.environ, _VARIABLE: f"{sockets[0]},{sockets[1]}"},
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )

    async def _give_up(self, reason: str) -> None:
        """End the process; the first process serves all requests until it is started again."""
        if not self._closed:
            _log.warning("the second process %s", reason, extra={"event": "second_process"})
        self._retry_at = time.monotonic() + _RETRY_SECONDS
        await self._end(0.0)

    def stop(self) -> None:
        """Tell the process to finish its running requests and to end, as a signal does; again: to end at once."""
        self._closed = True
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    async def close(self, seconds: float) -> None:
        """Stop the process, and end it after `seconds` if it still runs."""
        if not self._closed:
            self.stop()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self._end(seconds)

    async def _end(self, seconds: float) -> None:
        self._ready = False
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), seconds)
            if process.returncode is None:
                process.kill()
                await process.wait()
        if self._control is not None:
            self._control.close()
            self._control = None
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


@dataclass(frozen=True, slots=True)
class Parent:
    """In the second process: the socket to listen on, and the one that closes when the first process ends."""

    listening: socket.socket
    control: socket.socket

    @staticmethod
    def of_environment() -> Parent | None:
        """Return the sockets that this process was started with; None if it is no second process."""
        given = os.environ.pop(
            _VARIABLE, ""
        )  # programs that this one starts are no second processes
        if not given:
            return None
        listening, control = (socket.socket(fileno=int(number)) for number in given.split(","))
        control.settimeout(0)
        return Parent(listening, control)

    def started(self, on_end: Callable[[], None]) -> None:
        """Tell the first process that this one accepts requests; `on_end` is called when the first one has ended."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self.control)
            on_end()

        self.control.send(b"1")
        loop.add_reader(self.control, ended)

    def close(self) -> None:
        """Close both sockets."""
        self.listening.close()
        self.control.close()


class PassedOn(Response):
    """Response that the second process gives: the request is sent there, and its answer comes back in pieces."""

    def __init__(self, link: tuple[StreamReader, StreamWriter]) -> None:
        super().__init__()
        self._reader, self._writer = link
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on and its response back; raises `RequestRefused` (503) if the other process ends."""
        self._write(_request_head(scope))
        sending = asyncio.create_task(self._send_body(receive))
        try:
            await self._answer(scope, send)
        except (OSError, h11.ProtocolError) as error:
            if sending.done() and isinstance(sending.exception(), ClientDisconnect):
                raise ClientDisconnect from None
            raise RequestRefused(
                f"the process that serves this tenant has ended ({type(error).__name__}): try again",
                status=503,
            ) from None
        finally:
            self._writer.transport.abort()
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled():
                sending.exception()  # it was looked at above, if it matters

    def _write(self, event: h11.Event) -> None:
        self._writer.write(self._connection.send(event) or b"")

    async def _send_body(self, receive: Receive) -> None:
        """Send the body on; then wait until the client has left, and break off."""
        more = True
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._writer.transport.abort()
                raise ClientDisconnect
            if not more:
                continue
            more = message.get("more_body", False)
            with suppress(OSError):  # it has answered without reading the body
                if message.get("body"):
                    self._write(h11.Data(data=message["body"]))
                    await self._writer.drain()
                if not more:
                    self._write(h11.EndOfMessage())

    async def _answer(self, scope: Scope, send: Send) -> None:
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(await self._reader.read(_PIECE))
            elif isinstance(event, h11.Response):
                scope[PASSED_ON] = True
                headers = [(n, v) for n, v in event.headers if n not in _OF_ONE_ANSWER]
                start = {
                    "type": "http.response.start",
                    "status": event.status_code,
                    "headers": headers,
                }
                await send(start)
            elif isinstance(event, h11.Data):
                body = {"type": "http.response.body", "body": bytes(event.data), "more_body": True}
                await send(body)
            elif isinstance(event, h11.EndOfMessage):
                await send({"type": "http.response.body", "body": b""})
                return
            elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError


def _request_head(scope: Scope) -> h11.Request:
    query = cast("bytes", scope["query_string"])
    raw = cast("bytes", scope.get("raw_path") or scope["path"].encode())
    target = raw.partition(b"?")[0] + (b"?" + query if query else b"")
    given = cast("Sequence[tuple[bytes, bytes]]", scope["headers"])
    headers = [(name, value) for name, value in given if name.lower() not in _OF_ONE_CONNECTION]
    headers.append((b"x-request-id", str(scope.get(REQUEST_ID, "")).encode()))
    return h11.Request(method=scope["method"], target=target, headers=headers)

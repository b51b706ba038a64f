"""A proxy in a thread, and a provider behind it that notes every byte that came."""

from __future__ import annotations

import asyncio
import json
import select
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeVar

import httpx2
import pytest

pytest.importorskip("uvicorn", reason="the proxy needs the extra 'proxy'")

from tests.service.server_thread import served_in_a_thread
from turnfold import AsyncMemory
from turnfold.proxy import ProxyOptions, make_proxy
from turnfold.proxy.app import make_gate
from turnfold.records import Entry
from turnfold.service import server_config

__all__ = (
    "Arrived",
    "Recorder",
    "Told",
    "client",
    "log_of",
    "proxied",
    "served",
    "texts_of",
    "with_memory",
)

_T = TypeVar("_T")
PATIENCE = 60.0
"""A limit that is only reached when the machine itself stands still."""


@dataclass(frozen=True)
class Arrived:
    """A request that came to the provider."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)


@dataclass(frozen=True)
class Told:
    """What the provider says."""

    body: bytes | Sequence[bytes] = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    cut: bool = False
    """Break the connection at the end instead of ending the response."""
    hold: threading.Event | None = None
    """Wait for this before the last piece."""
    silent: bool = False
    """Say nothing at all, until whoever asked hangs up."""


class Recorder:
    """A provider: runs while it is entered, answers with what `say` returns."""

    def __init__(self, say: Callable[[Arrived], Told]) -> None:
        self.say = say
        self.seen: list[Arrived] = []
        self.left = threading.Event()
        """Set when somebody hung up before the end of a response."""

    def __enter__(self) -> Self:
        recorder = self

        class Exchange(_Exchange):
            provider = recorder

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: Recorder

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        """Nothing: what came is in `seen`."""

    def _any(self) -> None:
        raw = self._chunked() if "transfer-encoding" in self.headers else self._sized()
        headers = {name.lower(): value for name, value in self.headers.items()}
        arrived = Arrived(self.command, self.path, headers, raw)
        self.provider.seen.append(arrived)
        told = self.provider.say(arrived)
        if told.silent:
            readable, _, _ = select.select([self.connection], [], [], PATIENCE)
            if readable and not self.connection.recv(1):
                self.provider.left.set()
            self.close_connection = True
            return
        pieces = [told.body] if isinstance(told.body, bytes) else list(told.body)
        self.send_response(told.status)
        for name, value in told.headers.items():
            self.send_header(name, value)
        if "content-length" in told.headers:
            self.end_headers()
            self.wfile.write(b"".join(pieces))
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for at, piece in enumerate(pieces):
                if told.hold is not None and at == len(pieces) - 1:
                    told.hold.wait(PATIENCE)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            if told.cut:
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.provider.left.set()
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - the names it calls

    def _sized(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _chunked(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found


@contextmanager
def proxied(upstream: str, **options: Any) -> Iterator[str]:
    """Run a proxy in a thread until the end of the block; gives its address."""
    made = ProxyOptions(upstream=upstream, **{"budget": 2_000, **options})
    gate = make_gate(made)
    config = server_config(make_proxy(made, gate), made.limits, drain=1, gate=gate)
    with served_in_a_thread(config) as url:
        yield url


@contextmanager
def served(
    say: Callable[[Arrived], Told], **options: Any
) -> Iterator[tuple[Recorder, httpx2.Client]]:
    """Run a provider and a proxy in front of it; gives the provider and a client of the proxy."""
    with Recorder(say) as provider, proxied(provider.url, **options) as url, client(url) as http:
        yield provider, http


def client(url: str, **options: Any) -> httpx2.Client:
    return httpx2.Client(base_url=url, trust_env=False, verify=False, timeout=PATIENCE, **options)


def with_memory(store: str, use: Callable[[AsyncMemory], Awaitable[_T]]) -> _T:
    """Return what `use` makes of the memory in a store."""

    async def inside() -> _T:
        async with AsyncMemory(store) as memory:
            return await use(memory)

    return asyncio.run(inside())


def log_of(store: str, conversation: str) -> list[Entry]:
    return with_memory(store, lambda memory: memory.session(conversation).history())


def texts_of(store: str, conversation: str) -> list[str]:
    """What was said in a conversation, without system messages."""
    return [
        entry.message.text
        for entry in log_of(store, conversation)
        if entry.message.role != "system"
    ]

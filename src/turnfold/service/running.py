"""Running the service, and ending it well.

Told to end, it stops taking connections, finishes the requests it has, ends its event streams, and then finishes the
folds under way, for as long as it is given; after that it hands them over: a cancelled fold gives its lease back, so
another process takes it up at once. Told a second time, it hands over and ends now.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turnfold.budget import Budget
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.memory.front_door import make_setting
from turnfold.memory.waiting import AwaitingWay
from turnfold.memory.writers import Summaries
from turnfold.models.embedding import Embedder
from turnfold.service.admission import LOOPBACK, Gate, check_listening
from turnfold.service.limits import Limits, Pace
from turnfold.service.operations import Operation
from turnfold.service.tokens import TokenFile, TokenRing

try:
    import uvicorn
    from starlette.routing import BaseRoute

    from turnfold.service.app import make_app
    from turnfold.service.routes import TABLE
    from turnfold.service.state import ServiceState
except ImportError as missing:
    raise MissingExtra(
        package="starlette and uvicorn", extra="service", purpose="turnfold serve"
    ) from missing

__all__ = ("Beside", "ServiceOptions", "make_state", "run", "serve")

_log = logging.getLogger("turnfold.service")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What a service is started with."""

    store: str = "sqlite://"
    cache: str | None = None
    host: str = "127.0.0.1"
    port: int = 8787
    tokens_file: Path | None = None
    tenant: str = "default"
    """Whose conversations are served where no tokens are asked for."""
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    model: str = ""
    budget: Budget | None = None
    checkpoint: str | None = None
    keep_turns: int = 8
    semantic: bool = False
    """Whether a recall also finds by meaning, with the encoder of the extra `semantic`."""
    drain: float = 60.0
    """Seconds the requests, and then the folds, under way are given to finish."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidOption(f"port {self.port} must be 0 to 65535; 0 takes one that is free")
        if self.drain < 0:
            raise InvalidOption(f"drain={self.drain} must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Something served beside the API: its routes, and what is entered while the service runs."""

    mounts: Sequence[BaseRoute] = ()
    running: Sequence[Callable[[], AbstractAsyncContextManager[object]]] = ()


def make_state(
    options: ServiceOptions,
    *,
    summarizer: Summaries | None = None,
    embedder: Embedder | None = None,
) -> ServiceState:
    """The store, the gate and the limits of a service; refuses to be open to others without tokens.

    With an embedder a recall also finds by meaning, for every tenant; the options may name the one that ships.
    """
    file = options.tokens_file
    ring = TokenRing(TokenFile(file)) if file is not None else None
    check_listening(options.host, ring)
    limits = options.limits
    own = (options.host.lower(),) if options.host not in ("0.0.0.0", "::") else ()  # noqa: S104 (compared, not bound)
    gate = Gate(
        ring=ring,
        tenant=options.tenant,
        hosts=frozenset((*LOOPBACK, *own, *(host.lower() for host in options.allow_hosts))),
        origins=frozenset(options.allow_origins),
        pace=Pace(limits.rate, limits.burst),
    )
    setting = make_setting(
        options.store,
        AwaitingWay(),
        blocking=False,
        cache=options.cache,
        scope=options.tenant,
        model=options.model,
        budget=options.budget,
        summarizer=summarizer,
        checkpoint=options.checkpoint,
        keep_turns=options.keep_turns,
        embedder=embedder or _named_embedder(options),
    )
    return ServiceState(setting, gate, limits)


def _named_embedder(options: ServiceOptions) -> Embedder | None:
    if not options.semantic:
        return None
    from turnfold.models.embedding import LocalEmbedder

    return LocalEmbedder()


async def serve(
    options: ServiceOptions,
    *,
    summarizer: Summaries | None = None,
    embedder: Embedder | None = None,
    mounts: Sequence[BaseRoute] = (),
    beside: Sequence[Callable[[ServiceState], Beside]] = (),
    table: Sequence[Operation] = TABLE,
    on_listening: Callable[[str], None] | None = None,
) -> bool:
    """Serve until told to end by SIGINT or SIGTERM; twice ends it now.

    What is served beside the API is made from the state, so that it asks the same gate. `on_listening` is told the
    address once there is somebody to answer.

    Whether everything under way was finished. Where it was not, a thread may still wait for a model: who wants to end
    the process then does so without waiting for threads (`run` does).
    """
    state = make_state(options, summarizer=summarizer, embedder=embedder)
    others = [make(state) for make in beside]
    app = make_app(
        state,
        mounts=[*mounts, *(route for each in others for route in each.mounts)],
        beside=[enter for each in others for enter in each.running],
        table=table,
    )
    config = uvicorn.Config(
        app,
        access_log=False,  # it would write ids of conversations
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=max(int(options.drain), 1),
        timeout_keep_alive=30,
        lifespan="on",
    )
    listening = _listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    _log.warning("listening on %s", address, extra={"event": "listening", "port": port})
    if on_listening is not None:
        on_listening(address)
    server = _Server(config, state, options.drain)
    try:
        await server.serve(sockets=[listening])
    finally:
        await state.close(cancel=True)  # finished already, unless there was no time for it
        listening.close()
    return not server.handed_over


def run(
    options: ServiceOptions,
    *,
    summarizer: Summaries | None = None,
    embedder: Embedder | None = None,
    beside: Sequence[Callable[[ServiceState], Beside]] = (),
    table: Sequence[Operation] = TABLE,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve, and end the process even where a thread still waits for a model."""

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

    asyncio.run(main())


class _Server(uvicorn.Server):
    """Knows what to tell the state when it is told to end."""

    def __init__(self, config: uvicorn.Config, state: ServiceState, drain: float) -> None:
        super().__init__(config)
        self._state = state
        self._drain = drain
        self.handed_over = False
        self._pending: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals as callbacks of the loop; afterwards the process ends by itself and not by one of them."""
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._told)
        try:
            yield
        finally:
            for each in _SIGNALS:
                loop.remove_signal_handler(each)

    def _told(self) -> None:
        self._state.stop()
        again, self.should_exit = self.should_exit, True
        if again:
            self.force_exit = self.handed_over = True
            self._hand_over(0.0)
        else:
            self._hand_over(self._drain)

    def _hand_over(self, seconds: float) -> None:
        """In so many seconds, cancel the folds that are still under way."""
        task = asyncio.get_running_loop().create_task(self._after(seconds))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.handed_over = True
        await self._state.setting.way.finish(cancel=True)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by its number: asyncio sends small writes at once only on sockets that name it, and an answer in two
    # writes otherwise waits some 40 ms for the reader's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise InvalidOption(f"cannot listen on {host} port {port}: {error.strerror}") from None
    listening.listen(1024)
    return listening

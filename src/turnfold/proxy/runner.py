"""Runs the proxy with uvicorn; SIGINT or SIGTERM lets running requests finish, a second signal ends them at once."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import uvicorn

from turnfold.proxy.app import make_proxy
from turnfold.proxy.options import ProxyOptions
from turnfold.service import listen, server_config

__all__ = ("run_proxy",)


_start_log = logging.getLogger("turnfold.proxy.runner")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_proxy(options: ProxyOptions, *, on_listening: Callable[[str], None] | None = None) -> None:
    """Serve the proxy until SIGINT or SIGTERM; `on_listening` is called with its address once the socket is open."""
    asyncio.run(_serve(options, on_listening))


async def _serve(options: ProxyOptions, on_listening: Callable[[str], None] | None) -> None:
    config = server_config(make_proxy(options), options.limits, drain=options.drain)
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


class _ProxyServer(uvicorn.Server):
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

"""An ASGI application under uvicorn in a thread of the test, that ends at once: hundreds of tests wait for the end.

uvicorn looks every 0.1 s whether it shall end, and then gives its connections as long. Processes of the service
(`ServiceProcess`) do as it does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import uvicorn
import uvicorn.server

from turnfold.service.server import LimitedServer, listen

__all__ = ("PATIENCE", "served_in_a_thread")

PATIENCE = 60.0
"""A limit that is only reached when the machine itself stands still."""
_PAUSE = 0.005


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(min(seconds, _PAUSE))


def _shorten_pauses() -> None:
    """Give uvicorn's servers in this process an `asyncio` that never sleeps longer than a short pause."""
    shortened = ModuleType("asyncio")
    vars(shortened).update(vars(asyncio), sleep=_sleep)
    setattr(uvicorn.server, "asyncio", shortened)  # noqa: B010 (a name is replaced on purpose)


_shorten_pauses()


@contextmanager
def served_in_a_thread(config: uvicorn.Config) -> Iterator[str]:
    """Serve on a free port until the end of the block; gives the address."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = LimitedServer(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    limit = time.monotonic() + PATIENCE
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < limit
        time.sleep(_PAUSE)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()

"""One client per event loop: a client's connections live in the loop they were made in.

A model may be held by a program that runs one `asyncio.run` after another, or by a memory that waits in a loop of its
own. A client that met a second loop would fail in ways that name neither. Each loop gets its own, closed with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, TypeVar

__all__ = ("LoopClients",)


class _Closable(Protocol):
    async def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)


class LoopClients(Generic[Client]):
    """Makes a client for each loop that asks for one."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._known: dict[asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None, None]]] = {}

    async def here(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        known = self._known.get(loop)
        if known is not None:
            return known[0]
        client = self._make()
        end = _closed_at_end(client)
        with self._lock:
            for ended in [other for other in self._known if other.is_closed()]:
                del self._known[ended]
            self._known[loop] = client, end
        await anext(end)
        return client

    async def close(self) -> None:
        """Close the client of this loop; those of other loops end with theirs."""
        with self._lock:
            known = self._known.pop(asyncio.get_running_loop(), None)
        if known is not None:
            await known[1].aclose()


async def _closed_at_end(client: _Closable) -> AsyncGenerator[None, None]:
    """A loop finishes its generators before it ends: that closes the client in time."""
    try:
        yield
    finally:
        await client.close()

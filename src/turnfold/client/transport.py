"""How a request reaches the service: awaited, or in place. The one file that knows httpx2.

The client is written once, as coroutines. Over the blocking transport they never suspend, so they can be driven to
their end without an event loop, as everything else here is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from turnfold.errors import InvalidOption, MissingExtra, StoreUnavailable
from turnfold.models.loop_clients import LoopClients

try:
    import httpx2
except ImportError as missing:
    raise MissingExtra(
        package="httpx2", extra="client", purpose="the client of a service"
    ) from missing

__all__ = ("AwaitingTransport", "BlockingTransport", "Reply", "Transport")


class Reply(NamedTuple):
    """What came back."""

    status: int
    content: bytes


class Transport(Protocol):
    """Sends requests."""

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> Reply:
        """The answer; `StoreUnavailable` where there was none."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt."""
        ...

    async def close(self) -> None:
        """Let go of the connections. Closing twice is allowed."""
        ...


class AwaitingTransport:
    """For programs with an event loop, or several: each loop has connections of its own."""

    def __init__(self, url: str, *, headers: Mapping[str, str], timeout: float) -> None:
        base, given = _checked(url), dict(headers)
        self._clients = LoopClients(
            lambda: _LoopClient(
                base_url=base,
                headers=given,
                timeout=timeout,
                trust_env=False,
                verify=_needs_certificates(base),
            )
        )

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> Reply:
        """Awaited."""
        client = await self._clients.here()
        try:
            found = await client.request(
                method, path, headers=dict(headers), content=content or None
            )
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        except RuntimeError as error:
            if client.is_closed:  # while the request was under way
                raise _unreachable(error) from error
            raise
        return Reply(found.status_code, found.content)

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Let go of those of this loop; those of another end with it."""
        await self._clients.close()


class _LoopClient(httpx2.AsyncClient):
    """The client of one loop."""

    async def close(self) -> None:
        await self.aclose()


class BlockingTransport:
    """For programs without an event loop: nothing in it suspends."""

    def __init__(self, url: str, *, headers: Mapping[str, str], timeout: float) -> None:
        self._client = httpx2.Client(
            base_url=_checked(url),
            headers=dict(headers),
            timeout=timeout,
            trust_env=False,
            verify=_needs_certificates(url),
        )

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> Reply:
        """In place."""
        try:
            found = self._client.request(
                method, path, headers=dict(headers), content=content or None
            )
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        except RuntimeError as error:
            if self._client.is_closed:  # by another thread, while the request was under way
                raise _unreachable(error) from error
            raise
        return Reply(found.status_code, found.content)

    async def pause(self, seconds: float) -> None:
        """Block."""
        time.sleep(seconds)  # noqa: ASYNC251 (no loop runs this)

    async def close(self) -> None:
        """Let go."""
        self._client.close()


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidOption(f"{url!r} is no address of a service: http://HOST:PORT or https://...")
    return url.rstrip("/")


def _needs_certificates(url: str) -> bool:
    """Loading them takes long, and without encryption nothing is verified. No redirect is followed."""
    return url.startswith("https:")


def _unreachable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the service gave no answer: {type(error).__name__}")

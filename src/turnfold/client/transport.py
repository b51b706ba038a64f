"""How a request reaches the service: awaited, or in place. The one file that knows httpx2.

The client is written once, as coroutines. Over the blocking transport they never suspend, so they can be driven to
their end without an event loop, as everything else here is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from turnfold.errors import InvalidOption, MissingExtra, StoreUnavailable
from turnfold.models.loop_clients import LoopClients
from turnfold.stores.addresses import shown_address

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
        (base, auth), given = _checked(url), dict(headers)
        self._clients = LoopClients(
            lambda: _LoopClient(
                base_url=base,
                auth=auth,
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
        base, auth = _checked(url)
        self._client = httpx2.Client(
            base_url=base,
            auth=auth,
            headers=dict(headers),
            timeout=timeout,
            trust_env=False,
            verify=_needs_certificates(base),
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


def _checked(url: str) -> tuple[str, tuple[str, str] | None]:
    """The address without a user and a password, and these: httpx2 logs the address of every request."""
    try:
        parts = urlsplit(url)
        named = parts.username is not None or parts.password is not None
        where = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        readable = bool(httpx2.URL(where).host) and "@" not in where
    except (ValueError, httpx2.InvalidURL):  # their own words may show a part of a password
        pass
    else:
        asks = parts.query or parts.fragment
        if readable and parts.scheme in ("http", "https") and not asks:
            user = (unquote(parts.username or ""), unquote(parts.password or ""))
            return where.rstrip("/"), user if named else None
    raise InvalidOption(
        f"{shown_address(url)!r} is no address of a service: http://HOST:PORT or https://...; a password with one of "
        "@ : / ? # % in it writes them as %40 %3A %2F %3F %23 %25"
    )


def _needs_certificates(url: str) -> bool:
    """Loading them takes long, and without encryption nothing is verified. No redirect is followed."""
    return url.startswith("https:")


def _unreachable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the service gave no answer: {type(error).__name__}")

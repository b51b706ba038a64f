"""Sends requests to the service and retries them; the only file that imports httpx2.

The client is written once, as coroutines. Over the blocking transport they never suspend, so they run to their end
without an event loop.

A request that got no response may have been carried out or not. Every write is safe to retry: appends, and all other
operations whose second response would differ, carry an idempotency key that is new for each call and the same in all
its attempts. Errors of the service are raised as the errors an embedded memory would have raised.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from turnfold.api import Operation, error_from
from turnfold.errors import (
    InvalidOption,
    LimitExceeded,
    MissingExtra,
    StoreUnavailable,
    TurnfoldError,
)
from turnfold.models import LoopClients
from turnfold.stores import shown_address

__all__ = (
    "AwaitingTransport",
    "BlockingTransport",
    "HttpReply",
    "RequestSender",
    "Transport",
    "check_positive",
    "new_key",
    "open_sender",
    "read_pages",
)


try:
    import httpx2
except ImportError as missing:
    raise MissingExtra(
        package="httpx2", extra="client", purpose="the client of a service"
    ) from missing


class HttpReply(NamedTuple):
    """Status and body of an HTTP response."""

    status: int
    content: bytes


class Transport(Protocol):
    """Sends HTTP requests to one service, and waits between attempts."""

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> HttpReply:
        """Send a request and return the response; raises `StoreUnavailable` if there is no response."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait for some seconds, before the next attempt to send a request."""
        ...

    async def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        ...


class AwaitingTransport:
    """Asynchronous transport; each event loop has its own connections."""

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
    ) -> HttpReply:
        """Send a request without blocking the event loop; raises `StoreUnavailable` if there is no response."""
        client = await self._clients.here()
        try:
            found = await client.request(
                method, path, headers=dict(headers), content=content or None
            )
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        except RuntimeError as error:
            if client.is_closed:  # closed while the request was running
                raise _unreachable(error) from error
            raise
        return HttpReply(found.status_code, found.content)

    async def pause(self, seconds: float) -> None:
        """Wait for some seconds without blocking the event loop."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections of this event loop; those of other loops are closed when the loops end."""
        await self._clients.close()


class _LoopClient(httpx2.AsyncClient):
    """HTTP client of one event loop."""

    async def close(self) -> None:
        await self.aclose()


class BlockingTransport:
    """Blocking transport, for applications without an event loop; its coroutines never suspend."""

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
    ) -> HttpReply:
        """Send a request and wait for the response; raises `StoreUnavailable` if there is no response."""
        try:
            found = self._client.request(
                method, path, headers=dict(headers), content=content or None
            )
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        except RuntimeError as error:
            if self._client.is_closed:  # closed by another thread while the request was running
                raise _unreachable(error) from error
            raise
        return HttpReply(found.status_code, found.content)

    async def pause(self, seconds: float) -> None:
        """Block the thread for some seconds."""
        time.sleep(seconds)  # noqa: ASYNC251 (no loop runs this)

    async def close(self) -> None:
        """Close the connections to the service."""
        self._client.close()


def _checked(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the address of a service without user name and password, and these two, because httpx2 would log them.

    Raises `InvalidOption` if `url` is no HTTP address.
    """
    try:
        parts = urlsplit(url)
        named = parts.username is not None or parts.password is not None
        where = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        readable = bool(httpx2.URL(where).host) and "@" not in where
    except (ValueError, httpx2.InvalidURL):  # their messages may show a part of a password
        pass
    else:
        asks = parts.query or parts.fragment
        if readable and parts.scheme in ("http", "https") and not asks:
            user = (unquote(parts.username or ""), unquote(parts.password or ""))
            return where.rstrip("/"), user if named else None
    raise InvalidOption(
        f"{shown_address(url)!r} is not an address of a service: use http://HOST:PORT or https://...; in a password "
        "write @ : / ? # % as %40 %3A %2F %3F %23 %25"
    )


def _needs_certificates(url: str) -> bool:
    """Return True if TLS certificates must be loaded, which is slow: only for https addresses."""
    return url.startswith("https:")


def _unreachable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"no response from the service ({type(error).__name__}); check that it runs at this address, then try again"
    )


_Body = TypeVar("_Body")
_Query = TypeVar("_Query")
_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_Place = TypeVar("_Place", int, str)
_LONGEST_PAUSE: Final = 10.0
_LARGEST_PAGE: Final = 1_000


def new_key() -> str:
    """Return a new random Idempotency-Key for a request."""
    return secrets.token_hex(16)


class RequestSender:
    """Sends operations to one service as HTTP requests; retries when there is no response or a limit is exceeded."""

    def __init__(self, transport: Transport, *, retries: int, backoff: float) -> None:
        for name, value in (("retries", retries), ("backoff", backoff)):
            if value < 0:
                raise InvalidOption(f"{name}={value} must not be negative")
        self._transport = transport
        self._retries = retries
        self._backoff = backoff
        self._closed = False

    async def call(
        self,
        operation: Operation[_Body, _Query, _Answer],
        *names: str,
        body: _Body | None = None,
        query: _Query | None = None,
        key: str | None = None,
    ) -> _Answer:
        """Send an operation and return its response; `names` fill the path parameters, in order.

        `key` is the Idempotency-Key. By default, operations that are `keyed` get a new one, and others none.
        """
        target = _target(operation.path, names, query)
        content = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": "application/json"} if content else {}
        if key is None and operation.keyed:
            key = new_key()
        if key:
            headers["idempotency-key"] = quote(key, safe="")
        for attempt in range(self._retries + 1):
            if self._closed:
                raise StoreUnavailable("this memory was closed: open a new one")
            try:
                return await self._attempt(operation, target, headers, content)
            except (StoreUnavailable, LimitExceeded) as error:
                pause = self._pause(error, attempt)
                if pause is None or attempt == self._retries or self._closed:
                    raise
                await self._transport.pause(pause)
        raise AssertionError("unreachable")  # the last attempt returned or raised

    async def close(self) -> None:
        """Close the connections; later requests raise `StoreUnavailable`."""
        self._closed = True
        await self._transport.close()

    async def _attempt(
        self,
        operation: Operation[Any, Any, _Answer],
        target: str,
        headers: Mapping[str, str],
        content: bytes,
    ) -> _Answer:
        reply = await self._transport.send(
            operation.method, target, headers=headers, content=content
        )
        if not 200 <= reply.status < 300:
            raise error_from(reply.status, reply.content)
        try:
            return msgspec.json.decode(reply.content, type=operation.answer)
        except msgspec.MsgspecError as error:
            raise TurnfoldError(
                f"the response to {operation.name!r} has an unknown format ({error}); the service may run another "
                "release of turnfold: compare the versions"
            ) from None

    def _pause(self, error: StoreUnavailable | LimitExceeded, attempt: int) -> float | None:
        """Return the seconds to wait before a request is sent again; None to give up."""
        if isinstance(error, LimitExceeded):
            return error.again if 0 < error.again <= _LONGEST_PAUSE else None
        spread = 0.5 + random.random()  # noqa: S311 (jitter, so that clients do not retry at once)
        return min(self._backoff * 2**attempt * spread, _LONGEST_PAUSE)


def check_positive(name: str, value: int | None) -> None:
    """Raise `InvalidOption` if an option's number is below 1, with the same text as an embedded memory."""
    if value is not None and value < 1:
        raise InvalidOption(f"{name}={value} must be at least 1")


def open_sender(
    url: str, *, token: str, timeout: float, retries: int, backoff: float, blocking: bool
) -> RequestSender:
    """Return a `RequestSender` for the service at `url`, with an access token if `token` is not empty."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    kind = BlockingTransport if blocking else AwaitingTransport
    return RequestSender(
        kind(url, headers=headers, timeout=timeout), retries=retries, backoff=backoff
    )


async def read_pages(
    page: Callable[[_Place, int], Awaitable[tuple[list[_Item], _Place | None]]],
    after: _Place,
    limit: int | None,
) -> list[_Item]:
    """Read a list page by page, after `after`, until there are `limit` items or no more.

    `page` returns the items of a page and the `after` of the next one, None on the last.
    """
    limit = sys.maxsize if limit is None else limit
    found: list[_Item] = []
    following: _Place | None = after
    while following is not None and len(found) < limit:
        items, following = await page(following, min(limit - len(found), _LARGEST_PAGE))
        found += items
    return found


def _target(path: str, names: tuple[str, ...], query: object) -> str:
    quoted = map(_quoted, names)
    target = re.sub(r"{\w+}", lambda _: next(quoted), path)
    fields: dict[str, object] = {} if query is None else msgspec.to_builtins(query)
    given = {
        name: "true" if value is True else str(value)
        for name, value in fields.items()
        if value not in (None, "") and value is not False
    }
    return f"{target}?{urlencode(given)}" if given else target


def _quoted(name: str) -> str:
    if not name:
        raise InvalidOption("a name must have 1 to 512 characters, got 0 characters")
    try:
        text = quote(name, safe="")
    except UnicodeEncodeError:
        raise InvalidOption(
            "the name has a lone surrogate, which cannot be stored: give valid Unicode"
        ) from None
    # A segment of dots only would be resolved as a relative path.
    return text.replace(".", "%2E") if set(text) == {"."} else text

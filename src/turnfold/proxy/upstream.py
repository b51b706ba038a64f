"""Forwards requests to the provider and streams the responses; the only file of the proxy that imports httpx2.

Requests go through httpx2's transport and not through its client, because the transport adds no header, follows no
redirect, keeps no cookies, and does not log addresses, which may contain a key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from turnfold.errors import InvalidOption, MissingExtra, ModelUnavailable, RequestRefused
from turnfold.stores import shown_address

__all__ = ("RawHeaders", "Upstream", "UpstreamResponse", "end_to_end")


try:
    import httpx2
except ImportError as missing:
    raise MissingExtra(package="httpx2", extra="proxy", purpose="turnfold proxy") from missing


RawHeaders = list[tuple[bytes, bytes]]

_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_MOST_CONNECTIONS: Final = 1_000
_MOST_ENCODINGS: Final = 4
"""Most times that the path of a request may be percent-encoded over again; a path with more is refused."""


def end_to_end(
    headers: Iterable[tuple[bytes, bytes]], *, without: Iterable[bytes] = ()
) -> RawHeaders:
    """Return the headers that a proxy passes on: without hop-by-hop headers, and without the names in `without`."""
    given = [(name.lower(), value) for name, value in headers]
    named = {
        each.strip().lower()
        for name, value in given
        if name == b"connection"
        for each in value.split(b",")
    }
    left_out = _HOP_BY_HOP | named | set(without)
    return [(name, value) for name, value in given if name not in left_out]


@dataclass(slots=True)
class UpstreamResponse:
    """The response of the provider; its body is read unchanged, as it arrives."""

    status: int
    headers: RawHeaders
    _response: httpx2.Response = field(repr=False)
    _pieces: AsyncIterator[bytes] | None = field(default=None, repr=False)
    _read: list[bytes] = field(default_factory=list[bytes], repr=False)
    """Pieces of the response body that were read before the body is passed on."""

    @property
    def length(self) -> int:
        """Bytes of the body as the provider announced them; -1 if it announced none."""
        given = dict(self.headers).get(b"content-length", b"")
        return int(given) if given.isdigit() else -1

    async def read(self, limit: int) -> bytes:
        """Return the body, at most about `limit` bytes of it; `body()` still yields the whole body afterwards."""
        async for piece in self._rest():
            self._read.append(piece)
            if sum(map(len, self._read)) > limit:
                break
        return b"".join(self._read)

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body in the pieces in which it arrives; raises `ModelUnavailable` if it breaks off."""
        for piece in self._read:
            yield piece
        async for piece in self._rest():
            yield piece

    async def _rest(self) -> AsyncIterator[bytes]:
        self._pieces = self._pieces or aiter(self._response.aiter_raw())
        try:
            async for piece in self._pieces:
                yield piece
        except httpx2.TransportError as error:
            raise _unavailable(error) from error

    async def close(self) -> None:
        """Close the response; the part of its body that has not arrived is not read."""
        await self._response.aclose()


class Upstream:
    """Connections to the provider that the proxy forwards requests to."""

    def __init__(self, url: str, *, connect_seconds: float, read_seconds: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InvalidOption(
                f"--upstream {shown_address(url)!r} is not the address of a provider: for example https://api.openai.com"
            )
        if parts.username or parts.password:
            raise InvalidOption(
                f"--upstream {shown_address(url)!r} contains a user name or password: remove it; "
                "clients send their own keys"
            )
        self._base = url.rstrip("/")
        self._versioned = self._base.endswith("/v1")
        self._timeout = {
            "connect": connect_seconds,
            "pool": connect_seconds,
            "read": read_seconds,
            "write": read_seconds,
        }
        limits = httpx2.Limits(
            max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_CONNECTIONS
        )
        # Certificates take a while to load: only if they are used.
        self._transport = httpx2.AsyncHTTPTransport(verify=parts.scheme == "https", limits=limits)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._transport)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: RawHeaders,
        content: bytes | AsyncIterator[bytes] | None,
    ) -> UpstreamResponse:
        """Send a request to a path (with query) of the provider; raise `ModelUnavailable` if there is no response.

        Raises `RequestRefused` if the path could lead to another address than one below that of the provider.
        """
        _check_path(path)
        if self._versioned and path.startswith("/v1/"):
            path = path.removeprefix("/v1")  # the upstream address has it already
        try:
            request = httpx2.Request(
                method,
                f"{self._base}{path}",
                headers=headers,
                content=content,
                extensions={"timeout": self._timeout},
            )
            response = await self._transport.handle_async_request(request)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise _unavailable(error) from error
        given = [(name.lower(), value) for name, value in response.headers.raw]
        return UpstreamResponse(response.status_code, end_to_end(given), response)


def _check_path(path: str) -> None:
    """Raise `RequestRefused` unless a path, joined to the address of the provider, stays below that address.

    A target without a slash at its beginning would become a part of the host name: `@host`, `.host`, `http://host`.
    Servers differ in how they read an encoded `..`, a backslash, and a parameter after a semicolon, so all of these are
    decoded. The message does not show the path, because its query may contain a key.
    """
    place = path.partition("?")[0]
    if not place.startswith("/") or "#" in path:
        raise RequestRefused("the path of a request must begin with / and contain no #", status=400)
    for _ in range(_MOST_ENCODINGS):
        place, before = unquote(place, errors="replace"), place
        if place == before:
            break
    else:
        raise RequestRefused("the path is percent-encoded too often: encode it once", status=400)
    segments = [segment.partition(";")[0] for segment in place.replace("\\", "/").split("/")]
    if (
        "." in segments
        or ".." in segments
        or any(ord(sign) < 0x20 or sign == "\x7f" for sign in place)
    ):
        raise RequestRefused(
            "the path contains . or .. as a segment, or a control character: write the path without them",
            status=400,
        )


def _unavailable(error: Exception) -> ModelUnavailable:
    # Not the message of the error: it may show the address, and a key in it.
    return ModelUnavailable(f"no complete response from the provider: {type(error).__name__}")

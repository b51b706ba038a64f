"""Tokens and authorization: who may send a request, and for which tenant.

A token is `tf_NAME_SECRET`. The name finds its line in the token file; the secret has 256 random bits, so its SHA-256
is enough to store, and a stolen file gives no token away. Secrets are compared in constant time, and an unknown name
costs the same comparison as a known one. The file is read again when it changes, so a token is revoked without a
restart.

`RequestGate` authorizes every request from its headers alone, before anything of the body is read: requests to the
API, to the inspector and to MCP. It refuses a browser that was lured to a name pointing at this machine, by its Host
and Origin headers.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from turnfold.api import Right
from turnfold.errors import AccessDenied, InvalidOption, NotFound
from turnfold.service.limits import RateLimit
from turnfold.stores import check_name

__all__ = (
    "LOOPBACK",
    "Caller",
    "RequestGate",
    "TokenFile",
    "TokenLine",
    "TokenRing",
    "check_listening",
    "is_loopback",
    "new_token",
)


_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}")
_UNKNOWN: Final = sha256(b"").hexdigest()
"""Compared with the secret of an unknown name, so that it takes the same time as a known one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The tenant and rights of a request, as its token gives them."""

    tenant: str
    rights: frozenset[Right]
    name: str
    """Name of the token; empty if the service needs none."""

    def require(self, right: Right) -> None:
        """Raise `AccessDenied` if the caller does not have this right."""
        if right not in self.rights:
            rights = ", ".join(sorted(self.rights)) or "none"
            raise AccessDenied(
                f"the right {str(right)!r} is required; the token has: {rights}", status=403
            )


class TokenLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One token as the file stores it."""

    name: str
    tenant: str
    rights: tuple[Right, ...]
    hash: str
    created: int
    expires: int = 0
    """Seconds since 1970; 0 if it never expires."""


class _TokenList(msgspec.Struct, forbid_unknown_fields=True):
    tokens: list[TokenLine]


def new_token(
    name: str, tenant: str, rights: Iterable[str], *, now: float, days: float = 0
) -> tuple[str, TokenLine]:
    """Make a token: the text to show once, and the line to store."""
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"invalid token name {name!r}: use 1 to 64 of a-z, 0-9 and '-'")
    check_name(tenant, "tenant")
    if days < 0:
        raise InvalidOption(f"days={days} must not be negative; 0 means it never expires")
    known = {str(right): right for right in Right}
    unknown = sorted(set(rights) - known.keys())
    granted = tuple(known[each] for each in known if each in set(rights))
    if unknown or not granted:
        raise InvalidOption(
            f"rights {unknown or 'none'} are not valid: use one or more of {', '.join(known)}"
        )
    secret = secrets.token_hex(32)
    line = TokenLine(
        name=name,
        tenant=tenant,
        rights=granted,
        hash=_hashed(secret),
        created=int(now),
        expires=int(now + days * 86_400) if days else 0,
    )
    return f"tf_{name}_{secret}", line


class TokenFile:
    """The token file; replaced atomically, and readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[TokenLine]:
        """Return all tokens; an empty list if there is no file."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.json.decode(text, type=_TokenList).tokens
        except msgspec.MsgspecError as error:
            raise InvalidOption(f"{self.path} is not a valid token file: {error}") from None

    def add(self, line: TokenLine) -> None:
        """Add a token; its name must be new."""
        known = self.lines()
        if any(each.name == line.name for each in known):
            raise InvalidOption(
                f"a token named {line.name!r} exists already: revoke it, or use another name"
            )
        self._write([*known, line])

    def revoke(self, name: str) -> None:
        """Remove a token."""
        known = self.lines()
        left = [each for each in known if each.name != name]
        if len(left) == len(known):
            names = ", ".join(each.name for each in known) or "none"
            raise NotFound(f"no token named {name!r}; existing tokens: {names}")
        self._write(left)

    def _write(self, lines: list[TokenLine]) -> None:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        content = msgspec.json.format(msgspec.json.encode(_TokenList(lines)), indent=1)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(content + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


@dataclass(slots=True)
class TokenRing:
    """Tokens of a running service, reloaded when the file changes."""

    file: TokenFile
    clock: Callable[[], float] = time.time
    check_every: float = 1.0
    """Seconds between two checks of the file; a revoked token is accepted for at most that long."""
    _lines: dict[str, TokenLine] = field(default_factory=dict[str, TokenLine])
    _seen: tuple[int, int, int] | None = None
    _checked: float = float("-inf")

    def __post_init__(self) -> None:
        self._refresh()
        if not self._lines:
            raise InvalidOption(
                f"{self.file.path} contains no token: create one with `turnfold tokens create`"
            )

    def caller(self, token: str) -> Caller:
        """Return the caller of a token; raises `AccessDenied` for an unknown, wrong or expired one."""
        self._refresh()
        kind, _, rest = token.partition("_")
        name, _, secret = rest.partition("_")
        line = self._lines.get(name) if kind == "tf" else None
        given = _hashed(secret)
        same = hmac.compare_digest(given, line.hash if line else _UNKNOWN)
        if line is None or not same or 0 < line.expires <= self.clock():
            raise AccessDenied("unknown or expired token")
        return Caller(line.tenant, frozenset(line.rights), line.name)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked < self.check_every:
            return
        self._checked = now
        try:
            found = self.file.path.stat()
            seen = found.st_mtime_ns, found.st_size, found.st_ino
        except FileNotFoundError:
            seen = 0, 0, 0
        if seen == self._seen:
            return
        try:
            self._lines = {line.name: line for line in self.file.lines()}
        except InvalidOption:
            if self._seen is None:
                raise
            _log.error(
                "cannot read the token file any more; keeping the tokens read before",
                extra={"event": "tokens_unreadable"},
            )
        self._seen = seen


def _hashed(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_BEARER: Final = "bearer "


def is_loopback(host: str) -> bool:
    """Return True if `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class RequestGate:
    """Authorizes requests."""

    ring: TokenRing | None = None
    """None: no token is needed, and every caller is `tenant` with all rights. Loopback only."""
    tenant: str = "default"
    hosts: Collection[str] = LOOPBACK
    """Accepted values of the Host header, without port; "*" for any."""
    origins: Collection[str] = ()
    """Other origins whose pages may send requests."""
    rate_limit: RateLimit = field(default_factory=RateLimit)

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse a request with an unknown Host, or from a page of an unknown Origin."""
        host = headers.get("host", "")
        if "*" not in self.hosts and _without_port(host) not in self.hosts:
            raise AccessDenied(
                "unknown Host header; allow this name with --allow-host",
                status=403,
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and not _same_origin(origin, host):
            raise AccessDenied("origin not allowed; allow it with --allow-origin", status=403)

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return the caller of a request, and count it against the rate limit."""
        if self.ring is None:
            caller = Caller(self.tenant, frozenset(Right), "")
        else:
            given = headers.get("authorization", "")
            if given[: len(_BEARER)].lower() != _BEARER:
                raise AccessDenied("a token is required: send Authorization: Bearer tf_...")
            caller = self.ring.caller(given[len(_BEARER) :].strip())
        self.rate_limit.take(caller.name)
        return caller


def check_listening(host: str, ring: TokenRing | None) -> None:
    """Refuse to listen on a public address without tokens."""
    if ring is None and not is_loopback(host):
        raise InvalidOption(
            f"--host {host} can be reached from other machines, and without --tokens-file anybody could read and "
            "delete everything. Create a token (turnfold tokens create), or listen on 127.0.0.1"
        )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _same_origin(origin: str, host: str) -> bool:
    """Return True if a page came from the host it sends requests to."""
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

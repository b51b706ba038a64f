"""Access tokens and authorization: which requests are allowed, and for which tenant.

A token is `tf_NAME_SECRET`. The name selects its line in the token file. The secret has 256 random bits, and only its
SHA-256 hash is stored, so a stolen file contains no usable token. Hashes are compared in constant time, and an unknown
name takes as long as a known one. The file is read again when it changes, so a token is revoked without a restart;
while the file cannot be read, no token is accepted. Changes to the file are made under a lock, so that two writers at
once do not undo each other's change.

`RequestGate` authorizes every request (API, inspector, MCP) from its headers alone, before the body is read. By the
Host and Origin headers it also refuses requests that a foreign web page makes through a name pointing at this machine
(DNS rebinding).

A service without a token file is for one person, but every user of the machine can reach its port. `LocalAccess` makes
one token for that person's programs, and links that each sign one browser in.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
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

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = (
    "LOOPBACK",
    "Caller",
    "LocalAccess",
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
"""Hash with which the secret of an unknown token name is compared, so that the check takes as long as for a known
name."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Tenant and rights of the token that a request was sent with."""

    tenant: str
    rights: frozenset[Right]
    name: str
    """Name of the access token; empty if the service needs no token."""
    hash: str = field(default="", repr=False)
    """Hash of the secret that came with the request, to check later whether the token is still accepted."""

    def require(self, *rights: Right) -> None:
        """Raise `AccessDenied` if the caller does not have all of these rights."""
        missing = sorted(set(rights) - self.rights)
        if missing:
            given = ", ".join(sorted(self.rights)) or "none"
            raise AccessDenied(
                f"the right {str(missing[0])!r} is required; the token has: {given}", status=403
            )


class TokenLine(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One token as stored in the token file: with the hash of its secret, not the secret."""

    name: str
    tenant: str
    rights: tuple[Right, ...]
    hash: str
    created: int
    expires: int = 0
    """Time at which the token expires, in seconds since 1970; 0 if it never expires."""
    previous: str = ""
    """Hash of the secret before the last rotation, which is accepted until `previous_expires`."""
    previous_expires: int = 0

    def accepts(self, given: str, now: float) -> bool:
        """Return True if `given` is the hash of this token's secret and the token has not expired, in constant time."""
        current = hmac.compare_digest(given, self.hash)
        previous = hmac.compare_digest(given, self.previous or _UNKNOWN)
        if 0 < self.expires <= now:
            return False
        return current or (previous and now < self.previous_expires)


_NOBODY: Final = TokenLine(name="", tenant="", rights=(), hash=_UNKNOWN, created=0)


class _TokenList(msgspec.Struct, forbid_unknown_fields=True):
    tokens: list[TokenLine]


def new_token(
    name: str, tenant: str, rights: Iterable[str], *, now: float, days: float = 0
) -> tuple[str, TokenLine]:
    """Make an access token; return its text, to be shown once, and the line for the token file."""
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"invalid token name {name!r}: use 1 to 64 of a-z, 0-9 and '-'")
    check_name(tenant, "tenant")
    if days < 0:
        raise InvalidOption(
            f"days={days} must not be negative; 0 means that the token never expires"
        )
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
    """The file with the access tokens; it is replaced atomically, and readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[TokenLine]:
        """Return all tokens of the file; an empty list if there is no file. Raises `InvalidOption` if it is damaged."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidOption(
                f"cannot read the token file {self.path}: {error.strerror}"
            ) from None
        try:
            return msgspec.json.decode(text, type=_TokenList).tokens
        except msgspec.MsgspecError as error:
            raise InvalidOption(f"{self.path} is not a valid token file: {error}") from None

    def add(self, line: TokenLine) -> None:
        """Add a token to the file; raises `InvalidOption` if its name is in use."""
        with self._locked():
            known = self.lines()
            if any(each.name == line.name for each in known):
                raise InvalidOption(
                    f"a token named {line.name!r} exists already: revoke or rotate it, or use another name"
                )
            self._write([*known, line])

    def revoke(self, name: str) -> None:
        """Remove a token from the file, so that it is no longer accepted.

        Raises `NotFound` if no token has this name.
        """
        with self._locked():
            known = self.lines()
            self._named(name, known)
            # A file that was edited by hand may have a name twice.
            self._write([each for each in known if each.name != name])

    def rotate(self, name: str, *, now: float, overlap: float = 0) -> str:
        """Give a token a new secret and return its new text; the old text is accepted for `overlap` more seconds."""
        if overlap < 0:
            raise InvalidOption(
                f"overlap={overlap} must not be negative; 0 means that the old secret ends now"
            )
        with self._locked():
            known = self.lines()
            line, secret = self._named(name, known), secrets.token_hex(32)
            changed = msgspec.structs.replace(
                line,
                hash=_hashed(secret),
                previous=line.hash if overlap else "",
                previous_expires=int(now + overlap) if overlap else 0,
            )
            self._write(
                [
                    changed if each is line else each
                    for each in known
                    if each is line or each.name != name
                ]
            )
        return f"tf_{name}_{secret}"

    def last_used(self) -> dict[str, int]:
        """Return the time of each token's last use, in seconds since 1970, to a minute; unused tokens are absent."""
        try:
            return msgspec.json.decode(self._used_path.read_bytes(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            return {}

    def note_used(self, times: Mapping[str, int]) -> None:
        """Store the times of last use in a file next to the token file; keep later times of other processes."""
        stored = self.last_used()
        merged = {name: max(at, stored.get(name, 0)) for name, at in times.items()}
        _replace_file(self._used_path, msgspec.json.encode({**stored, **merged}), durable=False)

    @property
    def _used_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.used")

    @staticmethod
    def _named(name: str, known: list[TokenLine]) -> TokenLine:
        for each in known:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in known) or "none"
        raise NotFound(f"no token is named {name!r}: existing tokens are {names}")

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Context manager that locks the token file against other writers, by a separate lock file next to it."""
        lock = os.open(
            self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600
        )
        try:
            if sys.platform == "win32":
                msvcrt.locking(lock, msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)  # which releases the lock

    def _write(self, lines: list[TokenLine]) -> None:
        content = msgspec.json.format(msgspec.json.encode(_TokenList(lines)), indent=1)
        _replace_file(self.path, content + b"\n")


def _replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically with a new one that only its owner can read."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@dataclass(slots=True)
class TokenRing:
    """The access tokens of a running service, read again from their file when it changes."""

    file: TokenFile
    clock: Callable[[], float] = time.time
    check_every: float = 1.0
    """Seconds between two checks of the file; a revoked token is accepted for at most that long."""
    note_every: float = 60.0
    """Seconds between two writes of the tokens' times of last use."""
    _lines: dict[str, TokenLine] = field(default_factory=dict[str, TokenLine])
    _seen: tuple[int, int, int] | None = None
    _checked: float = float("-inf")
    _used: dict[str, int] = field(default_factory=dict[str, int])
    _noted: float = float("-inf")
    _failing: set[str] = field(default_factory=set[str])
    """Names of failures that were logged and still go on, so that they are not logged again."""

    def __post_init__(self) -> None:
        self._lines = {line.name: line for line in self.file.lines()}
        if not self._lines:
            raise InvalidOption(
                f"{self.file.path} contains no token: create one with `turnfold tokens create`"
            )

    def caller(self, token: str) -> Caller:
        """Return tenant and rights of a token; raises `AccessDenied` if the token is unknown, wrong or expired."""
        self._refresh()
        kind, _, rest = token.partition("_")
        name, _, secret = rest.partition("_")
        line = self._lines.get(name) if kind == "tf" else None
        given, now = _hashed(secret), self.clock()
        if not (line or _NOBODY).accepts(given, now) or line is None:
            raise AccessDenied(
                "unknown or expired token: ask the operator of the service for a new one"
            )
        self._used[line.name] = int(now)
        self._note_used()
        return Caller(line.tenant, frozenset(line.rights), line.name, given)

    def admits(self, caller: Caller) -> bool:
        """Return True if the caller's token still has the tenant and rights that it had when the request began."""
        self._refresh()
        line = self._lines.get(caller.name)
        return (
            line is not None
            and line.accepts(caller.hash, self.clock())
            and line.tenant == caller.tenant
            and caller.rights <= set(line.rights)
        )

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked < self.check_every:
            return
        self._checked = now
        try:
            seen = self._fingerprint()
            if seen != self._seen:
                self._lines = {line.name: line for line in self.file.lines()}
            self._seen = seen
            self._failing.discard("tokens_unreadable")
        except (InvalidOption, OSError) as error:
            self._lines, self._seen = {}, None
            text = f"no token is accepted until the token file can be read: {error}"
            self._warn("tokens_unreadable", text)

    def _fingerprint(self) -> tuple[int, int, int]:
        try:
            found = self.file.path.stat()
        except FileNotFoundError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _note_used(self) -> None:
        now = time.monotonic()
        if now - self._noted < self.note_every:
            return
        self._noted = now
        try:
            self.file.note_used(self._used)
            self._failing.discard("tokens_last_used")
        except OSError as error:  # the folder may be read-only for the service
            self._warn("tokens_last_used", f"cannot store when tokens were last used: {error}")

    def _warn(self, event: str, text: str) -> None:
        """Log a failure, unless this failure was logged before and has not been over since."""
        if event not in self._failing:
            self._failing.add(event)
            _log.error("%s", text, extra={"event": event})


class LocalAccess:
    """Access to a service without a token file: one token that is valid until the process ends, and sign-in links.

    Other users of the machine can see a link, because it is an argument of the browser's process. So each link works
    once, and contains a one-time key instead of the token; opening it sets a cookie with the token.
    """

    def __init__(self, tenant: str = "default") -> None:
        self.token, self._line = new_token("local", tenant, list(Right), now=0.0)
        self._key = secrets.token_urlsafe(32)
        self.on_used: Callable[[], None] | None = None
        """Called after a link was used, to show the next one."""
        self.language = ""
        """Language of pages for a client that asks for none, `en` or `zh`: that of the command that prints links."""

    def caller(self, token: str) -> Caller:
        """Return tenant and rights of the only access token of this service; raises `AccessDenied` for any other."""
        given = _hashed(token.rpartition("_")[2])
        if not self._line.accepts(given, 0.0):
            raise AccessDenied(
                "unknown token: use the token, or the newest sign-in link, that the command printed"
            )
        return Caller(self._line.tenant, frozenset(self._line.rights), self._line.name, given)

    def admits(self, caller: Caller) -> bool:
        """Return True if a caller's token is the only token of this service."""
        return self._line.accepts(caller.hash, 0.0)

    def link(self, address: str) -> str:
        """Return a link to the inspector at this address; the first browser that opens the link is signed in."""
        return f"{address}/open?key={self._key}"

    def use(self, key: str) -> str:
        """Return the token in exchange for the one-time key of the newest sign-in link, and make a new key.

        Raises `AccessDenied` for any other key.
        """
        if not hmac.compare_digest(key.encode("utf-8", "replace"), self._key.encode()):
            raise AccessDenied(
                "this link was used already, or an earlier run of the service printed it: open the newest link"
            )
        self._key = secrets.token_urlsafe(32)
        if self.on_used is not None:
            self.on_used()
        return self.token


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
    """Authorizes requests by their headers: Host, Origin, token and rate limit."""

    ring: TokenRing | LocalAccess | None = None
    """Object that checks access tokens. None if no token is needed: every caller has all rights of `tenant`; loopback
    only."""
    tenant: str = "default"
    hosts: Collection[str] = LOOPBACK
    """Accepted values of the Host header, without port; "*" for any."""
    origins: Collection[str] = ()
    """Origins of other web pages that may send requests."""
    rate_limit: RateLimit = field(default_factory=RateLimit)

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raise `AccessDenied` for an unknown Host header, or for a web page of an Origin that is not allowed."""
        host = headers.get("host", "")
        if "*" not in self.hosts and _without_port(host) not in self.hosts:
            raise AccessDenied(
                "the Host header names an unknown host: allow it with --allow-host",
                status=403,
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and not _same_origin(origin, host):
            raise AccessDenied(
                "the page's origin is not allowed: allow it with --allow-origin", status=403
            )

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return tenant and rights of the token in a request's headers, and count the request against the rate limit.

        Without `ring` no token is read: the caller has all rights of `tenant`. With it, `AccessDenied` is raised if
        the headers have no valid token. `LimitExceeded` is raised above the rate limit.
        """
        if self.ring is None:
            caller = Caller(self.tenant, frozenset(Right), "")
        else:
            given = headers.get("authorization", "")
            if given[: len(_BEARER)].lower() != _BEARER:
                raise AccessDenied("a token is required: send Authorization: Bearer tf_...")
            caller = self.ring.caller(given[len(_BEARER) :].strip())
        self.rate_limit.take(caller.name)
        return caller

    def accepts(self, token: str) -> bool:
        """Return True if a text is a valid access token, whatever its rights; every text is if none are needed."""
        try:
            return self.ring is None or bool(self.ring.caller(token))
        except AccessDenied:
            return False

    def admits(self, caller: Caller) -> bool:
        """Return True if the caller's token is still valid: neither revoked nor expired."""
        return self.ring is None or self.ring.admits(caller)


def check_listening(host: str, ring: object, allowed: Collection[str] = ()) -> None:
    """Raise `InvalidOption` if a service without tokens would listen on a public address or accept any Host header."""
    if ring is None and "*" in allowed:
        raise InvalidOption(
            "--allow-host '*' without --tokens-file would let any web page read and delete everything, through a host "
            "name that resolves to this machine. Create a token (turnfold tokens create), or name the hosts"
        )
    if ring is None and not is_loopback(host):
        raise InvalidOption(
            f"--host {host} can be reached from other machines, and without --tokens-file anybody could read and "
            "delete everything. Create a token (turnfold tokens create), or listen on 127.0.0.1"
        )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _same_origin(origin: str, host: str) -> bool:
    """Return True if the web page that sent a request came from the same host."""
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

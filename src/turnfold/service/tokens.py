"""Who may ask: tokens with a tenant and rights, kept as hashes in one file.

A token is `tf_NAME_SECRET`. The name finds its line in the file; the secret has 256 random bits, so one SHA-256 of it
is enough to keep, and a stolen file gives no token away. Secrets are compared in constant time, and a name nobody has
costs the same comparison as a known one. The file is read again when it changes: a revoked token ends without a
restart.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from turnfold.errors import AccessDenied, InvalidOption, NotFound
from turnfold.stores.protocol import check_name

__all__ = ("Caller", "Right", "TokenFile", "TokenLine", "TokenRing", "new_token")

_log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}")
_NOBODY: Final = sha256(b"").hexdigest()


class Right(StrEnum):
    """What a token lets its holder do; none of them includes another."""

    READ = "read"
    """Look at the conversations of its tenant."""
    WRITE = "write"
    """Add to them, change them, erase them, and make contexts: a context stores its call."""
    ADMIN = "admin"
    """See how the service itself does: its figures and its health in full."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: decided once per request, in one place."""

    tenant: str
    rights: frozenset[Right]
    name: str
    """Of the token; empty where the service asks for none."""

    def must(self, right: Right) -> None:
        """Refuse who has not this right."""
        if right not in self.rights:
            has = ", ".join(sorted(self.rights)) or "none"
            raise AccessDenied(
                f"this takes the right {str(right)!r}; the token has: {has}", status=403
            )


class TokenLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One token as it is kept."""

    name: str
    tenant: str
    rights: tuple[Right, ...]
    hash: str
    created: int
    expires: int = 0
    """Seconds since 1970; 0 for never."""


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    tokens: list[TokenLine]


def new_token(
    name: str, tenant: str, rights: Iterable[str], *, now: float, days: float = 0
) -> tuple[str, TokenLine]:
    """A token, to be shown once, and the line that is kept of it."""
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"a token named {name!r}: use 1 to 64 of a-z, 0-9 and '-'")
    check_name(tenant, "tenant")
    if days < 0:
        raise InvalidOption(f"days={days} must not be negative; 0 is for ever")
    known = {str(right): right for right in Right}
    unknown = sorted(set(rights) - known.keys())
    granted = tuple(known[each] for each in known if each in set(rights))
    if unknown or not granted:
        raise InvalidOption(f"rights {unknown or 'none'}: name one or more of {', '.join(known)}")
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
    """The file tokens are kept in; written whole, and readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[TokenLine]:
        """All tokens; none where there is no file."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.json.decode(text, type=_Form).tokens
        except msgspec.MsgspecError as error:
            raise InvalidOption(f"{self.path} is no file of tokens: {error}") from None

    def add(self, line: TokenLine) -> None:
        """Keep one more; a name is taken once."""
        known = self.lines()
        if any(each.name == line.name for each in known):
            raise InvalidOption(f"there is a token named {line.name!r}: revoke it, or name another")
        self._write([*known, line])

    def revoke(self, name: str) -> None:
        """Keep it no longer."""
        known = self.lines()
        left = [each for each in known if each.name != name]
        if len(left) == len(known):
            names = ", ".join(each.name for each in known) or "none"
            raise NotFound(f"no token named {name!r}; there are: {names}")
        self._write(left)

    def _write(self, lines: list[TokenLine]) -> None:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        content = msgspec.json.format(msgspec.json.encode(_Form(lines)), indent=1)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(content + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


@dataclass(slots=True)
class TokenRing:
    """The tokens of a running service."""

    file: TokenFile
    clock: Callable[[], float] = time.time
    look_again: float = 1.0
    """Seconds between two looks at the file: a revoked token lives at most that long."""
    _lines: dict[str, TokenLine] = field(default_factory=dict[str, TokenLine])
    _seen: tuple[int, int, int] | None = None
    _looked: float = float("-inf")

    def __post_init__(self) -> None:
        self._refresh()
        if not self._lines:
            raise InvalidOption(
                f"{self.file.path} holds no token: make one with `turnfold tokens create`"
            )

    def caller(self, token: str) -> Caller:
        """Who holds this token; `AccessDenied` for one nobody holds, whatever is wrong with it."""
        self._refresh()
        kind, _, rest = token.partition("_")
        name, _, secret = rest.partition("_")
        line = self._lines.get(name) if kind == "tf" else None
        given = _hashed(secret)
        same = hmac.compare_digest(given, line.hash if line else _NOBODY)
        if line is None or not same or 0 < line.expires <= self.clock():
            raise AccessDenied("this token is not known here, or no longer valid")
        return Caller(line.tenant, frozenset(line.rights), line.name)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < self.look_again:
            return
        self._looked = now
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
                "the file of tokens cannot be read any more; those read before still hold",
                extra={"event": "tokens_unreadable"},
            )
        self._seen = seen


def _hashed(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

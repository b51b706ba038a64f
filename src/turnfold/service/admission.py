"""The gate every request passes, whatever is behind it: the API, a mounted server, a page.

It decides from the headers alone who asks and whether they may, before anything of the body is read. A browser that
was lured to a name pointing at this machine says so in its Host and Origin, and is refused. What is mounted beside
the API wraps itself in `Guarded` and finds the `Caller` where the API finds it; there is no second way in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from turnfold.errors import AccessDenied, InvalidOption
from turnfold.service.limits import Pace
from turnfold.service.tokens import Caller, Right, TokenRing

__all__ = ("LOOPBACK", "Gate", "check_listening", "is_loopback")

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_BEARER: Final = "bearer "


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens at `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class Gate:
    """Who is let in."""

    ring: TokenRing | None = None
    """None: everybody who reaches the service, as `tenant` with all rights. Only on loopback."""
    tenant: str = "default"
    hosts: Collection[str] = LOOPBACK
    """Names the service may be called by; "*" for any."""
    origins: Collection[str] = ()
    """Pages of other origins that may ask."""
    pace: Pace = field(default_factory=Pace)

    def check_names(self, headers: Mapping[str, str]) -> None:
        """Refuse a request that was sent to another name, or by a page of another origin."""
        host = headers.get("host", "")
        if "*" not in self.hosts and _without_port(host) not in self.hosts:
            raise AccessDenied(
                "this service is not known under the name in the Host header; name it with --allow-host",
                status=403,
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and not _same(origin, host):
            raise AccessDenied(
                "pages of this origin may not ask here; allow it with --allow-origin", status=403
            )

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who asks, and that they do not ask too often."""
        if self.ring is None:
            caller = Caller(self.tenant, frozenset(Right), "")
        else:
            given = headers.get("authorization", "")
            if given[: len(_BEARER)].lower() != _BEARER:
                raise AccessDenied("this takes a token: Authorization: Bearer tf_...")
            caller = self.ring.caller(given[len(_BEARER) :].strip())
        self.pace.take(caller.name)
        return caller


def check_listening(host: str, ring: TokenRing | None) -> None:
    """Refuse to listen where others can reach a service that asks nobody for a token."""
    if ring is None and not is_loopback(host):
        raise InvalidOption(
            f"--host {host} can be reached from other machines, and there is no --tokens-file: anybody could read and "
            "erase everything. Make a token (turnfold tokens create), or listen on 127.0.0.1"
        )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _same(origin: str, host: str) -> bool:
    """Whether a page came from where it asks."""
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

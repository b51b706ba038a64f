"""Addresses of stores, caches and services as they may be shown: without a password, or a part of one.

Every place that shows an address (errors, logs, screens, JSON) asks `shown_address`. A password may hold the very
characters that divide an address, so nothing is searched for and cut out: an address is shown as far as its parts can
be read beyond doubt, and the rest is left out.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

__all__ = ("Address", "divided", "may_hold_password", "shown_address")

_HIDDEN: Final = "***"
_REST: Final = "..."
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_NAME: Final = re.compile(r"[\w.~-]{1,63}")
_HOST: Final = r"(?:\[[0-9A-Fa-f:.%]+\]|[\w.-]*)(?::[0-9]*)?"
_HOSTS: Final = re.compile(rf"{_HOST}(?:,{_HOST})*")
_PATH: Final = re.compile(r"(?:/[\w.~%+-]*)*")
_KEYWORDS: Final = re.compile(
    r"(?:^|\s)(?:host|hostaddr|port|dbname|user|password|passfile|service|ssl\w+)\s*=",
    re.IGNORECASE,
)
_PLAIN_OPTIONS: Final = frozenset(
    "application_name connect_timeout db protocol sslmode target_session_attrs".split()
)
"""Options of an address whose value is shown."""


class Address(NamedTuple):
    """The parts of an address. Together they are the address, so nothing is lost or decoded."""

    scheme: str
    """Empty for what has none, which is then all in `path`."""
    authority: str
    path: str
    options: str
    """What begins with ? or #."""


def divided(address: str) -> Address:
    """The parts of an address, whatever it holds: Python's own way of dividing it may raise, and shows it then."""
    scheme, apart, rest = address.lstrip().partition("://")
    if not apart or not _SCHEME.fullmatch(scheme):
        return Address("", "", address, "")
    authority, tail = _until(rest, "/?#")
    return Address(scheme, authority, *_until(tail, "?#"))


def shown_address(address: str) -> str:
    """The address as it may be shown: what holds a password, or may hold one, is left out."""
    scheme, authority, path, options = divided(address)
    if not scheme:
        return _REST if may_hold_password(address) else address
    if scheme.lower() == "sqlite" and not authority:
        shown = f"/{_REST}" if may_hold_password(unquote(path)) else path
        return f"{scheme}://{shown}{_shown_options(options)}"
    user, at, hosts = authority.rpartition("@")
    # A password with / or ? in it may end anywhere.
    if "@" in path + options or not _HOSTS.fullmatch(hosts):
        return f"{scheme}://{_REST}"
    shown_path = path if _PATH.fullmatch(path) else f"/{_REST}"
    who = f"{_shown_user(scheme, user)}@" if at else ""
    return f"{scheme}://{who}{hosts}{shown_path}{_shown_options(options)}"


def may_hold_password(name: str) -> bool:
    """Whether what has no scheme looks like a user, a password and a host, or like libpq's `host=... password=...`."""
    before, at, _ = name.partition("@")
    by_place = bool(at) and (":" in before or "/" not in before)
    return by_place or _KEYWORDS.search(name) is not None


def _until(text: str, marks: str) -> tuple[str, str]:
    """The text up to the first of some marks, and from there on."""
    at = next((index for index, letter in enumerate(text) if letter in marks), len(text))
    return text[:at], text[at:]


def _shown_user(scheme: str, user: str) -> str:
    name, colon, _ = user.partition(":")
    if name and not _NAME.fullmatch(name):
        name = _HIDDEN
    if colon:
        return f"{name}:{_HIDDEN}"
    return name if scheme.lower().startswith("postgres") else _HIDDEN  # elsewhere it may be a key


def _shown_options(options: str) -> str:
    """The options of an address that are known to be harmless; one mark for all others."""
    if options.strip("?#") == "":
        return options
    shown: list[str] = []
    for option in options.partition("#")[0].removeprefix("?").split("&"):
        name, _, value = option.partition("=")
        if name not in _PLAIN_OPTIONS or not _NAME.fullmatch(value):
            return f"?{_HIDDEN}"
        shown.append(option)
    return f"?{_HIDDEN}" if "#" in options else f"?{'&'.join(shown)}"

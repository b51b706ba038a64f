"""Store addresses (URLs): open the store at an address, and show an address without its password.

`sqlite:///chat.db` (relative), `sqlite:////var/lib/chat.db` (absolute), `sqlite://` (in memory), `postgresql://...`,
each optionally with `cache="redis://..."` (or `redis+cluster://...`) in front of it. A backend is imported when it is
opened, so only the drivers of the databases in use are needed.

Errors, logs, screens and JSON show an address only through `shown_address`. A password may contain the characters that
separate the parts of an address, so it cannot be found and removed reliably. Only the parts that are certainly not a
password are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.stores.protocol import Store
from turnfold.tokens import TokenCounter

if TYPE_CHECKING:
    from turnfold.stores.encryption.keys import EncryptionKey

__all__ = (
    "Address",
    "may_hold_password",
    "open_store",
    "shown_address",
    "split_address",
    "with_cache",
)


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
"""Names of options in a store's address whose values are no secrets, so that errors and logs may show them."""


class Address(NamedTuple):
    """The parts of a store address (URL), still percent-encoded."""

    scheme: str
    """The part of the address before ://; empty if there is none, and then `path` is the whole text."""
    authority: str
    """User, password, host and port."""
    path: str
    options: str
    """The part of the address from the first ? or # on."""


def split_address(address: str) -> Address:
    """Return the parts of an address. Never raises an error, because errors of `urllib` would show the address."""
    scheme, separator, rest = address.lstrip().partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return Address("", "", address, "")
    authority, tail = _until(rest, "/?#")
    return Address(scheme, authority, *_until(tail, "?#"))


def shown_address(address: str) -> str:
    """Return the address without any part that contains, or may contain, a password."""
    scheme, authority, path, options = split_address(address)
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
    shown_user = f"{_shown_user(scheme, user)}@" if at else ""
    return f"{scheme}://{shown_user}{hosts}{shown_path}{_shown_options(options)}"


def may_hold_password(name: str) -> bool:
    """Return True if a text without a scheme looks like `user:password@host` or libpq's `host=... password=...`."""
    before, at, _ = name.partition("@")
    has_user = bool(at) and (":" in before or "/" not in before)
    return has_user or _KEYWORDS.search(name) is not None


def _until(text: str, separators: str) -> tuple[str, str]:
    """Split a text before the first character that is one of `separators`.

    The second part is empty if it has none of them.
    """
    at = next((index for index, letter in enumerate(text) if letter in separators), len(text))
    return text[:at], text[at:]


def _shown_user(scheme: str, user: str) -> str:
    name, colon, password = user.partition(":")
    if name and not _NAME.fullmatch(name):
        name = _HIDDEN
    if colon and not password:
        return _HIDDEN  # before an empty password a key may stand in the place of the name
    if colon:
        return f"{name}:{_HIDDEN}"
    return name if scheme.lower().startswith("postgres") else _HIDDEN  # elsewhere it may be a key


def _shown_options(options: str) -> str:
    """Return the query or fragment of an address if no option in it can be a secret, otherwise a placeholder."""
    if options.strip("?#") == "":
        return options
    shown: list[str] = []
    for option in options.partition("#")[0].removeprefix("?").split("&"):
        name, _, value = option.partition("=")
        if name not in _PLAIN_OPTIONS or not _NAME.fullmatch(value):
            return f"?{_HIDDEN}"
        shown.append(option)
    return f"?{_HIDDEN}" if "#" in options else f"?{'&'.join(shown)}"


_KNOWN: Final = "sqlite:///PATH, sqlite:// (in memory), postgresql://..."
_REDIS: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster", "unix")


def open_store(
    url: str,
    *,
    cache: str | None = None,
    counter: TokenCounter | None = None,
    blocking: bool = False,
    clock: Callable[[], int] | None = None,
    encryption_key: EncryptionKey | Sequence[EncryptionKey] | None = None,
    index_process: bool = False,
) -> Store:
    """Open the store at `url`; if `cache` is set, put the Redis cache at that address in front of the store.

    With `encryption_key` (32 bytes, or their hexadecimal or base64 form; several after a rotation), everything is
    encrypted before it reaches the store or the cache. `counter` counts the tokens of stored messages. `blocking` is
    for applications without an event loop: every method then finishes without suspending. `clock` returns microseconds
    since 1970, for the timestamps of entries. With `index_process`, SQLite makes the search terms of long texts in a
    process of their own.
    """
    if encryption_key is not None:
        from turnfold.stores.encryption.store import EncryptedStore

        def inner(sealed: TokenCounter) -> Store:
            return open_store(url, cache=cache, counter=sealed, blocking=blocking, clock=clock)

        return EncryptedStore(inner, encryption_key, counter=counter)
    scheme = split_address(url).scheme.lower()
    if scheme == "sqlite":
        store = _open_sqlite(url, counter, clock, blocking=blocking, index_process=index_process)
    elif scheme in ("postgresql", "postgres"):
        store = _open_postgres(url, counter, clock, blocking=blocking)
    elif scheme in _REDIS:
        raise InvalidOption(
            f"{scheme}:// cannot be the store: Redis may lose data. Use it as cache=, in front of one of {_KNOWN}"
        )
    else:
        shown = shown_address(url)
        bare = re.sub(r"^sqlite:/*", "", shown, flags=re.IGNORECASE)
        file = "" if scheme else f' For a file write "sqlite:///{bare}".'
        raise InvalidOption(f"unknown store {shown!r}; known: {_KNOWN}.{file}")
    return store if cache is None else with_cache(store, cache, blocking=blocking)


def _open_sqlite(
    url: str,
    counter: TokenCounter | None,
    clock: Callable[[], int] | None,
    *,
    blocking: bool,
    index_process: bool,
) -> Store:
    try:
        from turnfold.stores.sqlite.store import SqliteStore
    except ImportError as missing:
        raise MissingExtra(package="apsw", extra="sqlite", purpose="SqliteStore") from missing
    address = split_address(url)
    if address.authority:
        # A file name is repeated in the remedy; anything that may be a password is not.
        is_file = "@" not in url and ":" not in address.authority
        name = address.authority if is_file else "name.db"
        raise InvalidOption(
            f"{shown_address(url)!r} has a host; a relative path takes three slashes: sqlite:///{name}"
        )
    if address.options.strip("?#"):
        raise InvalidOption(
            f"{shown_address(url)!r}: SQLite addresses take no ? or # part; write them as %3F and %23"
        )
    path = unquote(address.path[1:])
    return SqliteStore(
        path or None,
        counter=counter,
        blocking=blocking,
        clock=clock,
        index_process=index_process,
    )


def _open_postgres(
    url: str, counter: TokenCounter | None, clock: Callable[[], int] | None, *, blocking: bool
) -> Store:
    from turnfold.stores.postgres.store import PostgresStore

    return PostgresStore(url, counter=counter, blocking=blocking, clock=clock)


def with_cache(
    store: Store,
    cache: str,
    *,
    blocking: bool = False,
    on_answer: Callable[[float, bool], None] | None = None,
) -> Store:
    """Return a store that reads through the Redis cache at the address `cache`; writes go to `store`.

    `on_answer` is called after each request to Redis with the seconds it took and whether Redis responded.
    """
    if split_address(cache).scheme.lower() not in _REDIS:
        raise InvalidOption(
            f"cache={shown_address(cache)!r} must be the address of a Redis server: redis://host:port, rediss://, "
            "redis+cluster:// or unix://"
        )
    from turnfold.stores.redis.cache import CachedStore

    cluster = "+cluster://" in cache
    address = cache.replace("+cluster://", "://", 1)
    return CachedStore(store, address, blocking=blocking, cluster=cluster, on_answer=on_answer)

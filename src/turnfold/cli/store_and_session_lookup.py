"""Finds and opens the store, the session and the call that the options of a command name.

The store is named by `--store` or TURNFOLD_STORE; the default is a file in the user's data folder. A command that only
reads never creates a store: a mistyped address is an error and creates no empty file. A session is opened with the
token counter that counted its entries, if it is known, so that token counts equal those of the application that wrote
it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from turnfold.budget import Budget
from turnfold.cli.chinese_labels import translated, with_singulars
from turnfold.errors import InvalidOption, NotFound
from turnfold.inspect import call_numbers, recent_calls
from turnfold.memory import LAST_CALL, Manifest, Memory, Session, budget_of, call_key
from turnfold.records import Entry
from turnfold.runtime import drive
from turnfold.stores import (
    ConversationInfo,
    Head,
    Scope,
    Store,
    is_blank,
    list_sessions,
    may_hold_password,
    open_store,
    read_key_file,
    refuse_encrypted,
    shown_address,
    split_address,
    was_erased,
)
from turnfold.tokens import (
    TokenCounter,
    cautious_counter,
    context_window_for,
    counter_for,
    counter_named,
    find_model,
)

__all__ = (
    "LAST",
    "Opened",
    "OpenedSession",
    "address_of",
    "counter_of",
    "default_store",
    "encryption_keys",
    "file_of",
    "file_or_session",
    "find_call",
    "find_session",
    "find_sessions",
    "log_pages",
    "looks_like_file",
    "open_at",
    "open_session",
    "require_store",
    "session_in",
    "sessions_in",
    "time_zone",
)

_FILES = frozenset(".csv .db .gz .json .jsonl .md .sqlite .sqlite3 .txt .zip".split())
"""Endings of the names of files that users give in the place of a session."""


def default_store(environment: Mapping[str, str] | None = None, *, make_folder: bool = True) -> str:
    """Return the address of the store that is used without `--store`: TURNFOLD_STORE, or a file of the user.

    The folder of that file is created, unless `make_folder` is False.
    """
    known = os.environ if environment is None else environment
    if known.get("TURNFOLD_STORE"):
        return address_of(known["TURNFOLD_STORE"])
    base = known.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    folder = Path(base) / "turnfold"
    if make_folder:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{(folder / 'chat.db').as_posix()}"


def encryption_keys(environment: Mapping[str, str] | None = None) -> list[str] | None:
    """Return the keys in the file that TURNFOLD_ENCRYPTION_KEY_FILE names; None if it is not set."""
    path = (os.environ if environment is None else environment).get("TURNFOLD_ENCRYPTION_KEY_FILE")
    return read_key_file(path) if path else None


def time_zone() -> str:
    """Return the name of the time zone in which models are shown times: TURNFOLD_TIME_ZONE, by default UTC."""
    return os.environ.get("TURNFOLD_TIME_ZONE") or "UTC"


def address_of(store: str | None) -> str:
    """Return the address of a store; `store` may be an address or a file path, None means the default store."""
    if not store:
        return default_store(make_folder=False)
    if "://" in store:
        return store
    if may_hold_password(store):
        raise InvalidOption(
            "the store looks like an address without a scheme: use "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or sqlite:///PATH for a file of such a name"
        )
    return f"sqlite:///{quote(Path(store).as_posix())}"


def file_of(address: str) -> Path | None:
    """Return the SQLite file of an address; None if the store is of another kind or in memory."""
    parts = split_address(address)
    if parts.scheme.lower() != "sqlite" or parts.authority or len(parts.path) < 2:
        return None
    return Path(unquote(parts.path[1:]))


def require_store(address: str) -> None:
    """Raise `NotFound` if a SQLite file does not exist or has no tables, because opening it would create them."""
    path = file_of(address)
    if path is None or not is_blank(path):
        return
    if path.exists():
        raise NotFound(
            f"the file {shown_address(str(path))} is empty, so it is no store yet. Name another with --store or "
            "TURNFOLD_STORE; `turnfold chat` and `turnfold import` make it one"
        )
    raise NotFound(
        f"no store at {shown_address(str(path))}. Name one with --store or TURNFOLD_STORE; "
        "`turnfold chat` and `turnfold import` create one"
    )


LAST, PREVIOUS = LAST_CALL, "@prev"
_PAGE = 500
_CANDIDATES = 8
_CALL = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store with the scope (tenant) that the command works on."""

    store: Store
    scope: Scope
    address: str


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """An open session with its newest calls, and the budget for its next call."""

    opened: Opened
    memory: Memory
    session: Session
    head: Head
    calls: tuple[Manifest, ...]
    budget: Budget


@contextmanager
def open_at(
    store: str | None,
    tenant: str,
    *,
    counter: TokenCounter | None = None,
    make: bool = False,
    decrypt: bool = True,
    refuse: bool = True,
) -> Generator[Opened]:
    """Context manager: opens the store of a command, and closes it at the end.

    A store that does not exist is created if `make` is True; otherwise an error is raised. Encrypted conversations are
    decrypted with the configured key. Without a key, reading them raises `WrongKey`; with `refuse=False` they are read
    in their encrypted form. With `decrypt=False` they are always read in that form.
    """
    address = address_of(store)
    if not make:
        require_store(address)
    keys = encryption_keys() if decrypt else None
    opened = open_store(address, counter=counter, blocking=True, encryption_key=keys)
    if decrypt and refuse:
        opened = refuse_encrypted(opened)
    try:
        yield Opened(opened, Scope(tenant), shown_address(address))
    finally:
        drive(opened.close())


@contextmanager
def open_session(
    store: str | None,
    tenant: str,
    name: str,
    *,
    model: str | None = None,
    budget: int | None = None,
    calls: int = 60,
) -> Generator[OpenedSession]:
    """Context manager: opens the session with this id or prefix, with the token counter that counted its entries."""
    with open_at(store, tenant) as opened:
        conversation = find_session(opened, name)
        head = drive(opened.store.head(opened.scope, conversation))
    if model and find_model(model) is None:
        hint = translated(f"turnfold: model {model!r} is not known: its tokens are estimates")
        sys.stderr.write(f"{hint}\n")
    counter = counter_for(model) if model else counter_of(head)
    with open_at(store, tenant, counter=counter) as opened:
        yield session_in(opened, conversation, counter, model=model, budget=budget, calls=calls)


@contextmanager
def file_or_session(source: str) -> Generator[None]:
    """Context manager: if no file and no session has the given name, the error says so of both."""
    try:
        yield
    except NotFound as error:
        raise NotFound(f"there is no file {source}, and {error}") from None


def session_in(
    opened: Opened,
    conversation: str,
    counter: TokenCounter | None = None,
    *,
    model: str | None = None,
    budget: int | None = None,
    calls: int = 60,
) -> OpenedSession:
    """Return a session of an open store with its newest calls and budget, for reading."""
    head = drive(opened.store.head(opened.scope, conversation))
    counter = counter or counter_of(head)
    zone = time_zone()
    usual = Memory(opened.store, scope=opened.scope, counter=counter, time_zone=zone)
    recent = drive(recent_calls(usual.session(conversation).awaiting, most=calls))
    limit = _budget(usual, recent, budget, model)
    memory = Memory(
        opened.store,
        scope=opened.scope,
        counter=counter,
        budget=limit,
        fold="manual",
        time_zone=zone,
    )
    return OpenedSession(opened, memory, memory.session(conversation), head, tuple(recent), limit)


def _budget(memory: Memory, calls: list[Manifest], tokens: int | None, model: str | None) -> Budget:
    """Return the budget that was passed; otherwise that of the newest call, or the context window of the model."""
    if tokens is not None:
        return Budget(max_tokens=tokens)
    if calls:
        return budget_of(calls[-1])
    return Budget(context_window=context_window_for(model)) if model else memory.budget


def counter_of(head: Head) -> TokenCounter:
    """Return the token counter by which the entries of a session were counted.

    Returns a cautious counter if that one is not available here.
    """
    known = counter_named(head.counter) if head.counter else cautious_counter()
    if known is None:
        sys.stderr.write(
            f"turnfold: this session was counted with {head.counter!r}, which is unknown here; name the model with "
            "--model. The figures are conservative estimates\n"
        )
        return cautious_counter()
    return known


def sessions_in(opened: Opened, prefix: str = "") -> list[ConversationInfo]:
    """Return the sessions of the tenant, ordered by id; conversations of adapters only if the prefix has a colon."""
    found: list[ConversationInfo] = []
    while page := drive(
        list_sessions(
            opened.store,
            opened.scope,
            prefix=prefix,
            after=found[-1].conversation if found else "",
            limit=_PAGE,
        )
    ):
        found.extend(page)
    return found


def find_sessions(opened: Opened, names: Sequence[str]) -> list[str]:
    """Return the ids of these sessions, each once; a name that ends with a colon selects all ids that start with it."""
    found: list[str] = []
    for name in names:
        if name.endswith(":"):
            found += [info.conversation for info in sessions_in(opened, name)]
        else:
            found.append(find_session(opened, name))
    return list(dict.fromkeys(found))


def log_pages(session: Session) -> Iterator[list[Entry]]:
    """Yield the whole log of a session, page by page."""
    after = 0
    while page := session.history(after=after, limit=_PAGE):
        yield page
        after = page[-1].seq


def find_session(opened: Opened, name: str) -> str:
    """Return the id of the session with this id or prefix; `@last` is the most recently changed session."""
    if name == LAST:
        known = sessions_in(opened)
        if not known:
            raise NotFound(
                f"no sessions of tenant {opened.scope.tenant!r} in {opened.address}: check --store and --tenant"
            )
        return max(known, key=lambda info: (info.updated, info.conversation)).conversation
    head = drive(opened.store.head(opened.scope, name))
    if head.generation:
        if drive(was_erased(opened.store, opened.scope, name)):
            raise NotFound(f"session {name!r} was deleted: nothing of it is stored")
        return name
    page = drive(opened.store.conversations(opened.scope, after=name, limit=_CANDIDATES + 1))
    found = [info.conversation for info in page if info.conversation.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:_CANDIDATES]) + (", ..." if len(found) > _CANDIDATES else "")
        raise InvalidOption(
            f"{name!r} matches several sessions: {shown}; give a longer prefix or the whole id"
        )
    if looks_like_file(name):
        raise NotFound(
            f"no session {name!r} in {opened.address}; it looks like a file: `--store {name}` opens a store, "
            f"`turnfold import {name}` reads conversations of other programs"
        )
    raise NotFound(
        f"no session {name!r} of tenant {opened.scope.tenant!r} in {opened.address}; `turnfold sessions` lists all "
        "sessions"
    )


def looks_like_file(name: str) -> bool:
    """Return True if the name of a session that was not found is rather that of a file, existing or not."""
    return Path(name).suffix.lower() in _FILES


def _numbered(numbers: Mapping[str, int]) -> str:
    return f"calls are numbered from 1 to {len(numbers)}" if numbers else "it has no calls yet"


def find_call(at: OpenedSession, name: str) -> str:
    """Return the id of the call that a command line names: its number, its id, `@last` or `@prev`."""
    calls = at.calls
    if name in (LAST, PREVIOUS):
        back = 1 if name == LAST else 2
        if len(calls) < back:
            raise NotFound(
                f"session {at.session.id!r} has {with_singulars(f'{len(calls)} calls')}, so there is no {name}"
            )
        return calls[-back].call
    numbers = drive(call_numbers(at.session.awaiting))
    if name.isdecimal():
        if not 1 <= int(name) <= len(numbers):
            raise NotFound(f"no call {name} in {at.session.id!r}: {_numbered(numbers)}")
        return list(numbers)[int(name) - 1]
    parts = _CALL.fullmatch(name)
    if parts is None:
        raise InvalidOption(
            f"{name!r} is not a call: use its number, its id, {LAST} or {PREVIOUS}; `turnfold explain "
            f"{at.session.id} --list` lists the calls"
        )
    call = call_key(int(parts[1]), int(parts[2]))
    if call not in numbers:
        raise NotFound(f"no call {name} in {at.session.id!r}: {_numbered(numbers)}")
    return call

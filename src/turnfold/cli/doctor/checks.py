"""The checks: each looks at one thing and says how it is, what was seen, and what to do about it.

A check never raises: whatever goes wrong is what it found. Something missing that nobody asked for (an extra) is a
note; something that loses data, or that was asked for and does not work, is a fault.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata

import turnfold
from turnfold.cli.store_address import address_of, file_of
from turnfold.errors import InvalidRecord, TurnfoldError
from turnfold.memory.drive import drive
from turnfold.stores import Ability, ConversationInfo, Scope, Store, open_store
from turnfold.stores.addresses import shown_address
from turnfold.stores.sqlite_engine import SAFE_SQLITE, sqlite_version
from turnfold.tokens import ENCODINGS, Encoding
from turnfold.tokens.prices import shipped_prices

__all__ = ("Finding", "State", "examine")

_SENTENCE = "The deposit is 4,471.50 EUR. 定金是 4471.50 欧元。"
_OLDEST_PYTHON = (3, 11)
_SPARE_BYTES = 200 << 20
_MOST_READ = 50_000
"""Entries that are read to see whether they are sound: a few seconds."""
_SHOWN_FAULTS = 5


class State(StrEnum):
    """How something is."""

    OK = "ok"
    NOTE = "note"
    """Works; worth knowing."""
    BAD = "bad"
    """Does not work, or may lose data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def examine(store: str | None, tenant: str, cache: str | None = None) -> list[Finding]:
    """Every check, in order."""
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("python", _python),
        ("extras", _extras),
        ("sqlite", _sqlite),
        ("tokenizers", _tokenizers),
        ("store", lambda: _store(store, tenant, cache)),
        ("disk", lambda: _disk(store)),
        ("terminal", _terminal),
        ("prices", _prices),
    )
    found: list[Finding] = []
    for name, check in checks:
        try:
            found.extend(check())
        except TurnfoldError as error:
            found.append(Finding(name=name, state=State.BAD, detail=str(error)))
        except Exception as error:
            kind = type(error).__name__
            found.append(Finding(name=name, state=State.BAD, detail=f"{kind}: {error}"))
    return found


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    old = sys.version_info < _OLDEST_PYTHON
    yield Finding(
        name="python",
        state=State.BAD if old else State.OK,
        detail=f"turnfold {turnfold.__version__}, Python {version} on {platform.system()}",
        remedy="Use Python 3.11 or newer" if old else "",
    )


def _extras() -> Iterator[Finding]:
    """Each extra with the packages it names."""
    wanted: dict[str, list[str]] = {}
    for line in metadata.requires("turnfold") or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is not None:
            name = re.match(r"[\w.-]+", line)
            wanted.setdefault(extra[1], []).append(name[0] if name else line)
    for extra, packages in sorted(wanted.items()):
        have = {package: _version(package) for package in packages}
        missing = [package for package, version in have.items() if not version]
        yield Finding(
            name=f"extra {extra}",
            state=State.NOTE if missing else State.OK,
            detail=", ".join(f"{p} {v or 'not installed'}" for p, v in have.items()),
            remedy=f"pip install 'turnfold[{extra}]'" if missing else "",
        )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _sqlite() -> Iterator[Finding]:
    version = sqlite_version()
    too_old = tuple(int(part) for part in version.split(".")) < SAFE_SQLITE
    safe = ".".join(map(str, SAFE_SQLITE))
    yield Finding(
        name="sqlite",
        state=State.BAD if too_old else State.OK,
        detail=f"SQLite {version} (apsw {_version('apsw') or 'unknown'})",
        remedy=f"Before {safe} two connections can corrupt a file: upgrade apsw" if too_old else "",
    )
    held = open_store("sqlite://", blocking=True)
    try:
        searches = Ability.SEARCH in held.abilities
        health = drive(held.health())
    finally:
        drive(held.close())
    yield Finding(
        name="sqlite in memory",
        state=State.OK if health.ok and searches else State.BAD,
        detail="opens, full-text search there" if searches else "no full-text search",
    )


def _tokenizers() -> Iterator[Finding]:
    """Every vocabulary is loaded and reads its own words back."""
    for name in sorted(ENCODINGS):
        try:
            tokens = Encoding(name).count(_SENTENCE)
        except Exception as error:
            yield Finding(
                name=f"tokenizer {name}",
                state=State.BAD,
                detail=f"{type(error).__name__}: {error}",
                remedy="Install splintr-rs anew: it ships the vocabularies",
            )
            continue
        sane = 10 <= tokens <= len(_SENTENCE.encode())
        yield Finding(
            name=f"tokenizer {name}",
            state=State.OK if sane else State.BAD,
            detail=f"{tokens} tokens for {len(_SENTENCE)} characters",
        )


def _store(store: str | None, tenant: str, cache: str | None) -> Iterator[Finding]:
    address = address_of(store)
    path = file_of(address)
    shown = shown_address(address)
    if path is not None and not path.exists():
        writable = os.access(next(p for p in path.absolute().parents if p.exists()), os.W_OK)
        yield Finding(
            name="store",
            state=State.NOTE if writable else State.BAD,
            detail=f"{shown} does not exist yet",
            remedy="It is made with the first session"
            if writable
            else "Its folder cannot be written",
        )
        return
    held = open_store(address, cache=cache, blocking=True)
    try:
        health = drive(held.health())
        contents = _contents(held, Scope(tenant))
    finally:
        drive(held.close())
    facts = ", ".join(f"{name} {value}" for name, value in sorted(health.details.items()))
    yield Finding(
        name="store",
        state=State.OK if health.ok else State.BAD,
        detail=f"{shown}: {health.backend}, {facts}",
    )
    for warning in health.warnings:
        yield Finding(name="store", state=State.BAD, detail=warning)
    yield contents


def _contents(held: Store, scope: Scope) -> Finding:
    """Whether what is stored can be read: every body has a checksum."""
    read, after, faults = 0, "", list[str]()
    while read < _MOST_READ and (page := drive(held.conversations(scope, after=after))):
        for info in page:
            after = info.conversation
            try:
                read += _read_whole(held, scope, info)
            except InvalidRecord as error:
                faults.append(str(error))
            if read >= _MOST_READ:
                break
    more = f"; no more than {_MOST_READ:,} are read" if read >= _MOST_READ else ""
    return Finding(
        name="contents",
        state=State.BAD if faults else State.OK,
        detail="; ".join(faults[:_SHOWN_FAULTS])
        or f"{read:,} entries are as they were written{more}",
        remedy="Restore the store from a backup, and look at the disk it is on" if faults else "",
    )


def _read_whole(held: Store, scope: Scope, info: ConversationInfo) -> int:
    """Read a conversation; how many entries it has."""
    drive(held.capture(scope, info.conversation, lambda _: None))
    after = 0
    while page := drive(held.read(scope, info.conversation, after=after)):
        after = page[-1].seq
    return after


def _disk(store: str | None) -> Iterator[Finding]:
    path = file_of(address_of(store))
    if path is None:
        return
    folder = next(p for p in path.absolute().parents if p.exists())
    free = shutil.disk_usage(folder).free
    yield Finding(
        name="disk",
        state=State.BAD if free < _SPARE_BYTES else State.OK,
        detail=f"{free / (1 << 30):,.1f} GiB free beside the store",
        remedy="A full disk refuses every write: make room" if free < _SPARE_BYTES else "",
    )


def _terminal() -> Iterator[Finding]:
    encoding = (sys.stdout.encoding or "").lower()
    wide = encoding.replace("-", "").startswith("utf")
    size = shutil.get_terminal_size()
    colour = "NO_COLOR set" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "no TERM")
    yield Finding(
        name="terminal",
        state=State.OK if wide else State.NOTE,
        detail=f"{size.columns} x {size.lines}, {encoding or 'unknown encoding'}, {colour}",
        remedy=""
        if wide
        else "Set LANG=C.UTF-8 (or PYTHONUTF8=1): Chinese cannot be shown in this encoding",
    )


def _prices() -> Iterator[Finding]:
    table = shipped_prices()
    yield Finding(
        name="prices",
        state=State.OK,
        detail=f"{len(table.models)} models, list prices of {table.date}",
    )

"""`turnfold doctor`: checks the installation and the store; each result says what to do.

A check never raises an exception: an error becomes its result. A missing extra is a note, because it may not be needed.
The result is bad if data may be lost, or if something that the user asked for does not work.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from rich.cells import set_cell_size
from rich.text import Text

import turnfold
from turnfold.cli.chinese_labels import colon, label, translated, with_singulars
from turnfold.cli.store_and_session_lookup import address_of, encryption_keys, file_of
from turnfold.cli.tables_and_progress_bars import as_json, make_console, printable
from turnfold.errors import InvalidRecord, StoreError, TurnfoldError, WrongKey
from turnfold.memory import Memory
from turnfold.runtime import drive
from turnfold.stores import (
    SAFE_SQLITE,
    Ability,
    ConversationInfo,
    Scope,
    Store,
    is_blank,
    open_store,
    shown_address,
    sqlite_faults,
    sqlite_version,
)
from turnfold.tokens import ENCODINGS, Encoding, shipped_prices

__all__ = (
    "CheckResult",
    "CheckState",
    "Report",
    "examine",
    "show_findings",
)


_SENTENCE = "The deposit is 4,471.50 EUR. 定金是 4471.50 欧元。"
_OLDEST_PYTHON = (3, 11)
_SPARE_BYTES = 200 << 20
_MOST_READ = 50_000
"""Most entries that `turnfold doctor` reads to verify their checksums, so that the check takes only seconds; further
entries are not checked."""
_SHOWN_FAULTS = 5
_MOST_SESSIONS = 200
"""Most sessions that `turnfold doctor` reads to report failed folds (compactions)."""
_EXTRA = "extra "
"""Beginning of the names of checks of extras (optional dependencies)."""


class CheckState(StrEnum):
    """Outcome of a check of `turnfold doctor`: all well, a note, or a problem."""

    OK = "ok"
    NOTE = "note"
    """The checked thing works, but the user should know something about it."""
    BAD = "bad"
    """The checked thing does not work, or may lose data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check of `turnfold doctor`: its state, details and what to do."""

    name: str
    state: CheckState
    detail: str
    remedy: str = ""


def examine(store: str | None, tenant: str, cache: str | None = None) -> list[CheckResult]:
    """Run every check and sort the results: problems first, then notes, then successful checks, extras last."""
    checks: tuple[tuple[str, Callable[[], Iterator[CheckResult]]], ...] = (
        ("python", _python),
        ("extras", _extras),
        ("sqlite", _sqlite),
        ("tokenizers", _tokenizers),
        ("store", lambda: _store(store, tenant, cache)),
        ("disk", lambda: _disk(store)),
        ("terminal", _terminal),
        ("prices", _prices),
    )
    found: list[CheckResult] = []
    for name, check in checks:
        try:
            found.extend(check())
        except TurnfoldError as error:
            found.append(CheckResult(name=name, state=CheckState.BAD, detail=str(error)))
        except Exception as error:
            kind = type(error).__name__
            found.append(CheckResult(name=name, state=CheckState.BAD, detail=f"{kind}: {error}"))
    return sorted(found, key=_rank)


def _rank(one: CheckResult) -> int:
    """Return the sort key of a check's result: problems first, then notes, then successful checks, extras last."""
    if one.state is CheckState.BAD:
        return 0
    if one.name.startswith(_EXTRA):
        return 3
    return 1 if one.state is CheckState.NOTE else 2


def _python() -> Iterator[CheckResult]:
    version = platform.python_version()
    old = sys.version_info < _OLDEST_PYTHON
    yield CheckResult(
        name="python",
        state=CheckState.BAD if old else CheckState.OK,
        detail=f"turnfold {turnfold.__version__}, Python {version} on {platform.system()}",
        remedy="Use Python 3.11 or newer" if old else "",
    )


def _extras() -> Iterator[CheckResult]:
    """Yield a result for each optional extra: whether its packages are installed."""
    wanted: dict[str, list[str]] = {}
    for line in metadata.requires("turnfold") or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if extra is not None:
            name = re.match(r"[\w.-]+", line)
            wanted.setdefault(extra[1], []).append(name[0] if name else line)
    for extra, packages in sorted(wanted.items()):
        have = {package: _version(package) for package in packages}
        missing = [package for package, version in have.items() if not version]
        yield CheckResult(
            name=f"{_EXTRA}{extra}",
            state=CheckState.NOTE if missing else CheckState.OK,
            detail=", ".join(f"{p} {v or 'not installed'}" for p, v in have.items()),
            remedy=f"pip install 'turnfold[{extra}]'" if missing else "",
        )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _sqlite() -> Iterator[CheckResult]:
    version = sqlite_version()
    too_old = tuple(int(part) for part in version.split(".")) < SAFE_SQLITE
    safe = ".".join(map(str, SAFE_SQLITE))
    yield CheckResult(
        name="sqlite",
        state=CheckState.BAD if too_old else CheckState.OK,
        detail=f"SQLite {version} (apsw {_version('apsw') or 'unknown'})",
        remedy=f"Before {safe} two connections can corrupt a file: upgrade apsw" if too_old else "",
    )
    store = open_store("sqlite://", blocking=True)
    try:
        searches = Ability.SEARCH in store.abilities
        health = drive(store.health())
    finally:
        drive(store.close())
    yield CheckResult(
        name="sqlite in memory",
        state=CheckState.OK if health.ok and searches else CheckState.BAD,
        detail="opens, full-text search available" if searches else "no full-text search",
    )


def _tokenizers() -> Iterator[CheckResult]:
    """Yield a result for each vocabulary: whether it can be loaded and counts a sentence plausibly."""
    for name in sorted(ENCODINGS):
        try:
            tokens = Encoding(name).count(_SENTENCE)
        except Exception as error:
            yield CheckResult(
                name=f"tokenizer {name}",
                state=CheckState.BAD,
                detail=f"{type(error).__name__}: {error}",
                remedy="Reinstall splintr-rs, which ships the vocabularies",
            )
            continue
        sane = 10 <= tokens <= len(_SENTENCE.encode())
        yield CheckResult(
            name=f"tokenizer {name}",
            state=CheckState.OK if sane else CheckState.BAD,
            detail=f"{tokens} tokens for {len(_SENTENCE)} characters",
        )


def _store(store: str | None, tenant: str, cache: str | None) -> Iterator[CheckResult]:
    address = address_of(store)
    path = file_of(address)
    shown = shown_address(address)
    if path is not None and is_blank(path):
        writable = os.access(next(p for p in path.absolute().parents if p.exists()), os.W_OK)
        yield CheckResult(
            name="store",
            state=CheckState.NOTE if writable else CheckState.BAD,
            detail=f"{shown} is empty" if path.exists() else f"{shown} does not exist yet",
            remedy="It is created with the first session"
            if writable
            else "Its folder is not writable",
        )
        return
    if path is not None:
        yield from _pages(path)
    keys = encryption_keys()
    opened = open_store(address, cache=cache, blocking=True, encryption_key=keys)
    try:
        health = drive(opened.health())
        contents = _contents(opened, Scope(tenant))
        folds = list(_folds(opened, Scope(tenant)))
    finally:
        drive(opened.close())
    facts = ", ".join(f"{name} {value}" for name, value in sorted(health.details.items()))
    yield CheckResult(
        name="store",
        state=CheckState.OK if health.ok else CheckState.BAD,
        detail=f"{shown}: {health.backend} store ({facts})",
    )
    for warning in health.warnings:
        yield CheckResult(name="store", state=CheckState.BAD, detail=warning)
    if cache is not None and "redis" in health.details:
        dead = health.details["redis"] != "closed" or health.details["redis.failures"] != "0"
        yield CheckResult(
            name="cache",
            state=CheckState.BAD if dead else CheckState.OK,
            detail=f"{shown_address(cache)} {'does not answer' if dead else 'answers'}",
            remedy="Start Redis, or correct --cache: every read goes to the store" if dead else "",
        )
    if path is not None and os.name == "posix":
        yield _permissions(path)
    yield contents
    yield from folds


def _folds(store: Store, scope: Scope) -> Iterator[CheckResult]:
    """Yield a result about sessions changed last in which folding fails, for example because a summarizer is down."""
    newest = sorted(
        drive(store.conversations(scope, limit=_MOST_SESSIONS)), key=lambda info: -info.updated
    )
    memory = Memory(store, scope=scope)
    for info in newest:
        with suppress(WrongKey):
            status = memory.session(info.conversation).status()
            if status.fold_failures:
                told = f"folding failed {status.fold_failures} times, last with {status.fold_error}"
                yield CheckResult(
                    name="folds",
                    state=CheckState.NOTE,
                    detail=with_singulars(f"session {info.conversation!r}: {told}"),
                    remedy="Check the summarizer; until it works, older turns are shown as an extract",
                )


def _pages(path: Path) -> Iterator[CheckResult]:
    """Yield a result about the structure of a SQLite file; reading entries does not find damage in other pages."""
    try:
        faults = drive(sqlite_faults(path))
    except StoreError as error:
        faults = [str(error)]
    yield CheckResult(
        name="store file",
        state=CheckState.BAD if faults else CheckState.OK,
        detail="; ".join(faults[:_SHOWN_FAULTS]) or "quick_check finds no damage",
        remedy="Copy the file away, restore it from a backup, and check its disk" if faults else "",
    )


def _permissions(path: Path) -> CheckResult:
    """Check that no other user of the machine can read the SQLite file of a store, or its -wal and -shm files."""
    files = [path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm")]
    exposed = [each for each in files if each.exists() and each.stat().st_mode & 0o077]
    return CheckResult(
        name="store permissions",
        state=CheckState.BAD if exposed else CheckState.OK,
        detail="other users of this machine can open the store"
        if exposed
        else "only its owner can open the store",
        remedy=f"chmod 600 {shlex.join(map(str, exposed))}" if exposed else "",
    )


def _contents(store: Store, scope: Scope) -> CheckResult:
    """Check the stored entries by reading them, which verifies their checksums."""
    read, after, faults = 0, "", list[str]()
    while read < _MOST_READ and (page := drive(store.conversations(scope, after=after))):
        for info in page:
            after = info.conversation
            try:
                read += _read_whole(store, scope, info)
            except InvalidRecord as error:
                faults.append(str(error))
            if read >= _MOST_READ:
                break
    more = f"; only the first {_MOST_READ:,} were read" if read >= _MOST_READ else ""
    return CheckResult(
        name="contents",
        state=CheckState.BAD if faults else CheckState.OK,
        detail="; ".join(faults[:_SHOWN_FAULTS])
        or with_singulars(f"{read:,} entries read, checksums match{more}"),
        remedy="Restore the store from a backup, and check its disk" if faults else "",
    )


def _read_whole(store: Store, scope: Scope, info: ConversationInfo) -> int:
    """Read all entries of a conversation, which verifies their checksums, and return their number."""
    drive(store.capture(scope, info.conversation, lambda _: None))
    after = 0
    while page := drive(store.read(scope, info.conversation, after=after)):
        after = page[-1].seq
    return after


def _disk(store: str | None) -> Iterator[CheckResult]:
    path = file_of(address_of(store))
    if path is None:
        return
    folder = next(p for p in path.absolute().parents if p.exists())
    free = shutil.disk_usage(folder).free
    yield CheckResult(
        name="disk",
        state=CheckState.BAD if free < _SPARE_BYTES else CheckState.OK,
        detail=f"{free / (1 << 30):,.1f} GiB free on the disk of the store",
        remedy="Free disk space: a full disk fails every write" if free < _SPARE_BYTES else "",
    )


def _terminal() -> Iterator[CheckResult]:
    encoding = (sys.stdout.encoding or "").lower()
    wide = encoding.replace("-", "").startswith("utf")
    size = shutil.get_terminal_size()
    colour = "NO_COLOR set" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "no TERM")
    yield CheckResult(
        name="terminal",
        state=CheckState.OK if wide else CheckState.NOTE,
        detail=f"{size.columns} x {size.lines}, {encoding or 'unknown encoding'}, {colour}",
        remedy=""
        if wide
        else "Set LANG=C.UTF-8 (or PYTHONUTF8=1): Chinese cannot be shown in this encoding",
    )


def _prices() -> Iterator[CheckResult]:
    table = shipped_prices()
    yield CheckResult(
        name="prices",
        state=CheckState.OK,
        detail=f"{len(table.models)} models, list prices of {table.date}",
    )


_WORDS = ("not installed", "NO_COLOR set", "unknown encoding")
"""English words inside details that are translated one by one; the names and versions around the words stay."""
_MARKS = {
    CheckState.OK: ("ok", "green"),
    CheckState.NOTE: ("note", "yellow"),
    CheckState.BAD: ("BAD", "bold red"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Results of all checks; `ok` is True if no result is bad."""

    ok: bool
    findings: tuple[CheckResult, ...]


def show_findings(found: Sequence[CheckResult], *, json: bool) -> bool:
    """Print the results of `turnfold doctor`; return True if no result is bad."""
    ok = all(one.state is not CheckState.BAD for one in found)
    if json:
        print(as_json(Report(ok=ok, findings=tuple(found))))  # noqa: T201 (what the command is for)
        return ok
    console = make_console()
    for one in found:
        mark, style = _MARKS[one.state]
        name, detail = translated(one.name), translated(printable(one.detail))
        for word in _WORDS:
            detail = detail.replace(word, label(word))
        console.print(
            Text.assemble(
                (set_cell_size(label(mark), 4), style),
                f"  {name}{colon()}{detail}",
                overflow="fold",
            )
        )
        if one.remedy:
            console.print(Text(f"      -> {translated(one.remedy)}", "dim", overflow="fold"))
    ending = label("no problems found") if ok else label("something needs fixing")
    console.print(Text(ending, "green" if ok else "red"))
    return ok

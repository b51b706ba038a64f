"""`turnfold audit` and `turnfold db`: audit of sessions; status, migration, backup and key rotation of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from turnfold.cli.chinese_labels import known_label, label, translated, with_singulars
from turnfold.cli.store_and_session_lookup import (
    Opened,
    address_of,
    file_of,
    find_sessions,
    open_at,
    require_store,
    session_in,
    sessions_in,
)
from turnfold.cli.tables_and_progress_bars import as_json, make_console, printable, progressing
from turnfold.errors import InvalidOption, TurnfoldError
from turnfold.inspect import AuditFault, AuditRule, audit
from turnfold.runtime import drive
from turnfold.stores import (
    EncryptedStore,
    SqliteStatus,
    SqliteStore,
    all_conversations,
    shown_address,
    sqlite_status,
)

__all__ = (
    "AuditReport",
    "Backup",
    "DatabaseStatus",
    "Migrated",
    "Rotated",
    "SessionAudit",
    "audit_sessions",
    "back_up",
    "database_status",
    "migrate_store",
    "rotate_keys",
    "show_audit",
    "show_status",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAudit:
    """Result of auditing one session: its entries, and the faults found."""

    session: str
    entries: int
    faults: tuple[AuditFault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Results of auditing several sessions."""

    store: str
    tenant: str
    rules: tuple[str, ...]
    sessions: tuple[SessionAudit, ...]
    entries: int
    faults: int


def audit_sessions(store: str | None, tenant: str, names: Sequence[str]) -> AuditReport:
    """Audit the named sessions, or all sessions, without writing anything."""
    with open_at(store, tenant) as opened, progressing("auditing") as reporter:
        every = [info.conversation for info in sessions_in(opened)] if not names else []
        found = find_sessions(opened, names) or every
        audits: list[SessionAudit] = []
        for number, name in enumerate(found, 1):
            audits.append(_audit(opened, name))
            reporter.report(number, len(found))
        return AuditReport(
            store=opened.address,
            tenant=tenant,
            rules=tuple(map(str, AuditRule)),
            sessions=tuple(audits),
            entries=sum(one.entries for one in audits),
            faults=sum(len(one.faults) for one in audits),
        )


def _audit(opened: Opened, name: str) -> SessionAudit:
    at = session_in(opened, name, calls=1)
    try:
        faults = tuple(audit(at.session, context=at.session.preview(budget=at.budget)))
    except TurnfoldError as error:
        faults = (AuditFault(AuditRule.SOUND, 0, f"no context could be built: {error}"),)
    return SessionAudit(session=name, entries=at.head.seq, faults=faults)


def show_audit(found: AuditReport, *, json: bool) -> None:
    """Print the results of an audit, as text or JSON."""
    if json:
        print(as_json(found))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    for one in found.sessions:
        for fault in one.faults:
            console.print(Text(f"{printable(one.session)}: {translated(str(fault))}", "red"))
    style = "red" if found.faults else "green"
    text = label("{sessions:,} sessions, {entries:,} entries, {faults:,} faults").format(
        sessions=len(found.sessions), entries=found.entries, faults=found.faults
    )
    console.print(Text(with_singulars(text), style))


_OF_PROCESS = frozenset({"commits", "jobs"})
"""Names of status details that count what this process wrote, always zero for a command that only reads; they are not
printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    """Status of a store: size, settings, schema and warnings."""

    store: str
    backend: str
    ok: bool
    conversations: int
    """Number of conversations of the tenant."""
    entries: int
    details: dict[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    file: SqliteStatus | None = None
    """Status of the SQLite file; None for other stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """Result of migrating the database schema of a store."""

    store: str
    added: tuple[str, ...]
    """Migration steps that were carried out; empty if none was needed or the store does not report them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Result of a backup: the file that was written."""

    store: str
    target: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """Result of a rotation of the encryption key."""

    store: str
    tenant: str
    wrapped: int
    """Number of conversations whose own key is now encrypted with the new key."""


def database_status(store: str | None, tenant: str) -> DatabaseStatus:
    """Return the status of a store, without changing it."""
    address = address_of(store)
    require_store(address)
    path = file_of(address)
    if path is not None:
        found = drive(sqlite_status(path))
        if found.missing or found.unknown:
            return _outdated(address, found)
    with open_at(store, tenant) as opened:
        health = drive(opened.store.health())
        infos = drive(all_conversations(opened.store, opened.scope))
    return DatabaseStatus(
        store=shown_address(address),
        backend=health.backend,
        ok=health.ok,
        conversations=len(infos),
        entries=sum(info.head.seq for info in infos),
        details=dict(health.details),
        warnings=health.warnings,
        file=drive(sqlite_status(path)) if path is not None else None,
    )


def _outdated(address: str, found: SqliteStatus) -> DatabaseStatus:
    if found.unknown:
        warning = f"written by a newer release ({', '.join(found.unknown)}): upgrade turnfold"
    else:
        warning = (
            f"the schema lacks {len(found.missing)} steps of this release: run `turnfold db migrate`; opening the "
            "store also adds them"
        )
    return DatabaseStatus(
        store=shown_address(address),
        backend="sqlite",
        ok=not found.unknown,
        conversations=found.conversations,
        entries=found.entries,
        warnings=(warning,),
        file=found,
    )


def migrate_store(store: str | None, tenant: str) -> Migrated:
    """Migrate the database schema of a store to this release, and return the steps that were needed."""
    address = address_of(store)
    require_store(address)
    path = file_of(address)
    before = drive(sqlite_status(path)).missing if path is not None else ()
    with open_at(store, tenant) as opened:
        drive(opened.store.conversations(opened.scope, limit=1))
    return Migrated(store=shown_address(address), added=before)


def back_up(store: str | None, tenant: str, target: Path) -> Backup:
    """Back up a SQLite store while it is in use."""
    with open_at(
        store, tenant, decrypt=False
    ) as opened:  # a copy of an encrypted store is encrypted
        if not isinstance(opened.store, SqliteStore):
            raise InvalidOption(
                "only a SQLite store can be copied as a file; for PostgreSQL use pg_dump, or `turnfold export --all`"
            )
        drive(opened.store.backup(target))
        return Backup(store=opened.address, target=str(target), size=target.stat().st_size)


def rotate_keys(store: str | None, tenant: str) -> Rotated:
    """Encrypt the keys of a tenant's conversations again, with the first key of the key file."""
    with open_at(store, tenant) as opened:
        if not isinstance(opened.store, EncryptedStore):
            raise InvalidOption(
                "rotating needs a file with the new key and, on the next line, the old one: name it with "
                "--encryption-key-file"
            )
        wrapped = drive(opened.store.rotate_keys(opened.scope))
        return Rotated(store=opened.address, tenant=tenant, wrapped=wrapped)


def show_status(found: DatabaseStatus, *, json: bool) -> None:
    """Print the status of a store, as a table or JSON."""
    if json:
        print(as_json(found))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    rows = [
        ("store", found.store),
        ("backend", found.backend),
        ("sessions", f"{found.conversations:,}"),
        ("entries", f"{found.entries:,}"),
        *sorted((name, text) for name, text in found.details.items() if name not in _OF_PROCESS),
    ]
    if found.file is not None:
        file = found.file
        rows += [
            (
                "size",
                f"{file.size:,} bytes, log {file.log_size:,}, {file.free_pages:,} of {file.pages:,} pages free",
            ),
            ("settings", f"journal {file.journal_mode}, synchronous {file.synchronous}"),
            ("schema", f"{len(file.applied)} steps, {len(file.missing)} missing"),
        ]
    named = [(known_label(name), translated(value)) for name, value in rows]
    width = max(cell_len(name) for name, _ in named)
    for name, value in named:
        console.print(Text(f"{name}{' ' * (width - cell_len(name))}  {value}", overflow="fold"))
    for warning in found.warnings:
        line = translated(f"warning: {translated(warning)}")
        console.print(Text(line, "yellow", overflow="fold"))

"""`turnfold audit`: checks that every entry of stored sessions is sent, folded or listed as dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from turnfold.cli.labels import label, translated, with_singulars
from turnfold.cli.output import as_json, make_console, printable, progressing
from turnfold.cli.store import Opened, find_sessions, open_at, session_in, sessions_in
from turnfold.errors import TurnfoldError
from turnfold.inspect import AuditFault, AuditRule, audit

__all__ = (
    "AuditReport",
    "SessionAudit",
    "audit_sessions",
    "show_audit",
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

"""Declares the commands for the store and the environment to typer: audit, db, doctor, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.chinese_labels import translated
from turnfold.cli.exit_codes import ExitCode, report_errors
from turnfold.cli.translated_group import TranslatedGroup
from turnfold.cli.typer_commands.options import (
    JsonOption,
    RedactOption,
    StoreOption,
    TenantOption,
    chosen_redactor,
)

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register the commands for the store and the environment."""
    app.command("export")(export_command)
    app.command("import")(import_command)
    app.command()(audit)
    app.command()(doctor)
    database = typer.Typer(
        help="The store: its location, status, schema and backup.",
        cls=TranslatedGroup,
        no_args_is_help=True,
    )
    database.command("path")(database_path)
    database.command("status")(status)
    database.command("migrate")(migrate)
    database.command("backup")(backup)
    database.command("rotate-keys")(rotate_keys)
    app.add_typer(database, name="db")


def audit(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(help="Sessions to audit. Default: all sessions of the tenant."),
    ] = None,
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Audit stored sessions: account for every entry; exit code 1 if one is lost or duplicated."""
    with report_errors():
        from turnfold.cli.audit_and_db import audit_sessions, show_audit

        found = audit_sessions(store, tenant, sessions or [])
        show_audit(found, json=as_json)
    if found.faults:
        raise typer.Exit(ExitCode.PROBLEMS)


def doctor(
    *,
    cache: Annotated[
        str | None, typer.Option(help="Redis cache in front of the store.", metavar="URL")
    ] = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Check versions, extras, tokenizers, store and terminal; exit code 1 if something needs fixing."""
    with report_errors():
        from turnfold.cli.doctor import examine, show_findings

        ok = show_findings(examine(store, tenant, cache), json=as_json)
    if not ok:
        raise typer.Exit(ExitCode.PROBLEMS)


def database_path(*, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Print the location of the store, existing or not."""
    with report_errors():
        from turnfold.cli.store_and_session_lookup import address_of, file_of
        from turnfold.cli.tables_and_progress_bars import as_json as to_json
        from turnfold.stores import shown_address

        address = address_of(store)
        path = file_of(address)
        if as_json:
            there = path.exists() if path is not None else None
            typer.echo(to_json({"store": shown_address(address), "exists": there}))
            return
        typer.echo(shown_address(address if path is None else str(path)))


def status(
    *, store: StoreOption = None, tenant: TenantOption = "default", as_json: JsonOption = False
) -> None:
    """Show size, settings, schema and warnings; exit code 1 if there are warnings."""
    with report_errors():
        from turnfold.cli.audit_and_db import database_status, show_status

        found = database_status(store, tenant)
        show_status(found, json=as_json)
    if found.warnings or not found.ok:
        raise typer.Exit(ExitCode.PROBLEMS)


def migrate(
    *, store: StoreOption = None, tenant: TenantOption = "default", as_json: JsonOption = False
) -> None:
    """Migrate the store's schema to this release; opening the store does the same."""
    with report_errors():
        from turnfold.cli.audit_and_db import migrate_store
        from turnfold.cli.tables_and_progress_bars import as_json as to_json

        done = migrate_store(store, tenant)
        if as_json:
            typer.echo(to_json(done))
        else:
            typer.echo(translated(f"{done.store}: {', '.join(done.added) or 'up to date'}"))


def backup(
    target: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Back up a SQLite store while it is in use."""
    with report_errors():
        from turnfold.cli.audit_and_db import back_up
        from turnfold.cli.tables_and_progress_bars import as_json as to_json

        done = back_up(store, tenant, target)
        if as_json:
            typer.echo(to_json(done))
        else:
            typer.echo(translated(f"{done.store} copied to {done.target} ({done.size:,} bytes)"))


def rotate_keys(
    *, store: StoreOption = None, tenant: TenantOption = "default", as_json: JsonOption = False
) -> None:
    """Encrypt the keys of a tenant's conversations again, with the first key of --encryption-key-file."""
    with report_errors():
        from turnfold.cli.audit_and_db import rotate_keys as rotate
        from turnfold.cli.tables_and_progress_bars import as_json as to_json

        done = rotate(store, tenant)
        if as_json:
            typer.echo(to_json(done))
        else:
            line = f"{done.store}, tenant {done.tenant}: {done.wrapped:,} keys encrypted with the new key"
            typer.echo(translated(line))


def export_command(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Sessions to export, by id or prefix.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All sessions of the tenant.")] = False,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="turnfold (exact), openai, openai-responses, anthropic, gemini, markdown.",
        ),
    ] = "turnfold",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write. Default: the standard output.", metavar="FILE"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    model: Annotated[str, typer.Option(help="Model that the exported requests are for.")] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Export sessions to a file: exactly, or in a provider's format, one conversation per line."""
    with report_errors():
        from turnfold.cli.export_and_import import export_sessions, show_exported

        done = export_sessions(
            store,
            tenant,
            sessions or [],
            every=every,
            format_name=format_name,
            output=output,
            model=model,
            json=as_json,
            force=force,
        )
        show_exported(done, json=as_json)


def import_command(
    file: Annotated[
        Path,
        typer.Argument(help="File to import; a .gz file, or ChatGPT's .zip, need not be unpacked."),
    ],
    *,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="auto, turnfold, openai, openai-responses, anthropic, gemini, chatgpt, claude-code, langchain, mem0, "
            "openai-agents.",
        ),
    ] = "auto",
    session: Annotated[
        str,
        typer.Option(
            help="Id under which to store the conversation of a file that has only one.",
            metavar="ID",
        ),
    ] = "",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip unreadable items, and list them.")
    ] = False,
    branches: Annotated[
        bool, typer.Option("--branches", help="ChatGPT: also import abandoned branches.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check; write nothing.")
    ] = False,
    model: Annotated[str, typer.Option(help="Model to count tokens for.")] = "",
    redact: RedactOption = False,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Import conversations from other programs, or an export; can be repeated as the file grows.

    Nothing is written unless the whole file can be read. A session that was deleted here stays deleted, and is left
    out. Exit code 1 if something was left out.
    """
    with report_errors():
        from turnfold.cli.export_and_import import import_path, show_imported

        done = import_path(
            store,
            tenant,
            file,
            format_name=format_name,
            session=session,
            skip_bad=skip_bad,
            branches=branches,
            trial=dry_run,
            model=model,
            redactor=chosen_redactor(wanted=redact),
        )
        show_imported(done, file, model=model, json=as_json)
    if done.bad_total or done.erased:
        raise typer.Exit(ExitCode.PROBLEMS)

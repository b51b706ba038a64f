"""Commands about the store itself and the machine: audit, db, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.commands.options import JsonOption, StoreOption, TenantOption
from turnfold.cli.exit_codes import ExitCode, telling
from turnfold.cli.spoken import SpokenGroup

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register them."""
    app.command()(audit)
    app.command()(doctor)
    database = typer.Typer(
        help="The store: where it is, what it holds, its schema, a copy.",
        cls=SpokenGroup,
        no_args_is_help=True,
    )
    database.command("path")(database_path)
    database.command("status")(status)
    database.command("migrate")(migrate)
    database.command("backup")(backup)
    app.add_typer(database, name="db")


def audit(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Sessions. Default: every one of the tenant.")
    ] = None,
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Account for every entry of the stored sessions; code 1 when one is lost or doubled.

    审计会话。
    """
    with telling():
        from turnfold.cli.auditing_run import audit_sessions, show_audit

        found = audit_sessions(store, tenant, sessions or [])
        show_audit(found, json=as_json)
    if found.faults:
        raise typer.Exit(ExitCode.PROBLEMS)


def doctor(
    *,
    cache: Annotated[
        str | None, typer.Option(help="A Redis in front of the store.", metavar="URL")
    ] = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Check versions, extras, tokenizers, store and terminal; code 1 when something needs mending.

    检查环境。
    """
    with telling():
        from turnfold.cli.doctor import examine, show_findings

        well = show_findings(examine(store, tenant, cache), json=as_json)
    if not well:
        raise typer.Exit(ExitCode.PROBLEMS)


def database_path(*, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Print where the store is, whether it exists or not."""
    with telling():
        from turnfold.cli.screen import as_json as to_json
        from turnfold.cli.store_address import address_of, file_of
        from turnfold.stores.addresses import shown_address

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
    """Show size, settings, schema and warnings; code 1 when there are warnings."""
    with telling():
        from turnfold.cli.database_steps import database_status, show_status

        found = database_status(store, tenant)
        show_status(found, json=as_json)
    if found.warnings or not found.ok:
        raise typer.Exit(ExitCode.PROBLEMS)


def migrate(
    *, store: StoreOption = None, tenant: TenantOption = "default", as_json: JsonOption = False
) -> None:
    """Bring the store's schema up to this release, as opening it does."""
    with telling():
        from turnfold.cli.database_steps import migrate_store
        from turnfold.cli.screen import as_json as to_json

        done = migrate_store(store, tenant)
        if as_json:
            typer.echo(to_json(done))
        else:
            typer.echo(f"{done.store}: {', '.join(done.added) or 'up to date'}")


def backup(
    target: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Copy a SQLite store while it is in use."""
    with telling():
        from turnfold.cli.database_steps import back_up
        from turnfold.cli.screen import as_json as to_json

        done = back_up(store, tenant, target)
        if as_json:
            typer.echo(to_json(done))
        else:
            typer.echo(f"{done.store} copied to {done.target} ({done.size:,} bytes)")

"""Declares the commands that change a session to typer: pin, unpin, delete, fold, checkpoints, fork."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.exit_codes import report_errors
from turnfold.cli.typer_commands.options import (
    BudgetOption,
    JsonOption,
    ModelOption,
    SessionArgument,
    StoreOption,
    TenantOption,
)
from turnfold.errors import InvalidOption

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register the commands that change a session."""
    for command in (fold, checkpoints, fork, pin, unpin, delete):
        app.command()(command)


def pin(
    session: SessionArgument,
    content: Annotated[
        str, typer.Argument(help="Text to show in every call.", metavar="TEXT")
    ] = "",
    *,
    entry: Annotated[
        int, typer.Option(help="Number of the entry to show, if no text is given.", min=0)
    ] = 0,
    key: Annotated[str, typer.Option(help="Name of the pin. Default: made from the text.")] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show a text or an entry word for word in every call from the next user turn on."""
    with report_errors():
        from turnfold.cli.pins_folds_and_erasure import change_pins, show_pins

        changed = change_pins(store, tenant, session, content=content, entry=entry, key=key)
        show_pins(changed, json=as_json)


def unpin(
    session: SessionArgument,
    key: Annotated[str, typer.Argument(help="Name of the pin to remove.", metavar="KEY")],
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Remove a pin; calls leave it out from the next user turn on."""
    with report_errors():
        from turnfold.cli.pins_folds_and_erasure import drop_pin, show_pins

        show_pins(drop_pin(store, tenant, session, key=key), json=as_json)


def delete(
    session: Annotated[
        str | None, typer.Argument(help="Whole id of the session to erase.", metavar="SESSION")
    ] = None,
    *,
    entry: Annotated[
        int | None,
        typer.Option(help="Erase only this entry, and everything made from it.", min=1),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Reason kept in the placeholder of an erased entry.")
    ] = "",
    user: Annotated[
        str | None,
        typer.Option(
            help="Erase all sessions of this user: their ids are ID or begin with ID/, or ID is their user_id.",
            metavar="ID",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Erase all sessions of the tenant.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(help="Erase nothing; check the erasure receipt in this file.", metavar="PATH"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Erase a session, one entry of it, all sessions of a user or a tenant. Cannot be undone."""
    with report_errors():
        from turnfold.cli import pins_folds_and_erasure as erasing

        if verify is not None:
            if session is not None or user is not None or every:
                raise InvalidOption("give exactly one of: a session, --user, --all, --verify")
            found = erasing.check_receipt(store, tenant, verify)
            erasing.show_check(found, json=as_json)
            raise typer.Exit(0 if found.ok else 1)
        if entry is not None or reason:
            if session is None or entry is None:
                raise InvalidOption(
                    "--entry and --reason erase one entry: give the session and --entry"
                )
            erased = erasing.erase_entry(
                store, tenant, session, entry=entry, reason=reason, asked=yes
            )
            erasing.show_erased_entry(erased, json=as_json)
            return
        receipt = erasing.erase(store, tenant, session=session, user=user, every=every, asked=yes)
        erasing.show_receipt(receipt, json=as_json)


def fold(
    session: SessionArgument,
    *,
    summary: Annotated[
        str | None,
        typer.Option(help="Summary to use: a text, @FILE, or - for standard input."),
    ] = None,
    keep_turns: Annotated[
        int | None,
        typer.Option(
            help="Number of newest turns that stay out of the summary. Default: 8.", min=0
        ),
    ] = None,
    budget: BudgetOption = None,
    model: ModelOption = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Fold (compact) everything before the newest turns into a summary; the log is kept."""
    with report_errors():
        from turnfold.cli.pins_folds_and_erasure import make_fold, read_summary, show_fold

        made = make_fold(
            store,
            tenant,
            session,
            summary=read_summary(summary),
            keep_turns=keep_turns,
            budget=budget,
            model=model,
        )
        show_fold(made, json=as_json)


def checkpoints(
    session: SessionArgument,
    *,
    drop: Annotated[
        str | None,
        typer.Option(help="Drop this checkpoint and those made from it.", metavar="ID"),
    ] = None,
    dropped: Annotated[
        bool, typer.Option("--dropped", help="Show the dropped checkpoints.")
    ] = False,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show the checkpoints (summaries) of a session, or drop one: the session returns to the one before it."""
    with report_errors():
        from turnfold.cli.pins_folds_and_erasure import list_checkpoints, show_checkpoints

        show_checkpoints(
            list_checkpoints(store, tenant, session, drop=drop, dropped=dropped), json=as_json
        )


def fork(
    session: SessionArgument,
    target: Annotated[str, typer.Argument(help="Id of the new session.", metavar="NEW")],
    *,
    at: Annotated[int | None, typer.Option(help="Last entry to copy. Default: all.", min=1)] = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Copy a session up to an entry, to continue it differently."""
    with report_errors():
        from turnfold.cli.pins_folds_and_erasure import make_fork, show_fork

        show_fork(make_fork(store, tenant, session, target, at=at), json=as_json)

"""Commands that fold (compact) a session, list or drop its summaries, or copy it: fold, checkpoints, fork."""

from __future__ import annotations

from typing import Annotated

import typer

from turnfold.cli.commands.options import (
    BudgetOption,
    JsonOption,
    ModelOption,
    SessionArgument,
    StoreOption,
    TenantOption,
)
from turnfold.cli.exit_codes import report_errors

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register the commands `fold`, `checkpoints` and `fork`."""
    for command in (fold, checkpoints, fork):
        app.command()(command)


def fold(
    session: SessionArgument,
    *,
    summary: Annotated[
        str | None,
        typer.Option(help="Summary to use: a text, @FILE, or - for standard input."),
    ] = None,
    keep_turns: Annotated[
        int | None, typer.Option(help="Newest turns to keep verbatim. Default: 8.", min=0)
    ] = None,
    budget: BudgetOption = None,
    model: ModelOption = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Fold (compact) everything before the newest turns into a summary; the log is kept."""
    with report_errors():
        from turnfold.cli.fold_and_fork import make_fold, read_summary, show_fold

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
        from turnfold.cli.fold_and_fork import list_checkpoints, show_checkpoints

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
        from turnfold.cli.fold_and_fork import make_fork, show_fork

        show_fork(make_fork(store, tenant, session, target, at=at), json=as_json)

"""Commands that carry conversations from one place to another: export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.commands.options import JsonOption, StoreOption, TenantOption
from turnfold.cli.exit_codes import ExitCode, telling

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register them."""
    app.command("export")(export_command)
    app.command("import")(import_command)


def export_command(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Sessions, by id or the beginning of one.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every session of the tenant.")] = False,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="turnfold (exact), openai, openai-responses, anthropic, gemini, markdown.",
        ),
    ] = "turnfold",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Default: the standard output.", metavar="FILE"),
    ] = None,
    model: Annotated[str, typer.Option(help="The model a provider's format is written for.")] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Write sessions to a file: exactly, or in a provider's format, one conversation a line.

    导出会话。
    """
    with telling():
        from turnfold.cli.transfer_steps import export_sessions, show_exported

        done = export_sessions(
            store,
            tenant,
            sessions or [],
            every=every,
            format_name=format_name,
            output=output,
            model=model,
        )
        show_exported(done, json=as_json)


def import_command(
    file: Annotated[
        Path, typer.Argument(help="The file; .gz, and ChatGPT's .zip, are read as they are.")
    ],
    *,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="auto, turnfold, openai, openai-responses, anthropic, gemini, chatgpt, claude-code.",
        ),
    ] = "auto",
    session: Annotated[
        str, typer.Option(help="Name for a file with one conversation.", metavar="ID")
    ] = "",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and list it.")
    ] = False,
    branches: Annotated[
        bool, typer.Option("--branches", help="ChatGPT: also the branches that were left.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and check; write nothing.")
    ] = False,
    model: Annotated[str, typer.Option(help="Count for this model.")] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Import conversations of other programs, or an export; can be repeated as the file grows.

    导入会话。 Nothing is written unless the whole file can be read; code 1 when something was left out.
    """
    with telling():
        from turnfold.cli.transfer_steps import import_path, show_imported

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
        )
        show_imported(done, json=as_json)
    if done.bad_total:
        raise typer.Exit(ExitCode.PROBLEMS)

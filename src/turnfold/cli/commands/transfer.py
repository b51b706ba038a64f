"""Commands that move conversations between stores and files: export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.commands.options import (
    JsonOption,
    RedactOption,
    StoreOption,
    TenantOption,
    chosen_redactor,
)
from turnfold.cli.exit_codes import ExitCode, report_errors

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register the commands `export` and `import`."""
    app.command("export")(export_command)
    app.command("import")(import_command)


def export_command(
    sessions: Annotated[list[str] | None, typer.Argument(help="Sessions, by id or prefix.")] = None,
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
    model: Annotated[
        str, typer.Option(help="Model for which the format of a provider is written.")
    ] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Export sessions to a file: exactly, or in a provider's format, one conversation per line."""
    with report_errors():
        from turnfold.cli.transfer import export_sessions, show_exported

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
        from turnfold.cli.transfer import import_path, show_imported

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
        show_imported(done, json=as_json)
    if done.bad_total or done.erased:
        raise typer.Exit(ExitCode.PROBLEMS)

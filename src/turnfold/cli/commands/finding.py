"""Commands that find: search, recall. What is found is shown with what was asked for in colour."""

from __future__ import annotations

from typing import Annotated

import typer

from turnfold.cli.commands.options import (
    JsonOption,
    ModelOption,
    SessionArgument,
    StoreOption,
    TenantOption,
)
from turnfold.cli.exit_codes import ExitCode, telling

__all__ = ("add",)

QueryArgument = Annotated[str, typer.Argument(help="What to look for, in words.", metavar="QUERY")]
RolesOption = Annotated[
    list[str] | None, typer.Option("--role", help="user, assistant, tool or system.")
]
ToolsOption = Annotated[
    list[str] | None, typer.Option("--tool", help="What calls this tool, or is its answer.")
]
PathsOption = Annotated[
    list[str] | None, typer.Option("--path", help="What mentions this file, or a file below it.")
]
TurnsOption = Annotated[
    str | None, typer.Option("--turns", help="One turn, or FIRST-LAST.", metavar="RANGE")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help="Not before this day or time, UTC.", metavar="YYYY-MM-DD[THH:MM]"),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="Before this.", metavar="YYYY-MM-DD[THH:MM]")
]


def add(app: typer.Typer) -> None:
    """Register them."""
    for command in (search, recall):
        app.command()(command)


def search(
    query: QueryArgument,
    *,
    session: Annotated[
        str | None, typer.Option(help="Only in this session.", metavar="SESSION")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="entry, checkpoint, a kind of document, or all. Default: entry.",
        ),
    ] = None,
    roles: RolesOption = None,
    tools: ToolsOption = None,
    paths: PathsOption = None,
    turns: TurnsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many.", min=1)] = 10,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Find what was said, in any session; exit code 1 when nothing was found.

    在所有会话中搜索。
    """
    with telling():
        from turnfold.cli.search_screen import Filters, search_store, show_found

        filters = Filters(kinds, roles, tools, paths, turns, since, until)
        found = search_store(store, tenant, query, session=session, filters=filters, limit=limit)
        show_found(found, json=as_json)
    if not found.found:
        raise typer.Exit(ExitCode.PROBLEMS)


def recall(
    session: SessionArgument,
    query: QueryArgument,
    *,
    roles: RolesOption = None,
    tools: ToolsOption = None,
    paths: PathsOption = None,
    turns: TurnsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many entries.", min=1)] = 5,
    tokens: Annotated[
        int | None,
        typer.Option(help="Instead: as much as a model would be shown for so many tokens.", min=1),
    ] = None,
    model: ModelOption = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Bring back what a session said before; exit code 1 when nothing was found.

    找回会话中说过的内容。
    """
    with telling():
        from turnfold.cli.search_screen import Filters, recall_in, show_recalled

        filters = Filters(None, roles, tools, paths, turns, since, until)
        brought = recall_in(
            store, tenant, session, query, filters=filters, limit=limit, tokens=tokens, model=model
        )
        show_recalled(brought, json=as_json)
    if not brought.recalled:
        raise typer.Exit(ExitCode.PROBLEMS)

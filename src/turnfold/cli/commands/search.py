"""Commands that search: search, recall. Matching words are shown in colour."""

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
from turnfold.cli.exit_codes import ExitCode, report_errors

__all__ = ("add",)


QueryArgument = Annotated[str, typer.Argument(help="Words to search for.", metavar="QUERY")]
RolesOption = Annotated[
    list[str] | None, typer.Option("--role", help="user, assistant, tool or system.")
]
ToolsOption = Annotated[
    list[str] | None, typer.Option("--tool", help="Only calls of this tool and their results.")
]
PathsOption = Annotated[
    list[str] | None,
    typer.Option("--path", help="Only entries that mention this file, or a file in this folder."),
]
TurnsOption = Annotated[
    str | None, typer.Option("--turns", help="One turn, or FIRST-LAST.", metavar="RANGE")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help="Not before this day or time, UTC.", metavar="YYYY-MM-DD[THH:MM]"),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", help="Before this day or time, UTC.", metavar="YYYY-MM-DD[THH:MM]"),
]


def add(app: typer.Typer) -> None:
    """Register the commands `search` and `recall`."""
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
    limit: Annotated[int, typer.Option("--limit", "-n", help="Number of results.", min=1)] = 10,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Search the messages of all sessions; exit code 3 if nothing is found."""
    with report_errors():
        from turnfold.cli.search import Filters, search_store, show_found

        filters = Filters(kinds, roles, tools, paths, turns, since, until)
        found = search_store(store, tenant, query, session=session, filters=filters, limit=limit)
        show_found(found, json=as_json)
    if not found.found:
        raise typer.Exit(ExitCode.NOT_FOUND)


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
    limit: Annotated[int, typer.Option("--limit", "-n", help="Number of entries.", min=1)] = 5,
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Show the passages a model would get within this many tokens instead.", min=1
        ),
    ] = None,
    model: ModelOption = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Recall earlier messages of a session; exit code 3 if nothing is found."""
    with report_errors():
        from turnfold.cli.search import Filters, recall_in, show_recalled

        filters = Filters(None, roles, tools, paths, turns, since, until)
        recalled = recall_in(
            store, tenant, session, query, filters=filters, limit=limit, tokens=tokens, model=model
        )
        show_recalled(recalled, json=as_json)
    if not recalled.recalled:
        raise typer.Exit(ExitCode.NOT_FOUND)

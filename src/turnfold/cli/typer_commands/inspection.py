"""Declares the commands that only read to typer: sessions, show, rules, context, top, explain, diff, replay, eval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.exit_codes import ExitCode, report_errors
from turnfold.cli.typer_commands.options import (
    BudgetOption,
    JsonOption,
    ModelOption,
    PricesOption,
    SessionArgument,
    StoreOption,
    TenantOption,
    chosen_prices,
)
from turnfold.errors import InvalidOption

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register the commands that read."""
    for command in (sessions, show, rules, context, top, explain, diff, replay):
        app.command()(command)
    app.command("eval")(eval_command)
    for command in (search, recall):
        app.command()(command)


def sessions(
    prefix: Annotated[
        str, typer.Argument(help="Only sessions whose id starts with this text.")
    ] = "",
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Number of sessions, newest first.", min=1)
    ] = 20,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """List the sessions, most recently changed first."""
    with report_errors():
        from turnfold.cli.sessions import list_sessions, show_sessions

        show_sessions(list_sessions(store, tenant, limit=limit, prefix=prefix), json=as_json)


def show(
    session: SessionArgument,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Number of entries.", min=1)] = 20,
    after: Annotated[
        int | None,
        typer.Option(
            help="Show the entries after this number. Default: the newest entries.", min=0
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Show whole messages, not only the first line.")
    ] = False,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show the messages of a session."""
    with report_errors():
        from turnfold.cli.sessions import look_at_session, show_log

        shown, entries = look_at_session(store, tenant, session, after=after, limit=limit)
        show_log(shown, entries, json=as_json, full=full)


def rules(
    session: SessionArgument,
    *,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also list rules that ended, with the time, and the rule that replaced each.",
        ),
    ] = False,
    add: Annotated[
        str | None, typer.Option("--add", help="Add this rule, in your words.", metavar="TEXT")
    ] = None,
    drop: Annotated[
        str,
        typer.Option(
            "--drop",
            help="Drop the rule with this id, or the rules of the entry with this number.",
            metavar="RULE",
        ),
    ] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """List the rules of a session: standing instructions of its user, word for word."""
    with report_errors():
        from turnfold.cli.rules import change_rules, list_rules, show_changed_rules, show_rules

        if add is not None or drop:
            changed = change_rules(store, tenant, session, add=add, drop=drop)
            if not (as_json or every):
                show_changed_rules(changed)
                return
        show_rules(list_rules(store, tenant, session, ended=every), json=as_json)


def context(
    session: SessionArgument,
    *,
    query: Annotated[
        str | None, typer.Option(help="Also show the earlier entries that match these words.")
    ] = None,
    budget: BudgetOption = None,
    model: ModelOption = None,
    biggest: Annotated[int, typer.Option(help="Number of largest items to list.", min=0)] = 5,
    calls: Annotated[int, typer.Option(help="Number of calls in the sparkline.", min=1)] = 60,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Draw the budget of a session's next call, without making it."""
    with report_errors():
        from turnfold.cli.context import look_at_context, show_context

        view = look_at_context(
            store,
            tenant,
            session,
            query=query,
            model=model,
            budget=budget,
            biggest=biggest,
            calls=calls,
        )
        show_context(view, json=as_json)


def top(
    session: Annotated[
        str | None, typer.Argument(help="A session to show in detail. Default: all sessions.")
    ] = None,
    *,
    most: Annotated[int, typer.Option("--limit", "-n", help="Number of rows.", min=1)] = 10,
    watch: Annotated[
        float | None, typer.Option(help="Refresh every so many seconds.", min=0.0)
    ] = None,
    times: Annotated[
        int, typer.Option(help="Number of refreshes; 0 refreshes until Ctrl-C.", min=0)
    ] = 0,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show what uses most tokens: sessions, or a session's entries, tools and roles."""
    with report_errors():
        from turnfold.cli.top import look_at_top, show_top, watch_top

        if watch is None:
            show_top(look_at_top(store, tenant, session, most=most), json=as_json)
            return
        watch_top(
            lambda: look_at_top(store, tenant, session, most=most),
            seconds=watch,
            times=times,
            json=as_json,
        )


def explain(
    session: SessionArgument,
    call: Annotated[
        str | None,
        typer.Argument(help="Number or id of a call, @last or @prev. Default: @last."),
    ] = None,
    *,
    number: Annotated[
        str | None, typer.Option("--call", help="The same as the argument CALL.", metavar="CALL")
    ] = None,
    list_calls: Annotated[bool, typer.Option("--list", help="List the calls instead.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="With --list: number of calls.", min=1)
    ] = 20,
    full: Annotated[bool, typer.Option("--full", help="Show every message whole.")] = False,
    prices: PricesOption = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show the messages a call sent, and why others were left out."""
    with report_errors():
        from turnfold.cli import explain as screen

        if list_calls:
            screen.show_calls(screen.list_calls(store, tenant, session, most=limit), json=as_json)
            return
        if call is not None and number is not None:
            raise InvalidOption("the call is named twice: give it as an argument or with --call")
        table = chosen_prices(prices)
        found = screen.explain_call(store, tenant, session, call or number, full=full)
        screen.show_call(found, json=as_json, full=full, prices=table)


def diff(
    session: SessionArgument,
    before: Annotated[
        str | None, typer.Argument(help="First call to compare. Default: @prev.")
    ] = None,
    after: Annotated[
        str | None, typer.Argument(help="Later call to compare it with. Default: @last.")
    ] = None,
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Compare two calls. With one call: compare it with the one before."""
    with report_errors():
        from turnfold.cli.explain import compare_calls, show_diff

        show_diff(compare_calls(store, tenant, session, before, after), json=as_json)


def replay(
    source: Annotated[str, typer.Argument(help="A session, or a file `import` can read.")],
    *,
    budget: Annotated[
        list[int] | None, typer.Option(help="Token budget of a call; may be repeated.", min=1)
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="Strategy: fold, oldest-first, last:N, turns:N, shrink:N or everything; joined by +. Repeatable."
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="Model to count tokens and costs for. Default: that of the session."),
    ] = "",
    prices: PricesOption = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            help="File with tool schemas (a JSON list) to add to every call.", metavar="FILE"
        ),
    ] = None,
    session: Annotated[
        str, typer.Option(help="Which conversation of the file to use, by id.", metavar="ID")
    ] = "",
    format_name: Annotated[
        str,
        typer.Option("--format", help="Format of the file, if a file is given; auto detects it."),
    ] = "auto",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Replay a history under other budgets and strategies, without a model; costs are estimates."""
    with report_errors():
        from turnfold.cli.replay import history_of, replay_history, show_replay

        history = history_of(source, store, tenant, session=session, format_name=format_name)
        found = replay_history(
            history,
            budgets=budget or [8_000, 32_000],
            strategies=strategy or ["fold", "oldest-first", "everything"],
            model=model,
            prices=chosen_prices(prices),
            tools=tools,
        )
        show_replay(found, json=as_json)


def eval_command(
    source: Annotated[str, typer.Argument(help="A session, or a file `import` can read.")] = "",
    *,
    every: Annotated[bool, typer.Option("--all", help="All sessions of the tenant.")] = False,
    set_file: Annotated[
        Path | None,
        typer.Option(
            "--set",
            help="Conversations with questions and their evidence: each line a JSON object with conversation_id, "
            "messages (id, role, content) and questions (question, evidence_ids) or rules (text, message_id).",
            metavar="FILE",
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            help="Token budgets of a call, separated by commas: 2000,8000.", metavar="TOKENS"
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(help="Other memories to evaluate too, separated by commas.", metavar="NAMES"),
    ] = None,
    model: Annotated[str, typer.Option(help="Model to count tokens and costs for.")] = "gpt-4o",
    prices: PricesOption = None,
    format_name: Annotated[
        str,
        typer.Option("--format", help="Format of the file, if a file is given; auto detects it."),
    ] = "auto",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Measure what contexts still contain and what calls cost, without a model; exit code 1 if a call is unusable.

    Without a session, file or set, a small invented set is used.
    """
    with report_errors():
        from turnfold.cli import eval as screen

        found = screen.evaluate_conversations(
            screen.conversations_of(
                source, store, tenant, every=every, set_file=set_file, format_name=format_name
            ),
            budgets=screen.parse_budgets(budget or ["2000,8000"]),
            peers=peers or (),
            model=model,
            prices=chosen_prices(prices),
        )
        screen.show_evaluation(found, json=as_json)
    if any(row.method == "turnfold" and row.usable < row.calls for row in found.rows):
        raise typer.Exit(ExitCode.PROBLEMS)


QueryArgument = Annotated[str, typer.Argument(help="Words to search for.", metavar="QUERY")]
RolesOption = Annotated[
    list[str] | None,
    typer.Option("--role", help="Only messages of this role: user, assistant, tool or system."),
]
ToolsOption = Annotated[
    list[str] | None, typer.Option("--tool", help="Only calls of this tool and their results.")
]
PathsOption = Annotated[
    list[str] | None,
    typer.Option("--path", help="Only entries that mention this file, or a file in this folder."),
]
TurnsOption = Annotated[
    str | None,
    typer.Option(
        "--turns", help="Only entries of this turn, or of the turns FIRST-LAST.", metavar="RANGE"
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", help="Only entries from this day or time on, UTC.", metavar="YYYY-MM-DD[THH:MM]"
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until", help="Only entries before this day or time, UTC.", metavar="YYYY-MM-DD[THH:MM]"
    ),
]


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
            help="Show the passages that a model would get, within this many tokens.", min=1
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

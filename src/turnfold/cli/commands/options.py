"""The options many commands share, so that each means the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = (
    "AllowedHosts",
    "AllowedOrigins",
    "BudgetOption",
    "JsonOption",
    "ListenHost",
    "ListenPort",
    "ModelOption",
    "SemanticOption",
    "SessionArgument",
    "StoreOption",
    "TenantOption",
    "TokensAsked",
)

_OFFERED = 50


def _complete_session(context: typer.Context, incomplete: str) -> list[str]:
    """The sessions that begin so; a completion that fails offers nothing, it must not disturb who types."""
    try:
        from turnfold.cli.opened_store import open_at
        from turnfold.memory.drive import drive

        store, tenant = context.params.get("store"), context.params.get("tenant") or "default"
        with open_at(store, tenant) as opened:
            page = drive(opened.store.conversations(opened.scope, after=incomplete, limit=_OFFERED))
        return [info.conversation for info in page if info.conversation.startswith(incomplete)]
    except Exception:
        return []


StoreOption = Annotated[
    str | None,
    typer.Option(
        help="Address or SQLite file of the store. Default: TURNFOLD_STORE, or a file of the user's.",
        metavar="URL",
    ),
]
TenantOption = Annotated[
    str, typer.Option(help="Whose sessions.", envvar="TURNFOLD_TENANT", show_default=True)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
ModelOption = Annotated[
    str | None, typer.Option(help="Count for this model. Default: as the session was counted.")
]
BudgetOption = Annotated[
    int | None,
    typer.Option(help="Tokens a call may spend. Default: as in its newest call.", min=1),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        help="A session: its id, the beginning of one, or @last.",
        metavar="SESSION",
        autocompletion=_complete_session,
    ),
]
ListenHost = Annotated[str, typer.Option(help="Where to listen.")]
ListenPort = Annotated[int, typer.Option(help="0 takes one that is free.")]
SemanticOption = Annotated[
    bool,
    typer.Option("--semantic", help="Also recall by meaning; needs the extra 'semantic'."),
]
TokensAsked = Annotated[
    Path | None, typer.Option(help="Ask for tokens; needed off loopback.", metavar="PATH")
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(help="A name the service is called by; '*' for any.", metavar="NAME"),
]
AllowedOrigins = Annotated[
    list[str] | None, typer.Option(help="A web page's origin that may ask.", metavar="ORIGIN")
]

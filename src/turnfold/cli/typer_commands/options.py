"""Options that several commands share, so that each option means the same in all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

__all__ = (
    "AllowedHosts",
    "AllowedOrigins",
    "AuditLogOption",
    "BudgetOption",
    "BurstOption",
    "ConnectionsOption",
    "JsonOption",
    "ListenHost",
    "ListenPort",
    "ModelOption",
    "NoSecretOption",
    "PricesOption",
    "QuotaBytesOption",
    "QuotaOption",
    "RateOption",
    "RedactOption",
    "SemanticOption",
    "SessionArgument",
    "StoreOption",
    "TenantOption",
    "TimeZoneOption",
    "TokensFileOption",
    "chosen_prices",
    "chosen_redactor",
)


if TYPE_CHECKING:
    from turnfold.redaction import Redactor
    from turnfold.tokens import PriceTable


_OFFERED = 50


def _complete_session(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a session's id in the shell: return the ids that start with the input; no ids if that fails."""
    try:
        from turnfold.cli.store_and_session_lookup import open_at
        from turnfold.runtime import drive

        store, tenant = context.params.get("store"), context.params.get("tenant") or "default"
        with open_at(store, tenant) as opened:
            page = drive(opened.store.conversations(opened.scope, after=incomplete, limit=_OFFERED))
        return [info.conversation for info in page if info.conversation.startswith(incomplete)]
    except Exception:
        return []


StoreOption = Annotated[
    str | None,
    typer.Option(
        help="Address or SQLite file of the store. Default: TURNFOLD_STORE, or a file in the user's data folder.",
        metavar="URL",
    ),
]
TenantOption = Annotated[
    str,
    typer.Option(help="Tenant whose sessions to use.", envvar="TURNFOLD_TENANT", show_default=True),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
ModelOption = Annotated[
    str | None, typer.Option(help="Model to count tokens for. Default: the session's counter.")
]
BudgetOption = Annotated[
    int | None,
    typer.Option(help="Token budget of a call. Default: that of the newest call.", min=1),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        help="A session: its id, a prefix of it, or @last.",
        metavar="SESSION",
        autocompletion=_complete_session,
    ),
]
ListenHost = Annotated[str, typer.Option(help="Address to listen on.")]
ListenPort = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")]
NoSecretOption = Annotated[
    bool,
    typer.Option(
        "--no-secret", help="Without a token file: admit every user and program of this machine."
    ),
]
SemanticOption = Annotated[
    bool,
    typer.Option("--semantic", help="Also recall by meaning; needs the extra 'semantic'."),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(help="Price table to use instead of the built-in one.", metavar="FILE"),
]
TimeZoneOption = Annotated[
    str,
    typer.Option(
        help="Time zone for times that a model is shown, such as Asia/Shanghai.",
        envvar="TURNFOLD_TIME_ZONE",
        metavar="ZONE",
    ),
]
RedactOption = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Replace secrets and personal data with labels before storing; key: TURNFOLD_REDACTION_KEY.",
    ),
]
AuditLogOption = Annotated[
    Path | None,
    typer.Option(
        help="File to append an audit log to: who did what, without content.", metavar="PATH"
    ),
]
TokensFileOption = Annotated[
    Path | None,
    typer.Option(help="Token file; required unless listening on loopback.", metavar="PATH"),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(help="Host name to accept; '*' for any, with a token file.", metavar="NAME"),
]
ConnectionsOption = Annotated[int, typer.Option(help="Maximum number of open connections.")]
RateOption = Annotated[
    float, typer.Option(help="Requests per second and access token; 0 for no limit.")
]
BurstOption = Annotated[int, typer.Option(help="Requests allowed at once before the rate applies.")]
QuotaOption = Annotated[
    int, typer.Option(help="Maximum number of tokens in all logs of a tenant; 0 for no limit.")
]
QuotaBytesOption = Annotated[
    int, typer.Option(help="Maximum number of bytes that a tenant may store; 0 for no limit.")
]
AllowedOrigins = Annotated[
    list[str] | None,
    typer.Option(
        help="Origin of web pages that may call the service, such as https://example.com.",
        metavar="ORIGIN",
    ),
]


def chosen_prices(file: Path | None) -> PriceTable:
    """Return the price table for `--prices`; without the option the one that comes with turnfold."""
    from turnfold.tokens import load_prices, shipped_prices

    return load_prices(file) if file is not None else shipped_prices()


def chosen_redactor(*, wanted: bool) -> Redactor | None:
    """Return the redactor for `--redact`, with the key from TURNFOLD_REDACTION_KEY; None without `--redact`."""
    if not wanted:
        return None
    from turnfold.redaction import Redactor

    return Redactor(key=os.environ.get("TURNFOLD_REDACTION_KEY", "").encode())

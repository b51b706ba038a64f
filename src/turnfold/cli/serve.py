"""`turnfold serve`, `tokens` and `ui`: run the service or the web inspector, and manage the access tokens."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnfold.cli.chinese_labels import is_chinese, translated
from turnfold.cli.exit_codes import report_errors
from turnfold.cli.translated_group import TranslatedGroup
from turnfold.cli.typer_commands.options import (
    AllowedHosts,
    AllowedOrigins,
    AuditLogOption,
    BurstOption,
    ConnectionsOption,
    ListenHost,
    ListenPort,
    NoSecretOption,
    PricesOption,
    QuotaBytesOption,
    QuotaOption,
    RateOption,
    RedactOption,
    SemanticOption,
    StoreOption,
    TenantOption,
    TimeZoneOption,
    TokensFileOption,
    chosen_prices,
    chosen_redactor,
)
from turnfold.errors import InvalidOption

if TYPE_CHECKING:
    from turnfold.budget import Budget
    from turnfold.service import ExtraRoutes, LocalAccess, ServiceState
    from turnfold.stores import EncryptionKey

__all__ = (
    "serve",
    "tokens",
    "ui",
)


_Cache = Annotated[
    str | None, typer.Option(help="Redis cache in front of the store.", metavar="URL")
]
_Tenant = Annotated[str, typer.Option(help="Tenant to serve if there is no token file.")]
_Model = Annotated[str, typer.Option(help="Model to count tokens for.")]
_Tokens = Annotated[int | None, typer.Option(help="Default token budget of a call.")]
_Body = Annotated[int, typer.Option(help="Largest request body in bytes.")]
_AnswerHours = Annotated[
    float, typer.Option(help="Hours an Idempotency-Key is remembered; 0 for ever.")
]
_Drain = Annotated[float, typer.Option(help="Seconds that running work has to finish at shutdown.")]
_Verbose = Annotated[bool, typer.Option("--verbose", help="Log each request, without content.")]
_Mcp = Annotated[bool, typer.Option("--mcp", help="Also serve MCP, at /mcp.")]
_TokensFile = Annotated[Path, typer.Option("--file", help="The token file.", metavar="PATH")]

tokens = typer.Typer(
    help="Create, list, rotate and revoke access tokens of a service.",
    cls=TranslatedGroup,
    no_args_is_help=True,
)


def serve(
    *,
    store: StoreOption = None,
    cache: _Cache = None,
    host: ListenHost = "127.0.0.1",
    port: ListenPort = 8787,
    tokens_file: TokensFileOption = None,
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
    no_secret: NoSecretOption = False,
    tenant: _Tenant = "default",
    model: _Model = "",
    budget: _Tokens = None,
    time_zone: TimeZoneOption = "UTC",
    semantic: SemanticOption = False,
    prices: PricesOption = None,
    redact: RedactOption = False,
    max_body: _Body = 8 * 1024 * 1024,
    max_connections: ConnectionsOption = 1_000,
    rate: RateOption = 0.0,
    burst: BurstOption = 100,
    quota: QuotaOption = 0,
    quota_bytes: QuotaBytesOption = 0,
    answer_hours: _AnswerHours = 24.0,
    drain: _Drain = 60.0,
    audit_log: AuditLogOption = None,
    mcp: _Mcp = False,
    verbose: _Verbose = False,
) -> None:
    """Serve conversations over HTTP; OpenAPI at /v1/openapi.json. SIGTERM ends it; a second SIGTERM stops at once."""
    from turnfold.service import Limits, LocalAccess, ServiceOptions, inspector_beside, run

    _begin_logs(audit_log, verbose=verbose)
    local = None if tokens_file or no_secret else LocalAccess(tenant)
    limits = Limits(body=max_body, connections=max_connections, rate=rate, burst=burst)
    run(
        ServiceOptions(
            store=(address := _address(store)),
            cache=cache,
            host=host,
            port=port,
            tokens_file=tokens_file,
            local=local,
            tenant=tenant,
            allow_hosts=tuple(allow_host or ()),
            allow_origins=tuple(allow_origin or ()),
            limits=replace(limits, quota=quota, stored=quota_bytes, answer_hours=answer_hours),
            model=model,
            budget=_budget(budget),
            time_zone=time_zone,
            semantic=semantic,
            prices=chosen_prices(prices),
            redact=chosen_redactor(wanted=redact),
            encryption_key=_encryption_keys(),
            drain=drain,
            second_process=_own_command(address, redact=redact) if tokens_file else (),
        ),
        beside=(inspector_beside, *_mcp_beside(wanted=mcp)),
        on_listening=local and partial(_show_access, local),
    )


def _address(store: str | None) -> str:
    from turnfold.cli.store_and_session_lookup import address_of, default_store

    return address_of(store) if store else default_store()


def _encryption_keys() -> Sequence[EncryptionKey] | None:
    from turnfold.cli.store_and_session_lookup import encryption_keys

    return encryption_keys()


def _own_command(store: str, *, redact: bool) -> tuple[str, ...]:
    """Return the command that starts this service again in a second process; empty if two processes would differ.

    They would if the store is in memory, or if redaction has a random key, which makes the labels.
    """
    in_memory = store in ("sqlite:", "sqlite:/", "sqlite://") or ":memory:" in store
    if in_memory or (redact and not os.environ.get("TURNFOLD_REDACTION_KEY")):
        return ()
    return (sys.executable, "-P", "-m", "turnfold", *sys.argv[1:])


def _budget(tokens: int | None) -> Budget | None:
    from turnfold.budget import Budget

    return Budget(max_tokens=tokens) if tokens is not None else None


def _begin_logs(audit_log: Path | None, *, verbose: bool) -> None:
    from turnfold.service import write_audit_log

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("turnfold.service.server").setLevel(logging.INFO)  # logs the address
    if audit_log is not None:
        write_audit_log(audit_log)


def _show_access(local: LocalAccess, address: str) -> None:
    """Print the token and the sign-in link of a service without a token file; on stderr, never in the log."""
    from turnfold.service import ROOT

    def show_link() -> None:
        link = local.link(f"{address}{ROOT}")
        typer.echo(translated(f"inspector (this link works once): {link}"), err=True)

    local.on_used = show_link
    typer.echo(
        translated(f"token for programs, valid until this command ends: {local.token}"), err=True
    )
    show_link()


def _mcp_beside(*, wanted: bool) -> Sequence[Callable[[ServiceState], ExtraRoutes]]:
    """Return the functions that make the MCP routes; none if MCP was not requested: `mcp` may be missing."""
    if not wanted:
        return ()
    from turnfold.service import mcp_beside

    return (mcp_beside,)


@tokens.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the token: a-z, 0-9 and '-'.")],
    *,
    tenant: Annotated[str, typer.Option(help="Tenant whose conversations it gives access to.")],
    file: _TokensFile,
    rights: Annotated[
        str, typer.Option(help="Comma-separated: read, write, admin.")
    ] = "read,write",
    days: Annotated[float, typer.Option(help="Days until it expires; 0 for never.")] = 0,
) -> None:
    """Create an access token and show it once; only its hash is stored."""
    from turnfold.service import TokenFile, new_token

    wanted = [each.strip() for each in rights.split(",") if each.strip()]
    token, line = new_token(name, tenant, wanted, now=time.time(), days=days)
    TokenFile(file).add(line)
    typer.echo(token)


@tokens.command("list")
def list_tokens(*, file: _TokensFile) -> None:
    """List the tokens: name, tenant, rights, expiry and last use."""
    from turnfold.service import TokenFile

    def shown(at: int) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(at)) if at else "never"

    stored = TokenFile(file)
    used = stored.last_used()
    for line in stored.lines():
        at = used.get(line.name, 0)
        last = shown(at if at >= line.created else 0)  # an earlier token may have had this name
        typer.echo(
            f"{line.name}\t{line.tenant}\t{','.join(line.rights)}"
            f"\t{translated(f'expires {shown(line.expires)}')}\t{translated(f'used {last}')}"
        )


@tokens.command()
def rotate(
    name: Annotated[str, typer.Argument(help="Name of the token.")],
    *,
    file: _TokensFile,
    overlap_hours: Annotated[
        float, typer.Option(help="Hours the old secret is still accepted; 0 ends it now.")
    ] = 0,
) -> None:
    """Give an access token a new secret and show the token once; its name, tenant and rights stay."""
    from turnfold.service import TokenFile

    typer.echo(TokenFile(file).rotate(name, now=time.time(), overlap=overlap_hours * 3_600))


@tokens.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the token.")], *, file: _TokensFile
) -> None:
    """Revoke a token; a running service notices within a second, and ends its event streams."""
    from turnfold.service import TokenFile

    TokenFile(file).revoke(name)


_ONCE = "The link works once; the next one is printed when it was used. Ctrl-C ends the inspector."


def ui(
    source: Annotated[
        str | None,
        typer.Argument(help="Store to show, the same as --store.", metavar="STORE"),
    ] = None,
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 8788,
    prices: PricesOption = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Show sessions, calls and contexts in a browser. Ctrl-C ends it."""
    with report_errors():
        if source is not None and store is not None:
            raise InvalidOption("the store is named twice: give it as an argument or with --store")
        from turnfold.cli.store_and_session_lookup import (
            address_of,
            encryption_keys,
            require_store,
            time_zone,
        )
        from turnfold.service import ROOT, LocalAccess, ServiceOptions, inspector_beside, run

        address = address_of(source or store)
        require_store(address)
        logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")

        local = LocalAccess(tenant)
        local.language = "zh" if is_chinese() else "en"

        def on_listening(where: str) -> None:
            local.on_used = lambda: typer.echo(local.link(f"{where}{ROOT}"))
            typer.echo(local.link(f"{where}{ROOT}"))
            typer.echo(translated(_ONCE), err=True)
            if not no_browser:
                _open(local.link(f"{where}{ROOT}"))

        options = ServiceOptions(
            store=address,
            port=port,
            local=local,
            tenant=tenant,
            fold="manual",
            time_zone=time_zone(),
            prices=chosen_prices(prices),
            encryption_key=encryption_keys(),
            drain=1.0,
        )
        run(options, beside=(inspector_beside,), table={}, on_listening=on_listening)


def _open(address: str) -> None:
    """Open a browser without waiting for it, because a browser in the terminal would block until it is closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

"""`turnfold serve` and `turnfold tokens`: the service, and who may ask it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnfold.cli.commands.options import (
    AllowedHosts,
    AllowedOrigins,
    ListenHost,
    ListenPort,
    SemanticOption,
    StoreOption,
    TokensAsked,
)
from turnfold.cli.spoken import SpokenGroup

if TYPE_CHECKING:
    from turnfold.service.running import Beside
    from turnfold.service.state import ServiceState

__all__ = ("serve", "tokens")

_Cache = Annotated[str | None, typer.Option(help="A Redis in front of it.", metavar="URL")]
_Tenant = Annotated[str, typer.Option(help="Whose conversations, where no tokens are asked for.")]
_Model = Annotated[str, typer.Option(help="Count tokens as this model does.")]
_Tokens = Annotated[int | None, typer.Option(help="Tokens of a call that does not say.")]
_Body = Annotated[int, typer.Option(help="Bytes of one request.")]
_Rate = Annotated[float, typer.Option(help="Requests a second for each token; 0 for no limit.")]
_Burst = Annotated[int, typer.Option(help="Requests at once before the rate tells.")]
_Quota = Annotated[int, typer.Option(help="Tokens in all logs of a tenant; 0 for no limit.")]
_QuotaBytes = Annotated[int, typer.Option(help="Bytes a tenant may keep; 0 for no limit.")]
_AnswerHours = Annotated[
    float, typer.Option(help="Hours an Idempotency-Key is remembered; 0 for ever.")
]
_Drain = Annotated[float, typer.Option(help="Seconds for what is under way at the end.")]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="A line for each request, without content.")
]
_Mcp = Annotated[bool, typer.Option("--mcp", help="Also answer MCP clients, at /mcp.")]
_TokensFile = Annotated[
    Path, typer.Option("--file", help="The file tokens are kept in.", metavar="PATH")
]

tokens = typer.Typer(
    help="Make, list and revoke the tokens of a service.", cls=SpokenGroup, no_args_is_help=True
)


def serve(
    *,
    store: StoreOption = None,
    cache: _Cache = None,
    host: ListenHost = "127.0.0.1",
    port: ListenPort = 8787,
    tokens_file: TokensAsked = None,
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
    tenant: _Tenant = "default",
    model: _Model = "",
    budget: _Tokens = None,
    semantic: SemanticOption = False,
    max_body: _Body = 8 * 1024 * 1024,
    rate: _Rate = 0.0,
    burst: _Burst = 100,
    quota: _Quota = 0,
    quota_bytes: _QuotaBytes = 0,
    answer_hours: _AnswerHours = 24.0,
    drain: _Drain = 60.0,
    mcp: _Mcp = False,
    verbose: _Verbose = False,
) -> None:
    """Serve conversations over HTTP; OpenAPI at /v1/openapi.json. SIGTERM ends it well, twice ends it now."""
    from turnfold.budget import Budget
    from turnfold.cli.store_address import address_of, default_store
    from turnfold.service.inspector import inspector_beside
    from turnfold.service.limits import Limits
    from turnfold.service.running import ServiceOptions, run

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    run(
        ServiceOptions(
            store=address_of(store) if store else default_store(),
            cache=cache,
            host=host,
            port=port,
            tokens_file=tokens_file,
            tenant=tenant,
            allow_hosts=tuple(allow_host or ()),
            allow_origins=tuple(allow_origin or ()),
            limits=Limits(
                body=max_body,
                rate=rate,
                burst=burst,
                quota=quota,
                stored=quota_bytes,
                answer_hours=answer_hours,
            ),
            model=model,
            budget=Budget(max_tokens=budget) if budget is not None else None,
            semantic=semantic,
            drain=drain,
        ),
        beside=(inspector_beside, *_mcp_beside(wanted=mcp)),
    )


def _mcp_beside(*, wanted: bool) -> Sequence[Callable[[ServiceState], Beside]]:
    """MCP beside the API, where it is wanted: its package is asked for only then."""
    if not wanted:
        return ()
    from turnfold.service.mcp import mcp_beside

    return (mcp_beside,)


@tokens.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is called: a-z, 0-9 and '-'.")],
    *,
    tenant: Annotated[str, typer.Option(help="Whose conversations it opens.")],
    file: _TokensFile,
    rights: Annotated[
        str, typer.Option(help="Of read, write and admin, with commas.")
    ] = "read,write",
    days: Annotated[float, typer.Option(help="How long it holds; 0 for ever.")] = 0,
) -> None:
    """Make a token and show it, once: only its hash is kept."""
    from turnfold.service.tokens import TokenFile, new_token

    wanted = [each.strip() for each in rights.split(",") if each.strip()]
    token, line = new_token(name, tenant, wanted, now=time.time(), days=days)
    TokenFile(file).add(line)
    typer.echo(token)


@tokens.command("list")
def list_tokens(*, file: _TokensFile) -> None:
    """List the tokens: name, tenant, rights and how long each holds."""
    from turnfold.service.tokens import TokenFile

    for line in TokenFile(file).lines():
        ends = time.strftime("%Y-%m-%d", time.gmtime(line.expires)) if line.expires else "never"
        typer.echo(f"{line.name}\t{line.tenant}\t{','.join(line.rights)}\texpires {ends}")


@tokens.command()
def revoke(
    name: Annotated[str, typer.Argument(help="What it is called.")], *, file: _TokensFile
) -> None:
    """Take a token back; a running service knows within a second."""
    from turnfold.service.tokens import TokenFile

    TokenFile(file).revoke(name)

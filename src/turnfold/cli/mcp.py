"""`turnfold mcp`: serves the memory to MCP clients, over stdin and stdout or over HTTP."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from turnfold.cli.exit_codes import report_errors
from turnfold.cli.typer_commands.options import (
    AllowedHosts,
    AllowedOrigins,
    ListenHost,
    ListenPort,
    NoSecretOption,
    RedactOption,
    SemanticOption,
    StoreOption,
    TenantOption,
    TimeZoneOption,
    TokensFileOption,
    chosen_redactor,
)

__all__ = ("mcp",)


_Session = Annotated[str, typer.Option(help="Session used if a client names none.", metavar="ID")]
_Most = Annotated[int, typer.Option(help="Token limit of one response; the rest can be requested.")]
_Http = Annotated[
    bool, typer.Option("--http", help="Listen at http://HOST:PORT/mcp instead of stdin.")
]
_Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="What models may also write: pins, sessions (other than --session) or summaries. Repeatable.",
        metavar="WHAT",
    ),
]


def mcp(
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    session: _Session = "notes",
    model: Annotated[str, typer.Option(help="Model to count tokens for.")] = "",
    max_tokens: _Most = 4_000,
    allow: _Allow = None,
    time_zone: TimeZoneOption = "UTC",
    semantic: SemanticOption = False,
    redact: RedactOption = False,
    http: _Http = False,
    host: ListenHost = "127.0.0.1",
    port: ListenPort = 8788,
    tokens_file: TokensFileOption = None,
    no_secret: NoSecretOption = False,
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
) -> None:
    """Serve the memory to MCP clients: recall, search, remember.

    As a client's command it speaks over stdin and stdout, as one tenant: claude mcp add turnfold -- turnfold mcp
    """
    from turnfold.cli.chinese_labels import translated
    from turnfold.cli.store_and_session_lookup import address_of, default_store, encryption_keys
    from turnfold.errors import InvalidOption

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("turnfold.service.server").setLevel(logging.INFO)  # logs the address
    with report_errors():
        if not http and (tokens_file or allow_host or allow_origin):
            raise InvalidOption(
                "--tokens-file, --allow-host and --allow-origin apply to HTTP: add --http, or leave them out"
            )
        from turnfold.service import McpOptions, run_http, run_stdio

        options = McpOptions(session=session, max_tokens=max_tokens, allow=tuple(allow or ()))
        # After McpOptions: if packages are missing, that import names the extra `mcp`, which installs all of them.
        from turnfold.service import LocalAccess, ServiceOptions

        local = LocalAccess(tenant) if http and not (tokens_file or no_secret) else None
        if local is not None:
            line = translated(f"token for clients, valid until this command ends: {local.token}")
            typer.echo(line, err=True)
        service = ServiceOptions(
            store=address_of(store) if store else default_store(),
            host=host,
            port=port,
            tokens_file=tokens_file,
            local=local,
            tenant=tenant,
            allow_hosts=tuple(allow_host or ()),
            allow_origins=tuple(allow_origin or ()),
            model=model,
            time_zone=time_zone,
            semantic=semantic,
            redact=chosen_redactor(wanted=redact),
            encryption_key=encryption_keys(),
        )
        (run_http if http else run_stdio)(service, options)

"""`turnfold mcp`: the memory for any program that speaks MCP, over the streams of a process or over HTTP."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from turnfold.cli.commands.options import (
    AllowedHosts,
    AllowedOrigins,
    ListenHost,
    ListenPort,
    SemanticOption,
    StoreOption,
    TenantOption,
    TokensAsked,
)

__all__ = ("mcp",)

_Session = Annotated[
    str, typer.Option(help="The session that is meant where a client names none.", metavar="ID")
]
_Most = Annotated[int, typer.Option(help="Tokens of one answer; the rest can be asked for.")]
_Http = Annotated[
    bool, typer.Option("--http", help="Listen at http://HOST:PORT/mcp instead of stdin.")
]


def mcp(
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    session: _Session = "notes",
    model: Annotated[str, typer.Option(help="Count tokens as this model does.")] = "",
    max_tokens: _Most = 4_000,
    semantic: SemanticOption = False,
    http: _Http = False,
    host: ListenHost = "127.0.0.1",
    port: ListenPort = 8788,
    tokens_file: TokensAsked = None,
    allow_host: AllowedHosts = None,
    allow_origin: AllowedOrigins = None,
) -> None:
    """Serve the memory to MCP clients: recall, search, remember.

    As a client's command it speaks over stdin and stdout, as one tenant: claude mcp add turnfold -- turnfold mcp
    通过 MCP 提供会话记忆。
    """
    from turnfold.cli.exit_codes import telling
    from turnfold.cli.store_address import address_of, default_store
    from turnfold.errors import InvalidOption

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with telling():
        if not http and (tokens_file or allow_host or allow_origin):
            raise InvalidOption(
                "tokens, hosts and origins are asked for over HTTP: add --http, or leave them out"
            )
        from turnfold.service.mcp import McpOptions, run_http, run_stdio
        from turnfold.service.running import ServiceOptions

        service = ServiceOptions(
            store=address_of(store) if store else default_store(),
            host=host,
            port=port,
            tokens_file=tokens_file,
            tenant=tenant,
            allow_hosts=tuple(allow_host or ()),
            allow_origins=tuple(allow_origin or ()),
            model=model,
            semantic=semantic,
        )
        options = McpOptions(session=session, max_tokens=max_tokens)
        (run_http if http else run_stdio)(service, options)

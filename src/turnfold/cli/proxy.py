"""`turnfold proxy`: runs an HTTP proxy in front of a model provider, which makes prompts fit a budget."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from turnfold.cli.chinese_labels import translated
from turnfold.cli.typer_commands.options import (
    AllowedHosts,
    AuditLogOption,
    BurstOption,
    ConnectionsOption,
    ListenHost,
    ListenPort,
    QuotaBytesOption,
    QuotaOption,
    RateOption,
    RedactOption,
    StoreOption,
    TimeZoneOption,
    TokensFileOption,
    chosen_redactor,
)

__all__ = ("proxy",)


_Upstream = Annotated[
    str,
    typer.Option(help="Address of the provider: https://api.anthropic.com", metavar="URL"),
]
_Budget = Annotated[
    int,
    typer.Option(
        help="Token budget of a request. Default: 3/4 of the model's context window.",
        show_default=False,
    ),
]
_ModelBudget = Annotated[
    list[str] | None,
    typer.Option(
        help="Token budget of models whose names begin with MODEL.", metavar="MODEL=TOKENS"
    ),
]
_Session = Annotated[
    str,
    typer.Option(
        help="Session for requests that name none. Default: such requests pass unchanged."
    ),
]
_Tenant = Annotated[str, typer.Option(help="Tenant to serve if there is no token file.")]
_Body = Annotated[int, typer.Option(help="Largest request body in bytes.")]
_Requests = Annotated[
    int, typer.Option(help="Requests of a tenant that run at once, model calls included.")
]
_Silent = Annotated[
    float, typer.Option(help="Longest time without data from the provider, in seconds.")
]
_Drain = Annotated[float, typer.Option(help="Seconds that running work has to finish at shutdown.")]


def proxy(
    *,
    upstream: _Upstream,
    store: StoreOption = None,
    budget: _Budget = 0,
    model_budget: _ModelBudget = None,
    time_zone: TimeZoneOption = "UTC",
    session: _Session = "",
    redact: RedactOption = False,
    host: ListenHost = "127.0.0.1",
    port: ListenPort = 8789,
    tokens_file: TokensFileOption = None,
    allow_host: AllowedHosts = None,
    tenant: _Tenant = "default",
    max_body: _Body = 64 * 1024 * 1024,
    max_connections: ConnectionsOption = 1_000,
    max_requests: _Requests = 256,
    rate: RateOption = 0.0,
    burst: BurstOption = 100,
    quota: QuotaOption = 0,
    quota_bytes: QuotaBytesOption = 0,
    timeout: _Silent = 600.0,
    drain: _Drain = 60.0,
    audit_log: AuditLogOption = None,
) -> None:
    """Pass model calls on to a provider, with contexts that fit a budget: change the base URL, nothing else."""
    from turnfold.cli.exit_codes import report_errors
    from turnfold.cli.store_and_session_lookup import address_of, default_store, encryption_keys

    with report_errors():
        from turnfold.proxy import ProxyOptions, run_proxy
        from turnfold.service import Limits

        _begin_logs(audit_log)
        limits = Limits(body=max_body, connections=max_connections, concurrent=max_requests)
        limits = replace(limits, rate=rate, burst=burst, quota=quota, stored=quota_bytes)
        run_proxy(
            ProxyOptions(
                upstream=upstream,
                store=address_of(store) if store else default_store(),
                encryption_key=encryption_keys(),
                redact=chosen_redactor(wanted=redact),
                budget=budget,
                model_budgets=dict(map(_model_budget, model_budget or ())),
                time_zone=time_zone,
                session=session,
                host=host,
                port=port,
                tokens_file=tokens_file,
                tenant=tenant,
                allow_hosts=tuple(allow_host or ()),
                limits=limits,
                read_seconds=timeout,
                drain=drain,
            ),
            on_listening=_show_base_url,
        )


def _show_base_url(address: str) -> None:
    """Print, in the reader's language, how a program uses the proxy; on stderr, after the line of the log."""
    typer.echo(
        translated(
            f"set the base URL of your program to {address}/s/SESSION/v1; Claude Code: ANTHROPIC_BASE_URL={address}. "
            "`turnfold ui` with the same --store shows each call. Ctrl-C ends the proxy."
        ),
        err=True,
    )


def _begin_logs(audit_log: Path | None) -> None:
    from turnfold.service import write_audit_log

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("turnfold.proxy.app").setLevel(logging.INFO)  # logs the address
    if audit_log is not None:
        write_audit_log(audit_log)


def _model_budget(given: str) -> tuple[str, int]:
    model, _, tokens = given.rpartition("=")
    if not model or not tokens.isdecimal():
        raise typer.BadParameter(
            f"--model-budget {given!r} is not a model and its tokens: for example gpt-5=100000"
        )
    return model, int(tokens)

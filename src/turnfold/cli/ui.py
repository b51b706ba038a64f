"""`turnfold ui`: shows an existing store in the web inspector, on this machine only.

It serves pages but no API, so nothing in the browser can change stored data. Because other users of the machine can
reach its port, the printed address contains a key that signs in one browser, once; then a new address is printed.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from turnfold.cli.commands.options import StoreOption, TenantOption
from turnfold.cli.exit_codes import report_errors
from turnfold.cli.labels import translated

__all__ = ("ui",)


_ONCE = "The link works once; the next one is printed when it was used. Ctrl-C ends the inspector."


def ui(
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 8788,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Show sessions, calls and contexts in a browser. Ctrl-C ends it."""
    with report_errors():
        from turnfold.cli.store import address_of, encryption_keys, require_store, time_zone
        from turnfold.service import ROOT, LocalAccess, ServiceOptions, inspector_beside, run

        address = address_of(store)
        require_store(address)
        logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")

        local = LocalAccess(tenant)

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
            encryption_key=encryption_keys(),
            drain=1.0,
        )
        run(options, beside=(inspector_beside,), table={}, on_listening=on_listening)


def _open(address: str) -> None:
    """Open a browser without waiting for it, because a browser in the terminal would block until it is closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

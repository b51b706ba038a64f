"""`turnfold ui`: the web inspector on this machine alone, over a store that exists.

It serves pages and no API, so whatever opens in the browser can look and cannot change anything.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from turnfold.cli.commands.options import StoreOption, TenantOption
from turnfold.cli.exit_codes import telling

__all__ = ("ui",)


def ui(
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    port: Annotated[int, typer.Option(help="0 takes one that is free.")] = 8788,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Look at sessions, calls and contexts in a browser. Ctrl-C ends it.

    在浏览器中查看会话、调用与上下文。
    """
    with telling():
        from turnfold.cli.store_address import address_of, require_there
        from turnfold.service.inspector import ROOT, inspector_beside
        from turnfold.service.running import ServiceOptions, run

        address = address_of(store)
        require_there(address)
        logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")

        def told(where: str) -> None:
            typer.echo(f"{where}{ROOT}")
            if not no_browser:
                _open(f"{where}{ROOT}")

        options = ServiceOptions(
            store=address, port=port, tenant=tenant, checkpoint="manual", drain=1.0
        )
        run(options, beside=(inspector_beside,), table=(), on_listening=told)


def _open(address: str) -> None:
    """Open a browser without waiting for it: one that runs in the terminal returns only when it is closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

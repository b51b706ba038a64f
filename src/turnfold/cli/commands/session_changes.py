"""Commands that pin texts and entries of a session, and delete it or an entry: pin, unpin, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from turnfold.cli.commands.options import JsonOption, SessionArgument, StoreOption, TenantOption
from turnfold.cli.exit_codes import report_errors

__all__ = ("add",)


def add(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (pin, unpin, delete):
        app.command()(command)


def pin(
    session: SessionArgument,
    content: Annotated[
        str, typer.Argument(help="Text to show in every call.", metavar="[TEXT]")
    ] = "",
    *,
    entry: Annotated[
        int, typer.Option(help="Entry whose words to show, instead of a text.", min=0)
    ] = 0,
    key: Annotated[str, typer.Option(help="Name of the pin. Default: made from the text.")] = "",
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show a text or an entry word for word in every call from the next user turn on.

    从下一个用户轮次起，在每次调用中原文显示一段文字或一条记录。
    """
    with report_errors():
        from turnfold.cli.session_changes import change_pins, show_pins

        changed = change_pins(store, tenant, session, content=content, entry=entry, key=key)
        show_pins(changed, json=as_json)


def unpin(
    session: SessionArgument,
    key: Annotated[str, typer.Argument(help="Name of the pin to remove.", metavar="KEY")],
    *,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Remove a pin from the next user turn on.

    从下一个用户轮次起取消一条置顶。
    """
    with report_errors():
        from turnfold.cli.session_changes import drop_pin, show_pins

        show_pins(drop_pin(store, tenant, session, key=key), json=as_json)


def delete(
    session: SessionArgument,
    *,
    entry: Annotated[
        int | None,
        typer.Option(help="Erase only this entry, and everything made from it.", min=1),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Reason kept in the placeholder of an erased entry.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Delete a session, or one entry of it, and everything made from it. Cannot be undone.

    删除一个会话或其中一条记录，以及由它得出的一切。不可撤销。
    """
    with report_errors():
        from turnfold.cli.session_changes import delete_session, show_erasure

        erasure = delete_session(store, tenant, session, entry=entry, reason=reason, asked=yes)
        show_erasure(erasure, entry=entry, json=as_json)

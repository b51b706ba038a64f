"""The commands and their options. What a command does is imported when it runs, so that `turnfold --help` is quick."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import turnfold

__all__ = ("LabelLanguage", "app")

app = typer.Typer(
    name="turnfold",
    help="The context memory of LLM agents: the best context that fits the budget, and nothing lost.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


class LabelLanguage(StrEnum):
    """The languages the command can speak."""

    EN = "en"
    ZH = "zh"


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the shape typer calls an option back with
    if wanted:
        typer.echo(f"turnfold {turnfold.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    del version  # answered by its callback, before anything else
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    *,
    budget: Annotated[int, typer.Option(help="Tokens one call may spend.")] = 6000,
    language: Annotated[
        LabelLanguage | None, typer.Option(help="Language of the labels. Default: the locale's.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Do not pause between calls.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every call and the totals as JSON, nothing else.")
    ] = False,
) -> None:
    """Replay a long conversation call by call and watch what is sent, folded and kept.

    Needs no network, no key and no server. 用一段中英文长对话逐次演示上下文如何装进预算。
    """
    if as_json:
        from turnfold.cli.demo.report import report_text

        typer.echo(report_text(budget))
        return
    from turnfold.cli.demo.show import show

    show(budget, language=language.value if language is not None else None, fast=fast)

"""The command in the reader's language: help, headings, and what is said of a wrong call or an error.

TURNFOLD_LANG decides, else the locale. What an error says behind its first words is English everywhere: the numbers and
the remedy in it are found again in documentation and by search engines. JSON and exit codes never change.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from turnfold.cli.demo.texts import language_of
from turnfold.cli.help_words import COMMANDS, OPTIONS

__all__ = ("SpokenGroup",)

_UsageError: Final = cast("type[Exception]", typer.BadParameter.__mro__[1])
_HEADINGS: Final[Mapping[str, str]] = {
    "ARGUMENTS_PANEL_TITLE": "参数",
    "COMMANDS_PANEL_TITLE": "命令",
    "DEFAULT_STRING": "[默认：{}]",
    "ENVVAR_STRING": "[环境变量：{}]",
    "ERRORS_PANEL_TITLE": "错误",
    "OPTIONS_PANEL_TITLE": "选项",
    "REQUIRED_LONG_STRING": "[必填]",
}
_WRONG: Final[Mapping[str, str]] = {
    "BadParameter": "参数的值不对",
    "MissingParameter": "缺少参数",
    "NoSuchOption": "没有这个选项",
    "UsageError": "命令用法有误",
}


class SpokenGroup(TyperGroup):
    """A group of commands that speaks the reader's language."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 (handed on as it comes)
        """Run it, with headings in the reader's language."""
        with _headings():
            return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 (handed on as it comes)
        """Read what was typed."""
        with _wrong_calls():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 (handed on as it comes)
        """Run the command that was named."""
        with _wrong_calls():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 (handed on as it comes)
        """The command of this name, in the reader's language."""
        found = super().get_command(ctx, cmd_name)
        return _spoken(found) if found is not None and _is_chinese() else found

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (handed on as it comes)
        """What it can do."""
        if _is_chinese():
            _spoken(self)
        super().format_help(ctx, formatter)


def _is_chinese() -> bool:
    return language_of(os.environ) == "zh"


def _spoken(command: Any) -> Any:  # noqa: ANN401 (of a package that keeps its types to itself)
    """A command with its help in Chinese; it is made anew for every run."""
    english = (command.help or "").split("\n\n")[0].replace("\n", " ")
    command.help = COMMANDS.get(english, command.help)
    command.short_help = None
    for each in command.params:
        each.help = OPTIONS.get(getattr(each, "help", None) or "", getattr(each, "help", None))
    made = command.get_help_option

    def get_help_option(ctx: object) -> Any:  # noqa: ANN401 (as above)
        option = made(ctx)
        if option is not None:
            option.help = OPTIONS["Show this message and exit."]
        return option

    command.get_help_option = get_help_option
    return command


@contextmanager
def _headings() -> Generator[None]:
    if not _is_chinese():
        yield
        return
    from typer import rich_utils  # takes longer to load than all else here

    english = {name: getattr(rich_utils, name) for name in _HEADINGS}
    try:
        for name, chinese in _HEADINGS.items():
            setattr(rich_utils, name, chinese)
        yield
    finally:
        for name, text in english.items():
            setattr(rich_utils, name, text)


@contextmanager
def _wrong_calls() -> Generator[None]:
    """Say in Chinese what kind of mistake a call is; what stood there stays behind it."""
    try:
        yield
    except _UsageError as error:
        if not _is_chinese() or getattr(error, "spoken", False):
            raise
        kind = next(
            _WRONG[each.__name__] for each in type(error).__mro__ if each.__name__ in _WRONG
        )
        said = cast("Any", error)
        told = _UsageError(f"{kind}：{said.format_message()}", said.ctx)
        vars(told)["spoken"] = True
        raise told from None

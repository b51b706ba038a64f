"""Command group that prints help, headings and usage errors in the reader's language.

The language is that of TURNFOLD_LANG, else of the locale. JSON and exit codes do not depend on it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from turnfold.cli.chinese_help import COMMANDS, OPTIONS
from turnfold.cli.labels import is_chinese, translated

__all__ = ("TranslatedGroup",)


_KEY_FILE: Final = "encryption_key_file"
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
_USAGE_ERRORS: Final[Mapping[str, str]] = {
    "BadParameter": "参数的值不对",
    "MissingParameter": "缺少参数",
    "NoSuchOption": "没有这个选项",
    "UsageError": "命令用法有误",
}


class TranslatedGroup(TyperGroup):
    """A group of commands that prints help and usage errors in the reader's language."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 (passed through)
        """Run the command line, with headings in the reader's language."""
        with _headings():
            return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 (passed through)
        """Parse the arguments, with usage errors in the reader's language."""
        with _usage_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 (passed through)
        """Run the command, with usage errors in the reader's language."""
        with _usage_errors():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 (passed through)
        """Return the named command, with its help in the reader's language."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            return None
        _hide_flag_types(found)
        _take_key_file(found, ctx.find_root().command.params)
        return _translated(found) if is_chinese() else found

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (passed through)
        """Write the help in the reader's language."""
        _hide_flag_types(self)
        if is_chinese():
            _translated(self)
        super().format_help(ctx, formatter)


def _hide_flag_types(command: Any) -> None:  # noqa: ANN401 (the package does not export its types)
    """Change a command's help to show flags without the type of a value, because they take none."""
    original = command.get_help_option

    def get_help_option(ctx: object) -> Any:  # noqa: ANN401 (as above)
        option = original(ctx)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = get_help_option
    for each in command.params:
        if getattr(each, "is_flag", False):
            each.metavar = ""


def _take_key_file(command: Any, options: Any) -> None:  # noqa: ANN401 (as above)
    """Let a command take --encryption-key-file after its name too, if it opens a store."""
    names = [each.name for each in command.params]
    if "store" not in names or _KEY_FILE in names:
        return
    option = copy(next((each for each in options if each.name == _KEY_FILE), None))
    if option is not None:
        option.envvar = None  # read already, before the command
        option.expose_value = False
        option.callback = _keep_key_file
        command.params.append(option)


def _keep_key_file(_context: object, _option: object, path: Path | None) -> None:
    if path is not None:
        os.environ["TURNFOLD_ENCRYPTION_KEY_FILE"] = str(path)


def _translated(command: Any) -> Any:  # noqa: ANN401 (the package does not export its types)
    """Change the help of a command to Chinese, and return it; commands are created for each run."""
    english = (command.help or "").split("\n\n")[0].replace("\n", " ")
    command.help = COMMANDS.get(english, command.help)
    command.short_help = None
    for each in command.params:
        each.help = OPTIONS.get(getattr(each, "help", None) or "", getattr(each, "help", None))
    original = command.get_help_option

    def get_help_option(ctx: object) -> Any:  # noqa: ANN401 (as above)
        option = original(ctx)
        if option is not None:
            option.help = OPTIONS["Show this message and exit."]
        return option

    command.get_help_option = get_help_option
    return command


@contextmanager
def _headings() -> Generator[None]:
    if not is_chinese():
        yield
        return
    from typer import rich_utils  # imported here because it is slow to load

    english = {name: getattr(rich_utils, name) for name in _HEADINGS}
    try:
        for name, chinese in _HEADINGS.items():
            setattr(rich_utils, name, chinese)
        yield
    finally:
        for name, text in english.items():
            setattr(rich_utils, name, text)


@contextmanager
def _usage_errors() -> Generator[None]:
    """Context manager: put the Chinese name of a usage error before its message, in a Chinese locale."""
    try:
        yield
    except _UsageError as error:
        if not is_chinese() or getattr(error, "translated", False):
            raise
        kind = next(
            _USAGE_ERRORS[each.__name__]
            for each in type(error).__mro__
            if each.__name__ in _USAGE_ERRORS
        )
        usage = cast("Any", error)
        chinese = _UsageError(f"{kind}：{translated(usage.format_message())}", usage.ctx)
        vars(chinese)["translated"] = True
        raise chinese from None

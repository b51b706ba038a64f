"""Command group that prints help, headings and usage errors in the reader's language.

The language is that of TURNFOLD_LANG, else of the locale. JSON and exit codes do not depend on it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from turnfold.cli.chinese_help import COMMANDS, OPTIONS
from turnfold.cli.chinese_labels import is_chinese, translated
from turnfold.cli.exit_codes import report_file_errors

__all__ = ("TranslatedGroup",)


_UNDO: Final = frozenset({"undo", "undo-fold", "unfold"})
"""Command names that users may try to undo a fold (compaction); the error then names the right command."""
_OTHER_COMMANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("list", "ls"), "sessions"),
    **dict.fromkeys(("history", "messages", "log", "cat"), "show"),
    **dict.fromkeys(("status", "budget"), "context"),
    **dict.fromkeys(("remove", "rm", "erase"), "delete"),
}
"""Command names of other tools -> the command that does the same."""
_PANELS: Final[Mapping[tuple[str, str], str]] = {
    ("Start", "开始"): "demo chat ui doctor",
    ("Look", "查看"): "sessions show search recall rules checkpoints context explain diff top",
    ("Check and measure", "检查与测量"): "lint audit replay eval",
    ("Change", "更改"): "fold pin unpin fork delete",
    ("Move data", "数据进出"): "import export db",
    ("Serve", "服务"): "serve proxy mcp tokens",
}
"""Titles of the groups in `turnfold --help`, English and Chinese -> their commands, in the order of the help."""
_PANEL_OF: Final = {name: titles for titles, names in _PANELS.items() for name in names.split()}
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
    "RICH_HELP": "查看帮助：[blue]{command_path} {help_option}[/]",
}
_USAGE_WORDS: Final[Mapping[str, str]] = {"OPTIONS": "选项", "COMMAND": "命令", "ARGS": "参数"}
_VALUES: Final[Mapping[str, tuple[str, str]]] = {
    "float": ("N", "N"),
    "int": ("N", "N"),
    "path": ("PATH", "PATH"),
    "str": ("TEXT", "文字"),
}
"""Type of an option's value -> its name in the help, English and Chinese."""
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "--db": "--store",
    "--database": "--store",
    "--fix": "--mend",
    "--max-tokens": "--budget",
    "--out": "--output",
    "--repair": "--mend",
    "--tokens": "--budget",
}
"""Option name that readers try -> the real option with that meaning, suggested if the command has it."""
_USUAL: Final = "sessions"
"""Command of the examples in errors, if it has the option that the error is about."""
_USAGE_ERRORS: Final[Mapping[str, str]] = {
    "BadParameter": "参数的值不对",
    "MissingParameter": "缺少参数",
    "NoSuchOption": "没有这个选项",
    "UsageError": "命令用法有误",
}

_UNBROKEN: Final = re.compile(
    r"[（“]*(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef“”]+)[，。；：、！？）”]*\s*|\s+|."
)
"""A piece of text that stays on one line: a Chinese character or another word, with the punctuation around it."""


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
        """Run the command, with errors in the reader's language."""
        with _usage_errors(), report_file_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: Any) -> Any:  # noqa: ANN401 (passed through)
        """Return the command that the arguments name; the error for a name such as "undo" names the right one."""
        if args and args[0] in _UNDO:
            raise _UsageError(
                f"No such command {args[0]!r}. To undo a fold, `turnfold checkpoints SESSION` lists the summaries and "
                "`turnfold checkpoints SESSION --drop ID` drops one"
            )
        if args and ctx.parent is None and (meant := _OTHER_COMMANDS.get(args[0])):
            raise _UsageError(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 (passed through)
        """Return the names of the commands in the order of the help; a new one without a group comes last."""
        names: list[str] = super().list_commands(ctx)
        order = list(_PANEL_OF)
        return sorted(
            names, key=lambda name: order.index(name) if name in _PANEL_OF else len(order)
        )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 (passed through)
        """Return the named command, with its help in the reader's language."""
        found: Any = super().get_command(ctx, cmd_name)
        if found is None:
            return None
        _name_values(found)
        _take_key_file(found, ctx.find_root().command.params)
        found.format_usage = partial(_write_usage, found)
        if ctx.parent is None and cmd_name in _PANEL_OF:
            found.rich_help_panel = _PANEL_OF[cmd_name][is_chinese()]
        return _translated(found) if is_chinese() else found

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (passed through)
        """Write the help in the reader's language."""
        _name_values(self)
        if is_chinese():
            _translated(self)
        super().format_help(ctx, formatter)

    def format_usage(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (passed through)
        """Write the usage line in the reader's language."""
        _write_usage(self, ctx, formatter)


def _name_values(command: Any) -> None:  # noqa: ANN401 (the package does not export its types)
    """Change a command's help to show flags without the type of a value, and the names of arguments in capitals."""
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
        elif each.param_type_name == "argument":
            each.metavar = each.metavar or each.name.upper()
            each.display_type_rich = _no_text  # the type beside the name, such as <str>
        else:
            _name_value(each)


def _name_value(option: Any) -> None:  # noqa: ANN401 (the package does not export its types)
    """Name the value of an option in the help with a word, in the place of Python's type such as `<list[int]>`."""
    display_type = getattr(option, "display_type", None)  # older releases of typer have none
    shown: str = "" if option.metavar or display_type is None else display_type(None) or ""
    words = re.sub(r"<(?:list\[)?(.*?)\]?( range)?>", r"\1", shown)
    kind = _VALUES.get(words)
    if kind is not None:
        option.metavar = kind[is_chinese()]
    elif words:
        option.metavar = words  # a choice: en|zh
    least, most = getattr(option, "min", None), getattr(option, "max", None)
    if kind is not None and least is not None and most is None:
        option.metavar += f">={least:g}"
        vars(option)["_get_number_range_help_str"] = _no_text  # `[x>=1]`


def _no_text(*, ctx: object = None) -> str:
    """Stand in the place of a method of an option or argument that returns a piece of the help."""
    del ctx
    return ""


def _take_key_file(command: Any, options: Any) -> None:  # noqa: ANN401 (as above)
    """Let a command that opens a store also accept --encryption-key-file after the name of the command."""
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


def _write_usage(command: Any, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 (as above)
    pieces = re.sub(r"\{(\w+)\}", r"\1", " ".join(command.collect_usage_pieces(ctx)))
    if is_chinese():
        pieces = re.sub(r"\b(?:OPTIONS|COMMAND|ARGS)\b", lambda name: _USAGE_WORDS[name[0]], pieces)
    formatter.write_usage(ctx.command_path, pieces, prefix="用法：" if is_chinese() else None)


@contextmanager
def _headings() -> Generator[None]:
    if not is_chinese():
        yield
        return
    from typer import rich_utils  # imported here because it is slow to load

    replaced = {**_HEADINGS, **_wrapped_texts(rich_utils.highlighter)}
    english = {name: getattr(rich_utils, name) for name in replaced}
    try:
        for name, chinese in replaced.items():
            setattr(rich_utils, name, chinese)
        yield
    finally:
        for name, text in english.items():
            setattr(rich_utils, name, text)


def _wrapped_texts(highlighter: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return texts for help that break between Chinese characters.

    Rich breaks only at spaces, and cuts what is too long.
    """
    from rich.cells import cell_len
    from rich.containers import Lines
    from rich.text import Text

    class ChineseText(Text):
        def wrap(self, console: Any, width: int, **options: Any) -> Lines:  # noqa: ANN401, ARG002 (as in the base class)
            lines = Lines()
            for line in self.split(allow_blank=True):
                breaks, used, at = list[int](), 0, 0
                for piece in _UNBROKEN.findall(line.plain):
                    if used and used + cell_len(piece.rstrip()) > width:
                        breaks.append(at)
                        used = 0
                    used, at = used + cell_len(piece), at + len(piece)
                lines.extend(line.divide(breaks))
            for line in lines:
                line.rstrip()
            return lines

    def highlight(given: Any) -> ChineseText:  # noqa: ANN401 (passed through)
        text = highlighter(given)
        return ChineseText(text.plain, text.style, spans=text.spans)

    return {"Text": ChineseText, "highlighter": highlight}


@contextmanager
def _usage_errors() -> Generator[None]:
    """Context manager: put the Chinese name of a usage error before its message, in a Chinese locale."""
    try:
        yield
    except _UsageError as error:
        _suggest_option(error)
        _add_value_or_remedy(error)
        if not is_chinese() or getattr(error, "translated", False) or not str(error):
            raise  # a group without a command has shown its help, and its error says nothing
        kind = next(
            _USAGE_ERRORS[each.__name__]
            for each in type(error).__mro__
            if each.__name__ in _USAGE_ERRORS
        )
        usage = cast("Any", error)
        chinese = _UsageError(f"{kind}：{translated(usage.format_message())}", usage.ctx)
        vars(chinese)["translated"] = True
        raise chinese from None


def _suggest_option(error: Exception) -> None:
    """Let the error about an unknown option suggest its name in turnfold: `--store` for `--database`."""
    refused = cast("Any", error)
    name = getattr(refused, "option_name", "")
    known = _OTHER_NAMES.get(name)
    if refused.ctx is not None and (example := _command_with(refused.ctx.command, known or name)):
        refused.message = f"{name} belongs after the command: {refused.ctx.command_path} {example} {known or name} ..."
        refused.possibilities = []
        return
    if known is None or refused.possibilities or refused.ctx is None:
        return
    if any(known in each.opts for each in refused.ctx.command.params):
        refused.possibilities = [known]


def _command_with(group: Any, option: str) -> str:  # noqa: ANN401 (the package does not export its types)
    """Return the name of a command of this group that has the option; the empty string if none has it."""
    commands: Mapping[str, Any] = getattr(group, "commands", {})
    having = [
        name
        for name, command in commands.items()
        if any(option in each.opts for each in command.params)
    ]
    return _USUAL if _USUAL in having else next(iter(having), "")


def _add_value_or_remedy(error: Exception) -> None:
    """Let the error about a value that could not be parsed show it, and that about a missing session name `@last`."""
    refused = cast("Any", error)
    parsing = getattr(error.__cause__, "errors", None)  # pydantic's, by which typer parses values
    if parsing is not None:
        given = repr(parsing()[0]["input"])
        if given not in refused.message:
            refused.message += f", got {given}"
    elif type(error).__name__ == "MissingParameter" and (
        getattr(refused.param, "metavar", None) == "SESSION"
    ):
        refused.message = "Give its id, or @last for the newest"

"""The Typer application: its main commands and their options.

The code of a command is imported when the command runs, so that `turnfold --help` is fast.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import turnfold
from turnfold.cli.chinese_labels import problem_label, translated
from turnfold.cli.exit_codes import report_errors
from turnfold.cli.mcp import mcp
from turnfold.cli.proxy import proxy
from turnfold.cli.serve import serve, tokens, ui
from turnfold.cli.translated_group import TranslatedGroup
from turnfold.cli.typer_commands import add_commands
from turnfold.cli.typer_commands.options import StoreOption, TenantOption
from turnfold.errors import InvalidOption
from turnfold.text import is_language, language_of

if TYPE_CHECKING:
    from turnfold.cli.lint import Linted

__all__ = (
    "LabelLanguage",
    "app",
)


app = typer.Typer(
    name="turnfold",
    help="The context memory of LLM agents: the best context that fits the budget, and nothing lost.",
    cls=TranslatedGroup,
    pretty_exceptions_enable=False,
)


app.command()(serve)
app.command()(ui)
app.command()(mcp)
app.command()(proxy)
app.add_typer(tokens, name="tokens")


class LabelLanguage(StrEnum):
    """The languages in which the demo can show its labels."""

    EN = "en"
    ZH = "zh"


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the shape typer calls an option back with
    if wanted:
        typer.echo(f"turnfold {turnfold.__version__}")
        raise typer.Exit


_FIRST_STEPS = {
    "en": (
        "Where to start:",
        (
            (
                "turnfold demo",
                "watch a long conversation stay within a token budget; no key, no network",
            ),
            (
                "turnfold chat",
                "take searchable notes (@last: in the last session), or chat: --model gpt-4o",
            ),
            ("turnfold import FILE", "bring in the conversations of another program"),
            ("turnfold sessions", "list what is stored"),
            ("turnfold ui", "see what the model saw, call by call, in a browser"),
            ("turnfold doctor", "check the installation"),
        ),
        "All commands: turnfold --help",
    ),
    "zh": (
        "从这里开始：",
        (
            ("turnfold demo", "看一段长对话如何装进 token 预算；不需要密钥和网络"),
            (
                "turnfold chat",
                "记下可以搜索的笔记（@last：接着上个会话）；或与模型交谈：--model gpt-4o",
            ),
            ("turnfold import FILE", "导入其他程序的对话"),
            ("turnfold sessions", "列出已保存的会话"),
            ("turnfold ui", "在浏览器中逐次查看模型看到了什么"),
            ("turnfold doctor", "检查安装"),
        ),
        "全部命令：turnfold --help",
    ),
}
"""Text that `turnfold` prints without a command, by language: heading, first commands and their purpose, last line."""


def _first_steps() -> str:
    """Return the list of first commands for a newcomer, in the reader's language."""
    heading, steps, more = _FIRST_STEPS[language_of(os.environ)]
    lines = [f"  {command:<22}{use}" for command, use in steps]
    return "\n".join((f"turnfold {turnfold.__version__}", "", heading, *lines, "", more))


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
    encryption_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the key of an encrypted store; of several keys, the first encrypts new data.",
            metavar="PATH",
            envvar="TURNFOLD_ENCRYPTION_KEY_FILE",
        ),
    ] = None,
) -> None:
    del version  # handled by its callback, before anything else
    if encryption_key_file is not None:  # for every command, and the processes it starts
        os.environ["TURNFOLD_ENCRYPTION_KEY_FILE"] = str(encryption_key_file)
    given = os.environ.get("TURNFOLD_LANG", "")
    if given and not is_language(given):
        note = f"TURNFOLD_LANG={given!r} is neither zh nor en, and is ignored"
        typer.echo(f"turnfold: {translated(note)}", err=True)
    if context.invoked_subcommand is None:
        typer.echo(_first_steps())


@app.command()
def demo(
    *,
    budget: Annotated[int, typer.Option(help="Token budget of a call.")] = 6000,
    language: Annotated[
        LabelLanguage | None, typer.Option(help="Language of the labels. Default: the locale's.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Do not pause between calls.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Keep the SQLite database at this path. Default: it is deleted.", metavar="PATH"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every call and the totals as JSON, nothing else.")
    ] = False,
) -> None:
    """Replay a long conversation call by call, and show what is sent, folded and kept.

    Needs no network, no key and no server.
    """
    if as_json:
        from turnfold.cli.demo.report import report_text

        typer.echo(report_text(budget, keep=keep))
        return
    from turnfold.cli.demo.report import show

    shown_in = language.value if language is not None else None
    show(budget, language=shown_in, fast=fast, keep=keep)


class ChatOptions(NamedTuple):
    """The options of `turnfold chat`, by the names that `turnfold.cli.chat` gives them."""

    model: str | None
    base_url: str | None
    store: str | None
    session: str | None
    system: str
    tokens: int | None


@app.command()
def chat(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Session to continue or begin; @last is the newest.", metavar="SESSION"
        ),
    ] = None,
    *,
    model: Annotated[
        str | None, typer.Option(help="Model to chat with. Default: TURNFOLD_MODEL.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Base URL of a server with OpenAI's chat API.", metavar="URL"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where chats are stored: a file or an address. Default: a file in the user's data folder.",
            metavar="STORE",
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="The same as the argument SESSION.", metavar="ID")
    ] = None,
    system: Annotated[str, typer.Option(help="Instructions to the model.")] = "",
    budget: Annotated[
        int | None,
        typer.Option(
            help="Token budget of a call. Default: 75% of the model's context window; 12,000 if that is not known."
        ),
    ] = None,
    once: Annotated[
        str | None, typer.Option(help="Send this, print the answer, and exit.", metavar="TEXT")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="With --once: print the answer and its token figures as JSON."),
    ] = False,
) -> None:
    """Chat with a model in a stored session; without a model, search the session's memory."""
    from turnfold.cli.chat import talk

    with report_errors():
        if name is not None and session is not None:
            raise InvalidOption(
                "the session is named twice: give it as an argument or with --session"
            )
        options = ChatOptions(model, base_url, store, name or session, system, budget)
        if once is not None or as_json:
            _say_once(once, options, as_json=as_json)
        else:
            talk(**options._asdict())


def _say_once(once: str | None, options: ChatOptions, *, as_json: bool) -> None:
    """Send one message and print the answer, as JSON if `as_json` is True.

    Otherwise also print the command that continues a new session.
    """
    from turnfold.cli.chat import say_once

    if once is None:
        raise typer.BadParameter("--json needs --once TEXT")
    if not once.strip():
        raise typer.BadParameter("--once needs a text to send")
    text = say_once(once, **options._asdict())
    if as_json:
        typer.echo(text)
        return
    turn = json.loads(text)
    typer.echo(_answer_text(turn))
    if turn["model"] is None and (options.session is None or not turn["answer"]):
        told = "no model is set, so this shows earlier messages that match; --model NAME answers"
        typer.echo(translated(told), err=True)
    if options.session is None:
        again = f"turnfold chat {turn['session']}"
        typer.echo(translated(f"to continue: {again}"), err=True)


def _answer_text(turn: dict[str, str | None]) -> str:
    """Return the text to print for a turn of a chat: the answer, or that the message was stored."""
    from turnfold.cli.chat import shown_answer

    answer = shown_answer(turn["answer"] or "")
    if answer or turn["model"] is not None:
        return answer
    return translated("(no matching earlier message; stored)")


@app.command()
def lint(
    source: Annotated[
        str,
        typer.Argument(
            help="A session, or a file: a request body, messages, or what `import` can read.",
            metavar="SOURCE",
        ),
    ],
    *,
    provider: Annotated[
        str | None,
        typer.Option(help="anthropic, gemini, openai_chat or openai_responses. Default: detected."),
    ] = None,
    mend: Annotated[
        Path | None,
        typer.Option(help="Write the repaired history to this file.", metavar="PATH"),
    ] = None,
    store: StoreOption = None,
    tenant: TenantOption = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Check a session or a file against its provider's rules; exit code 1 if it would be rejected."""
    from turnfold.cli.lint import lint_file, lint_session

    with report_errors():
        is_file = Path(source).is_file()
        found = (
            lint_file(Path(source), provider)
            if is_file
            else lint_session(store, tenant, source, provider)
        )
    alone = found[0] if len(found) == 1 and not found[0].conversation else None
    if mend is not None:
        from turnfold.cli.export_and_import import output_file

        mended = alone.mended if alone else [one.mended for one in found]
        with output_file(mend) as written:
            json.dump(mended, written, ensure_ascii=False, indent=1)
    if as_json:
        fields = alone.as_fields() if alone else [one.as_fields() for one in found]
        typer.echo(json.dumps(fields, ensure_ascii=False))
    else:
        for one in found:
            _show_linted(one, mended=mend is not None, stored=not is_file)
        if mend is not None:
            typer.echo(
                translated(f"the repaired history is in {mend}; the faults are those of {source}")
            )
    if any(one.faults for one in found):
        raise typer.Exit(1)


def _show_linted(one: Linted, *, mended: bool, stored: bool) -> None:
    from turnfold.cli.tables_and_progress_bars import printable

    for fault in one.faults:
        detail = problem_label(fault.detail)
        typer.echo(f"{fault.path}: {fault.rule}: {detail} [{fault.reference}]")
    for change in one.changes:
        repair = problem_label(change)
        if mended:
            what = f"repaired: {repair}"
        elif stored:
            what = f"repaired by itself in the requests made from context(): {repair}"
        else:
            what = f"would be repaired with --mend FILE: {repair}"
        typer.echo(f"  {translated(what)}")
    number = len(one.faults)
    name = f"{printable(one.conversation)}: " if one.conversation else ""
    faults = "fault" if number == 1 else "faults"
    typer.echo(translated(f"{name}{one.provider}: {number} {faults}"))


add_commands(app)

"""Exit codes of the commands, and printing of errors.

0: success. 1: the command ran and found problems. 2: wrong usage. 3: not found. 4: the store, the model or another part
failed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

from turnfold.cli.chinese_help import ERRORS
from turnfold.cli.chinese_labels import is_chinese, translated
from turnfold.errors import (
    ConversationDeleted,
    InvalidExport,
    MissingExtra,
    ModelFailed,
    NotFound,
    StoreError,
    SummaryFailed,
    TurnfoldError,
    WrongKey,
)

__all__ = (
    "ExitCode",
    "code_of",
    "error_text",
    "report_errors",
    "report_file_errors",
)


_COMMANDS = {
    "session.calls() lists": "`turnfold explain SESSION --list` lists",
    "checkpoints() lists": "`turnfold checkpoints` lists",
    "session.history() lists": "`turnfold show SESSION` lists",
    "session.rules() lists": "`turnfold rules` lists",
    "conversations() lists": "`turnfold sessions` lists",
}
"""Library calls that errors name as a remedy -> the commands that do the same."""
_PSEUDONYM = re.compile(r"\bconversation [0-9a-f]{16}\b")
"""Matches the pseudonym of a conversation in an error text that may be logged; the command line replaces it by the
id."""


class ExitCode(IntEnum):
    """Exit codes of the commands."""

    OK = 0
    PROBLEMS = 1
    USAGE = 2
    NOT_FOUND = 3
    FAILED = 4


def code_of(error: TurnfoldError) -> ExitCode:
    """Return the exit code of the command line for an error."""
    match error:
        case NotFound() | ConversationDeleted():
            return ExitCode.NOT_FOUND
        case InvalidExport():
            return ExitCode.PROBLEMS
        case StoreError() | MissingExtra() | ModelFailed() | SummaryFailed():
            return ExitCode.FAILED
        case _:
            return ExitCode.USAGE


def error_text(error: TurnfoldError) -> str:
    """Return the message of an error; in a Chinese locale its translation, or after its kind if it has none."""
    message = str(error)
    for call, command in _COMMANDS.items():
        message = message.replace(call, command)
    if isinstance(error, WrongKey) and error.conversation:
        message = _PSEUDONYM.sub(lambda _: f"conversation {error.conversation!r}", message, count=1)
    if not is_chinese():
        return message
    told = translated(message)
    if told != message:
        return told
    kind = next(ERRORS[each.__name__] for each in type(error).__mro__ if each.__name__ in ERRORS)
    match error:
        case InvalidExport(line=int(line), problem=str(problem), remedy=str(remedy)):
            ending = f"。{translated(remedy)}" if remedy else ""
            told = f"第 {line:,} 行：{translated(problem)}{ending}"
        case _:
            pass
    return f"{kind}：{told}"


def _without_controls(text: str) -> str:
    """Replace control characters by `?`, because a message may quote stored names that contain some."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


@contextmanager
def report_errors() -> Generator[None]:
    """Context manager: print an error of turnfold or of a file, and exit with its code.

    Other errors keep their traceback.
    """
    try:
        with report_file_errors():
            yield
    except TurnfoldError as error:
        sys.stderr.write(f"turnfold: {_without_controls(error_text(error))}\n")
        raise SystemExit(int(code_of(error))) from None


@contextmanager
def report_file_errors() -> Generator[None]:
    """Context manager: print an error of a file or folder, and exit with its code; errors of turnfold pass."""
    try:
        yield
    except TurnfoldError:
        raise
    except BrokenPipeError:
        raise  # the reader of a pipe has enough
    except OSError as error:
        told = _without_controls(translated(_file_error(error)))
        sys.stderr.write(f"turnfold: {told}\n")
        raise SystemExit(int(_code_of_file(error))) from None


def _file_error(error: OSError) -> str:
    """Return a sentence that says what is wrong with a file or folder."""
    named = error.filename2 or error.filename
    reason = error.strerror or str(error) or type(error).__name__
    if not isinstance(named, str):
        return reason
    folder = Path(named).absolute().parent
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return f"the folder {folder} does not exist; create it first"
    return f"cannot use {named}: {reason}"


def _code_of_file(error: OSError) -> ExitCode:
    is_named_wrong = isinstance(
        error, FileNotFoundError | NotADirectoryError | IsADirectoryError | PermissionError
    )
    return ExitCode.USAGE if is_named_wrong else ExitCode.FAILED

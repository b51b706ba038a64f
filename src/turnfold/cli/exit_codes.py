"""Exit codes of the commands, and how errors are printed.

0: success. 1: the command ran and found problems. 2: wrong usage. 3: not found. 4: the store or something else failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum

from turnfold.cli.chinese_help import ERRORS
from turnfold.cli.demo.texts import language_of
from turnfold.errors import InvalidExport, MissingExtra, NotFound, StoreError, TurnfoldError

__all__ = (
    "ExitCode",
    "code_of",
    "error_text",
    "report_errors",
)


class ExitCode(IntEnum):
    """Exit codes of the commands."""

    OK = 0
    PROBLEMS = 1
    USAGE = 2
    NOT_FOUND = 3
    FAILED = 4


def code_of(error: TurnfoldError) -> ExitCode:
    """Return the exit code of an error."""
    match error:
        case NotFound():
            return ExitCode.NOT_FOUND
        case InvalidExport():
            return ExitCode.PROBLEMS
        case StoreError() | MissingExtra():
            return ExitCode.FAILED
        case _:
            return ExitCode.USAGE


def error_text(error: TurnfoldError) -> str:
    """Return the message of an error; for Chinese readers, its kind in Chinese comes before the English message."""
    if language_of(os.environ) != "zh":
        return str(error)
    kind = next(ERRORS[each.__name__] for each in type(error).__mro__ if each.__name__ in ERRORS)
    return f"{kind}：{error}"


def _without_controls(text: str) -> str:
    """Replace control characters, because a message may quote stored names."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


@contextmanager
def report_errors() -> Generator[None]:
    """Print an error of turnfold as its message and exit with its code; other errors keep their traceback."""
    try:
        yield
    except TurnfoldError as error:
        sys.stderr.write(f"turnfold: {_without_controls(error_text(error))}\n")
        raise SystemExit(int(code_of(error))) from None

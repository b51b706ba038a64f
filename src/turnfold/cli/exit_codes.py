"""How a command ends, in one number, so that scripts need not read its words.

0 done, 1 done and problems were found, 2 the command was called wrongly, 3 what was named is not there, 4 the store or
something else failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum

from turnfold.cli.demo.texts import language_of
from turnfold.cli.help_words import ERRORS
from turnfold.errors import InvalidExport, MissingExtra, NotFound, StoreError, TurnfoldError

__all__ = ("ExitCode", "code_of", "harmless", "telling", "told")


class ExitCode(IntEnum):
    """The codes and what they mean."""

    OK = 0
    PROBLEMS = 1
    USAGE = 2
    NOT_FOUND = 3
    FAILED = 4


def code_of(error: TurnfoldError) -> ExitCode:
    """The code an error ends a command with."""
    match error:
        case NotFound():
            return ExitCode.NOT_FOUND
        case InvalidExport():
            return ExitCode.PROBLEMS
        case StoreError() | MissingExtra():
            return ExitCode.FAILED
        case _:
            return ExitCode.USAGE


def told(error: TurnfoldError) -> str:
    """What is said of an error; in Chinese its kind stands before it, the numbers and the remedy stay as they are."""
    if language_of(os.environ) != "zh":
        return str(error)
    kind = next(ERRORS[each.__name__] for each in type(error).__mro__ if each.__name__ in ERRORS)
    return f"{kind}：{error}"


def harmless(text: str) -> str:
    """A text that may quote stored names, without what could move a cursor or change a colour."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


@contextmanager
def telling() -> Generator[None]:
    """Say an error of turnfold in a sentence and end with its code; anything unforeseen keeps its traceback."""
    try:
        yield
    except TurnfoldError as error:
        sys.stderr.write(f"turnfold: {harmless(told(error))}\n")
        raise SystemExit(int(code_of(error))) from None

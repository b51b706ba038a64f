"""WHO ASKS: the `turnfold` command.

This is what the console script loads, so it needs nothing but Python: where the packages of the extra `cli` are not
installed it can still say so in one line. Errors turnfold raises on purpose reach the reader as their message, which
states the numbers and the remedy; a traceback is kept for what nobody foresaw.
"""

from __future__ import annotations

import sys

from turnfold.cli.exit_codes import code_of, told
from turnfold.errors import MissingExtra, TurnfoldError

__all__ = ("main",)

_OF_THE_EXTRA = ("rich", "typer")


def main() -> None:
    """Run the command line; ends with the code of `exit_codes` after an error of turnfold."""
    _accept_any_terminal()
    try:
        from turnfold.cli.app import app

        app()
    except TurnfoldError as error:
        _stop(told(error), code=code_of(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _OF_THE_EXTRA:
            raise
        missing = MissingExtra(package=package, extra="cli", purpose="the turnfold command")
        _stop(told(missing), code=code_of(missing))


def _accept_any_terminal() -> None:
    """Let a terminal that cannot show a character show a mark in its place instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _stop(message: str, *, code: int) -> None:
    sys.stderr.write(f"turnfold: {message}\n")
    sys.exit(code)

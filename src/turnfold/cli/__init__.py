"""The `turnfold` command.

The console script loads this module. It imports no third-party package, so that it can print a one-line message if the
packages of the extra `cli` are missing. Errors of turnfold are printed as their message; unexpected errors keep their
traceback.
"""

from __future__ import annotations

import sys

from turnfold.cli.exit_codes import code_of, error_text
from turnfold.errors import MissingExtra, TurnfoldError

__all__ = ("main",)

_EXTRA_PACKAGES = ("prompt_toolkit", "rich", "typer")


def main() -> None:
    """Run the command line; after an error of turnfold, exit with its code."""
    _accept_any_terminal()
    try:
        from turnfold.cli.app import app

        app()
    except TurnfoldError as error:
        _stop(error_text(error), code=code_of(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA_PACKAGES:
            raise
        missing = MissingExtra(package=package, extra="cli", purpose="the turnfold command")
        _stop(error_text(missing), code=code_of(missing))


def _accept_any_terminal() -> None:
    """Make the output print a replacement for characters that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _stop(message: str, *, code: int) -> None:
    sys.stderr.write(f"turnfold: {message}\n")
    sys.exit(code)

"""The commands and their options, one file per group; the code of a command is imported when it runs."""

from __future__ import annotations

import typer

from turnfold.cli.commands import (
    inspection,
    maintenance,
    session_changes,
)

__all__ = ("add_commands",)


def add_commands(app: typer.Typer) -> None:
    """Register every command of this folder with the application."""
    for family in (inspection, session_changes, maintenance):
        family.add(app)

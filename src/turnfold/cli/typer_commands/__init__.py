"""Declarations of the commands and their options for typer, one file per group; each imports its code when it runs."""

from __future__ import annotations

import typer

from turnfold.cli.typer_commands import (
    inspection,
    maintenance,
    session_changes,
)

__all__ = ("add_commands",)


def add_commands(app: typer.Typer) -> None:
    """Register every command of this folder with the application."""
    for family in (inspection, session_changes, maintenance):
        family.add(app)

"""`turnfold doctor`: is everything here that turnfold needs, and if not, what would mend it."""

from __future__ import annotations

from turnfold.cli.doctor.checks import Finding, State, examine
from turnfold.cli.doctor.report import show_findings

__all__ = ("Finding", "State", "examine", "show_findings")

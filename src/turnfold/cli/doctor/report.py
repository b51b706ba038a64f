"""What the doctor found, drawn for people and written as JSON for programs: the same findings in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from turnfold.cli.doctor.checks import Finding, State
from turnfold.cli.screen import as_json, make_console, printable
from turnfold.cli.words import label

__all__ = ("Report", "show_findings")

_MARKS = {
    State.OK: ("ok  ", "green"),
    State.NOTE: ("note", "yellow"),
    State.BAD: ("BAD ", "bold red"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, and whether any is bad."""

    ok: bool
    findings: tuple[Finding, ...]


def show_findings(found: Sequence[Finding], *, json: bool) -> bool:
    """Print them; whether all is well."""
    well = all(one.state is not State.BAD for one in found)
    if json:
        print(as_json(Report(ok=well, findings=tuple(found))))  # noqa: T201 (what the command is for)
        return well
    console = make_console()
    for one in found:
        mark, style = _MARKS[one.state]
        console.print(
            Text.assemble((mark, style), f"  {one.name}: {printable(one.detail)}", overflow="fold")
        )
        if one.remedy:
            console.print(Text(f"      -> {one.remedy}", "dim", overflow="fold"))
    ending = label("all is well") if well else label("something needs mending")
    console.print(Text(ending, "green" if well else "red"))
    return well

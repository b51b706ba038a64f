"""`turnfold rules`: lists the rules and decisions that the user of a session stated and that still apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.labels import label
from turnfold.cli.output import columns, print_result, printable
from turnfold.cli.store import open_session
from turnfold.rules import RuleKind

__all__ = (
    "RuleRow",
    "RulesScreen",
    "list_rules",
    "show_rules",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One active rule."""

    id: str
    kind: RuleKind
    seq: int
    """Seq of the entry in which the rule was stated; 0 if it was added by hand."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesScreen:
    """Active rules of a session, in the order in which they were said."""

    session: str
    rules: tuple[RuleRow, ...]


def list_rules(store: str | None, tenant: str, session: str) -> RulesScreen:
    """Return the active rules of a session."""
    with open_session(store, tenant, session, calls=1) as at:
        rows = tuple(
            RuleRow(id=rule.id, kind=rule.kind, seq=rule.seq, text=rule.text)
            for rule in at.session.rules()
        )
        return RulesScreen(session=at.session.id, rules=rows)


def show_rules(found: RulesScreen, *, json: bool) -> None:
    """Print the rules of a session."""
    print_result(found, lambda console: _draw_rules(found, console), json=json)


def _draw_rules(found: RulesScreen, console: Console) -> Iterator[RenderableType]:
    title = Text(printable(found.session), "bold", overflow="fold")
    title.append(f" · {len(found.rules):,} {label('rules')}", "not bold dim")
    yield title
    if found.rules:
        rows = [
            (rule.id, str(rule.seq) if rule.seq else "-", label(rule.kind), rule.text)
            for rule in found.rules
        ]
        heads = ("id", "seq", "kind", "text")
        only = (2, 3) if console.width < 60 else None
        yield columns(console, heads, rows, only=only, wide="text")

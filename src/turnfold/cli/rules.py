"""`turnfold rules`: lists the rules and decisions that the user of a session stated; with `--all` also ended ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.labels import label
from turnfold.cli.output import columns, moment, print_result, printable
from turnfold.cli.store import open_session
from turnfold.memory import Session
from turnfold.rules import RuleKind, RuleState, StandingRule, replacements

__all__ = (
    "EndedRuleRow",
    "RuleRow",
    "RulesScreen",
    "list_rules",
    "show_rules",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One active rule of a session, as the command prints it."""

    id: str
    kind: RuleKind
    seq: int
    """Seq of the entry in which the rule was stated; 0 if it was added by hand."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRuleRow:
    """One rule that no longer applies, and what ended it."""

    id: str
    kind: RuleKind
    seq: int
    text: str
    state: RuleState
    ended: int
    """Seq of the entry that ended the rule; 0 if it was dropped by hand."""
    ended_at: int
    """Time of that entry in microseconds since 1970; 0 if the rule was dropped by hand, or the entry is erased."""
    replaced_by: str
    """Id of the rule that replaced, lifted or cancelled this one; empty if it was done or dropped by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesScreen:
    """Rules of a session, in the order in which the user stated them."""

    session: str
    rules: tuple[RuleRow, ...]
    """Active rules."""
    ended: tuple[EndedRuleRow, ...] | None
    """Rules that no longer apply; None without `--all`."""


def list_rules(store: str | None, tenant: str, session: str, *, ended: bool = False) -> RulesScreen:
    """Return the active rules of a session, and with `ended` also the rules that no longer apply."""
    with open_session(store, tenant, session, calls=1) as at:
        found = at.session.rules(ended=ended)
        rows = tuple(
            RuleRow(id=rule.id, kind=rule.kind, seq=rule.seq, text=rule.text)
            for rule in found
            if rule.state == "active"
        )
        return RulesScreen(
            session=at.session.id,
            rules=rows,
            ended=tuple(_ended_rows(at.session, found)) if ended else None,
        )


def _ended_rows(session: Session, rules: Sequence[StandingRule]) -> Iterator[EndedRuleRow]:
    by = replacements(rules)
    for rule in rules:
        if rule.state == "active":
            continue
        entries = session.history(after=rule.ended - 1, limit=1) if rule.ended else []
        yield EndedRuleRow(
            id=rule.id,
            kind=rule.kind,
            seq=rule.seq,
            text=rule.text,
            state=rule.state,
            ended=rule.ended,
            ended_at=next((each.created for each in entries if each.seq == rule.ended), 0),
            replaced_by=by[rule.id].id if rule.id in by else "",
        )


def show_rules(found: RulesScreen, *, json: bool) -> None:
    """Print the rules of a session."""
    print_result(found, lambda console: _draw_rules(found, console), json=json)


def _draw_rules(found: RulesScreen, console: Console) -> Iterator[RenderableType]:
    title = Text(printable(found.session), "bold", overflow="fold")
    title.append(f" · {len(found.rules):,} {label('rules')}", "not bold dim")
    yield title
    if found.rules:
        rows = [(rule.id, _seq(rule.seq), label(rule.kind), rule.text) for rule in found.rules]
        heads = ("id", "seq", "kind", "text")
        only = (2, 3) if console.width < 60 else None
        yield columns(console, heads, rows, only=only, wide="text")
    if found.ended is not None:
        yield from _draw_ended(found.ended, console)


def _draw_ended(ended: Sequence[EndedRuleRow], console: Console) -> Iterator[RenderableType]:
    yield Text()
    yield Text(f"{len(ended):,} {label('ended rules')}", "dim")
    if not ended:
        return
    rows = [
        (
            rule.id,
            _seq(rule.seq),
            label(rule.kind),
            label(rule.state),
            _seq(rule.ended),
            moment(rule.ended_at),
            rule.replaced_by or "-",
            rule.text,
        )
        for rule in ended
    ]
    heads = ("id", "seq", "kind", "state", "ended by", "ended", "replaced by", "text")
    only = (3, 7) if console.width < 60 else (0, 3, 6, 7) if console.width < 120 else None
    yield columns(console, heads, rows, only=only, wide="text")


def _seq(seq: int) -> str:
    return str(seq) if seq else "-"

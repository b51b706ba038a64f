"""`turnfold rules`: lists, adds and drops the rules of a session's user; `--all` lists ended rules too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.chinese_labels import colon, counted, in_brackets, is_chinese, label
from turnfold.cli.store_and_session_lookup import open_session
from turnfold.cli.tables_and_progress_bars import (
    columns,
    make_console,
    moment,
    print_result,
    printable,
    tables,
)
from turnfold.errors import NotFound
from turnfold.memory import Session
from turnfold.rules import RuleKind, RuleState, StandingRule, replacements

__all__ = (
    "ChangedRules",
    "EndedRuleRow",
    "RuleRow",
    "RulesScreen",
    "change_rules",
    "list_rules",
    "show_changed_rules",
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
    answers: str
    """The assistant's words that the rule answers or agrees to; "" if the rule can be understood without them."""
    may_replace: tuple[str, ...]
    """Ids of earlier active rules that this one may replace."""

    @classmethod
    def of(cls, rule: StandingRule) -> RuleRow:
        """Return the row of a rule."""
        return cls(
            id=rule.id,
            kind=rule.kind,
            seq=rule.seq,
            text=rule.text,
            answers=rule.answers,
            may_replace=rule.may_replace,
        )

    @property
    def shown(self) -> str:
        """The text with what it answers, and the ids of the rules that it may replace."""
        answers = f" ← {self.answers}" if self.answers else ""
        replaced = ""
        if self.may_replace:
            replaced = in_brackets(f"{label('may replace')} {', '.join(self.may_replace)}")
        return f"{self.text}{answers}{replaced}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRuleRow:
    """One rule that no longer applies, and the reason why it ended."""

    id: str
    kind: RuleKind
    seq: int
    text: str
    state: RuleState
    ended: int
    """Seq of the entry that ended the rule; 0 if it was dropped by hand."""
    ended_at: int
    """Time of the entry that ended the rule, in microseconds since 1970; 0 if the rule was dropped by hand, or the
    entry is erased."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRules:
    """The rules that a command dropped and added."""

    dropped: tuple[RuleRow, ...]
    added: tuple[RuleRow, ...]


def list_rules(store: str | None, tenant: str, session: str, *, ended: bool = False) -> RulesScreen:
    """Return the active rules of a session, and with `ended` also the rules that no longer apply."""
    with open_session(store, tenant, session, calls=1) as at:
        found = at.session.rules(ended=ended)
        rows = tuple(RuleRow.of(rule) for rule in found if rule.state == "active")
        return RulesScreen(
            session=at.session.id,
            rules=rows,
            ended=tuple(_ended_rows(at.session, found)) if ended else None,
        )


def change_rules(
    store: str | None, tenant: str, session: str, *, add: str | None, drop: str
) -> ChangedRules:
    """Drop the rules with this id or from the entry with this seq, and add a rule; one without text is refused."""
    dropped: list[StandingRule] = []
    added: list[StandingRule] = []
    with open_session(store, tenant, session, calls=1) as at:
        if drop:
            dropped = [each for each in at.session.rules() if drop in (each.id, str(each.seq))]
            if not dropped:
                raise NotFound(
                    f"no active rule {drop!r} in {at.session.id!r}; `turnfold rules` lists the active rules, by id "
                    "and seq"
                )
            for each in dropped:
                at.session.drop_rule(each.id)
        if add is not None:
            added.append(at.session.add_rule(add))
    return ChangedRules(
        dropped=tuple(map(RuleRow.of, dropped)), added=tuple(map(RuleRow.of, added))
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
            text=rule.full_text,
            state=rule.state,
            ended=rule.ended,
            ended_at=next((each.created for each in entries if each.seq == rule.ended), 0),
            replaced_by=by[rule.id].id if rule.id in by else "",
        )


def show_changed_rules(changed: ChangedRules) -> None:
    """Print which rules were dropped and added."""
    console = make_console()
    for what, rules in (("dropped", changed.dropped), ("added", changed.added)):
        for rule in rules:
            text = f"{_done(what)}{colon()}{printable(rule.text)}"
            console.print(Text(f"{text}{in_brackets(label(rule.kind), rule.id)}", overflow="fold"))


def _done(what: str) -> str:
    return label(f"rule {what}") if is_chinese() else what


def show_rules(found: RulesScreen, *, json: bool) -> None:
    """Print the rules of a session."""
    print_result(found, lambda console: _draw_rules(found, console), json=json)


def _draw_rules(found: RulesScreen, console: Console) -> Iterator[RenderableType]:
    title = Text(printable(found.session), "bold", overflow="fold")
    title.append(f" · {counted(len(found.rules), 'rules')}", "not bold dim")
    yield title
    if found.rules:
        rows = [
            (
                rule.id,
                _seq(rule.seq),
                label(rule.kind),
                rule.shown,
            )
            for rule in found.rules
        ]
        heads = ("id", "seq", "kind", "text")
        only = (2, 3) if console.width < 60 else None
        yield columns(console, heads, rows, only=only, wide="text", wrap=True)
    if found.ended is not None:
        yield from _draw_ended(found.ended, console)


def _draw_ended(ended: Sequence[EndedRuleRow], console: Console) -> Iterator[RenderableType]:
    yield Text()
    yield Text(counted(len(ended), "ended rules"), "dim")
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
    if console.width < 60:
        yield columns(console, heads, rows, only=(3, 7), wide="text", wrap=True)
    elif (
        console.width < 120
    ):  # the text in lines of its own leaves room for when and by what it ended
        yield from tables(console, heads[:-1], rows, keys=1)
        yield columns(console, heads, rows, only=(0, 7), wide="text", wrap=True)
    else:
        yield columns(console, heads, rows, wide="text", wrap=True)


def _seq(seq: int) -> str:
    return str(seq) if seq else "-"

"""Update the ledger of standing rules with what a new message lays down.

A later sentence ends an earlier rule only on evidence: it restates it, gives another value for the same attribute,
forbids what was asked for (or the other way round), or says with a word of change ("actually", "instead", 改成) or
by name what it replaces. In every case the two share terms of their scope. Rules of the system message are ended by
the system message alone: no user can talk them away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from turnfold.rules.display import rank_rules
from turnfold.rules.record import RuleState, StandingRule
from turnfold.text import require_limit

__all__ = ("LedgerChange", "update_ledger")


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """A ledger after an update, and what the update did to it."""

    rules: tuple[StandingRule, ...]
    """The whole ledger in the order in which its rules were said, ended ones included."""
    added: tuple[StandingRule, ...]
    ended: tuple[StandingRule, ...]
    """Rules that were active before and are no longer, with their new state."""
    evicted: tuple[StandingRule, ...]
    """Rules left out because the ledger exceeded its limit: ended ones first, then those that would be shown last."""


_RESTATED = 0.8
"""Share of common terms from which two rules say the same."""
_SAME_SCOPE = 0.5
"""Share of common scope terms from which a word of change refers to an earlier rule."""
_NAMED = 0.6
"""Share of the terms of a name ("the thing about emojis") an earlier rule must have."""
_DONE = 0.5


def update_ledger(
    rules: Iterable[StandingRule],
    new: Iterable[StandingRule],
    *,
    limit_tokens: int,
    count: Callable[[str], int],
) -> LedgerChange:
    """Return the ledger with `new` rules added, and those they replace, cancel or complete ended.

    `rules` is the ledger so far; `new` are the rules of later entries, in order. Rules already in the ledger are
    not added again. `limit_tokens` bounds the texts of the whole ledger, counted with `count`.
    """
    require_limit(limit_tokens)
    ledger = {rule.id: rule for rule in rules}
    added: list[str] = []
    ended: dict[str, None] = {}
    for rule in new:
        if rule.id in ledger:
            continue
        targets = _targets(rule, [each for each in ledger.values() if each.state == "active"])
        for target, state in targets:
            ledger[target.id] = msgspec.structs.replace(target, state=state)
            ended[target.id] = None
        if rule.act != "done":
            linked = tuple(target.id for target, _ in targets)
            ledger[rule.id] = msgspec.structs.replace(rule, supersedes=linked)
            added.append(rule.id)
    evicted = _evicted(list(ledger.values()), limit_tokens, count) if added else []
    for rule in evicted:
        del ledger[rule.id]
    return LedgerChange(
        rules=tuple(sorted(ledger.values(), key=lambda rule: rule.seq)),
        added=tuple(ledger[each] for each in added if each in ledger),
        ended=tuple(ledger[each] for each in ended if each in ledger),
        evicted=tuple(evicted),
    )


def _targets(
    rule: StandingRule, active: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the rules that `rule` ends, each with the state it gets."""
    mine = [each for each in active if each.trust == rule.trust and each.seq <= rule.seq]
    if rule.act == "done":
        return [(each, "done") for each in mine if each.kind == "task" and _is_done(rule, each)]
    if rule.act == "cancel":
        return [(each, "dropped") for each in _closest(rule, mine)]
    if rule.act == "permit":
        forbidden = [each for each in mine if each.negative and _covers(rule, each)]
        return [(each, "superseded") for each in forbidden]
    found = [each for each in mine if _replaces(rule, each)]
    if not found and rule.act == "change":
        found = _meant(rule, mine)
    return [(each, "superseded") for each in found]


def _is_done(rule: StandingRule, task: StandingRule) -> bool:
    """Return True if most of what a task is about is reported as done."""
    about = {term for term in task.terms if not term.startswith("@")}
    common = about & {*rule.old, *rule.terms}
    return bool(common) and len(common) >= _DONE * len(about)


def _is_named(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if the words that name what is replaced or cancelled are mostly those of the other rule."""
    terms = {term for term in other.terms if not term.startswith("@")}
    common = set(rule.old) & terms
    return bool(common) and len(common) >= _NAMED * min(len(rule.old), len(terms))


def _closest(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
    """Return those of the named rules that have most in common with the name."""
    named = [(_similar(rule.old, each.terms), each) for each in active if _is_named(rule, each)]
    best = max((score for score, _ in named), default=0.0)
    return [each for score, each in named if score == best]


def _covers(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if what is permitted is at least half of what the other rule is about."""
    terms = {term for term in other.terms if not term.startswith("@")}
    return _is_named(rule, other) and 2 * len(set(rule.old) & terms) >= len(terms)


def _similar(first: Iterable[str], second: Iterable[str]) -> float:
    one, two = set(first), set(second)
    return len(one & two) / len(one | two) if one and two else 0.0


def _replaces(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if `rule` restates the other one, contradicts it or gives its attribute another value."""
    if "task" in (rule.kind, other.kind) and rule.kind != other.kind:
        return False
    same_scope = bool(rule.scope) and rule.scope == other.scope
    if rule.negative != other.negative:
        return _contradicts(rule, other)
    if rule.value == other.value:
        return same_scope or _similar(rule.terms, other.terms) >= _RESTATED
    return bool(rule.value and other.value) and rule.kind != "task" and _same_attribute(rule, other)


def _same_attribute(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if both rules give a value to the same attribute.

    A class alone ("@database") is no attribute: two databases can be used side by side. Where the attribute is
    named ("the deadline is ..."), the class of the value does not matter.
    """
    about = {term for term in rule.scope if not term.startswith("@") or term in _ATTRIBUTES}
    if not about or about != {
        term for term in other.scope if not term.startswith("@") or term in _ATTRIBUTES
    }:
        return False
    if "@is" in rule.scope and "@is" in other.scope:
        facets, others = _with(rule, "@is:"), _with(other, "@is:")
        if {_moment(rule), _moment(other)} == {"date", "time"}:
            return False
        return (
            bool(facets & others)
            or not facets
            or not others
            or bool(_moment(rule) and _moment(other))
        )
    classes, others = _with(rule, "@") - _NO_CLASS, _with(other, "@") - _NO_CLASS
    return bool(classes & others) or not classes or not others


def _moment(rule: StandingRule) -> str:
    """Return "date", "time" or "both" for a value that says when, else ""."""
    date = not {"@day", "@month"}.isdisjoint(rule.scope)
    time = "@is:time" in rule.scope
    return "both" if date and time else "date" if date else "time" if time else ""


def _with(rule: StandingRule, prefix: str) -> set[str]:
    return {term for term in rule.scope if term.startswith(prefix)}


_ATTRIBUTES = frozenset({"@name", "@home", "@job", "@reply", "@favourite"})
"""Known attributes of which there is one at a time."""
_NO_CLASS = frozenset({"@choice", "@is"})
"""Marks of the form of a sentence: a choice, a named attribute."""


def _contradicts(rule: StandingRule, other: StandingRule) -> bool:
    shared = rule.terms & other.terms
    named = [term for term in shared if not term.startswith("@")]
    if not named:
        return False
    return other.terms <= rule.terms or _similar(rule.terms, other.terms) >= 0.75


def _meant(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the rule that a sentence with a word of change refers to; none if several are equally likely."""
    named = [each for each in active if each.kind != "task" and rule.old and _is_named(rule, each)]
    if named:
        return named
    scored = [
        (score, each)
        for each in active
        if each.kind != "task"
        and each.negative == rule.negative
        and (score := _aimed(rule, each)) > 0
    ]
    if not scored:
        return []
    best = max(score for score, _ in scored)
    likely = [each for score, each in scored if score == best]
    if best == 1.0:
        return likely
    if all(term.startswith("@") for term in rule.scope):
        # "Make it Thursday" names nothing: it is about what was decided last.
        return [max(likely, key=lambda each: each.seq)]
    return likely if len(likely) == 1 else []


def _aimed(rule: StandingRule, other: StandingRule) -> float:
    """Return how likely a sentence with a word of change is about the other rule, 0 to 1."""
    mine = {term for term in rule.scope if not term.startswith("@is:")}
    theirs = {term for term in other.scope if not term.startswith("@is:")}
    if "@choice" in mine & theirs and not (mine | theirs) - _NO_CLASS:
        return 0.3
    if not mine - _NO_CLASS:
        return _similar(set(rule.value), (theirs | set(other.value)) - _NO_CLASS)
    if (mine | theirs) - _NO_CLASS:
        mine, theirs = mine - _NO_CLASS, theirs - _NO_CLASS
    if _same_attribute(rule, other):
        return 1.0
    shared = mine & theirs
    if not shared:
        return 0.0
    named = {term for term in shared if not term.startswith("@")}
    if not named and not (mine <= theirs or theirs <= mine):
        return 0.0
    if mine <= theirs or theirs <= mine:
        return 0.5 + 0.5 * len(shared) / len(mine | theirs)
    similar = _similar(mine, theirs)
    return similar if similar >= _SAME_SCOPE else 0.0


def _evicted(
    rules: list[StandingRule], limit: int, count: Callable[[str], int]
) -> list[StandingRule]:
    costs = {rule.id: count(rule.text) for rule in rules}
    total = sum(costs.values())
    if total <= limit:
        return []
    ended = sorted((rule for rule in rules if rule.state != "active"), key=lambda rule: rule.seq)
    active = rank_rules(
        [rule for rule in rules if rule.state == "active"],
        limit_tokens=limit,
        cost=lambda rule: costs[rule.id],
    )
    evicted: list[StandingRule] = []
    for rule in (*ended, *reversed(active)):
        if total <= limit:
            break
        evicted.append(rule)
        total -= costs[rule.id]
    return evicted

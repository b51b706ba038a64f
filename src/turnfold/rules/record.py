"""The record of one standing rule: a sentence of the user or the system message that holds beyond its turn."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from turnfold.errors import InvalidRecord

__all__ = (
    "LONGEST_RULE",
    "RuleAct",
    "RuleKind",
    "RuleState",
    "RuleTrust",
    "StandingRule",
    "new_rule",
    "rule_id",
)


RuleKind = Literal["rule", "prohibition", "decision", "preference", "task", "fact"]
RuleAct = Literal["state", "renew", "change", "permit", "cancel", "done"]
"""What a sentence does: state something, say what holds now, replace something said before, lift a prohibition, cancel,
report as done."""
RuleState = Literal["active", "superseded", "done", "dropped"]
"""`dropped` is a rule the user took back without putting another in its place."""
RuleTrust = Literal["user", "system"]

LONGEST_RULE = 300
"""Characters of the text of a rule."""


class StandingRule(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A rule, prohibition, decision, preference, open task or standing fact, in the words it was said in."""

    v: int = 1
    id: str
    text: str
    """A slice of the message, unchanged."""
    kind: RuleKind
    seq: int
    """The log entry it was said in."""
    trust: RuleTrust = "user"
    act: RuleAct = "state"
    negative: bool = False
    """True if it says what is not to be done."""
    scope: tuple[str, ...] = ()
    """Sorted terms of what it is about; `@` marks classes of values (`@day`) and known attributes (`@home`)."""
    value: tuple[str, ...] = ()
    """Sorted terms of the values it gives: numbers, and members of a class such as weekdays."""
    joint: str = ""
    """What stands between it and the clause of the same sentence that is the rule before it; empty for the first."""
    weak: bool = False
    """True if it was barely taken for a rule: it gives way to others where there is no room."""
    state: RuleState = "active"
    ended: int = 0
    """The log entry that ended it; 0 if it is active or was dropped by hand."""
    supersedes: tuple[str, ...] = ()
    """Ids of the rules it replaced, restated, cancelled or lifted."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InvalidRecord("a rule without text", path="text")
        if len(self.text) > LONGEST_RULE:
            raise InvalidRecord(
                f"a rule of {len(self.text)} characters; at most {LONGEST_RULE}",
                path="text",
                remedy="Cut the text at the end of a clause",
            )

    @property
    def terms(self) -> frozenset[str]:
        """All terms by which later sentences can refer to it."""
        return frozenset((*self.scope, *self.value))


def rule_id(text: str, *, seq: int, trust: RuleTrust, at: int) -> str:
    """Return the id of the rule at character `at` of an entry; the same sentence of the same entry has the same id."""
    named = f"{trust}:{seq}:{at}:{text}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def new_rule(text: str, *, kind: RuleKind) -> StandingRule:
    """Return a rule that was not said in the log: its `seq` is 0."""
    return StandingRule(id=rule_id(text, seq=0, trust="user", at=0), text=text, kind=kind, seq=0)

"""Standing rules as pure functions: what users and the system message lay down, kept word for word."""

from __future__ import annotations

from turnfold.rules.display import render_rules, shown_rules
from turnfold.rules.extract import extract_rules
from turnfold.rules.ledger import LedgerChange, replacements, update_ledger
from turnfold.rules.record import (
    LONGEST_RULE,
    RuleAct,
    RuleKind,
    RuleState,
    RuleTrust,
    StandingRule,
    new_rule,
)
from turnfold.rules.sentences import likely_rule

__all__ = (
    "LONGEST_RULE",
    "LedgerChange",
    "RuleAct",
    "RuleKind",
    "RuleState",
    "RuleTrust",
    "StandingRule",
    "extract_rules",
    "likely_rule",
    "new_rule",
    "render_rules",
    "replacements",
    "shown_rules",
    "update_ledger",
)

"""Standing rules: extracts rules, decisions, preferences, tasks and lasting facts from messages, word for word."""

from __future__ import annotations

from turnfold.rules.act_classifier import likely_rule
from turnfold.rules.confirmation import confirming_words
from turnfold.rules.display import render_rules, shown_rules
from turnfold.rules.extract import extract_rules
from turnfold.rules.ledger import (
    LedgerChange,
    new_rule,
    replacements,
    taken_back,
    update_ledger,
)
from turnfold.rules.overrides import Overrides, overrides_of
from turnfold.rules.own_words import is_quoted
from turnfold.rules.standing_rule import (
    LONGEST_RULE,
    RuleAct,
    RuleKind,
    RuleState,
    RuleTrust,
    StandingRule,
)

__all__ = (
    "LONGEST_RULE",
    "LedgerChange",
    "Overrides",
    "RuleAct",
    "RuleKind",
    "RuleState",
    "RuleTrust",
    "StandingRule",
    "confirming_words",
    "extract_rules",
    "is_quoted",
    "likely_rule",
    "new_rule",
    "overrides_of",
    "render_rules",
    "replacements",
    "shown_rules",
    "taken_back",
    "update_ledger",
)

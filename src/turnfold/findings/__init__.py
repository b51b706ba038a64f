"""Findings (remembered tool results): their rules, their storage, and their text in a prompt."""

from __future__ import annotations

from turnfold.findings._sync import Findings
from turnfold.findings.excerpts import (
    LABELS,
    Language,
    chapter_titles,
    check_language,
    cut_text,
    language_of,
    pick_excerpt,
    shorten_outline,
    split_json_rows,
)
from turnfold.findings.finding_rules import (
    FindingRule,
    RuleSource,
    as_finding_rules,
    canonical_arguments,
    findings_to_drop,
    is_valid,
    newer_finding,
    plain_tool_name,
    rank_findings,
    rank_for_question,
    rule_for,
    rules_by_tool,
    score_in_json,
)
from turnfold.findings.render import (
    FindingItem,
    escape_headings,
    findings_text,
    items_text,
    served_text,
)
from turnfold.findings.store import (
    AsyncFindings,
    FindingCache,
    TailFindings,
    as_tool_call,
    result_text,
)

__all__ = (
    "LABELS",
    "AsyncFindings",
    "FindingCache",
    "FindingItem",
    "FindingRule",
    "Findings",
    "Language",
    "RuleSource",
    "TailFindings",
    "as_finding_rules",
    "as_tool_call",
    "canonical_arguments",
    "chapter_titles",
    "check_language",
    "cut_text",
    "escape_headings",
    "findings_text",
    "findings_to_drop",
    "is_valid",
    "items_text",
    "language_of",
    "newer_finding",
    "pick_excerpt",
    "plain_tool_name",
    "rank_findings",
    "rank_for_question",
    "result_text",
    "rule_for",
    "rules_by_tool",
    "score_in_json",
    "served_text",
    "shorten_outline",
    "split_json_rows",
)

"""Tool results worth keeping: when two calls are the same, which results hold, come first and fit, in which words."""

from __future__ import annotations

from turnfold.recall.findings.arguments import canonical_arguments
from turnfold.recall.findings.chunks import ContentChunk, check_chunk, chunks_of, with_chunk
from turnfold.recall.findings.cutting import cut, in_rows
from turnfold.recall.findings.outline import chapters, shortened_outline
from turnfold.recall.findings.picking import pick
from turnfold.recall.findings.ranking import for_question, holds, merged, ranked, surplus
from turnfold.recall.findings.rendering import (
    Item,
    at_the_margin,
    findings_text,
    items_text,
    served_text,
    shown_whole,
)
from turnfold.recall.findings.rules import FindingRule, Score, own_score, rules_by_tool
from turnfold.recall.findings.wording import WORDS, Language, check_language, language_of

__all__ = (
    "WORDS",
    "ContentChunk",
    "FindingRule",
    "Item",
    "Language",
    "Score",
    "at_the_margin",
    "canonical_arguments",
    "chapters",
    "check_chunk",
    "check_language",
    "chunks_of",
    "cut",
    "findings_text",
    "for_question",
    "holds",
    "in_rows",
    "items_text",
    "language_of",
    "merged",
    "own_score",
    "pick",
    "ranked",
    "rules_by_tool",
    "served_text",
    "shortened_outline",
    "shown_whole",
    "surplus",
    "with_chunk",
)

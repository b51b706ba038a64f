"""Folding (compaction) as pure functions: what to fold and when, extractive summaries, prompts, the check of facts."""

from __future__ import annotations

from turnfold.fold.extract import (
    MemoizedCounter,
    extract_summary,
    extractive_summarizer,
    read_for_extract,
)
from turnfold.fold.fidelity import (
    Fidelity,
    SourceFacts,
    check_fidelity,
    source_facts,
    with_annex,
    without_annex,
)
from turnfold.fold.plan import check_threshold, fold_due, fold_span
from turnfold.fold.prompt import (
    DEFAULT_PROMPT,
    MODEL_SUMMARY_TOKENS,
    completion_text,
    fill_prompt,
    history_text,
    prefix_prompt,
    prefix_shows,
    split_to_fit,
)
from turnfold.fold.summary_input import (
    Passage,
    ReadCache,
    as_summary,
    day_of,
    passages_of,
    split_prefix,
)
from turnfold.fold.superseded_statements import CHANGED_MARKS

__all__ = (
    "CHANGED_MARKS",
    "DEFAULT_PROMPT",
    "MODEL_SUMMARY_TOKENS",
    "Fidelity",
    "MemoizedCounter",
    "Passage",
    "ReadCache",
    "SourceFacts",
    "as_summary",
    "check_fidelity",
    "check_threshold",
    "completion_text",
    "day_of",
    "extract_summary",
    "extractive_summarizer",
    "fill_prompt",
    "fold_due",
    "fold_span",
    "history_text",
    "passages_of",
    "prefix_prompt",
    "prefix_shows",
    "read_for_extract",
    "source_facts",
    "split_prefix",
    "split_to_fit",
    "with_annex",
    "without_annex",
)

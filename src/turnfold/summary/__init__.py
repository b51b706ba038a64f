"""WHAT IS FOLDED: what a summariser reads and is asked, the extractive summariser, the fidelity check."""

from __future__ import annotations

from turnfold.summary.extract import Passage, extract_summary
from turnfold.summary.fidelity import Fidelity, check_fidelity, with_annex
from turnfold.summary.passages import extractive_summarizer, passages_of
from turnfold.summary.prompt import (
    DEFAULT_PROMPT,
    completion_text,
    fill_prompt,
    history_text,
    split_to_fit,
)
from turnfold.summary.speakers import as_summary

__all__ = (
    "DEFAULT_PROMPT",
    "Fidelity",
    "Passage",
    "as_summary",
    "check_fidelity",
    "completion_text",
    "extract_summary",
    "extractive_summarizer",
    "fill_prompt",
    "history_text",
    "passages_of",
    "split_to_fit",
    "with_annex",
)

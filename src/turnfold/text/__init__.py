"""Text functions shared by folding (compaction) and search.

They split text into words and sentences, find file paths in it, cut it to a token limit, and wrap it in tags (fences).
"""

from __future__ import annotations

from turnfold.text.cjk_ranges import is_chinese
from turnfold.text.data_fences import (
    Fenced,
    FenceNote,
    fence,
    fence_mark,
    fenced_blocks,
    indented,
    indented_whole,
    json_line,
    one_line,
    plain_name,
    with_continuation_note,
)
from turnfold.text.dates import NamedDays, named_days
from turnfold.text.paths import is_path, paths_in, plain_path
from turnfold.text.program_output_detection import is_program_output
from turnfold.text.rare_lines import UnusualLine, unusual_lines
from turnfold.text.sentences import (
    Sentence,
    SentenceKind,
    clean_text,
    single_line,
    split_sentences,
)
from turnfold.text.simplified_chinese import SIMPLIFIED
from turnfold.text.terminal_language import is_language, language_of
from turnfold.text.times import has_relative_time, local_time, time_text
from turnfold.text.token_cuts import (
    best_that_fit,
    clip,
    clip_end,
    count_upto,
    cut_to_fit,
    joint_cost,
    require_limit,
    splits_word,
)
from turnfold.text.words import (
    CHARACTERS,
    EDGES,
    FOLD_STOP_WORDS,
    LETTERS,
    RUN,
    TERMS_MADE_BY,
    WORDS,
    WantedTerms,
    content_terms,
    distinct_terms,
    found_in,
    is_character,
    is_cjk,
    normal_form,
    plain_characters,
    plain_text,
    same_width,
    search_terms,
    terms_of,
    terms_of_run,
    terms_of_words,
)

__all__ = (
    "CHARACTERS",
    "EDGES",
    "FOLD_STOP_WORDS",
    "LETTERS",
    "RUN",
    "SIMPLIFIED",
    "TERMS_MADE_BY",
    "WORDS",
    "FenceNote",
    "Fenced",
    "NamedDays",
    "Sentence",
    "SentenceKind",
    "UnusualLine",
    "WantedTerms",
    "best_that_fit",
    "clean_text",
    "clip",
    "clip_end",
    "content_terms",
    "count_upto",
    "cut_to_fit",
    "distinct_terms",
    "fence",
    "fence_mark",
    "fenced_blocks",
    "found_in",
    "has_relative_time",
    "indented",
    "indented_whole",
    "is_character",
    "is_chinese",
    "is_cjk",
    "is_language",
    "is_path",
    "is_program_output",
    "joint_cost",
    "json_line",
    "language_of",
    "local_time",
    "named_days",
    "normal_form",
    "one_line",
    "paths_in",
    "plain_characters",
    "plain_name",
    "plain_path",
    "plain_text",
    "require_limit",
    "same_width",
    "search_terms",
    "single_line",
    "split_sentences",
    "splits_word",
    "terms_of",
    "terms_of_run",
    "terms_of_words",
    "time_text",
    "unusual_lines",
    "with_continuation_note",
)

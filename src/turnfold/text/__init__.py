"""Text functions shared by folding (compaction) and search: words, stems, CJK, sentences, token limits, fences."""

from __future__ import annotations

from turnfold.text.chinese import SIMPLIFIED
from turnfold.text.cjk import is_chinese
from turnfold.text.fences import (
    Fenced,
    fence,
    fence_mark,
    fenced_blocks,
    indented,
    indented_whole,
    one_line,
    plain_name,
    with_continuation_note,
)
from turnfold.text.limits import (
    best_that_fit,
    clip,
    clip_end,
    count_upto,
    cut_to_fit,
    joint_cost,
    require_limit,
    splits_word,
)
from turnfold.text.paths import paths_in, plain_path
from turnfold.text.sentences import (
    Sentence,
    SentenceKind,
    clean_text,
    single_line,
    split_sentences,
)
from turnfold.text.stop_words import FOLD_STOP_WORDS
from turnfold.text.unicode import normal_form, same_width
from turnfold.text.words import (
    CHARACTERS,
    EDGES,
    LETTERS,
    RUN,
    TERMS_MADE_BY,
    WORDS,
    content_terms,
    distinct_terms,
    found_in,
    is_character,
    is_cjk,
    plain_text,
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
    "Fenced",
    "Sentence",
    "SentenceKind",
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
    "indented",
    "indented_whole",
    "is_character",
    "is_chinese",
    "is_cjk",
    "joint_cost",
    "normal_form",
    "one_line",
    "paths_in",
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
    "with_continuation_note",
)

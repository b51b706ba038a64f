"""Search without I/O: filters, matching of query terms, ranking, and the passages and excerpts that are shown."""

from __future__ import annotations

from turnfold.search.filter_terms import (
    CALL_REACH,
    Findable,
    ToolNames,
    findable,
    marks_of_text,
    required_marks,
)
from turnfold.search.filters import ALL_ENTRIES, CHECKPOINT, ENTRY, Within
from turnfold.search.ranking import (
    MOST_CANDIDATES,
    Candidate,
    Hit,
    TermChoice,
    choosing_terms,
    fuse,
    fused_parts,
    query_terms,
    rank,
    ranked_places,
    trust_in_words,
    worth_of_places,
)
from turnfold.search.result_texts import (
    SNIPPET_CHARACTERS,
    Recalled,
    Snippet,
    fill,
    is_telling,
    passages_text,
    places_to_read,
    relevant_places,
    snippet,
    telling_part,
)
from turnfold.search.term_matches import QueryTerms, TermMatches

__all__ = (
    "ALL_ENTRIES",
    "CALL_REACH",
    "CHECKPOINT",
    "ENTRY",
    "MOST_CANDIDATES",
    "SNIPPET_CHARACTERS",
    "Candidate",
    "Findable",
    "Hit",
    "QueryTerms",
    "Recalled",
    "Snippet",
    "TermChoice",
    "TermMatches",
    "ToolNames",
    "Within",
    "choosing_terms",
    "fill",
    "findable",
    "fuse",
    "fused_parts",
    "is_telling",
    "marks_of_text",
    "passages_text",
    "places_to_read",
    "query_terms",
    "rank",
    "ranked_places",
    "relevant_places",
    "required_marks",
    "snippet",
    "telling_part",
    "trust_in_words",
    "worth_of_places",
)

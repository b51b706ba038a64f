"""WHAT IS BROUGHT BACK: the terms a text is found by, alike in every backend, and what is shown of what was found."""

from __future__ import annotations

from turnfold.recall.filling import fill, places_to_read
from turnfold.recall.fusing import fuse, fused_parts
from turnfold.recall.held_terms import AskedTerms, HeldTerms
from turnfold.recall.passages import Recalled, passages_text
from turnfold.recall.ranking import ranked_places, worth_of_places
from turnfold.recall.relevance import relevant_places, speaks_of, telling_part
from turnfold.recall.terms import TERMS_MADE_BY, asked_terms, distinct_terms, is_character, terms_of

__all__ = (
    "TERMS_MADE_BY",
    "AskedTerms",
    "HeldTerms",
    "Recalled",
    "asked_terms",
    "distinct_terms",
    "fill",
    "fuse",
    "fused_parts",
    "is_character",
    "passages_text",
    "places_to_read",
    "ranked_places",
    "relevant_places",
    "speaks_of",
    "telling_part",
    "terms_of",
    "worth_of_places",
)

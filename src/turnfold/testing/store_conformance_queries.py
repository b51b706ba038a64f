"""Queries: whatever is asked or stored, in any query language's syntax, is words to look for and nothing else."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest

from turnfold.recall import terms_of
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import ALICE, BOB, HOSTILE_TEXTS, TALK, said

__all__ = ("HostileQueryCases",)

HOSTILE_QUERIES = {
    **HOSTILE_TEXTS,
    "fts and": "alpha AND beta",
    "fts not": "alpha NOT beta",
    "fts or": "OR",
    "fts near": "NEAR(alpha beta, 3)",
    "fts column": "terms : alpha",
    "fts scope": "scope : s616c696365",
    "fts minus column": "- scope : alpha",
    "fts caret": "^alpha",
    "fts plus": "alpha + beta",
    "fts prefix": "alp*",
    "fts quote": '"alpha',
    "fts parenthesis": "((alpha",
    "tsquery": "alpha & !beta | gamma <-> delta",
    "tsquery weight": "alpha:*A",
    "tsquery quote": "'alpha'':*",
    "like": "alp%",
    "like underscore": "alph_",
    "regex": "al.*a|(",
    "redis": "@terms:{alpha}",
    "only signs": "\"'*^:()-+&|!<>%_\\",
    "lone surrogate": "\ud800",
    "many words": " ".join(f"word{number}" for number in range(2000)),
    "long word": "alpha" * 2000,
}


class HostileQueryCases(StoreCases):
    """Whatever is asked or stored is words, and nothing else."""

    @pytest.mark.parametrize("query", HOSTILE_QUERIES.values(), ids=HOSTILE_QUERIES.keys())
    @case
    async def test_a_query_is_never_syntax(self, trial: Trial, query: str) -> None:
        logged = ["alpha", "beta", "alphabet", "and or not near", "scope terms s616c696365", "alp"]
        logged.append(query.encode("utf-8", "replace").decode())
        await trial.store.append(ALICE, TALK, said(*logged))
        await trial.store.append(BOB, TALK, said(*logged))
        wanted = set(terms_of(query))
        expected = {seq for seq, text in enumerate(logged, 1) if wanted & set(terms_of(text))}
        for terms in ([query], [query, query], query.split(" ")):
            hits = await trial.store.search(ALICE, terms, limit=100)
            assert {hit.seq for hit in hits} == expected
            within = await trial.store.search(ALICE, terms, conversation=TALK, limit=100)
            assert {hit.seq for hit in within} == expected

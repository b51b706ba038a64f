"""Test cases for names and queries: allowed names are kept exactly, others are rejected, queries are only words."""

from __future__ import annotations

import pytest

from turnfold.errors import InvalidOption
from turnfold.records import NewEntry, user
from turnfold.stores import Scope
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.sample_values import (
    ALICE,
    BAD_NAMES,
    BOB,
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    TALK,
    VERBS,
    checkpoint,
    document,
    texts,
    user_entries,
)
from turnfold.text import terms_of

__all__ = (
    "BadNameCases",
    "HostileNameCases",
    "HostileQueryCases",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


LOOK_ALIKES = [
    "name",
    "Name",
    "name ",
    " name",
    "nam",
    "names",
    "ｎａｍｅ",
    "na\u0301me",
    "n\u00e1me",
]

each_hostile_name = pytest.mark.parametrize(
    "name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys()
)
each_bad_name = pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())


class HostileNameCases(StoreCases):
    """Test cases for names that look like syntax, or like one another."""

    @each_hostile_name
    @case
    async def test_a_conversation_may_be_called_anything(self, trial: Trial, name: str) -> None:
        await trial.store.append(ALICE, "bystander", user_entries("other"))
        await trial.store.append(ALICE, name, user_entries("alpha"))
        assert texts(await trial.store.read(ALICE, name)) == ["alpha"]
        assert {info.conversation for info in await trial.store.conversations(ALICE)} == {
            "bystander",
            name,
        }
        [hit] = await trial.store.search(ALICE, ["alpha"], conversation=name)
        assert hit.conversation == name
        assert (await trial.store.delete(ALICE, name)).conversation == name
        assert texts(await trial.store.read(ALICE, "bystander")) == ["other"]

    @each_hostile_name
    @case
    async def test_a_tenant_may_be_called_anything(self, trial: Trial, name: str) -> None:
        scope = Scope(name)
        await trial.store.append(ALICE, TALK, user_entries("other"))
        await trial.store.append(scope, TALK, user_entries("alpha"))
        assert texts(await trial.store.read(scope, TALK)) == ["alpha"]
        assert [hit.seq for hit in await trial.store.search(scope, ["alpha other"])] == [1]
        await trial.store.delete(scope, TALK)
        assert texts(await trial.store.read(ALICE, TALK)) == ["other"]

    @each_hostile_name
    @case
    async def test_an_id_a_kind_and_a_key_may_be_anything(self, trial: Trial, name: str) -> None:
        batch = [NewEntry(user("alpha"), name), NewEntry(user("beta"), "plain")]
        await trial.store.append(ALICE, TALK, batch)
        assert (await trial.store.append(ALICE, TALK, batch)).repeated
        [found] = await trial.store.find(ALICE, TALK, [name])
        assert (found.client_id, found.message.text) == (name, "alpha")
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint(name, 1))
        assert (await trial.store.head(ALICE, TALK)).checkpoint == name
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("next", 2, previous=name))
        listed = await trial.store.checkpoints(ALICE, TALK)
        assert [(each.id, each.previous) for each in listed] == [(name, ""), ("next", name)]
        await trial.store.put_document(ALICE, TALK, document("plain", b"other"))
        put = await trial.store.put_document(ALICE, TALK, document(name, b"mine", kind=name))
        stored = put.document
        assert (stored.kind, stored.key) == (name, name)
        assert await trial.store.get_document(ALICE, TALK, name, name) == stored
        assert await trial.store.documents(ALICE, TALK, name) == [stored]
        assert await trial.store.documents(ALICE, TALK, name, after=name) == []
        assert await trial.store.drop_document(ALICE, TALK, name, name)
        assert len(await trial.store.documents(ALICE, TALK, "note")) == 1

    @case
    async def test_names_that_look_alike_name_different_things(self, trial: Trial) -> None:
        for name in LOOK_ALIKES:
            await trial.store.append(ALICE, name, [NewEntry(user(name), name)])
            await trial.store.append(Scope(name), TALK, user_entries(name))
            await trial.store.append(ALICE, TALK, [NewEntry(user(name), name)])
            await trial.store.put_document(ALICE, TALK, document(name, name.encode(), kind=name))
        for name in LOOK_ALIKES:
            assert texts(await trial.store.read(ALICE, name)) == [name]
            assert texts(await trial.store.read(Scope(name), TALK)) == [name]
            assert texts(await trial.store.find(ALICE, TALK, [name])) == [name]
            [found] = await trial.store.documents(ALICE, TALK, name)
            assert found.body == name.encode()


class BadNameCases(StoreCases):
    """Test cases for invalid names: every backend rejects the names that any backend cannot store."""

    @each_bad_name
    def test_no_tenant_has_a_bad_name(self, name: str) -> None:
        with pytest.raises(InvalidOption):
            Scope(name)

    @pytest.mark.parametrize("verb", VERBS)
    @case
    async def test_no_verb_takes_a_bad_conversation(self, trial: Trial, verb: str) -> None:
        for name in BAD_NAMES.values():
            with pytest.raises(InvalidOption):
                await VERBS[verb](trial.store, ALICE, name)
        assert await trial.store.conversations(ALICE) == []

    @pytest.mark.parametrize("name", ["a\x00b", "x" * 513, "a\ud800"], ids=list(BAD_NAMES)[1:])
    @case
    async def test_a_bad_client_id_is_refused(self, trial: Trial, name: str) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.append(
                ALICE, TALK, [NewEntry(user("a"), "good"), NewEntry(user("b"), name)]
            )
        assert await trial.store.conversations(ALICE) == []

    @each_bad_name
    @case
    async def test_nothing_is_found_by_a_bad_id(self, trial: Trial, name: str) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.find(ALICE, TALK, ["good", name])

    @pytest.mark.parametrize("place", ["kind", "key"])
    @each_bad_name
    @case
    async def test_a_document_with_a_bad_name_is_refused(
        self, trial: Trial, place: str, name: str
    ) -> None:
        kind, key = (name, "key") if place == "kind" else ("note", name)
        with pytest.raises(InvalidOption):
            await trial.store.put_document(ALICE, TALK, document(key, kind=kind))
        with pytest.raises(InvalidOption):
            await trial.store.get_document(ALICE, TALK, kind, key)
        with pytest.raises(InvalidOption):
            await trial.store.drop_document(ALICE, TALK, kind, key)
        assert await trial.store.conversations(ALICE) == []

    @each_bad_name
    @case
    async def test_a_listing_of_a_bad_kind_is_refused(self, trial: Trial, name: str) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.documents(ALICE, TALK, name)

    @pytest.mark.parametrize("name", ["a\x00b", "x" * 513, "a\ud800"], ids=list(BAD_NAMES)[1:])
    @case
    async def test_a_page_after_a_bad_name_is_refused(self, trial: Trial, name: str) -> None:
        with pytest.raises(InvalidOption):
            await trial.store.documents(ALICE, TALK, "note", after=name)
        with pytest.raises(InvalidOption):
            await trial.store.conversations(ALICE, after=name)

    @case
    async def test_the_longest_names_are_counted_in_characters(self, trial: Trial) -> None:
        name = "😀" * 512
        await trial.store.append(Scope(name), name, [NewEntry(user("alpha"), name)])
        await trial.store.put_document(Scope(name), name, document(name, kind=name))
        assert texts(await trial.store.find(Scope(name), name, [name])) == ["alpha"]
        assert await trial.store.get_document(Scope(name), name, name, name) is not None


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
    """Test cases for search terms and stored texts in a query language's syntax: they are treated as words."""

    @pytest.mark.parametrize("query", HOSTILE_QUERIES.values(), ids=HOSTILE_QUERIES.keys())
    @case
    async def test_a_query_is_never_syntax(self, trial: Trial, query: str) -> None:
        logged = ["alpha", "beta", "alphabet", "and or not near", "scope terms s616c696365", "alp"]
        logged.append(query.encode("utf-8", "replace").decode())
        await trial.store.append(ALICE, TALK, user_entries(*logged))
        await trial.store.append(BOB, TALK, user_entries(*logged))
        wanted = set(terms_of(query))
        expected = {seq for seq, text in enumerate(logged, 1) if wanted & set(terms_of(text))}
        for terms in ([query], [query, query], query.split(" ")):
            hits = await trial.store.search(ALICE, terms, limit=100)
            assert {hit.seq for hit in hits} == expected
            within = await trial.store.search(ALICE, terms, conversation=TALK, limit=100)
            assert {hit.seq for hit in within} == expected

"""Searching beside the log and under filters: the same places on every backend, and nothing left of what is gone."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import pytest

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Document, NewEntry, assistant, system, tool, user
from turnfold.stores import CHECKPOINT, ENTRY, Hit, Within
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    TALK,
    checkpoint,
    said,
)

__all__ = ("BesideCases", "WithinCases")

_ANY = Within(kinds=None)


def _call(name: str, call_id: str) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


_LOG = (
    system("alpha rules"),
    user("alpha in src/app/main.py"),
    assistant("alpha", tool_calls=[_call("weather", "c1"), _call("天气", "c2")]),
    tool("alpha sun", tool_call_id="c1"),
    tool("alpha 雨", tool_call_id="c2"),
    user("看docs/说明.md文件 alpha"),
    assistant("alpha, see .\\src\\app\\other.py:7."),
    tool("alpha orphan", tool_call_id="c9"),
    tool("alpha named", tool_call_id="c9", name="clock"),
)

_FILTERS: Mapping[str, tuple[Within, set[int]]] = {
    "one role": (Within(roles=frozenset({"user"})), {2, 6}),
    "two roles": (Within(roles=frozenset({"user", "system"})), {1, 2, 6}),
    "a tool": (Within(tools=frozenset({"weather"})), {3, 4}),
    "a chinese tool": (Within(tools=frozenset({"天气"})), {3, 5}),
    "a named answer": (Within(tools=frozenset({"clock"})), {9}),
    "a tool and a role": (
        Within(tools=frozenset({"weather"}), roles=frozenset({"tool"})),
        {4},
    ),
    "an unknown tool": (Within(tools=frozenset({"nothing"})), set()),
    "a file": (Within(paths=frozenset({"src/app/main.py"})), {2}),
    "a folder": (Within(paths=frozenset({"src/app/"})), {2, 7}),
    "a folder above": (Within(paths=frozenset({"./src"})), {2, 7}),
    "half a name is no folder": (Within(paths=frozenset({"src/ap"})), set()),
    "a path in chinese text": (Within(paths=frozenset({"docs"})), {6}),
    "two paths": (Within(paths=frozenset({"docs", "src/app/other.py"})), {6, 7}),
    "one turn": (Within(turns=(1, 1)), {2, 3, 4, 5}),
    "before the first turn": (Within(turns=(0, 0)), {1}),
    "turns": (Within(turns=(0, 1)), {1, 2, 3, 4, 5}),
    "no such turn": (Within(turns=(7, 9)), set()),
    "since": (Within(since=6), {6, 7, 8, 9}),
    "until": (Within(until=3), {1, 2}),
    "between": (Within(since=2, until=4), {2, 3}),
    "everything": (_ANY, set(range(1, 10))),
}

_IMPOSSIBLE: Mapping[str, Callable[[], Within]] = {
    "an unknown role": lambda: Within(roles=frozenset({"narrator"})),
    "roles that are a text": lambda: Within(roles=cast("frozenset[str]", "user")),
    "an empty tool": lambda: Within(tools=frozenset({""})),
    "a path that is none": lambda: Within(paths=frozenset({"./"})),
    "turns backwards": lambda: Within(turns=(3, 2)),
    "a turn below none": lambda: Within(turns=(-1, 2)),
    "times backwards": lambda: Within(since=5, until=5),
    "a time beyond all": lambda: Within(since=1 << 63),
    "no kind": lambda: Within(kinds=frozenset[str]()),
    "documents of a role": lambda: Within(kinds=frozenset({"note"}), roles=frozenset({"user"})),
}


class WithinCases(StoreCases):
    """Filters."""

    @pytest.mark.parametrize("conversation", [None, TALK])
    @case
    async def test_a_filter_leaves_out_the_others(
        self, trial: Trial, conversation: str | None
    ) -> None:
        trial.clock.step = 0
        for at, message in enumerate(_LOG, 1):
            trial.clock.now = at
            await trial.store.append(ALICE, TALK, [NewEntry(message)])
        await trial.store.append(BOB, TALK, [NewEntry(user("alpha src/app/main.py docs"))])
        everything = await trial.store.search(ALICE, ["alpha"], conversation=conversation)
        for name, (within, expected) in _FILTERS.items():
            hits = await trial.store.search(
                ALICE, ["alpha"], conversation=conversation, within=within
            )
            assert hits == [hit for hit in everything if hit.seq in expected], name
            assert len(hits) == len(expected), name

    @pytest.mark.parametrize("name", _IMPOSSIBLE)
    def test_what_nothing_could_pass_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidOption):
            _IMPOSSIBLE[name]()

    @case
    async def test_a_hostile_filter_is_a_value_and_no_syntax(self, trial: Trial) -> None:
        for hostile in HOSTILE_NAMES.values():
            talk = trial.fresh("talk")
            call = assistant("alpha", tool_calls=[_call(hostile, "c1")])
            await trial.store.append(ALICE, talk, [NewEntry(call), *said("alpha")])
            for within, expected in (
                (Within(tools=frozenset({hostile})), [1]),
                (Within(tools=frozenset({f"{hostile}x"})), []),
                (Within(kinds=frozenset({hostile})), []),
            ):
                hits = await trial.store.search(ALICE, ["alpha"], conversation=talk, within=within)
                assert [hit.seq for hit in hits] == expected


def _found(hits: list[Hit]) -> set[tuple[str, str, int]]:
    return {(hit.kind, hit.key, hit.seq) for hit in hits}


def _note(text: str, *, key: str = "n", kind: str = "note") -> Document:
    return Document(kind, key, b"body", 0, text=text)


class BesideCases(StoreCases):
    """Checkpoints and documents are found where they are asked for."""

    @case
    async def test_what_stands_beside_the_log_is_found_when_it_is_asked_for(
        self, trial: Trial
    ) -> None:
        await trial.store.append(ALICE, TALK, said("alpha one", "two"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1, text="alpha 摘要"))
        await trial.store.put_document(ALICE, TALK, _note("alpha note"))
        await trial.store.put_document(ALICE, TALK, _note("", key="silent"))
        entry, folded, note = (ENTRY, "", 1), (CHECKPOINT, "s1", 0), ("note", "n", 0)
        for kinds, expected in (
            (None, {entry, folded, note}),
            (frozenset({ENTRY}), {entry}),
            (frozenset({CHECKPOINT}), {folded}),
            (frozenset({"note", ENTRY}), {entry, note}),
            (frozenset({"other"}), set[tuple[str, str, int]]()),
        ):
            hits = await trial.store.search(ALICE, ["alpha"], within=Within(kinds=kinds))
            assert _found(hits) == expected
        assert _found(await trial.store.search(ALICE, ["摘要"], within=_ANY)) == {folded}
        assert _found(await trial.store.search(BOB, ["alpha"], within=_ANY)) == set()

    @case
    async def test_without_asking_nothing_beside_changes_an_answer(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("alpha one", "alpha alpha", "two"))
        hits = await trial.store.search(ALICE, ["alpha two"])
        await trial.store.put_document(ALICE, TALK, _note("alpha " * 20))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1, text="alpha"))
        assert await trial.store.search(ALICE, ["alpha two"]) == hits
        assert await trial.store.search(ALICE, ["alpha two"], conversation=TALK) == hits

    @case
    async def test_a_text_comes_back_and_goes_with_its_document(self, trial: Trial) -> None:
        store = trial.store
        await store.put_document(ALICE, TALK, _note("alpha"))
        changed = (await store.put_document(ALICE, TALK, _note("beta 北京"))).document
        assert (changed.text, changed.version) == ("beta 北京", 2)
        assert await store.get_document(ALICE, TALK, "note", "n") == changed
        assert await store.documents(ALICE, TALK, "note") == [changed]
        assert _found(await store.search(ALICE, ["alpha"], within=_ANY)) == set()
        assert _found(await store.search(ALICE, ["北京"], within=_ANY)) == {("note", "n", 0)}
        await store.put_document(ALICE, TALK, _note(""))
        assert _found(await store.search(ALICE, ["北京"], within=_ANY)) == set()
        await store.put_document(ALICE, TALK, _note("gamma"))
        await store.drop_document(ALICE, TALK, "note", "n")
        assert _found(await store.search(ALICE, ["gamma"], within=_ANY)) == set()

    @case
    async def test_what_is_deleted_is_found_no_more(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("alpha"))
        await trial.store.append(ALICE, "kept", said("alpha"))
        await trial.store.put_document(ALICE, TALK, _note("alpha"))
        await trial.store.add_checkpoint(ALICE, TALK, checkpoint("s1", 1, text="alpha"))
        assert len(await trial.store.search(ALICE, ["alpha"], within=_ANY)) == 4
        await trial.store.delete(ALICE, TALK)
        [left] = await trial.store.search(ALICE, ["alpha"], within=_ANY)
        assert left.conversation == "kept"

    @case
    async def test_any_text_a_document_is_found_by_comes_back_exactly(self, trial: Trial) -> None:
        written = {key: f"{text} alpha" for key, text in HOSTILE_TEXTS.items()}
        for key, text in written.items():
            await trial.store.put_document(ALICE, TALK, _note(text, key=key))
        kept = await trial.store.documents(ALICE, TALK, "note")
        assert {each.key: each.text for each in kept} == written
        hits = await trial.store.search(ALICE, ["alpha"], limit=100, within=_ANY)
        assert {hit.key for hit in hits} == set(written)

    @case
    async def test_a_text_no_backend_could_hold_is_refused(self, trial: Trial) -> None:
        with pytest.raises(InvalidRecord):
            await trial.store.put_document(ALICE, TALK, _note("a\ud800"))
        with pytest.raises(InvalidOption):
            await trial.store.put_document(ALICE, TALK, _note("a", kind=CHECKPOINT))
        put = await trial.store.put_document(ALICE, TALK, _note("", kind=CHECKPOINT))
        kept = put.document
        assert kept == replace(_note("", kind=CHECKPOINT), version=1, created=kept.created)

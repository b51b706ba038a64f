"""Test cases for capture and restore: a conversation is copied exactly, from a consistent snapshot, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import (
    Conflict,
    ConversationDeleted,
    IdReused,
    InvalidOption,
    InvalidRecord,
    StoreUnavailable,
)
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry, assistant, user
from turnfold.stores import ConversationOpening, Head, Piece, Restored, Scope, Store
from turnfold.testing.stores.case_runner import StoreCases, Trial, case
from turnfold.testing.stores.random_operations import messages, settings_for
from turnfold.testing.stores.sample_values import (
    ALICE,
    BAD_NAMES,
    BOB,
    HOSTILE_NAMES,
    TALK,
    character_counter,
    checkpoint,
    document,
    entries_with_ids,
    exchange,
    pieces_of,
    texts,
    user_entries,
)

__all__ = (
    "CaptureCases",
    "RestoreCases",
    "RestoredCases",
    "contents",
    "fill_richly",
)


# ruff: noqa: D102, S101 (cases are named by sentences, and consist of asserts)


MANY = 1203
"""Number of entries in a test conversation that is longer than the batches in which stores write."""
CHINESE = "长" * 512


async def fill_richly(store: Store, scope: Scope, name: str = TALK) -> None:
    """Write a conversation with two checkpoints, documents of several kinds, and one dropped document."""
    await store.append(scope, name, entries_with_ids("one", "北京 two"))
    await store.append(scope, name, [*exchange("three", "四"), *user_entries("five")])
    await store.add_checkpoint(scope, name, checkpoint("s1", 2, text="摘要"))
    await store.add_checkpoint(scope, name, checkpoint("s2", 4, previous="s1"))
    for kind, key, body in (
        ("note", "b", b""),
        ("state", "a", bytes(range(256))),
        ("note", "a", b"x"),
        ("note", "a", b"y"),
        (CHINESE, CHINESE, "体".encode()),
        ("gone", "gone", b"gone"),
    ):
        await store.put_document(scope, name, document(key, body, kind=kind))
    await store.drop_document(scope, name, "gone", "gone")


async def contents(store: Store, scope: Scope) -> tuple[object, ...]:
    """Return all data of a scope that a restore must reproduce: everything except generations."""
    listed = await store.conversations(scope, limit=10_000)
    return (
        [replace(info, head=replace(info.head, generation=0, epoch=0)) for info in listed],
        [await pieces_of(store, scope, info.conversation) for info in listed],
        [await store.tail(scope, info.conversation, tokens=9) for info in listed],
        [await store.search(scope, [word]) for word in ("one", "北京", "three")],
    )


def _made(name: str, *words: str) -> list[Piece]:
    """Return a conversation of user messages with fixed times, as the pieces that `Store.restore` takes."""
    entries = [
        Entry(seq, user(text), f"id-{seq}", 1000 + seq, seq, 0, 0)
        for seq, text in enumerate(words, 1)
    ]
    return [ConversationOpening(name, created=17, updated=18), *entries]


class CaptureCases(StoreCases):
    """Test cases for capture: a consistent snapshot of a conversation, without its entries."""

    @case
    async def test_what_is_not_there_is_none(self, trial: Trial) -> None:
        assert await trial.store.capture(ALICE, TALK, _never) is None
        await fill_richly(trial.store, ALICE)
        await trial.store.delete(ALICE, TALK)
        assert await trial.store.capture(ALICE, TALK, _never) is None

    @case
    async def test_it_has_everything_beside_the_log(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        [info] = await trial.store.conversations(ALICE)
        taken: list[Document] = []
        captured = await trial.store.capture(ALICE, TALK, taken.append)
        assert captured is not None
        assert captured.opening == ConversationOpening(TALK, info.created, info.updated, dropped=1)
        assert captured.head == info.head
        assert list(captured.checkpoints) == await trial.store.checkpoints(ALICE, TALK)
        kinds = ("note", "state", CHINESE)
        documents = [
            each for kind in kinds for each in await trial.store.documents(ALICE, TALK, kind)
        ]
        assert taken == documents
        assert len(taken) == 4

    @case
    async def test_documents_come_by_kind_and_key(self, trial: Trial) -> None:
        places = [
            (kind, key) for kind in HOSTILE_NAMES.values() for key in ("b", "a", "B", CHINESE)
        ]
        places += [("note", CHINESE[:-1] + end) for end in "一丁丂七丄丅丆万丈三"]
        for kind, key in places:
            await trial.store.put_document(ALICE, TALK, document(key, kind=kind))
        taken: list[Document] = []
        await trial.store.capture(ALICE, TALK, taken.append)
        assert [(each.kind, each.key) for each in taken] == sorted(places)

    @case
    async def test_what_the_taker_raises_comes_out(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        with pytest.raises(KeyError):
            await trial.store.capture(ALICE, TALK, _refuse)
        assert await trial.store.capture(ALICE, TALK, lambda _: None) is not None


def _never(document: Document) -> None:
    raise AssertionError(document)


def _refuse(document: Document) -> None:
    raise KeyError(document.key)


class RestoreCases(StoreCases):
    """Test cases for restore: it reproduces exactly what was captured, and an invalid restore changes nothing."""

    @case
    async def test_a_restored_conversation_is_the_same(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        await trial.store.append(ALICE, "other", user_entries("two"))
        other = trial.open("other")
        for store, scope in ((trial.store, BOB), (other, ALICE)):
            for name in (TALK, "other"):
                done = await store.restore(scope, iter(await pieces_of(trial.store, ALICE, name)))
                assert (done.conversations, done.already) == (1, 0)
            assert await contents(store, scope) == await contents(trial.store, ALICE)

    @case
    async def test_it_says_what_was_written(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        stream = [*_made("a", "x"), *_made("b"), *(await pieces_of(trial.store, ALICE))]
        done = await trial.store.restore(BOB, stream)
        assert done == Restored(conversations=3, entries=6, checkpoints=2, documents=4)
        assert await trial.store.restore(BOB, []) == Restored()

    @case
    async def test_costs_are_counted_anew(self, trial: Trial) -> None:
        stream = _made(TALK, "abc", "de")
        lies = [
            replace(piece, tokens=10**9, running=-5) if isinstance(piece, Entry) else piece
            for piece in stream
        ]
        store = trial.open("other", counter=character_counter(3))
        await store.restore(ALICE, lies)
        assert [(entry.tokens, entry.running) for entry in await store.read(ALICE, TALK)] == [
            (9, 9),
            (6, 15),
        ]
        head = await store.head(ALICE, TALK)
        assert (head.tokens, head.counter) == (15, character_counter(3).name)

    @case
    async def test_a_repetition_changes_nothing(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        stream = await pieces_of(trial.store, ALICE)
        before = await trial.store.conversations(ALICE)
        assert await trial.store.restore(ALICE, stream) == Restored(already=1)
        assert await trial.store.restore(BOB, [*stream, *_made("z", "x")]) == Restored(
            2, 0, 6, 2, 4
        )
        done = await trial.store.restore(BOB, [*stream, *_made("z", "x"), *_made("zz", "y")])
        assert done == Restored(conversations=1, already=2, entries=1)
        assert await trial.store.conversations(ALICE) == before

    @case
    async def test_a_conversation_may_be_empty(self, trial: Trial) -> None:
        await trial.store.put_document(ALICE, TALK, document("key"))
        await trial.store.drop_document(ALICE, TALK, "note", "key")
        await trial.store.restore(BOB, await pieces_of(trial.store, ALICE))
        assert await contents(trial.store, BOB) == await contents(trial.store, ALICE)

    @pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
    @case
    async def test_any_name_comes_back_exactly(self, trial: Trial, name: str) -> None:
        await trial.store.append(ALICE, name, [NewEntry(user("x"), name)])
        await trial.store.add_checkpoint(ALICE, name, checkpoint(name, 1))
        await trial.store.put_document(ALICE, name, document(name, kind=name))
        await trial.store.restore(BOB, await pieces_of(trial.store, ALICE, name))
        assert await contents(trial.store, BOB) == await contents(trial.store, ALICE)

    def test_any_message_is_restored_exactly(self, trial: Trial) -> None:
        @settings_for(self.examples)
        @given(st.lists(messages, min_size=1, max_size=4))
        def check(some: list[Message]) -> None:
            name = trial.fresh("talk")

            async def move() -> None:
                await trial.store.append(ALICE, name, [NewEntry(message) for message in some])
                stream = await pieces_of(trial.store, ALICE, name)
                await trial.store.restore(BOB, stream)
                assert await pieces_of(trial.store, BOB, name) == stream

            trial.run(move())

        check()

    @case
    async def test_a_long_conversation_is_restored_whole(self, trial: Trial) -> None:
        stream = _made(TALK, *map(str, range(MANY)))
        await trial.store.restore(ALICE, iter(stream))
        entries = await trial.store.read(ALICE, TALK, limit=2 * MANY)
        assert [int(text) for text in texts(entries)] == list(range(MANY))
        assert [entry.created for entry in entries] == [1001 + seq for seq in range(MANY)]
        assert (await trial.store.restore(ALICE, iter(stream))).already == 1

    @pytest.mark.parametrize("twin", [2, 400, 501, MANY])
    @case
    async def test_a_client_id_names_one_entry(self, trial: Trial, twin: int) -> None:
        stream = _made(TALK, *map(str, range(MANY)))
        stream[twin] = replace(_entry(stream[twin]), client_id="id-1")
        with pytest.raises(IdReused):
            await trial.store.restore(ALICE, [*_made("early", "x"), *stream])
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_a_stream_that_breaks_off_leaves_no_trace(self, trial: Trial) -> None:
        def broken() -> Iterator[Piece]:
            yield from _made("early", "x")
            yield from _made(TALK, *map(str, range(MANY)))
            raise InvalidRecord("the file ends here")

        with pytest.raises(InvalidRecord, match="the file ends here"):
            await trial.store.restore(ALICE, broken())
        assert await trial.store.conversations(ALICE) == []
        assert await trial.store.head(ALICE, TALK) == Head()
        assert await trial.store.search(ALICE, ["7"]) == []
        assert (await trial.store.append(ALICE, TALK, entries_with_ids("id-1"))).first == 1

    @case
    async def test_an_erased_conversation_stays_erased(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        stream = await pieces_of(trial.store, ALICE)
        await trial.store.delete(ALICE, TALK)
        with pytest.raises(ConversationDeleted, match=TALK):
            await trial.store.restore(ALICE, [*_made("early", "x"), *stream])
        assert await trial.store.conversations(ALICE) == []
        assert await trial.store.read(ALICE, TALK) == []

    @pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
    @case
    async def test_a_bad_name_is_refused_in_a_restore(self, trial: Trial, name: str) -> None:
        entry = Entry(1, user("x"), name, 1, 1, 0, 0)
        streams: dict[str, list[Piece]] = {
            "conversation": _made(name, "x"),
            "client id": [ConversationOpening(TALK, 1, 1), entry],
            "kind": [ConversationOpening(TALK, 1, 1), Document(name, "k", b"", 1)],
            "key": [ConversationOpening(TALK, 1, 1), Document("k", name, b"", 1)],
            "checkpoint": [*_made(TALK, "x"), checkpoint(name, 1)],
        }
        if not name:
            del streams["client id"]  # an entry may have none
        for stream in streams.values():
            with pytest.raises((InvalidOption, InvalidRecord)):
                await trial.store.restore(ALICE, [*_made("early", "x"), *stream])
        assert await trial.store.conversations(ALICE) == []

    @case
    async def test_a_closed_store_restores_nothing(self, trial: Trial) -> None:
        await trial.store.close()
        with pytest.raises(StoreUnavailable):
            await trial.store.restore(ALICE, _made(TALK, "x"))
        with pytest.raises(StoreUnavailable):
            await trial.store.capture(ALICE, TALK, _never)

    @case
    async def test_of_many_who_restore_the_same_one_writes(self, trial: Trial) -> None:
        stream = _made(TALK, *map(str, range(20)))
        done = await trial.together([lambda: trial.store.restore(ALICE, iter(stream))] * 8)
        assert sorted(done, key=str) == sorted(
            [Restored(conversations=1, entries=20)] + [Restored(already=1)] * 7, key=str
        )
        assert (await trial.store.head(ALICE, TALK)).seq == 20


def _entry(piece: Piece) -> Entry:
    assert isinstance(piece, Entry)
    return piece


_SOUND = [
    ConversationOpening(TALK, 1, 2),
    Document("note", "a", b"", 1),
    Document("note", "b", b"", 1),
    Entry(1, user("x"), "", 1, 1, 0, 0),
    Entry(2, assistant("y"), "", 1, 1, 0, 0),
    Checkpoint("s1", "", 1, "", ""),
    Checkpoint("s2", "s1", 2, "", ""),
]
UNSOUND: Mapping[str, list[Piece]] = {
    "no opening": _SOUND[1:],
    "time too far": [ConversationOpening(TALK, 1 << 62, 2)],
    "negative drop": [ConversationOpening(TALK, 1, 2, -1)],
    "document twice": [*_SOUND[:2], _SOUND[1]],
    "documents out of order": [_SOUND[0], _SOUND[2], _SOUND[1]],
    "version 0": [_SOUND[0], Document("note", "a", b"", 0)],
    "version too high": [_SOUND[0], Document("note", "a", b"", 1 << 62)],
    "document after entries": [_SOUND[0], _SOUND[3], _SOUND[1]],
    "first seq is 2": [_SOUND[0], _SOUND[4]],
    "seq twice": [*_SOUND[:4], _SOUND[3]],
    "gap": [*_SOUND[:4], replace(_entry(_SOUND[4]), seq=3)],
    "turn of an answer": [*_SOUND[:4], replace(_entry(_SOUND[4]), turn=2)],
    "turn of a question": [_SOUND[0], replace(_entry(_SOUND[3]), turn=0)],
    "entry after checkpoints": [*_SOUND[:4], _SOUND[5], _SOUND[4]],
    "checkpoint of nothing": [_SOUND[0], _SOUND[5]],
    "wrong predecessor": [*_SOUND[:5], _SOUND[6]],
    "covers too much": [*_SOUND[:4], Checkpoint("s1", "", 2, "", "")],
    "covers nothing new": [*_SOUND[:6], Checkpoint("s2", "s1", 1, "", "")],
    "checkpoint twice": [*_SOUND[:6], Checkpoint("s1", "s1", 2, "", "")],
    "no share": [*_SOUND[:5], Checkpoint("s1", "", 1, "", "", fidelity=float("nan"))],
    "lone surrogate": [*_SOUND[:5], Checkpoint("s1", "", 1, "\ud800", "")],
}

DIFFERENT: Mapping[str, tuple[int, Mapping[str, object], str]] = {
    "created": (0, {"created": 9}, "created at"),
    "version": (1, {"version": 2}, "note/a has a different version"),
    "document time": (1, {"created": 2}, "note/a has a different created"),
    "body": (1, {"body": b"x"}, "note/a has a different body"),
    "client id": (3, {"client_id": "x"}, "entry 1 has a different client_id"),
    "time": (3, {"created": 2}, "entry 1 has a different created"),
    "message": (4, {"message": assistant("z")}, "entry 2 has a different body"),
    "summary": (5, {"text": "z"}, "'s1' has a different text"),
    "checkpoint time": (6, {"created": 5}, "'s2' has a different created"),
}


class RestoredCases(StoreCases):
    """Test cases for restores that are rejected, and for later writes to restored conversations."""

    @pytest.mark.parametrize("stream", UNSOUND.values(), ids=UNSOUND.keys())
    @case
    async def test_what_no_log_could_be_is_refused(self, trial: Trial, stream: list[Piece]) -> None:
        await trial.store.restore(BOB, _SOUND)
        early = [] if stream is UNSOUND["no opening"] else _made("early", "x")
        with pytest.raises((InvalidRecord, InvalidOption)):
            await trial.store.restore(ALICE, [*early, *stream])
        assert await trial.store.conversations(ALICE) == []

    @pytest.mark.parametrize(
        ("place", "fields", "message"), DIFFERENT.values(), ids=DIFFERENT.keys()
    )
    @case
    async def test_another_conversation_of_that_name_is_a_conflict(
        self, trial: Trial, place: int, fields: Mapping[str, object], message: str
    ) -> None:
        stream: list[Piece] = list(_SOUND)
        stream[place] = replace(stream[place], **fields)
        await self._conflict(trial, stream, message)

    @pytest.mark.parametrize(
        ("shorter", "message"),
        [
            (slice(0, 6), "2 checkpoints in the store, 1 in the file"),
            (slice(0, 4), "2 entries in the store, 1 in the file"),
            (slice(0, 3), "2 entries in the store, 0 in the file"),
        ],
    )
    @case
    async def test_a_shorter_one_is_a_conflict(
        self, trial: Trial, shorter: slice, message: str
    ) -> None:
        await self._conflict(trial, _SOUND[shorter], message)
        without = [piece for piece in _SOUND if piece is not _SOUND[2]]
        await self._conflict(trial, without, "2 documents in the store, 1 in the file")

    @case
    async def test_a_longer_one_is_a_conflict(self, trial: Trial) -> None:
        longer = [*_SOUND[:5], Entry(3, user("z"), "", 1, 2, 0, 0), *_SOUND[5:]]
        await self._conflict(trial, longer, "entry 3 is not in the store")
        more = [*_SOUND[:3], Document("note", "c", b"", 1), *_SOUND[3:]]
        await self._conflict(trial, more, "note/c is not in the store")

    async def _conflict(self, trial: Trial, stream: list[Piece], message: str) -> None:
        await trial.store.restore(ALICE, _SOUND)
        before = await contents(trial.store, ALICE)
        with pytest.raises(Conflict, match=f"{TALK!r}.*{message}"):
            await trial.store.restore(ALICE, [*_made("early", "x"), *stream, *_made("z", "x")])
        assert await contents(trial.store, ALICE) == before

    @case
    async def test_it_is_still_the_same_after_a_recount(self, trial: Trial) -> None:
        await trial.store.restore(ALICE, _SOUND)
        store = await trial.reopen(counter=character_counter(2))
        await store.tail(ALICE, TALK, tokens=100)
        assert await store.restore(ALICE, _SOUND) == Restored(already=1)

    @case
    async def test_the_log_goes_on(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        await trial.store.restore(BOB, await pieces_of(trial.store, ALICE))
        store = trial.store
        again = await store.append(BOB, TALK, entries_with_ids("one", "北京 two"))
        assert (again.first, again.repeated) == (1, True)
        done = await store.append(BOB, TALK, user_entries("six"), expect=5)
        assert (done.first, done.head.turns) == (6, 5)
        assert (await store.read(BOB, TALK, after=5))[0].running == done.head.tokens
        live = await store.add_checkpoint(BOB, TALK, checkpoint("s3", 6, previous="s2"))
        assert (await store.head(BOB, TALK)).checkpoint == live.id
        put = await store.put_document(BOB, TALK, document("a"), expect=2)
        assert put.document.version == 3
        back = await store.put_document(BOB, TALK, document("gone", kind="gone"), expect=0)
        assert back.document.version == 2
        assert (await store.delete(BOB, TALK)).entries == 6

    @case
    async def test_what_was_restored_survives_reopening(self, trial: Trial) -> None:
        await fill_richly(trial.store, ALICE)
        await trial.store.restore(BOB, await pieces_of(trial.store, ALICE))
        before = await contents(trial.store, BOB)
        store = await trial.reopen()
        assert await contents(store, BOB) == before == await contents(store, ALICE)

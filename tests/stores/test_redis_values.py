"""The pure rules of the cache: whose key, which bytes open, what a kept window may answer."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from turnfold.records import Checkpoint, Document, Entry, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Head, MemoryStore, Scope
from turnfold.stores.redis.cached_values import (
    CachedCheckpoints,
    CachedDocument,
    CachedWindow,
    document_field,
    entries_of,
    extend_window,
    make_window,
    open_sealed,
    seal,
    session_key,
    session_keys,
    tail_of,
)

ALICE = Scope("alice")
SECRET = b"s" * 32
HEAD = Head(seq=3, tokens=9, turns=1, checkpoint="c1", generation=5, counter="plain")

names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=6)
tricky = st.text("{}/:%ab", min_size=1, max_size=5) | names
places = st.tuples(st.sampled_from(("default", "a", "{a", "a/b", "%2F")) | tricky, tricky)


def key(tenant: str, conversation: str) -> str:
    return session_key(Scope(tenant), conversation, default_tenant="default")


def test_the_default_tenant_has_the_documented_key() -> None:
    assert key("default", "conv-123") == "short_term_memory:session:conv-123"
    assert key("acme", "conv-123") == "short_term_memory:session:{acme/conv-123}"


@settings(deadline=None)
@given(places, places)
def test_two_conversations_never_share_a_key(one: tuple[str, str], two: tuple[str, str]) -> None:
    assert (key(*one) == key(*two)) == (one == two)


def test_what_would_collide_without_care_does_not() -> None:
    assert key("default", "{acme/x}") != key("acme", "x")
    assert key("a/b", "c") != key("a", "b/c")


@settings(deadline=None)
@given(tricky, tricky, tricky, tricky)
def test_two_documents_never_share_a_field(a: str, b: str, c: str, d: str) -> None:
    assert (document_field(a, b) == document_field(c, d)) == ((a, b) == (c, d))


def test_a_name_that_is_no_text_has_a_field() -> None:
    assert document_field("state", "\ud800") != document_field("state", "\ud801")


def test_every_kind_of_value_comes_back_as_it_was() -> None:
    checkpoint = Checkpoint("c1", "", 3, "摘要", "digest", fidelity=0.1)
    for value in (
        CachedDocument(HEAD, Document("state", "a", b"\x00\xff", 2, 7)),
        CachedDocument(HEAD, None),
        CachedCheckpoints(HEAD, (checkpoint,)),
        CachedWindow(HEAD, -1, ()),
    ):
        sealed = seal(value, SECRET, "k", b"f")
        assert sealed is not None
        assert open_sealed(sealed, type(value), SECRET, key="k", field=b"f") == value


@settings(deadline=None)
@given(st.integers(min_value=0), st.integers(0, 7))
def test_one_flipped_bit_closes_a_value(spot: int, bit: int) -> None:
    sealed = seal(CachedDocument(HEAD, None), SECRET, "k", b"f")
    assert sealed is not None
    damaged = bytearray(sealed)
    damaged[spot % len(sealed)] ^= 1 << bit
    assert open_sealed(bytes(damaged), CachedDocument, SECRET, key="k", field=b"f") is None


def test_a_value_opens_only_in_its_place() -> None:
    sealed = seal(CachedDocument(HEAD, None), SECRET, "k", b"f")
    assert sealed is not None
    assert open_sealed(sealed, CachedDocument, b"t" * 32, key="k", field=b"f") is None
    assert open_sealed(sealed, CachedDocument, SECRET, key="kf", field=b"") is None
    assert open_sealed(sealed, CachedDocument, SECRET, key="k", field=b"g") is None


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_rubbish_opens_as_nothing(rubbish: bytes) -> None:
    assert open_sealed(rubbish, CachedWindow, SECRET, key="k", field=b"f") is None


def test_a_pickle_is_rubbish() -> None:
    assert open_sealed(pickle.dumps(HEAD), CachedWindow, SECRET, key="k", field=b"f") is None


def test_a_value_without_a_form_is_not_sealed() -> None:
    assert seal(CachedDocument(HEAD, Document("a", "\ud800", b"", 1)), SECRET, "k", b"f") is None
    assert seal(CachedDocument(HEAD, Document("a", "b", b"", 1 << 80)), SECRET, "k", b"f") is None


sizes = st.lists(st.integers(0, 12), min_size=1, max_size=12)
budgets = st.tuples(st.integers(0, 90), st.integers(0, 5))


def filled(sizes: list[int]) -> MemoryStore:
    store = MemoryStore(clock=lambda: 1)
    say(store, sizes)
    return store


def say(store: MemoryStore, sizes: list[int]) -> None:
    for size in sizes:
        drive(store.append(ALICE, "talk", [NewEntry(user("x " * size))]))


def tail(store: MemoryStore, budget: tuple[int, int]) -> list[Entry]:
    tokens, messages = budget
    return drive(store.tail(ALICE, "talk", tokens=tokens, messages=messages))


def kept(store: MemoryStore, budget: tuple[int, int]) -> CachedWindow | None:
    head = drive(store.head(ALICE, "talk"))
    return make_window(head, tail(store, budget), tokens=budget[0], messages=budget[1])


@settings(deadline=None)
@given(sizes, budgets, budgets)
def test_a_window_answers_right_or_not_at_all(
    sizes: list[int], first: tuple[int, int], then: tuple[int, int]
) -> None:
    store = filled(sizes)
    window = kept(store, first)
    if window is not None:
        rows = tail_of(window, tokens=then[0], messages=then[1])
        assert rows is None or entries_of(rows) == tail(store, then)
        assert tail_of(window, tokens=first[0], messages=first[1]) is not None


@settings(deadline=None)
@given(sizes, sizes, budgets, budgets)
def test_a_joined_window_is_the_window_of_the_later_head(
    sizes: list[int], more: list[int], first: tuple[int, int], then: tuple[int, int]
) -> None:
    store = filled(sizes)
    window = kept(store, first)
    say(store, more)
    head = drive(store.head(ALICE, "talk"))
    newer = drive(store.read(ALICE, "talk", after=len(sizes) - 1))
    later = window and extend_window(window, head, newer)
    if later:
        meant = max(len(tail(store, (first[0], 0))), len(window.rows if window else ()))
        assert len(later.rows) <= meant
        rows = tail_of(later, tokens=then[0], messages=then[1])
        assert rows is None or entries_of(rows) == tail(store, then)


@settings(deadline=None)
@given(sizes, sizes, budgets, budgets)
def test_a_tail_read_after_more_was_said_answers_for_the_head_before(
    sizes: list[int], more: list[int], first: tuple[int, int], then: tuple[int, int]
) -> None:
    before, after = filled(sizes), filled(sizes + more)
    head = drive(before.head(ALICE, "talk"))
    window = make_window(head, tail(after, first), tokens=first[0], messages=first[1])
    if window is not None:
        rows = tail_of(window, tokens=then[0], messages=then[1])
        assert rows is None or entries_of(rows) == tail(before, then)


def test_a_window_of_another_history_is_not_joined() -> None:
    store = filled([1, 2, 3])
    window = kept(store, (90, 0))
    assert window is not None
    say(store, [4])
    head = drive(store.head(ALICE, "talk"))
    newer = drive(store.read(ALICE, "talk", after=2))
    assert extend_window(window, head, newer) is not None
    # The same texts at the same times: only the epochs tell that the log was written twice.
    rewritten = drive(filled([1, 2, 3, 4]).read(ALICE, "talk", after=2))
    assert rewritten == newer
    assert extend_window(window, head, rewritten) is None


def test_a_row_without_an_epoch_proves_nothing() -> None:
    store = filled([1, 2])
    window = kept(store, (90, 0))
    say(store, [3])
    head, newer = drive(store.head(ALICE, "talk")), drive(store.read(ALICE, "talk", after=1))
    assert window is not None
    old = [row._replace(epoch=0) for row in window.rows]
    before_epochs = CachedWindow(window.head, window.budget, tuple(old))
    assert extend_window(before_epochs, head, [replace(newer[0], epoch=0), *newer[1:]]) is None
    assert extend_window(window, head, newer) is not None


def test_entries_with_a_gap_are_not_joined() -> None:
    store = filled([1, 2])
    window = kept(store, (90, 0))
    say(store, [3, 4])
    head = drive(store.head(ALICE, "talk"))
    newer = drive(store.read(ALICE, "talk", after=1))
    assert window is not None
    assert extend_window(window, head, newer) is not None
    assert extend_window(window, head, [newer[0], newer[2]]) is None
    assert extend_window(window, head, newer[:2]) is None
    assert extend_window(window, head, newer[1:]) is None
    assert extend_window(window, head, []) is None


@pytest.mark.parametrize(
    ("tenant", "conversation"),
    [
        ("default", "conv-123"),
        ("default", "a}b"),
        ("default", "a{b}c"),
        ("default", "{x"),
        ("default", "{}"),
        ("acme", "c"),
        ("ac/me{", "}c{"),
    ],
)
def test_all_keys_of_a_conversation_lie_in_one_slot_of_a_cluster(
    tenant: str, conversation: str
) -> None:
    keys = session_keys(Scope(tenant), conversation, default_tenant="default")
    assert len({key_slot(each.encode()) for each in keys}) == 1
    assert len(set(keys)) == 3

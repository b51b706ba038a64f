"""Folding meets writers, other folders, deleters: in whatever order, nothing is lost, doubled or revived.

All orders of three writers, two summarisers and a deleter; see interleaving.py for how that is affordable, and
document_003.py for a protocol on which the same scheduler finds what an independent enumeration found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import pytest

from tests.memory.document_003 import (
    documented_begun,
    documented_faults,
    documented_summariser,
    documented_writer,
)
from tests.memory.fold_actors import (
    Judge,
    agent,
    begun,
    clearer,
    deleter,
    reader,
    summariser,
    writer,
    writers,
)
from tests.memory.interleaving import Explored, Interleavings, Program
from tests.sizes import CROWDED_ORDERS, RANDOM_ORDERS
from turnfold.memory import Folder, FoldRange
from turnfold.memory import context as assembling
from turnfold.records import Checkpoint, Entry
from turnfold.runtime import Runtime
from turnfold.stores import MemoryStore, Scope, Store

LONG = 600
"""Characters of a question, where calls under a budget of `SMALL` tokens are to fold."""
SMALL = 700


def every_order(
    *programs: Program, store: MemoryStore | None = None, merged: bool = False
) -> Explored:
    return Interleavings(store or begun(3), programs, Judge(), merged=merged).all()


def build_again(monkeypatch: pytest.MonkeyPatch, *, times: int) -> None:
    """Bound how often a context is built anew because anything changed meanwhile, before it is taken as last seen.

    Each time is another 14 calls of the store for all others to come between. The second is the same code as the first.
    """
    monkeypatch.setattr(assembling, "_FENCED_TRIES", times + 1)


def crowd(*, deleted: bool) -> list[Program]:
    """Everybody who can meet: a process that folds in the background and writes on, one that folds inline, and more."""
    there = [
        agent("agent", turns=2, budget=SMALL),
        reader("inline", fold="inline", budget=SMALL),
        writer("w1", retries=True),
        writer("w2"),
        summariser("a"),
        summariser("b", lease=60.0),
        clearer(),
    ]
    return [*there, deleter()] if deleted else there


@pytest.mark.parametrize(
    ("many", "summarisers", "orders"),
    [(2, "a", 100), (1, "ab", 10**7), pytest.param(2, "ab", 10**8, marks=pytest.mark.slow)],
)
def test_writers_and_summarisers_in_every_order(many: int, summarisers: str, orders: int) -> None:
    writing = [writer(f"w{number}") for number in range(1, many + 1)]
    found = every_order(*writing, *map(summariser, summarisers))
    assert found.faults == {}, found
    assert found.orders > orders


@pytest.mark.parametrize(
    ("many", "orders"), [(0, 10**10), pytest.param(1, 10**12, marks=pytest.mark.slow)]
)
def test_writers_two_summarisers_and_a_deleter_in_every_order(many: int, orders: int) -> None:
    writing = [writer(f"w{number}") for number in range(1, many + 1)]
    found = every_order(*writing, summariser("a"), summariser("b"), deleter())
    assert found.faults == {}, found
    assert found.orders > orders


def test_a_writer_who_is_told_nothing_and_tries_again_in_every_order() -> None:
    found = every_order(writer("w1", turns=2, retries=True), summariser("a"), deleter())
    assert found.faults == {}, found


@pytest.mark.slow
def test_a_fold_in_the_background_and_a_summariser_in_every_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build_again(monkeypatch, times=2)
    store = begun(3, long=LONG)
    calling = reader("background", fold="background", budget=SMALL)
    found = every_order(calling, summariser("a"), store=store, merged=True)
    assert found.faults == {}, found
    assert found.orders > 10**15


@pytest.mark.slow
def test_a_process_that_writes_while_it_folds_and_a_summariser_in_every_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build_again(monkeypatch, times=3)
    store = begun(3, long=LONG)
    writing = agent("agent", turns=1, budget=SMALL)
    found = every_order(writing, summariser("a"), store=store, merged=True)
    assert found.faults == {}, found
    assert found.orders > 10**16


@pytest.mark.slow  # shows that the tests above can fail
def test_strands_that_share_only_the_store_may_be_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many orders, and as many of them with faults, where the order among strands of a process is kept."""
    build_again(monkeypatch, times=0)
    store = begun(3, long=LONG)
    programs = [reader("background", fold="background", budget=SMALL), summariser("a")]
    kept = every_order(*programs, store=store)
    merged = every_order(*programs, store=store, merged=True)
    assert kept.orders == merged.orders > 10**7
    assert kept.faults == merged.faults == {}
    assert merged.states < kept.states


@pytest.mark.slow
def test_an_inline_fold_a_summariser_and_a_clearer_in_every_order() -> None:
    store = begun(3, long=LONG)
    inline = reader("inline", fold="inline", budget=SMALL)
    found = every_order(inline, summariser("a"), clearer(), store=store)
    assert found.faults == {}, found
    assert found.orders > 10**6


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_writers_two_summarisers_and_a_deleter_in_every_order() -> None:
    programs = [writers("w1", "w2", "w3"), summariser("a"), summariser("b"), deleter()]
    found = every_order(*programs)
    assert found.faults == {}, found
    assert 6 * found.orders > 10**11  # the writers may change names: three of them have six orders


@pytest.mark.parametrize("many", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.slow  # shows that the tests above can fail
def test_writers_who_differ_in_their_names_only_may_take_turns(many: int) -> None:
    """The one saving that is an argument and not a count, counted where that is cheap."""
    others = (summariser("a"), deleter())
    names = [f"w{number}" for number in range(1, many + 1)]
    freely = every_order(*map(writer, names), *others)
    in_turn = every_order(writers(*names), *others)
    assert freely.orders == factorial(many) * in_turn.orders
    assert freely.faults == in_turn.faults == {}


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
@pytest.mark.parametrize(
    "runs",
    CROWDED_ORDERS.values(),
)
def test_a_crowd_in_random_orders(runs: int, *, deleted: bool) -> None:
    store = begun(3, long=LONG)
    found = Interleavings(store, crowd(deleted=deleted), Judge()).some(runs, seed=runs)
    assert found.faults == {}, found


@pytest.mark.parametrize("erasers", [0, 1])
@pytest.mark.parametrize(
    "runs",
    RANDOM_ORDERS.values(),
)
def test_writers_summarisers_and_deleters_in_random_orders(runs: int, erasers: int) -> None:
    programs = [writer("w1"), writer("w2", retries=True), writer("w3")]
    programs += [summariser("a"), summariser("b"), *[deleter()] * erasers]
    found = Interleavings(begun(3), programs, Judge()).some(runs, seed=runs)
    assert found.faults == {}, found


# What the scheduler finds where there is something to find.


@pytest.mark.slow
def test_merged_strands_hide_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that compares nothing: the same share of orders ends with two folds that overlap."""
    build_again(monkeypatch, times=0)
    store = begun(3, store=Careless, long=LONG)
    programs = [reader("background", fold="background", budget=SMALL), summariser("a")]
    kept = every_order(*programs, store=store)
    merged = every_order(*programs, store=store, merged=True)
    assert kept.faults == merged.faults
    assert merged.faults["audit tiled"] > 0


def test_the_documented_protocol_loses_and_doubles_turns() -> None:
    writing = [documented_writer(f"w{number}") for number in range(2)]
    everybody = [*writing, documented_summariser()]
    found = Interleavings(documented_begun(4), everybody, documented_faults).all()
    assert found.orders == 9_240
    assert found.faults["lost"] > 0.05 * found.orders
    assert found.faults["doubled"] > 0.05 * found.orders
    assert found.faults["pointer lost"] > 0.3 * found.orders


@pytest.mark.slow
def test_the_documented_protocol_fails_as_often_as_another_enumeration_found() -> None:
    writing = [documented_writer(f"w{number}") for number in range(3)]
    everybody = [*writing, documented_summariser()]
    found = Interleavings(documented_begun(4), everybody, documented_faults).all()
    assert found.orders == 3_363_360
    assert round(found.faults["lost"] / found.orders, 3) == 0.192
    assert round(found.faults["pointer lost"] / found.orders, 3) == 0.517


class Careless(MemoryStore):
    """Takes any checkpoint: nothing is compared before it is swapped."""

    async def add_checkpoint(
        self, scope: Scope, conversation: str, checkpoint: Checkpoint, **fences: Any
    ) -> Checkpoint:
        del fences
        with self._change(scope, conversation) as record:
            record.checkpoints.append(checkpoint)
            self._touch(record, checkpoint=checkpoint.id)
            return checkpoint


def test_without_the_comparison_two_folds_overlap() -> None:
    found = every_order(summariser("a"), summariser("b"), store=begun(3, store=Careless))
    assert found.faults["audit tiled"] > 0.1 * found.orders


def test_a_fold_that_takes_whatever_is_live_for_its_predecessor_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = Folder.commit

    async def rebased(
        self: Folder, fold: FoldRange, entries: Sequence[Entry], text: str, **rest: Any
    ) -> Checkpoint | None:
        live = await self.store.live_checkpoint(self.scope, self.conversation)
        fold = replace(fold, previous=live)
        return await commit(self, fold, entries, text, **rest)

    monkeypatch.setattr(Folder, "commit", rebased)
    found = every_order(writer("w1"), summariser("a"), summariser("b"))
    assert found.faults["audit proved"] > 0


def test_a_fold_whose_end_is_not_pinned_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Folder.commit

    async def up_to_now(
        self: Folder, fold: FoldRange, entries: Sequence[Entry], text: str, **rest: Any
    ) -> Checkpoint | None:
        head = await self.store.head(self.scope, self.conversation)
        last = replace(entries[-1], seq=head.seq)
        return await commit(self, fold, [*entries[:-1], last], text, **rest)

    monkeypatch.setattr(Folder, "commit", up_to_now)
    found = every_order(writer("w1"), summariser("a"))
    assert found.faults["audit proved"] > 0


class Forgetful(MemoryStore):
    """Forgets that it erased a conversation: whoever comes late finds a new one."""

    async def delete(self, scope: Scope, conversation: str):  # noqa: ANN201 (as in the class it breaks)
        erasure = await super().delete(scope, conversation)
        del self._conversations[scope.tenant, conversation]
        return erasure


def test_a_store_that_forgets_what_it_erased_is_caught() -> None:
    store = begun(2, store=Forgetful)
    found = every_order(writer("w1"), summariser("a"), deleter(), store=store)
    assert found.faults["resurrected"] > 0


def test_strands_of_one_process_that_wait_for_each_other_are_caught() -> None:
    async def stuck(store: Store, runtime: Runtime) -> object:  # noqa: ARG001 (a way is all it needs)
        lock = runtime.lock()
        async with lock, lock:
            return None

    found = every_order(stuck, summariser("a"))
    assert found.faults["stuck"] == found.orders

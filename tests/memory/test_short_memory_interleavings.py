"""Writers, summarisers and one who starts over: whatever the order of their steps, no turn is behind a summary that has
not seen it, and none is lost or doubled.

Each summary names the turns its writer was given, so that the judge can hold every checkpoint against what it covers.
See interleaving.py for how all orders are affordable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.memory.fold_actors import COUNTER
from tests.memory.interleaving import Explored, Finished, Interleavings, Program
from turnfold import ShortMemory
from turnfold.errors import TurnfoldError
from turnfold.memories import AsyncShortMemory
from turnfold.memories.short_memory import summaries as folding
from turnfold.memory import make_config
from turnfold.runtime import Runtime
from turnfold.stores import MemoryStore, Store

C = "c"
WINDOW = 160
"""Tokens that a history may have; six turns reach the threshold."""
NOW = 1_700_000_000_000_000


def over(store: Store, runtime: Runtime) -> AsyncShortMemory:
    return AsyncShortMemory.over(
        make_config(store, runtime, blocking=False, counter=COUNTER), owns=False
    )


def begun(turns: int) -> MemoryStore:
    store = MemoryStore(counter=COUNTER, clock=lambda: NOW)
    memory = ShortMemory(store, counter=COUNTER)
    for number in range(turns):
        memory.write_turn(C, user_query=f"<t{number}>", agent_response="." * 20)
    return store


def writer(name: str, *, turns: int = 1) -> Program:
    async def write(store: Store, runtime: Runtime) -> object:
        memory = over(store, runtime)
        for number in range(turns):
            await memory.write_turn(
                C, user_query=f"<{name}{number}>", agent_response="ok", client_id=f"{name}{number}"
            )
        return turns

    return write


def summariser(*, told: bool, recent: int = 1) -> Program:
    async def summarise(store: Store, runtime: Runtime) -> object:
        memory = over(store, runtime)
        ctx = await memory.query_memory_context(C, model_context_window=WINDOW)
        if not ctx.should_checkpoint_summary:
            return None
        summary = " ".join(["seen", *sorted(set(re.findall(r"<\w+>", ctx.full_history)))])
        upto = ctx.upto if told else None
        return (await memory.checkpoint_short_memory(C, summary, recent, upto=upto)).id

    return summarise


def starter(store: Store, runtime: Runtime) -> Any:
    return over(store, runtime).reset_short_memory(C)


def faults(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
    found = [f"error: {each.error}" for each in finished if _is_wrong(each.error)]
    memory = ShortMemory(store, counter=COUNTER)
    entries = _entries(store)
    asked = {seq: text for seq, text in entries if text.startswith("<")}
    if len(set(asked.values())) != len(asked):
        found.append("doubled in the log")
    before = 0
    for checkpoint in memory.checkpoint_history(C):
        covers = [text for seq, text in asked.items() if before < seq <= checkpoint.upto]
        if not all(text in checkpoint.text for text in covers):
            found.append("behind a summary that has not seen it")
    ctx = memory.query_memory_context(C, model_context_window=10**6)
    if ctx.session.flow_context.turn_count and not all(
        t in ctx.history for t in _since(memory, asked)
    ):
        found.append("lost")
    verbatim = re.findall(r"^user: (<\w+>)", ctx.history, re.MULTILINE)
    if len(set(verbatim)) != len(verbatim):
        found.append("doubled")
    return found


def _is_wrong(error: BaseException | None) -> bool:
    # Whoever finds everything started over has nothing left to summarise, and is told so.
    return error is not None and "cannot cover any turn" not in str(error)


def _since(memory: ShortMemory, asked: dict[int, str]) -> list[str]:
    turns = memory.get_short_memory(C).flow_context.turn_count
    return list(asked.values())[len(asked) - turns :]


def _entries(store: MemoryStore) -> list[tuple[int, str]]:
    from turnfold.runtime import drive
    from turnfold.stores import Scope

    return [(each.seq, each.message.text) for each in drive(store.read(Scope("default"), C))]


def every_order(*programs: Program, turns: int = 6) -> Explored:
    return Interleavings(begun(turns), programs, faults).all()


def some_orders(*programs: Program, runs: int) -> Explored:
    return Interleavings(begun(6), programs, faults).some(runs, seed=runs)


TOLD = pytest.mark.parametrize("told", [True, False], ids=["upto", "no upto"])


@TOLD
def test_a_writer_and_a_summariser_in_every_order(*, told: bool) -> None:
    found = every_order(writer("w", turns=2), summariser(told=told, recent=0))
    assert found.faults == {}, found
    assert found.orders > 10**5


def test_two_summarisers_in_every_order() -> None:
    both = [summariser(told=False, recent=0), summariser(told=False, recent=0)]
    found = every_order(*both)
    assert found.faults == {}, found
    assert found.orders > 90_000


@TOLD
@pytest.mark.parametrize(
    "runs", [40, pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_two_summarisers_and_two_writers_in_random_orders(runs: int, *, told: bool) -> None:
    both = [summariser(told=told), summariser(told=told)]
    found = some_orders(writer("v", turns=3), writer("w", turns=2), *both, runs=runs)
    assert found.faults == {}, found


@pytest.mark.parametrize(
    "runs", [60, pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_one_who_starts_over_in_random_orders(runs: int) -> None:
    found = some_orders(writer("w", turns=3), summariser(told=False), starter, runs=runs)
    assert found.faults == {}, found


@TOLD
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_writer_of_three_turns_and_a_summariser_in_every_order(*, told: bool) -> None:
    found = every_order(writer("w", turns=3), summariser(told=told))
    assert found.faults == {}, found
    assert found.orders > 10**6


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_who_starts_over_in_every_order() -> None:
    found = every_order(writer("w", turns=3), summariser(told=False), starter)
    assert found.faults == {}, found
    assert found.orders > 10**12


# What the judge finds where there is something to find.


def test_the_judge_sees_a_summary_that_covers_what_it_has_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The document's way: what is newest when the summary comes, whatever it was made of."""
    monkeypatch.setattr(folding, "_newest_covered", lambda view, *_: view.head.seq)
    found = every_order(writer("w"), summariser(told=True, recent=0))
    assert found.faults["behind a summary that has not seen it"] > 0
    assert found.faults["lost"] > 0


def test_the_judge_sees_readers_who_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """With several summaries in the making, the first to come must not let the other cover what is newest."""
    monkeypatch.setattr(folding, "count_landing", lambda offers: ())  # noqa: ARG005 (of a group of two)
    three = [summariser(told=False, recent=0)] * 3
    found = some_orders(writer("v", turns=3), *three, runs=60)
    assert found.faults["behind a summary that has not seen it"] > 0


def test_errors_are_faults() -> None:
    assert _is_wrong(TurnfoldError("broken"))
